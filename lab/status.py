# SPDX-License-Identifier: MIT
"""Print the table of the hosts (`status`)."""

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from lab import state
from lab.errors import LabError
from lab.plan import LabHost
from lab.state import Known

HEAD = ("HOST", "ADDRESS", "CPU", "SHARE", "LIMITED BY", "SSHD", "UP SINCE", "PROCESSES")


def show(name: str) -> bool:
    """Print the table. Return whether all hosts are up."""
    known = state.load(name)
    if known is None:
        others = [other for other in state.labs() if other != name]
        hint = f"; there is: {', '.join(others)}" if others else ""
        raise LabError(f"no lab '{name}' is up{hint}")
    rows = [HEAD, *(_row(known, host) for host in known.plan.hosts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    for remark in _remarks(known):
        print(remark)
    return known.keeper.alive and all(one.alive for one in known.hosts.values())


def _row(known: Known, host: LabHost) -> tuple[str, ...]:
    identity = known.hosts[host.name]
    alive = identity.alive
    return (
        host.name,
        host.address,
        str(host.cpu),
        _share(host) if known.groups[host.name] else "not limited",
        known.limited_by,
        str(identity.pid) if alive else "-",
        time.strftime("%H:%M:%S", time.localtime(known.since)) if alive else "down",
        str(len(_family(identity.pid))) if alive else "0",
    )


def _share(host: LabHost) -> str:
    return f"{host.share} %" if host.share else "all of it"


def _remarks(known: Known) -> list[str]:
    lines = []
    if known.limited_reason and any(host.share for host in known.plan.hosts):
        lines.append(f"Each host has one CPU; the shares do not apply: {known.limited_reason}.")
    asked = (("delay", known.plan.delay), ("rate", known.plan.rate))
    link = [f"{what} {much}" for what, much in asked if much]
    if link:
        lines.append(f"Limits of what each host sends: {', '.join(link)}.")
    if known.read_only:
        lines.append(f"Read-only on the hosts: {', '.join(known.read_only)}")
    if known.unseen:
        lines.append(f"Not visible on the hosts: {', '.join(known.unseen)}")
    return lines + _warnings(known)


def _warnings(known: Known) -> list[str]:
    """Return a warning for each reason why hosts get less CPU time than the table says."""
    lines = []
    hosts = known.plan.hosts
    servers: dict[int, int] = defaultdict(int)
    for host in hosts:
        if host.group == "zerohttpd" and host.share and known.groups[host.name]:
            servers[host.cpu] += host.share
    for cpu, percent in servers.items():
        if percent > 100:
            lines.append(
                f"Warning: the shares of the servers on CPU {cpu} add up to {percent} %: under "
                "load no server gets its whole share."
            )
    cpus = {host.cpu for host in hosts}
    for other in state.labs():
        with suppress(LabError):  # a lab of another user, which only root may read
            its = state.load(other) if other != known.plan.name else None
            if its and its.keeper.alive:
                both = sorted(cpus & {host.cpu for host in its.plan.hosts})
                if both:
                    numbers = ", ".join(map(str, both))
                    lines.append(f"Warning: the lab '{other}' uses the same CPUs: {numbers}.")
    return lines


def _family(pid: int) -> set[int]:
    """Return a process and all its descendants. This needs no root."""
    children = defaultdict(list)
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        children[int(words[1])].append(int(file.parent.name))
    family: set[int] = set()
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        family.add(one)
        waiting += children[one]
    return family
