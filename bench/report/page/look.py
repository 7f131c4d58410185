# SPDX-License-Identifier: MIT
"""The appearance of a page: templates, the style sheet of all pages, and the colours of the two
themes. A document is a report without charts, as a list of blocks. Two files are made from it: a
self-contained HTML file, and a Markdown document for docs/."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from bench.readers.console import Table
from bench.report.charts import style
from bench.report.study import StudySubject


def template_of(module: str, name: str, **filters: Callable[[str], str]) -> Template:
    """Return a template from the folder `template` next to a module (its `__file__`). Values are
    escaped; an undefined name is an error. `filters`: additional filters by name."""
    known = Environment(
        loader=FileSystemLoader(Path(module).parent / "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known.filters.update(filters)
    return known.get_template(name)


TEMPLATES = Path(__file__).parent / "template"


def look(
    subjects: Sequence[StudySubject], colours: Mapping[str, tuple[str, str]] = {}
) -> dict[str, str]:
    """Return the style sheet and the two themes. `colours`: further colours of this page, as
    (light, dark) by name."""

    def declared(theme: int) -> str:
        """Return the colours of a theme as CSS declarations."""
        values = style.tokens(subjects, theme) | {name: of[theme] for name, of in colours.items()}
        return " ".join(f"--{name}: {value};" for name, value in values.items())

    css = (TEMPLATES / "style.css").read_text()
    return {"light": declared(0), "dark": declared(1), "css": css}


# ---- Documents ----


class Terms(NamedTuple):
    """A list of terms, each with its explanation."""

    terms: Sequence[tuple[str, str]]


class Drawing(NamedTuple):
    """A picture in HTML; the Markdown document omits it."""

    html: str


class Section(NamedTuple):
    """A heading and the blocks below it. A section without blocks is omitted."""

    title: str
    blocks: Sequence["Block"]
    key: str = ""  # The anchor on the page.


Block: TypeAlias = "str | Terms | Drawing | Table | Section"
"""A text is a paragraph; a word in `backticks` is code."""


class Document(NamedTuple):
    """A report without a script."""

    title: str
    made: datetime
    headline: str
    lead: Sequence[str]
    cautions: Sequence[str]
    sections: Sequence[Section]
    colours: Mapping[str, tuple[str, str]] = {}  # Colours of this page only, light and dark.

    def markdown(self) -> str:
        """Return this document as Markdown."""
        cautions = "\n".join(f"- {text}" for text in self.cautions)
        blocks = [f"# {self.title}", f"{self.headline}.", *self.lead, cautions]
        return "\n\n".join([*filter(None, blocks), *_lines(_there(self.sections), 2)]) + "\n"

    def html(self) -> str:
        """Return this document as an HTML page."""
        template = template_of(__file__, "document.html.j2", marked=_marked, key=key)
        sections = list(_there(self.sections))
        return template.render(document=self, sections=sections, **look([], self.colours)).lstrip()


def _there(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks that are not empty."""
    for block in blocks:
        if isinstance(block, Section):
            if inner := list(_there(block.blocks)):
                yield Section(block.title, inner, block.key)
        elif block.rows if isinstance(block, Table) else block not in ("", Terms([])):
            yield block


def _lines(blocks: Iterable[Block], depth: int) -> Iterator[str]:
    """Yield the paragraphs of a Markdown document."""
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, Table):
            yield block.markdown()
        elif isinstance(block, Terms):
            yield "\n".join(f"- {term}: {text}" for term, text in block.terms)
        elif isinstance(block, Section) and (inner := list(_lines(block.blocks, depth + 1))):
            yield f"{'#' * depth} {block.title}"
            yield from inner


def _marked(text: str) -> Markup:
    """Return an escaped text in which words in backticks are code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def key(name: str) -> str:
    """Return the name of a verdict's colour in CSS."""
    return "v-" + name.replace(" ", "-")


def make_command(target: str, arguments: Sequence[str]) -> str:
    """Return the make command that repeats a measurement."""
    return f'make {target} ARGS="{" ".join(arguments)}"' if arguments else f"make {target}"


def drawn(name: str, **values: object) -> str:
    """Return a drawing in HTML, made by the macro `name` of `drawings.html.j2`."""
    return Markup(getattr(template_of(__file__, "drawings.html.j2").module, name)(**values))
