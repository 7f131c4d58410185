# SPDX-License-Identifier: MIT
"""The page of a report: one self-contained HTML file.

Each part of the page has a module with a function `part`. It gets the study and its charts, and
returns the values of its part of the template `page.html.j2`. To add a part, write its module, add
it to PARTS, and add it to the template.
"""

from bench.report.charts.exhibits import Catalogue
from bench.report.page import choosing, drawn, figures_table, made, opening, peers, topology
from bench.report.page.templates import template_of
from bench.report.study.study import Study

PARTS = (
    opening.part,
    choosing.part,
    topology.part,
    peers.part,
    figures_table.part,
    made.part,
    drawn.part,
)


def render(study: Study, charts: Catalogue) -> str:
    """Return the page as HTML."""
    shown: dict[str, object] = {}
    for part in PARTS:
        shown |= part(study, charts)
    template = template_of(__file__, "page.html.j2")
    return template.render(**shown).lstrip()
