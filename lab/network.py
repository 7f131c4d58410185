# SPDX-License-Identifier: MIT
"""Make a lab's network: a bridge and a pair of virtual interfaces for each host (ip(8), tc(8))."""

import subprocess
from collections.abc import Sequence

from lab.errors import LabError
from lab.plan import LabPlan, bits_per_second

SWITCH_NUMBER = 254


def make_switch(plan: LabPlan) -> None:
    """Make the bridge and the keeper's address on it, in the keeper's network namespace."""
    _ip(
        "link set lo up",
        "link add br0 type bridge",
        f"address add {plan.network}.{SWITCH_NUMBER}/24 dev br0",
        "link set br0 up",
    )


def connect(host: str, pid: int) -> None:
    """Connect the bridge to the network namespace of a process, as its interface eth0.

    `pid`: its PID in the namespace that /proc belongs to.
    """
    # Use the path, because the meaning of a PID depends on the version of ip. Old versions let the
    # kernel look it up in ip's PID namespace; since 2025 ip looks it up in /proc.
    _ip(
        f"link add {host} type veth peer name eth0 netns /proc/{pid}/ns/net",
        f"link set {host} master br0 up",
    )


def set_up_host(address: str) -> None:
    """Configure a host's interfaces. Without a default route, no packet leaves the lab."""
    _ip("link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up")


def shape(delay: str | None, rate: str | None) -> None:
    """Delay the packets that eth0 sends, and limit their rate, in a host's network namespace."""
    parent = "root"
    if delay:
        # The queue must hold all delayed packets, or it drops some.
        _tc("--delay", "netem", f"root handle 1: netem delay {delay} limit 100000")
        parent = "parent 1:1"
    if rate:
        # At least two of the largest packets that the kernel hands to an interface (64 KB).
        burst = max(131_072, bits_per_second(rate) // 8 // 250)
        _tc("--rate", "tbf", f"{parent} handle 2: tbf rate {rate} burst {burst} latency 50ms")


def _ip(*commands: str) -> None:
    done = _run(["ip", "-batch", "-"], "\n".join(commands) + "\n")
    if done.returncode != 0:
        raise LabError(f"ip {commands[0]} ...: {_first_line(done.stderr)}")


def _tc(option: str, kind: str, rest: str) -> None:
    done = _run(["tc", "qdisc", "add", "dev", "eth0", *rest.split()], "")
    if "kind is unknown" in done.stderr or "qdisc not found" in done.stderr:
        raise LabError(
            f"{option}: {kind} is not available in this kernel (module sch_{kind}); leave it out"
        )
    if done.returncode != 0:
        raise LabError(f"{option}: tc: {_first_line(done.stderr)}")


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True)


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "failed without a message")
