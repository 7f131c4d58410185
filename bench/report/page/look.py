# SPDX-License-Identifier: MIT
"""The appearance of a page: the style sheet of all pages, the colours of its two themes, and its
templates."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

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
