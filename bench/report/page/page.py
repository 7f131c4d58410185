# SPDX-License-Identifier: MIT
"""The page of a report: one self-contained HTML file.

To add a part, write a function that returns its facts, and call it in the template
`page.html.j2`. The charts are data for the page's script, and pictures for a browser without
scripts.
"""

import re
import shlex
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache

import vl_convert

from bench.readers import cost
from bench.records.results import PeerStudy
from bench.records.words import connections, figure
from bench.report import findings, limits, peers
from bench.report.charts import style
from bench.report.charts.catalogue import Catalogue
from bench.report.page import export
from bench.report.page.cost import flame_shown
from bench.report.page.look import TEMPLATES, key, look, template_of
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


# ---- Reference servers: flame graphs and bottlenecks ----


def flames_of(study: Study, asked: PeerStudy) -> tuple[list[dict[str, object]], str]:
    """Return the flame graphs of one study of the sweep, and the sampling method."""
    sampled = [
        (subject, conditions._replace(mode="closed"))
        for some in asked.measured
        for subject in some.subjects
        for conditions in some.conditions
        if not conditions.rated
    ]
    drawn = [one for one in cost.flames(study.results) if (one.subject, one.conditions) in sampled]
    return [flame_shown(one) for one in drawn], cost.sampled_how(drawn)


def limit_of(row: peers.PeerRow) -> str:
    """Return the bottleneck of a server as a word for the table."""
    found = row.point.bottleneck if row.point else None
    return limits.NAMES.get(found, found) if found else "–"


# ---- The origin of the results: machine, versions, settings, limits, commands ----

GIB = 2**30


def command(study: Study) -> str:
    """Return the command that repeats the sweep."""
    return ".venv/bin/zerohttpd " + _line(study.results.command)


def commands(study: Study) -> list[str]:
    """Return the command of each load, with the server and the run."""
    return [
        f"# {_plain(run.subject)}, run {run.run}\n{_line(run.ab_command)}"
        for run in study.results.runs
        if run.ab_command
    ]


def facts(study: Study) -> dict[str, dict[str, str]]:
    """Return all facts by group and name, without empty groups."""
    results = study.results
    machine = dict(_flat(results.machine.model_dump(exclude={"memory_bytes"})))
    if results.machine.memory_bytes:
        machine["memory"] = f"{results.machine.memory_bytes / GIB:.1f} GiB"
    if results.placement and results.placement.note:
        machine["placement"] = results.placement.note
    known = results.limits.model_dump(exclude_none=True) if results.limits else {}
    sweep = {
        "begun": f"{results.started:%Y-%m-%d %H:%M:%S %Z}",
        "ended": f"{results.finished:%Y-%m-%d %H:%M:%S %Z}" if results.finished else "not",
        "state": results.state,
        "runs made": f"{len(results.runs):,}",
        "levels": ", ".join(f"{n:,}" for n in results.levels),
    }
    # The setting `path` is shown only if it is the only workload, and this workload has no name.
    own_path = {s.workload for s in study.all_scenarios} == {results.settings.path}
    settings = results.settings.model_dump(
        exclude_defaults=True, exclude={"options"} if own_path else {"options", "path"}
    )
    found = {
        "Machine of the load generator" if results.hosts else "Machine": machine,
        "Sweep": sweep | dict(_flat(settings)),
        "Versions": dict(_flat(results.versions.model_dump())),
        "Limits": dict(_flat(known)),
    }
    for host in limits.in_order(results.hosts):
        rows = dict(_flat(host.model_dump(exclude={"role", "name", "memory_mb"})))
        rows["memory"] = f"{host.memory_mb * 1e6 / GIB:.1f} GiB" if host.memory_mb else "unknown"
        found[f"Host {limits.label(host.role, host.name)}"] = rows
    return {name: rows for name, rows in found.items() if rows}


def checkout_command(study: Study) -> str:
    """Return the command that checks out the same sources; empty if no commit was recorded.

    The commit must be hexadecimal, because results may be untrusted and readers run the command.
    """
    git = study.results.versions.git
    if git is None or not re.fullmatch("[0-9a-f]+", git.commit):
        return ""
    changed = f"    # and {git.changed_files} changed files that are not in this commit"
    return f"git checkout {git.commit}{changed if git.changed_files else ''}\n"


def _line(arguments: Sequence[str]) -> str:
    return _plain(shlex.join(arguments))


def _plain(text: str) -> str:
    """Return a text without line breaks and control characters, so it is safe to paste."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested facts as lines: ("servers: epoll", "1.0")."""
    if isinstance(value, dict):
        same = {str(inner).removeprefix(f"{key} ") for key, inner in value.items()}
        if len(same) == 1 < len(value):
            yield f"{name}: all {len(value)}", same.pop()
            return
        for key, inner in value.items():
            word = str(key).replace("_", " ")
            yield from _flat(inner, f"{name}: {word}" if name else word)
    elif isinstance(value, list | tuple) and value:
        yield name, ", ".join(map(str, value))
    elif value not in (None, "", []):
        yield name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def missing(study: Study, charts: Container[str]) -> str:
    """Return the figures and charts that these results lack, in words."""
    wanted = {
        "latency per request": study.has("p999"),
        "CPU per request": study.has("cpu"),
        "context switches": study.has("switches_voluntary"),
        "memory of all processes": study.whole_memory(),
        "whether the machine was quiet": study.has("foreign_share"),
        "the bottleneck": any(p.bottleneck for p in study.points),
        "the baselines": any(s.kind == "baseline" for s in study.subjects),
        "the open loop": "loops" in charts,
        "several workloads": "workloads" in charts,
        "a delayed Redis": "delays" in charts,
        "idle connections": "idles" in charts,
        "several instances behind nginx": "through" in charts,
        "separate hosts": bool(study.results.hosts),
    }
    return ", ".join(name for name, there in wanted.items() if not there)


# ---- The page ----


def render(study: Study, charts: Catalogue) -> str:
    """Return the page as HTML."""
    shapes, titles = style.subject_shapes(study.subjects), charts.titles()
    html = template_of(__file__, "page.html.j2", key=key).render(
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
        page=sys.modules[__name__],
        findings=findings,
        peers=peers,
        limits=limits,
        describe=describe,
        connections=connections,
        figure=figure,
        **look(study.subjects),
    )
    return html.lstrip()
