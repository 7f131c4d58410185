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
    """For the template. `colours`: those that only this page has, each light and dark."""
    own = colours or {}

    def declared(theme: int) -> str:
        """The colours as declarations for a style sheet."""
        values = style.tokens(subjects, theme) | {name: own[name][theme] for name in own}
        return " ".join(f"--{name}: {value};" for name, value in values.items())

    css = (TEMPLATES / "style.css").read_text()
    return {"light": declared(0), "dark": declared(1), "css": css}
