# SPDX-License-Identifier: MIT
"""The page of a report: one self-contained HTML file.

Each part of the page has a function, usually `part` of a module. It gets the study and its charts,
and returns the values of its part of the template `page.html.j2`. To add a part, write its
function, add it to PARTS, and add it to the template. The last part is the origin of the results:
machine, versions, settings, limits, commands.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.records.environment import HostInfo
from bench.report.charts.base import Catalogue
from bench.report.page import choosing, drawn, export, opening, peers, topology
from bench.report.page.look import template_of
from bench.report.study.hosts import in_order, label
from bench.report.study.study import Study

GIB = 2**30


@dataclass(frozen=True)
class FactGroup:
    """Some facts under one heading."""

    name: str
    rows: list[tuple[str, str]]


def fact_groups(study: Study) -> list[FactGroup]:
    """Return all facts, without empty groups."""
    results = study.results
    placement = results.placement.note if results.placement else ""
    machine = dict(_flat(results.machine.model_dump(exclude={"memory_bytes"})))
    if results.machine.memory_bytes:
        machine["memory"] = f"{results.machine.memory_bytes / GIB:.1f} GiB"
    if placement:
        machine["placement"] = placement
    limits = results.limits.model_dump(exclude_none=True) if results.limits else {}
    sweep = {
        "begun": f"{results.started:%Y-%m-%d %H:%M:%S %Z}",
        "ended": f"{results.finished:%Y-%m-%d %H:%M:%S %Z}" if results.finished else "not",
        "state": results.state,
        "runs made": f"{len(results.runs):,}",
        "levels": ", ".join(f"{n:,}" for n in results.levels),
    }
    left_out = {"options"} if _own_path(study) else {"options", "path"}
    settings = {
        key: value
        for key, value in results.settings.model_dump(exclude_defaults=True).items()
        if key not in left_out
    }
    found = {
        "Machine": machine,
        "Sweep": sweep | dict(_flat(settings)),
        "Versions": dict(_flat(results.versions.model_dump())),
        "Limits": dict(_flat(limits)),
    }
    if results.hosts:
        found = {"Machine of the load generator": found.pop("Machine")} | found
    for host in in_order(results.hosts):
        found[f"Host {label(host.role, host.name)}"] = _host_facts(host)
    return [FactGroup(name, list(rows.items())) for name, rows in found.items() if rows]


def _own_path(study: Study) -> bool:
    """Return whether the sweep requested a path that is not a named workload."""
    return {s.workload for s in study.all_scenarios} == {study.results.settings.path}


def _host_facts(host: HostInfo) -> dict[str, str]:
    limit = host.cpu_limit
    rows = {
        "address": host.address,
        "kernel": host.kernel,
        "CPU model": host.cpu_model,
        "CPUs": str(host.cpus),
        "CPU limit": f"{limit:g}, by {host.limited_by}" if limit is not None else "none",
        "memory": f"{host.memory_mb * 1e6 / GIB:.1f} GiB" if host.memory_mb else "",
    }
    rows |= {name: str(value) for name, value in host.settings.items() if value is not None}
    return {name: value for name, value in rows.items() if value}


def repeat_command(study: Study) -> str:
    """Return the command that repeats the sweep."""
    return ".venv/bin/zerohttpd " + _line(study.results.command)


def checkout_command(study: Study) -> str:
    """Return the command that checks out the same sources; empty if no commit was recorded.

    The commit must be hexadecimal: results may be from elsewhere, and readers paste the line.
    """
    git = study.results.versions.git
    if git is None or not re.fullmatch("[0-9a-f]+", git.commit):
        return ""
    changed = f"    # and {git.changed_files} changed files that are not in it"
    return f"git checkout {git.commit}{changed if git.changed_files else ''}\n"


def load_commands(study: Study) -> list[str]:
    """Return the load generator's command line of every run."""
    return [
        f"# {_plain(run.subject)}, run {run.run}\n{_line(run.ab_command)}"
        for run in study.results.runs
        if run.ab_command
    ]


def _line(arguments: Sequence[str]) -> str:
    return _plain(shlex.join(arguments))


def _plain(text: str) -> str:
    """Return a text without line breaks and control characters, so that it is safe to paste."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _without_names(named: Mapping[str, object]) -> set[str]:
    """Return the values of {name: value} as texts, each without its name at the beginning."""
    return {str(value).removeprefix(f"{name} ") for name, value in named.items()}


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested facts as lines: ("servers: epoll", "1.0")."""
    if isinstance(value, dict) and len(same := _without_names(value)) == 1 < len(value):
        yield f"{name}: all {len(value)}", same.pop()
    elif isinstance(value, dict):
        for key, inner in value.items():
            word = str(key).replace("_", " ")
            yield from _flat(inner, f"{name}: {word}" if name else word)
    elif isinstance(value, list | tuple) and value:
        yield name, ", ".join(map(str, value))
    elif value not in (None, "", []):
        yield name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def how_made(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the values of the page's last section."""
    return {
        "missing": _missing(study, charts),
        "command": repeat_command(study),
        "checkout": checkout_command(study),
        "facts": fact_groups(study),
        "limits_found": _limits(study),
        "commands": load_commands(study),
    }


def _missing(study: Study, charts: Catalogue) -> str:
    wanted = {
        "latency per request": study.has("p999"),
        "CPU per request": study.has("cpu"),
        "context switches": study.has("switches_voluntary"),
        "memory of all processes": study.whole_memory(),
        "whether the machine was quiet": study.has("foreign_share"),
        "the bottleneck": any(p.bottleneck for p in study.points),
        "the baselines": any(s.kind == "floor" for s in study.subjects),
        "the open loop": "loops" in charts.exhibits,
        "several workloads": "workloads" in charts.exhibits,
        "a slowed Redis": "delays" in charts.exhibits,
        "idle connections": "idles" in charts.exhibits,
        "several instances behind nginx": "through" in charts.exhibits,
        "separate hosts": bool(study.results.hosts),
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


PARTS = (
    opening.part,
    choosing.part,
    topology.part,
    peers.part,
    export.part,
    how_made,
    drawn.part,
)


def render(study: Study, charts: Catalogue) -> str:
    """Return the page as HTML."""
    shown: dict[str, object] = {}
    for part in PARTS:
        shown |= part(study, charts)
    template = template_of(__file__, "page.html.j2")
    return template.render(**shown).lstrip()
