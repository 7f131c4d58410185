# SPDX-License-Identifier: MIT
"""The charts of the page: what its script draws, and pictures for a browser without scripts."""

import json
from functools import cache

import vl_convert
from markupsafe import Markup

from bench.report.charts import style
from bench.report.charts.exhibits import Catalogue
from bench.report.charts.export import pictures
from bench.report.page.look import TEMPLATES, look
from bench.report.study.metrics import METRICS
from bench.report.study.study import Study

LOOPS = (
    "In the closed loop each client waits for its answer before it asks again: while the server "
    "stalls, nobody asks, and the stall is counted once.",
    "In the open loop requests come at a constant rate, whatever the server does, and each is "
    "timed from the moment at which it was due: whoever came during the stall has waited too.",
    "So the first says how long the server works under so many connections, the second how long "
    "people wait at so many requests per second.",
)
MEMORY = (
    "Lower is better. The highest sum over all processes of the server, as "
    '<a href="#reading-memory">PSS</a>. The slope is what a connection costs.'
)
MEMORY_OF_ONE = (
    "The peak of the server's largest process, as it stated itself at its end: enough to compare "
    "servers of one process, too little for those of many, whose other processes are not in it."
)


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Titles, pictures, data, colours and scripts."""
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
    """Vega, Vega-Lite and Vega-Embed as one script. It is safe inside of a script element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _stills(study: Study, charts: Catalogue) -> dict[str, str]:
    """The charts as they are when the page opens, for a browser without scripts."""
    drawn = {}
    for name, spec in pictures(study, charts):
        if name in charts.exhibits:
            drawn[name] = vl_convert.vegalite_to_svg({**spec, "title": ""})
    return dict.fromkeys(charts.exhibits, "") | drawn


def _data(study: Study, charts: Catalogue) -> str:
    """What the page's script works on. Safe inside of a script element."""
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
