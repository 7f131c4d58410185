# SPDX-License-Identifier: MIT
"""All pages of the book into one folder: `make book`."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from bench.book.chapter import BadChapter, Block, Chapter, read_chapter
from bench.book.curve import curve, sweeps
from bench.book.render import (
    Link,
    annotated,
    excerpt,
    exercise,
    linker,
    prose,
    question,
    step,
    styles,
    unlinked,
)
from bench.book.source import NoSuchFunction, function
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.results import Results
from bench.report.page.templates import template_of
from bench.timeline.command import kept
from bench.timeline.page import figure, picture_style
from bench.timeline.picture import picture

CHAPTERS = ROOT / "docs" / "tutorial" / "book"
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
TEMPLATES = Path(__file__).parent / "template"
WORLD = "11-in-the-world"
GLOSSARY_PAGE = "words.html"
EVERYDAY = (
    *("agent", "condition", "configuration", "factor", "layer", "package", "ranking", "run"),
    *("slot", "trial", "connection", "need", "poll", "request", "response"),
)
"""Not linked: words of the benchmark that mean something else in most sentences; and words of every
second line."""


def run(arguments: Sequence[str]) -> int:
    """Make the book. Exit status: 0. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd book", description="The annotated source as pages that open from disk."
    )
    where = "the folder that the pages go to (%(default)s)"
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "book", help=where)
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "results",
        help="the folder of all sweeps (%(default)s)",
    )
    options = parser.parse_args(arguments)
    first = build(options.output, options.results)
    print(f"Open {first} in a browser; print it from there.")
    return 0


def build(folder: Path, results: Path) -> Path:
    """Write all pages; returns the first. `results`: where the sweeps are, whose newest curves
    are shown. Raises UserError for a chapter that cannot be made, or a folder that cannot be
    written."""
    measured = sweeps(results)
    chapters = read_chapters()
    words = glossary_words(GLOSSARY.read_text())
    template = template_of(__file__, "page.html.j2")
    light, dark = styles()
    pages = [(f"{c.name}.html", c.title, body(c, words, measured)) for c in chapters]
    pages.append((GLOSSARY_PAGE, "Words", _glossary(GLOSSARY.read_text())))
    contents = [(name, title) for name, title, _ in pages]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place, (name, title, html) in enumerate(pages):
            text = template.render(
                title=title,
                body=Markup(html),
                contents=contents,
                here=name,
                before=contents[place - 1] if place else None,
                after=contents[place + 1] if place + 1 < len(contents) else None,
                light=Markup(light),
                dark=Markup(dark),
                style=Markup(picture_style() + (TEMPLATES / "book.css").read_text()),
            )
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the book: {error}") from error
    return folder / contents[0][0]


def read_chapters() -> list[Chapter]:
    """All chapters in their order. Raises UserError."""
    try:
        return [read_chapter(file.stem, file.read_text()) for file in sorted(CHAPTERS.glob("*.md"))]
    except BadChapter as error:
        raise UserError(f"the book: {error}") from error


def body(chapter: Chapter, words: dict[str, str], measured: Sequence[Results] = ()) -> str:
    """The HTML of a chapter; `measured`: the results whose curves it shows. Raises UserError if it
    quotes what is not there."""
    link = linker(words, GLOSSARY_PAGE)
    try:
        return "\n".join(_block(block, link, measured) for block in chapter.blocks)
    except (OSError, NoSuchFunction) as error:
        raise UserError(f"{chapter.name}: it quotes what is not there: {error}") from error


def _block(block: Block, link: Link, measured: Sequence[Results]) -> str:
    words = block.words
    texts = [(ROOT / name).read_text() for name in words if name.endswith((".c", ".h"))]
    made: dict[str, Callable[[], str]] = {
        "text": lambda: prose(block.text, link),
        "question": lambda: question(" ".join(words), block.text, link),
        "try": lambda: exercise(block.text, block.expect, link),
        "source": lambda: annotated(
            words[0], texts[0], link, (words[2], texts[1]) if texts[1:] else None
        ),
        "function": lambda: excerpt(
            f"{words[0]}: {words[1]}", texts[0], function(texts[0], words[1])
        ),
        "step": lambda: step((words[0], words[1]), (texts[0], texts[1])),
        "lives": lambda: prose(lives(words[0]), link),
        "beside": lambda: step(
            (f"{words[0]}: {words[1]}", f"{words[2]}: {words[3]}"),
            (texts[0], texts[1]),
            (words[1], words[3]),
        ),
        "curve": lambda: curve(measured, words),
        "timeline": lambda: figure(picture(kept(words[:1], "".join(words[1:]) or "eight")[0])),
    }
    return made[block.kind]()


def lives(number: str) -> str:
    """The sentence on where the architecture of that number is used. Raises UserError."""
    table = (CHAPTERS / f"{WORLD}.md").read_text()
    row = re.search(rf"^\| {re.escape(number)} [^|]*\| ([^|]*) \|$", table, re.MULTILINE)
    if row is None:
        raise UserError(f"{WORLD} has no row of {number}")
    return f"**In the real world:** {row[1]}. [All of them]({WORLD}.html)"


def glossary_words(text: str) -> dict[str, str]:
    """The words that the glossary explains, in small letters, and the place of each on its page,
    but for EVERYDAY ones.

    An entry begins with `**word, other word**:`.
    """
    found = {}
    for entry in re.findall(r"^\*\*(.+?)\*\*:", text, re.MULTILINE):
        for word in entry.split(","):
            found[word.strip().lower()] = _place(entry)
    return {word: place for word, place in found.items() if word not in EVERYDAY}


def _place(entry: str) -> str:
    return re.sub(r"\W+", "-", entry.lower()).strip("-")


def _glossary(text: str) -> str:
    """The glossary's page: each entry a place to link to."""
    html = prose(text.partition("\n")[2], unlinked)

    def mark(match: re.Match[str]) -> str:
        return f'<p id="{_place(match[1])}"><strong>{match[1]}</strong>:'

    return re.sub(r"<p><strong>(.+?)</strong>:", mark, html)
