# SPDX-License-Identifier: MIT
"""The slides and the sheets of docs/teaching/, as two files to show and to print: `make slides`.

They are Markdown with the directives of a chapter (see bench/book/chapter.py), so that pictures and
pieces of source are those of the book. In slides.md a line `---` begins the next slide.
"""

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from bench.book.chapter import BadChapter, Chapter, read_chapter
from bench.book.command import TEMPLATES, body
from bench.book.expected import COURSE, SHEETS, measure
from bench.book.render import styles
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.report.page.templates import template_of
from bench.timeline.page import picture_style

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
                parts=[(part.title, Markup(body(part, {}))) for part in parts],
                light=Markup(light),
                dark=Markup(dark),
                style=Markup(picture_style() + (TEMPLATES / "course.css").read_text()),
            )
            made.append(folder / f"{name}.html")
            made[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error}") from error
    return made


def slides() -> list[Chapter]:
    """Each slide, as a chapter. Raises UserError."""
    pieces = (COURSE / "slides.md").read_text(encoding="utf-8").split(BETWEEN)
    return _read([(f"slide {n}", piece) for n, piece in enumerate(pieces, 1)])


def sheets() -> list[Chapter]:
    """Each sheet, in their order. Raises UserError."""
    files = sorted((COURSE / "sheets").glob("*.md"))
    return _read([(file.stem, file.read_text(encoding="utf-8")) for file in files])


def _read(pieces: Sequence[tuple[str, str]]) -> list[Chapter]:
    try:
        return [read_chapter(name, text.strip() + "\n") for name, text in pieces]
    except BadChapter as error:
        raise UserError(f"the course: {error}") from error


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
