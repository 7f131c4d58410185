# SPDX-License-Identifier: MIT
"""Where the results come from: machine, versions, settings, limits, commands."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.records.environment import HostInfo
from bench.report.study.hosts import in_order, label
from bench.report.study.study import Study

GIB = 2**30


@dataclass(frozen=True)
class FactGroup:
    """Some facts under one heading."""

    name: str
    rows: list[tuple[str, str]]


def groups(study: Study) -> list[FactGroup]:
    """All facts; a group without any is left out."""
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
        found[f"Host {label(host.role, host.name)}"] = _host(host)
    return [FactGroup(name, list(rows.items())) for name, rows in found.items() if rows]


def _own_path(study: Study) -> bool:
    """Whether a path was asked for that is no workload with a name."""
    return {s.workload for s in study.all_scenarios} == {study.results.settings.path}


def _host(host: HostInfo) -> dict[str, str]:
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


def command(study: Study) -> str:
    """What to type to repeat the sweep."""
    return ".venv/bin/zerohttpd " + _line(study.results.command)


def checkout(study: Study) -> str:
    """The line that fetches the same sources; empty if no commit was recorded.

    Results may be a stranger's, and this is to be pasted into a shell.
    """
    git = study.results.versions.git
    if git is None or not re.fullmatch("[0-9a-f]+", git.commit):
        return ""
    changed = f"    # and {git.changed_files} changed files that are not in it"
    return f"git checkout {git.commit}{changed if git.changed_files else ''}\n"


def commands(study: Study) -> list[str]:
    """The load generator's command line of every run."""
    return [
        f"# {_plain(run.subject)}, run {run.run}\n{_line(run.ab_command)}"
        for run in study.results.runs
        if run.ab_command
    ]


def _line(arguments: Sequence[str]) -> str:
    return _plain(shlex.join(arguments))


def _plain(text: str) -> str:
    """On one line, and without what controls a terminal into which it is pasted."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _without_names(named: Mapping[str, object]) -> set[str]:
    """The values of {name: value} as texts, each without its own name at the beginning."""
    return {str(value).removeprefix(f"{name} ") for name, value in named.items()}


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested facts as lines: ("servers: epoll", "1.0")."""
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
