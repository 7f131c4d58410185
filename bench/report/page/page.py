# SPDX-License-Identifier: MIT
"""The page: everything in one HTML file that needs nothing else."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bench.records.conditions import Conditions
from bench.records.figures import QUIET
from bench.report.charts import style
from bench.report.charts.catalogue import Catalogue
from bench.report.charts.export import pictures
from bench.report.findings import choice, findings, ordering
from bench.report.page import export, figures_table, topology
from bench.report.study import facts
from bench.report.study.holding import holdings
from bench.report.study.metrics import METRICS
from bench.report.study.scaling import Scaling, scalings
from bench.report.study.study import Point, Study, describe
from bench.report.study.words import figure, percent, plural

TEMPLATES = Path(__file__).parent / "template"
MOST_SHORT = 6
"""Findings at the top of the page."""
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


def render(study: Study, made: Catalogue) -> str:
    """The whole page."""
    page = _environment().get_template("page.html.j2").render(**_context(study, made))
    return page.lstrip()


def topology_picture(study: Study) -> str:
    """The drawing of the hosts as a picture by itself; empty if there is one machine only."""
    drawn = topology.drawings(study)
    if not drawn:
        return ""
    module: Any = _environment().get_template("topology.svg.j2").module
    colours = {**style.tokens(study.subjects, 0), "font": style.FONT}
    return str(module.hosts(drawn[0], topology.words(study), colours, alone=True)).strip()


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _context(study: Study, made: Catalogue) -> dict[str, Any]:
    first = study.scenarios[0]
    key, level = study.keys[first], study.reference(first)
    titles = {e.key: e.title(key, level) for e in made.exhibits.values()}
    shapes = style.subject_shapes(study.subjects)
    return {
        "title": f"ZeroHTTPd Seven: benchmark of {study.results.started:%Y-%m-%d}",
        "when": f"{study.results.started:%Y-%m-%d %H:%M}",
        "headline": ordering.finding(study, first) or findings.headline(study, first),
        "machine_line": f"{topology.title(study) or facts.machine_line(study)}; {describe(first)}",
        "short": _short(titles),
        "cautions": _cautions(study),
        "scenarios": [_scenario(study, s) for s in study.scenarios],
        "subjects": [
            {"name": s.name, "kind": s.kind, "path": style.SHAPES[shape]}
            for s, shape in zip(study.subjects, shapes, strict=True)
        ],
        "exhibits": titles,
        "topology": _topology(study),
        "stills": _stills(study, made),
        "loop_words": LOOPS,
        "memory_words": Markup(MEMORY if study.whole_memory() else MEMORY_OF_ONE),
        "has_conditions": bool({"workloads", "delays", "idles"} & set(titles)),
        "columns": figures_table.columns(study),
        "table": figures_table.rows(study),
        "files": _files(study),
        "missing": _missing(study, titles),
        "command": facts.command(study),
        "checkout": facts.checkout(study),
        "facts": facts.groups(study),
        "limits_found": _limits(study),
        "commands": facts.commands(study),
        "light": style.css_variables(study.subjects, 0),
        "dark": style.css_variables(study.subjects, 1),
        "css": (TEMPLATES / "style.css").read_text(),
        "js": (TEMPLATES / "report.js").read_text(),
        "library": library(),
        "data": _data(study, made),
    }


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. It is safe inside of a script element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _short(titles: dict[str, str]) -> list[dict[str, str]]:
    """The findings, for who has a minute."""
    first = ("rates", "hosts", "instances-keep", "cpu", "latency", "holding", "floors")
    keys = (*first, "delays", "idles", "memory")
    found = [key for key in keys if titles.get(key)][:MOST_SHORT]
    return [{"anchor": f"figure-{k}", "text": titles[k]} for k in found]


def _topology(study: Study) -> dict[str, Any] | None:
    """The drawing of the hosts, with its title, its words, and what colours it on the page."""
    drawn = topology.drawings(study)
    if not drawn:
        return None
    return {
        "title": topology.title(study),
        "words": topology.words(study),
        "drawings": drawn,
        "colours": {name: f"var(--{name})" for name in style.COLOURS} | {"font": "inherit"},
    }


def _cautions(study: Study) -> list[str]:
    """What a reader must know before believing anything."""
    words = []
    if study.results.state != "complete":
        words.append("The sweep was not completed: this is what was measured until then.")
    if study.single_run:
        words.append("Each cell was measured once: differences below a tenth may be noise.")
    bad = list(study.without_figure())
    if bad:
        words.append(
            f"{len(bad):,} of {len(study.points):,} cells did not hold; the reasons are below."
        )
    bounds = sum(p.lower_bound for p in study.points)
    if bounds:
        words.append(
            f"In {plural(bounds, 'cell')} the load generator was the limit: those rates are "
            "lower bounds, marked ≥."
        )
    loud = [p for p in study.points if figures_table.disturbed(p)]
    if loud:
        words.append(_disturbed(loud, len(study.points)))
    outliers = sum(p.outliers for p in study.points)
    if outliers:
        words.append(f"{plural(outliers, 'run')} lay far from the others of the same cell.")
    return words


def _disturbed(loud: list[Point], cells: int) -> str:
    worst = max(loud, key=lambda p: p.get("foreign_share") or 0)
    most = percent(worst.get("foreign_share") or 0)
    where = f"{worst.subject.name} at {worst.level:,} connections ({describe(worst.scenario)})"
    return (
        f"In {len(loud):,} of {plural(cells, 'cell')} others used more than {percent(QUIET)} of "
        f"the server's CPU in the median run; the worst is {where}, with {most}. Rates there are "
        "too low, and CPU per request is not free of it either; the table calls them disturbed. "
        "See what else runs (make doctor), and measure again on a quiet machine."
    )


def _scenario(study: Study, scenario: Conditions) -> dict[str, Any]:
    return {
        "key": study.keys[scenario],
        "name": describe(scenario),
        "answers": choice.answers(study, scenario),
        "holdings": holdings(study, scenario),
        "laws": [_law(found) for found in scalings(study, scenario)],
    }


def _law(found: Scaling) -> dict[str, str]:
    error = ""
    if found.fit:
        error = (
            f"λ = {figure(found.fit.rate_of_one)}/s; the curve misses the points by "
            f"{100 * found.fit.mean_error:.1f} % on average."
        )
    return {"subject": found.subject, "words": found.words, "error": error}


def _missing(study: Study, titles: dict[str, str]) -> str:
    wanted = {
        "latency per request": study.has("p999"),
        "CPU per request": study.has("cpu"),
        "context switches": study.has("switches_voluntary"),
        "memory of all processes": study.whole_memory(),
        "whether the machine was quiet": study.has("foreign_share"),
        "who was at the limit": any(p.bottleneck for p in study.points),
        "the floors": any(s.kind == "floor" for s in study.subjects),
        "the open loop": "loops" in titles,
        "several workloads": "workloads" in titles,
        "a slowed Redis": "delays" in titles,
        "idle connections": "idles" in titles,
        "several instances behind nginx": "through" in titles,
        "hosts of their own": bool(study.results.hosts),
    }
    return ", ".join(name for name, there in wanted.items() if not there)


def _limits(study: Study) -> list[dict[str, str]]:
    return [
        {
            "levels": ", ".join(f"{level:,}" for level in found.levels),
            "words": found.describe(),
            "cure": found.cure,
        }
        for found in study.results.findings
    ]


def _files(study: Study) -> list[dict[str, str]]:
    """The exports, inside of the page."""
    made = (
        ("CSV", "report.csv", "text/csv", export.as_csv(study)),
        ("JSON", "report.json", "application/json", export.as_json(study)),
        ("a Markdown table", "report.md", "text/markdown", export.as_markdown(study)),
    )
    return [
        {"label": label, "name": name, "href": f"data:{kind};charset=utf-8,{quote(text)}"}
        for label, name, kind, text in made
    ]


def _stills(study: Study, made: Catalogue) -> dict[str, str]:
    """The charts as they are when the page opens, for a browser without scripts."""
    drawn = {}
    for name, spec in pictures(study, made):
        if name in made.exhibits:
            drawn[name] = vl_convert.vegalite_to_svg({**spec, "title": ""})
    return dict.fromkeys(made.exhibits, "") | drawn


def _data(study: Study, made: Catalogue) -> str:
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
        "data": made.data,
        "exhibits": {e.key: {"spec": e.spec, "titles": e.titles} for e in made.exhibits.values()},
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
