# SPDX-License-Identifier: MIT
"""The charts of the page: data for its script, and pictures for a browser without scripts."""

import json
from functools import cache

import vl_convert
from markupsafe import Markup

from bench.records.metrics import METRICS
from bench.report.charts import style
from bench.report.charts.base import Catalogue
from bench.report.charts.export import pictures
from bench.report.page.look import TEMPLATES, look
from bench.report.study.study import Study

LOOPS = (
    "In the closed loop each client waits for its response before it sends the next request. While "
    "the server stalls, no requests are sent, and the stall counts once for each client.",
    "In the open loop requests are sent at a constant rate. Each response time starts when the "
    "request was due, so requests during a stall include the time that they waited.",
    "So the closed loop shows the response time at a number of connections, the open loop the "
    "waiting time of users at a number of requests per second.",
)
MEMORY = (
    "Lower is better. The peak of the sum over all processes of the server, as "
    '<a href="#reading-memory">PSS</a>. The slope is the memory of one connection.'
)
MEMORY_OF_ONE = (
    "The peak of the server's largest process, as the server reported it at its exit. Use it to "
    "compare servers with one process only: it omits all other processes of a server."
)


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the titles, pictures, data, colours and scripts of the charts."""
    return {
        "exhibits": charts.titles(),
        "stills": _stills(study, charts),
        "loop_words": LOOPS,
        "memory_words": Markup(MEMORY if study.whole_memory() else MEMORY_OF_ONE),
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


def _stills(study: Study, charts: Catalogue) -> dict[str, str]:
    """Return the charts in their initial state as SVG, for a browser without scripts."""
    drawn = {}
    for name, spec in pictures(study, charts):
        if name in charts.exhibits:
            drawn[name] = vl_convert.vegalite_to_svg({**spec, "title": ""})
    return dict.fromkeys(charts.exhibits, "") | drawn


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
        "exhibits": {e.key: {"spec": e.spec, "titles": e.titles} for e in charts.exhibits.values()},
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
