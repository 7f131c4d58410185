# SPDX-License-Identifier: MIT
"""Make the slides, the speaker notes and the sheets of docs/teaching/, as files to show and to
print: `make slides`.

The sources are Markdown with directives (bench/book/directive.py), so they show the same pictures
and pieces of C files as the book. In slides.md a line `---` separates slides. Each slide ends with
its minutes and its note in a comment: <!-- 2 min: ... -->. A copy for students has only the sheets.

`zerohttpd slides --expected` runs the sweeps of the sheets on this machine instead, and prints the
figures as tables for the lecturer.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from bench.book.directive import LINE, html
from bench.book.listing import styles
from bench.host.project import ROOT, completed, find_program
from bench.readers.console import Table
from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.store import load
from bench.records.values import Parser, each_of
from bench.report.page.look import template_of
from bench.timeline.page import picture_style

COURSE = ROOT / "docs" / "teaching"
SHEETS = ("1-baseline", "4-redis", "5-idle")
"""The sheets with figures from a sweep. Sheet 3 prints its own figures; other sheets have none."""
TEMPLATES = Path(__file__).parent / "template"
OPTION = re.compile(r"(?<=[ ;])--[\w-]+")
SLIDES = "instructor/slides.md"
BETWEEN = "\n---\n"
NOTE = re.compile(r"<!-- (\d+) min: (.+?) -->\s*\Z", re.DOTALL)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PRINT_SECONDS = 60


class _Renderer(RendererHTML):
    """Marks options in code, so that a browser does not break a line inside `--runs`."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return OPTION.sub(r"<span>\g<0></span>", super().fence(tokens, idx, options, env))


MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")


class Slide(NamedTuple):
    """A slide: its title, its Markdown text, its minutes, and the speaker's note."""

    title: str
    text: str
    minutes: int
    note: str


def run(words: Sequence[str]) -> int:
    """Make slides and sheets, or measure the sheets' figures. Return 0. Raises UserError."""
    parser = Parser(
        prog="zerohttpd slides",
        description="Make the slides, notes and sheets of the course, as HTML and PDF.",
    )
    where = "folder of the results (default %(default)s)"
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "course", help=where)
    known = ", ".join(SHEETS)
    expected = f"""make no files; measure the figures of a sheet ({known}; default all) on this
        machine in one or two minutes, and print them in Markdown"""
    parser.add_argument("--expected", nargs="*", metavar="SHEET", help=expected)
    options = parser.parse_args(words)
    if options.expected is not None:
        return measure(options.expected)
    for page in build(options.output):
        printed = print_pdf(page)
        print(f"{page}" + (f", {printed.name}" if printed else ""))
        if printed is None:
            print("  no PDF, because Chromium is not installed; print the page from a browser")
    return 0


def build(folder: Path) -> list[Path]:
    """Write the sheets and, unless this is a copy for students, the slides and notes. Return the
    paths of the files. Raises UserError."""
    light, dark = map(Markup, styles())
    style = Markup(picture_style() + (TEMPLATES / "course.css").read_text())
    template = template_of(__file__, "course.html.j2")
    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, title, parts in _documents():
            made.append(folder / f"{kind}.html")
            text = template.render(
                kind=kind, title=title, parts=parts, light=light, dark=dark, style=style
            )
            made[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error}") from error
    return made


def _documents() -> list[tuple[str, str, list[tuple[str, Markup]]]]:
    """Return the name, the title and the parts of each file. Raises UserError."""
    files = sorted((COURSE / "sheets").glob("*.md"))
    sheets = [_part(file.stem, file.read_text(encoding="utf-8")) for file in files]
    of_all = [("sheets", "Exercise sheets", sheets)]
    if not (COURSE / SLIDES).exists():
        return of_all
    shown = slides()
    parts = [_part(f"slide {n}", f"# {one.title}\n{one.text}") for n, one in enumerate(shown, 1)]
    return [
        ("slides", "Who waits, and where?", parts),
        ("notes", "Speaker notes", [("Speaker notes", notes(shown))]),
        *of_all,
    ]


def slides() -> list[Slide]:
    """Return the slides. Raises UserError if a slide has no title or note."""
    found = []
    pieces = (COURSE / SLIDES).read_text(encoding="utf-8").split(BETWEEN)
    for name, text in ((f"slide {number}", piece) for number, piece in enumerate(pieces, 1)):
        note = NOTE.search(text)
        if note is None:
            raise UserError(f"the course: {name} must end with its note: <!-- 2 min: ... -->")
        title, rest = _titled(name, text[: note.start()])
        found.append(Slide(title, rest, int(note[1]), " ".join(note[2].split())))
    return found


