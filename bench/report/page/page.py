# SPDX-License-Identifier: MIT
"""The page: everything in one HTML file that needs nothing else.

A part of the page is a function in a module of its own. It is given the study and its charts, and
returns what its part of the template `page.html.j2` shows. A new part: its module, its name in
PARTS, and its place in the template.
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
    """The whole page."""
    shown: dict[str, object] = {}
    for part in PARTS:
        shown |= part(study, charts)
    template = template_of(__file__, "page.html.j2")
    return template.render(**shown).lstrip()
