# SPDX-License-Identifier: MIT
"""The page of a report: one self-contained HTML file.

To add a part, write a function like those in `origin`, and call it in the template `page.html.j2`.
The charts are data for the page's script, and pictures for a browser without scripts.
"""

from collections.abc import Mapping
from functools import cache

import vl_convert

from bench.records.words import connections, figure
from bench.report import findings, limits, peers
from bench.report.charts import style
from bench.report.charts.catalogue import Catalogue
from bench.report.page import export, origin
from bench.report.page.document import key
from bench.report.page.look import TEMPLATES, look, template_of
from bench.report.study import Study, describe

SHORT = ("hosts", "instances-keep", "cpu", "latency", "holding", "delays", "idles", "memory")
"""Charts whose titles follow the first finding, sorted by importance."""
MOST_SHORT = 6


def short(titles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the anchor and the text of each finding at the top. The first is the ranking, or the
    rates if there is no ranking."""
    best = "order" if titles.get("order") else "rates"
    others = [key for key in SHORT if titles.get(key)][:MOST_SHORT]
    return [(best, titles[best]), *((f"figure-{key}", titles[key]) for key in others)]


@cache
def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, escaped for a script element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _stills(charts: Catalogue) -> dict[str, str]:
    """Return the charts in their initial state as SVG, for a browser without scripts."""
    first = charts.study.scenarios[0]
    specs = {key: charts.picture(key, first) for key in charts.exhibits}
    return {
        key: vl_convert.vegalite_to_svg({**spec, "title": ""}) if spec else ""
        for key, spec in specs.items()
    }


def render(study: Study, charts: Catalogue) -> str:
    """Return the page as HTML."""
    shapes, titles = style.subject_shapes(study.subjects), charts.titles()
    page = template_of(__file__, "page.html.j2", key=key).render(
        study=study,
        results=study.results,
        exhibits=titles,
        short=short(titles),
        stills=_stills(charts),
        data=charts.for_script(),
        library=library(),
        js=(TEMPLATES / "report.js").read_text(),
        shapes=[style.STYLE.shapes[shape] for shape in shapes],
        export=export,
        origin=origin,
        findings=findings,
        peers=peers,
        limits=limits,
        describe=describe,
        connections=connections,
        figure=figure,
        **look(study.subjects),
    )
    return page.lstrip()