def notes(shown: Sequence[Slide]) -> Markup:
    """Return an HTML table: for each slide its first minute, its title and the speaker's note."""
    table, begin = Table("from minute", "<slide", "<what to say"), 0
    for number, one in enumerate(shown, 1):
        table.add_row(str(begin), f"{number}. {one.title}", one.note)
        begin += one.minutes
    return Markup(str(MARKDOWN.render(table.markdown())) + f"<p>The end: minute {begin}.</p>")


def _titled(name: str, text: str) -> tuple[str, str]:
    """Return the title and the rest of a Markdown text. Raises UserError without a title."""
    first, _, rest = text.strip().partition("\n")
    if not first.startswith("# "):
        raise UserError(f"the course: {name}: the first line must be the title: # ...")
    return first.removeprefix("# "), rest


def _part(name: str, text: str) -> tuple[str, Markup]:
    title, rest = _titled(name, text)
    pieces = LINE.split(rest)
    made = [str(MARKDOWN.render(text)) for text in pieces]
    made[1::2] = map(html, pieces[1::2])
    # The empty corner of a table is not a heading.
    whole = "\n".join(made).replace("<th></th>", "<td></td>")
    return title, Markup(whole)


def print_pdf(page: Path) -> Path | None:
    """Print the page to a PDF in its folder and return the PDF's path; None without a browser.
    Raises UserError."""
    browser = next(filter(None, map(find_program, BROWSERS)), None)
    if browser is None:
        return None
    target = page.with_suffix(".pdf")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    command += [f"--print-to-pdf={target}", page.resolve().as_uri()]
    try:
        done = completed(command, PRINT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{browser} could not print {page}: {error}") from error
    if done.returncode != 0 or not target.exists():
        raise UserError(f"{browser} could not print {page}: {done.stderr[-500:]}")
    return target


# ---- The figures of the sheets on this machine ----


def measure(sheets: Sequence[str]) -> int:
    """Measure and print the tables of `sheets` (empty: of all SHEETS). Return the exit status 0.
    Raises UserError."""
    wanted = sorted(each_of("sheet", sheets or SHEETS, SHEETS))
    with tempfile.TemporaryDirectory(prefix="zerohttpd-expected-") as name:
        measured = {sheet: _sweep(sheet, Path(name) / sheet) for sheet in wanted}
    print(f"## {_machine(next(iter(measured.values())))}\n")
    for sheet, results in measured.items():
        print(table(sheet, results) + "\n")
    return 0


def sweep_words(sheet: str) -> list[str]:
    """Return the ARGS of the sheet's first `make bench`. Raises UserError."""
    text = (COURSE / "sheets" / f"{sheet}.md").read_text(encoding="utf-8")
    found = re.search(r'^make bench ARGS="([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise UserError(f"sheet {sheet} has no `make bench`")
    return shlex.split(found[1])


def table(sheet: str, results: Results) -> str:
    """Return a Markdown table with a line for each run: CPU time per request, requests per second
    and the sheet's ratio."""
    of_rates = sheet == "4-redis"
    ratio = f"{'pages a second' if of_rates else 'CPU'}, relative to the architecture's first run"
    found = Table("<run", "<CPU per request", "<requests/s", f"<{ratio}")
    first: dict[str, float] = {}
    # Each baseline comes before the server that is compared with it.
    runs = sorted(results.runs, key=lambda one: (one.architecture or "", one.kind != "baseline"))
    for one in runs:
        name = ", ".join([one.subject, *one.conditions.particulars()])
        cpu = one.process.cpu_us_per_request if one.process else None
        rate = one.requests_per_second
        if cpu is None or rate is None:
            why = one.reason.text if one.reason else one.state
            found.add_row(name, f"no figure: {why}", "", "")
            continue
        value = rate if of_rates else cpu
        base = first.setdefault(one.architecture or one.subject, value)
        at_least = "at least " if one.lower_bound else ""
        figures = (f"{cpu:.1f} us", f"{at_least}{rate:,.0f}", f"{value / base:.2f}")
        found.add_row(name, *figures)
    return f"Sheet {sheet[0]}:\n\n{found.markdown()}"


def _sweep(sheet: str, folder: Path) -> Results:
    """Run the sweep of a sheet. Raises UserError."""
    command = [sys.executable, "-m", "bench", "sweep", *sweep_words(sheet)]
    done = subprocess.run([*command, "--results", str(folder)], stdout=sys.stderr)
    found = sorted(folder.glob("*/results.json"))
    if not found:
        raise UserError(f"sheet {sheet} was not measured (status {done.returncode})")
    return load(found[-1])


def _machine(results: Results) -> str:
    machine = results.machine
    memory = f"{(machine.memory_bytes or 0) / 2**30:.0f} GB"
    load = "".join(f", load {one:.1f} at the start" for one in machine.load_average_at_start[:1])
    return f"{machine.describe()}, {memory}, {results.started:%Y-%m-%d}{load}"
