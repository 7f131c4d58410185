# SPDX-License-Identifier: MIT
"""The origin of the results: machine, versions, settings, limits, commands."""

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
        found[f"Host {label(host.role, host.name)}"] = _host(host)
    return [FactGroup(name, list(rows.items())) for name, rows in found.items() if rows]


def _own_path(study: Study) -> bool:
    """Return whether the sweep requested a path that is not a named workload."""
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
    """Return the command that repeats the sweep."""
    return ".venv/bin/zerohttpd " + _line(study.results.command)


def checkout(study: Study) -> str:
    """Return the command that checks out the same sources; empty if no commit was recorded.

    The commit must be hexadecimal: results may be from elsewhere, and readers paste the line.
    """
    git = study.results.versions.git
    if git is None or not re.fullmatch("[0-9a-f]+", git.commit):
        return ""
    changed = f"    # and {git.changed_files} changed files that are not in it"
    return f"git checkout {git.commit}{changed if git.changed_files else ''}\n"


def commands(study: Study) -> list[str]:
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
