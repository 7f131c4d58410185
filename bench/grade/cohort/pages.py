# SPDX-License-Identifier: MIT
"""Write the results of a class: a CSV, a page for the lecturer, and a page for each student."""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Sequence

from bench.grade.cohort.run import ClassRecord, Graded
from bench.grade.cohort.similar import Similarity
from bench.grade.findings import FaultFound
from bench.records.errors import UserError
from bench.records.store import csv_of, replace
from bench.report.page.look import look, template_of

COLUMNS = ("id", "points", "of", "faults", "seconds", "state", "reason")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The beginnings of texts that a spreadsheet treats as formulas (OWASP, CSV injection)."""
STEPS = tuple(range(0, 101, 10))
"""The lower limits of the ranges in the distribution, in per cent; the last range has only 100."""


def write(
    record: ClassRecord, students: Sequence[str], similar: Similarity, command: str = ""
) -> None:
    """Write or replace all pages and the CSV. `students`: all students with a submission."""
    grades = sorted(record.latest(students), key=lambda one: one.student)
    replace(record.folder / "grades.csv", table(grades).encode("utf-8-sig"))
    pages = record.folder / "students"
    pages.mkdir(exist_ok=True)
    for one in grades:  # each page names no other student
        page = template_of(__file__, "student.html.j2").render(
            title=one.student, latest=one, history=list(record.history(one.student)), **look([])
        )
        replace(pages / page_name(one.student), page)
    run, graded = record.runs[-1], [one for one in grades if one.grade]
    page = template_of(__file__, "class.html.j2").render(
        title=f"Grades of a class, run {run.number}",
        grades=grades,
        graded=graded,
        of=len(students),
        run=run,
        faults=faults(grades),
        bars=distribution(grades),
        page_name=page_name,
        isolation=next((one.grade.isolation for one in graded if one.grade), []),
        similar=similar,
        command=command,
        **look([]),
    )
    replace(record.folder / "index.html", page)


def table(grades: Sequence[Graded]) -> str:
    """Return the CSV. An apostrophe precedes each text that a spreadsheet would treat as a formula.
    Without a grade, the points are empty."""
    rows = []
    for one in grades:
        texts = {
            "id": one.student,
            "faults": " ".join(found.fault for found in one.findings),
            "state": f"same files as {one.same_as}" if one.same_as else one.state,
            "reason": one.reason,
        }
        row: dict[str, str | float] = {name: safe(text) for name, text in texts.items()}
        row["seconds"] = one.seconds
        if one.grade:
            row |= {"points": one.grade.points, "of": one.grade.of}
        rows.append(row)
    return csv_of(COLUMNS, rows)


def safe(text: str) -> str:
    """Return the text, with an apostrophe if a spreadsheet would treat it as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def worksheet(text: str, grades: Sequence[Graded]) -> str:
    """Return Moodle's grading worksheet (a CSV) with all grades of this class, scaled to the
    maximum grade. The number at the end of `Identifier` identifies a participant; it is also at the
    end of the submission's name. Raises UserError."""
    rows = list(csv.DictReader(io.StringIO(text)))
    columns = list(rows[0]) if rows else []
    if missing := {"Identifier", "Grade", "Last modified (grade)"} - {*columns}:
        raise UserError(f"the worksheet has no column {', '.join(sorted(missing))}; its language "
                        "in Moodle must be English")  # fmt: skip
    percents = {_number(one.student, r"_(\d+)$"): one.percent for one in grades if one.grade}
    for row in rows:
        percent = percents.get(_number(row["Identifier"], r"(\d+)$"))
        if percent is not None:
            most = float(row.get("Maximum grade") or 100)
            row["Grade"] = f"{percent * most / 100:.2f}"
    return csv_of(columns, rows)


def _number(name: str, pattern: str) -> str:
    """Return the number at the end of a name, or the name if there is no number."""
    found = re.search(pattern, name)
    return found[1] if found else name


def page_name(student: str) -> str:
    """Return a readable, unique file name for a student's page, in plain ASCII."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", student).strip("-")[:40]
    return f"{plain}-{hashlib.sha256(student.encode()).hexdigest()[:8]}.html"


def faults(grades: Sequence[Graded]) -> list[tuple[FaultFound, list[str]]]:
    """Return all faults except consequences, the most frequent first, and the students whose
    servers have them."""
    found: dict[str, tuple[FaultFound, list[str]]] = {}
    for one in grades:
        for finding in one.findings:
            found.setdefault(finding.fault, (finding, []))[1].append(one.student)
    return sorted(found.values(), key=lambda pair: (-len(pair[1]), pair[0].fault))


def distribution(grades: Sequence[Graded]) -> dict[str, int]:
    """Return the number of students by range of percentages, e.g. "0 to 9"."""
    counts = Counter(one.percent // 10 * 10 for one in grades if one.percent is not None)
    return {f"{low} to {low + 9}" if low < STEPS[-1] else str(low): counts[low] for low in STEPS}
