# SPDX-License-Identifier: MIT
"""How a page looks: the style sheet of all pages, and the colours of its two themes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report.charts import style
from bench.report.study.study import StudySubject

TEMPLATES = Path(__file__).parent / "template"


def look(
    subjects: Sequence[StudySubject], colours: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, str]:
    """Return the style sheet and the two themes. `colours` (light, dark) are only on this page."""
    own = colours or {}

    def declared(theme: int) -> str:
        """Return the colours of a theme as CSS declarations."""
        values = style.tokens(subjects, theme) | {name: own[name][theme] for name in own}
        return " ".join(f"--{name}: {value};" for name, value in values.items())

    css = (TEMPLATES / "style.css").read_text()
    return {"light": declared(0), "dark": declared(1), "css": css}
