# SPDX-License-Identifier: MIT
"""The slides and the sheets of docs/teaching/, as two files to show and to print: `make slides`.

They are Markdown with directives (bench/book/directive.py), so that pictures and pieces of source
are those of the book. In slides.md a line `---` begins the next slide.
"""

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from bench.book.directive import LINE, html
from bench.book.expected import COURSE, SHEETS, measure
from bench.book.render import styles
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.report.page.look import template_of
from bench.timeline.page import picture_style

TEMPLATES = Path(__file__).parent / "template"
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
BETWEEN = "\n---\n"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PRINT_SECONDS = 60


def run(words: Sequence[str]) -> int:
    """Make slides and sheets. Exit status: 0. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd slides", description="The slides and sheets of the course, as HTML and PDF."
    )
    where = "the folder that they go to (%(default)s)"
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "course", help=where)
    known = ", ".join(SHEETS)
    expected = f"""make no files; measure the figures of a sheet ({known}; default all) on this
        machine and print them in Markdown, in one or two minutes"""
    parser.add_argument("--expected", nargs="*", metavar="SHEET", help=expected)
    options = parser.parse_args(words)
    if options.expected is not None:
        return measure(options.expected)
    for page in build(options.output):
        printed = print_pdf(page)
        print(f"{page}" + (f", {printed.name}" if printed else ""))
        if printed is None:
            print("  no Chromium here to make a PDF: print it from a browser")
    return 0


def build(folder: Path) -> list[Path]:
    """Write both files. Raises UserError."""
    template = template_of(__file__, "course.html.j2")
    light, dark = styles()
    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, title, parts in (
            ("slides", "Who waits, and where?", slides()),
            ("sheets", "Exercise sheets", sheets()),
        ):
            text = template.render(
                kind=name,
                title=title,
                parts=parts,
                light=Markup(light),
                dark=Markup(dark),
                style=Markup(picture_style() + (TEMPLATES / "course.css").read_text()),
            )
            made.append(folder / f"{name}.html")
            made[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error}") from error
    return made


def slides() -> list[tuple[str, Markup]]:
    """Return the title and the HTML of each slide. Raises UserError."""
    pieces = (COURSE / "slides.md").read_text(encoding="utf-8").split(BETWEEN)
    return [_part(f"slide {number}", piece) for number, piece in enumerate(pieces, 1)]


def sheets() -> list[tuple[str, Markup]]:
    """Return the title and the HTML of each sheet, in their order. Raises UserError."""
    files = sorted((COURSE / "sheets").glob("*.md"))
    return [_part(file.stem, file.read_text(encoding="utf-8")) for file in files]


def _part(name: str, text: str) -> tuple[str, Markup]:
    first, _, rest = text.strip().partition("\n")
    if not first.startswith("# "):
        raise UserError(f"the course: {name}: the first line must be its title: # ...")
    pieces = LINE.split(rest)
    made = [str(MARKDOWN.render(text)) for text in pieces]
    made[1::2] = map(html, pieces[1::2])
    # The corner of a table is no heading: it would be one without words.
    whole = "\n".join(made).replace("<th></th>", "<td></td>")
    return first.removeprefix("# "), Markup(whole)


def print_pdf(page: Path) -> Path | None:
    """Print the page to a PDF in its folder; None if there is no browser. Raises UserError."""
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if browser is None:
        return None
    target = page.with_suffix(".pdf")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    try:
        done = subprocess.run(
            [*command, f"--print-to-pdf={target}", page.resolve().as_uri()],
            capture_output=True,
            text=True,
            timeout=PRINT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{browser} could not print {page}: {error}") from error
    if done.returncode != 0 or not target.exists():
        raise UserError(f"{browser} could not print {page}: {done.stderr[-500:]}")
    return target
