# SPDX-License-Identifier: MIT
"""Print a grade as text."""

import textwrap

from bench.grade.stage import OVER, CheckOutcome, Grade, StageOutcome

SIGNS = {"right": "ok", "failed": "NO", "follows": "->", "by nature": "--", "not tried": ".."}
WIDTH = 92


def stage_text(outcome: StageOutcome, explained: set[str]) -> str:
    """Return the text of a finished stage. `explained`: names of the faults that the student has
    already read about; those of this stage are added."""
    lines = ["", f"{outcome.points:>3} of {outcome.of:<3} {outcome.title}"]
    notes = {check.note for check in outcome.checks if check.came == "not tried"}
    if len(notes) == 1 and all(check.came == "not tried" for check in outcome.checks):
        return f"\n{lines[1]}: not tried, {notes.pop()}"
    for check in outcome.checks:
        note = f"   {check.note}" if check.note else ""
        lines.append(f"     {SIGNS[check.came]}  {check.check} ({check.points}/{check.of}){note}")
        lines += _finding(check, explained)
    # Output of the graded program must not move the cursor or hide text of the report.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def end_text(grade: Grade, folder: str) -> str:
    """Return the last part of the report; `folder`: the server's name on the command line."""
    isolated = textwrap.fill(
        "It ran with " + "; ".join(grade.isolation) + ".", WIDTH, break_on_hyphens=False
    )
    skipped = {s.stage: sum(c.of for c in s.checks if c.note == OVER) for s in grade.stages}
    rest = " ".join(name for name, points in skipped.items() if points)
    hint = (
        f"\nThe time limit of the grading was reached before checks for {sum(skipped.values())} "
        f"points. Grade the rest with:\n  make grade SERVER={folder} ARGS='--only {rest}'"
        if rest
        else ""
    )
    return (
        f"{hint}\n{grade.points} of {grade.of} points for {grade.server}, in "
        f"{grade.seconds:.0f} s. Repeat this grading with: ARGS='--seed {grade.seed}'\n{isolated}"
    )


def _finding(check: CheckOutcome, explained: set[str]) -> list[str]:
    found = check.finding
    if found is None:
        return []
    lines = ["", f"         >>> {found.title}  [{found.fault}]"]
    if found.follows:
        lines.append(
            f"             Fault [{found.follows}] above may be the cause: this costs no points."
        )
    told = [f"Seen: {found.seen}.", found.meaning, f"Read: {found.read}"]
    if found.fault in explained:
        told[1:] = ["(Explained above.)"]
    explained.add(found.fault)
    for text in told:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 13,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    if found.proof:
        lines.append(f"{' ' * 13}The proof ({found.proof_kind}):")
        lines += [" " * 15 + line for line in found.proof]
    return [*lines, ""]
