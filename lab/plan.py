# SPDX-License-Identifier: MIT
"""Plan a lab: names, addresses, CPUs and shares. This module changes nothing on the machine."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


class LabError(Exception):
    """An error that is reported to the user. The message gives the error and, if known, the fix."""


DEFAULT_NAME = "default"
MOST_SERVERS = 8
FIRST_SERVER = "zerohttpd"

SHARES = {"load": 100, "nginx": 40, "zerohttpd": 20, "redis": 40}
"""Percent of a CPU for each role, if there are fewer CPUs than hosts.

The small share of the server makes the server the bottleneck. For a guestbook page, ab needs about
twice the CPU time of the epoll server, so with equal shares ab would be the bottleneck.
"""

NETWORKS = [f"10.77.{third}" for third in range(256)]


@dataclass(frozen=True)
class LabHost:
    """One host of a lab."""

    name: str
    group: str  # The host's role and group in Ansible's inventory: load, nginx, zerohttpd or redis.
    address: str
    cpu: int  # The only CPU of the machine that the host may use.
    share: int | None  # Percent of `cpu`; None: the whole CPU, which no other host uses.


@dataclass(frozen=True)
class LabPlan:
    """The plan of a lab."""

    name: str
    network: str  # The first three numbers of the hosts' addresses.
    hosts: list[LabHost]
    project: str  # The project's folder, visible on every host.
    home: str  # The home folder of the lab's owner, also visible on every host.
    folder: str  # The folder of the lab's state; see state.py.
    delay: str | None
    rate: str | None


def check_name(name: str) -> None:
    """Raise LabError if the name is not valid for a lab."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name):
        raise LabError(
            f"--name: '{name}' is not valid: use a-z first, then a-z, 0-9 or '-', at most 20 in all"
        )


def name_option(name: str) -> str:
    """Return the command-line option that selects a lab; empty for the default lab."""
    return "" if name == DEFAULT_NAME else f" --name {name}"


def check_link(delay: str | None, rate: str | None) -> None:
    """Raise LabError if the delay or the rate is not in the format of tc(8)."""
    if delay and not re.fullmatch(r"\d+(\.\d+)?(us|ms|s)", delay):
        raise LabError(f"--delay {delay} is not valid; give a number with us, ms or s, as in 0.2ms")
    if rate and not re.fullmatch(r"[1-9]\d*(kbit|mbit|gbit)", rate):
        known = "a whole number with kbit, mbit or gbit, as in 1gbit"
        raise LabError(f"--rate {rate} is not valid; give {known}")


def bits_per_second(rate: str) -> int:
    """Return a valid rate in bits per second."""
    return int(rate[:-4]) * {"kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}[rate[-4:]]


def parse_shares(words: Sequence[str], hosts: Collection[str]) -> dict[str, int]:
    """Return the percentage of each host from words of the form HOST=PERCENT."""
    shares = {}
    for word in words:
        name, _, percent = word.partition("=")
        if name not in hosts:
            raise LabError(f"--share {word}: no host '{name}' here; hosts: {', '.join(hosts)}")
        if not percent.isdecimal() or not 1 <= int(percent) <= 100:
            raise LabError(f"--share {word}: PERCENT of one CPU must be 1 to 100")
        shares[name] = int(percent)
    return shares


def host_groups(servers: int) -> dict[str, str]:
    """Return each host's name and group, in the order of the addresses."""
    if not 1 <= servers <= MOST_SERVERS:
        raise LabError(f"--servers {servers}: must be 1 to {MOST_SERVERS}")
    names = {"load": "load", "nginx": "nginx", FIRST_SERVER: "zerohttpd", "redis": "redis"}
    return names | {f"{FIRST_SERVER}{number}": "zerohttpd" for number in range(2, servers + 1)}


def plan_hosts(
    network: str, servers: int, cpus: Sequence[int], shares: Mapping[str, int]
) -> list[LabHost]:
    """Return the hosts with their addresses, CPUs and shares."""
    groups = host_groups(servers)
    own = len(cpus) >= len(groups)
    hosts = []
    for number, (name, group) in enumerate(groups.items(), start=1):
        # The share of the first server also applies to other servers that have no own share.
        asked = shares.get(name, shares.get(FIRST_SERVER) if group == "zerohttpd" else None)
        hosts.append(
            LabHost(
                name=name,
                group=group,
                address=f"{network}.{number}",
                cpu=cpus[number - 1] if own else _shared_cpu(group, cpus),
                share=asked or (None if own else SHARES[group]),
            )
        )
    return hosts


def _shared_cpu(group: str, cpus: Sequence[int]) -> int:
    """Return a group's CPU if hosts share CPUs. Only servers use the first CPU, if possible."""
    place = {"zerohttpd": 0, "load": 1, "nginx": 2, "redis": 3}[group]
    return cpus[min(place, len(cpus) - 1)]
