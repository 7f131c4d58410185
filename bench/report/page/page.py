# SPDX-License-Identifier: MIT
"""The page of a report: one self-contained HTML file.

To add a part, write a function like those in `parts` and `origin`, add it to PARTS, and add it to
the template `page.html.j2`. The charts are data for the page's script, and pictures for a browser
without scripts.
"""

import json
from functools import cache

import vl_convert

from bench.records.metrics import METRICS
from bench.report.charts import style
from bench.report.charts.base import Catalogue
from bench.report.charts.catalogue import pictures
from bench.report.page import export, origin, parts
from bench.report.page.look import TEMPLATES, look, template_of
from bench.report.study import Study


def drawn(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the titles, pictures, data, colours and scripts of the charts."""
    return {
        "exhibits": charts.titles(),
        "stills": _stills(charts),
        "whole_memory": study.whole_memory(),
        "has_conditions": bool({"workloads", "delays", "idles"} & set(charts.exhibits)),
        **look(study.subjects),
        "js": (TEMPLATES / "report.js").read_text(),
        "library": library(),
        "data": _data(study, charts),
    }


@cache
def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, escaped for a script element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _stills(charts: Catalogue) -> dict[str, str]:
    """Return the charts in their initial state as SVG, for a browser without scripts."""
    stills = {
        name: vl_convert.vegalite_to_svg({**spec, "title": ""})
        for name, spec in pictures(charts)
        if name in charts.exhibits
    }
    return dict.fromkeys(charts.exhibits, "") | stills


def _data(study: Study, charts: Catalogue) -> str:
    """Return the data of the page's script as JSON, escaped for a script element."""
    keys = study.keys
    chosen = {keys[s]: s for s in study.scenarios}
    content = {
        "scenario": keys[study.scenarios[0]],
        "levels": {key: study.levels(s) for key, s in chosen.items()},
        "reference": {key: study.reference(s) for key, s in chosen.items()},
        "subjects": [{"name": s.name, "kind": s.kind} for s in study.subjects],
        "metrics": [{"key": m.key, "label": m.label, "unit": m.unit} for m in METRICS],
        "light": style.tokens(study.subjects, 0),
        "config": style.config(),
        "data": charts.data,
        "exhibits": {key: vars(exhibit) for key, exhibit in charts.exhibits.items()},
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")


PARTS = (
    parts.opening,
    parts.controls,
    origin.reference_servers,
    export.part,
    origin.how_made,
    drawn,
)


def render(study: Study, charts: Catalogue) -> str:
    """Return the page as HTML."""
    shown: dict[str, object] = {}
    for part in PARTS:
        shown |= part(study, charts)
    return template_of(__file__, "page.html.j2").render(**shown).lstrip()
