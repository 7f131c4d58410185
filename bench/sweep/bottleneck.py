# SPDX-License-Identifier: MIT
"""Who was the bottleneck of a run. Pure.

Demand is the share of the load's time in which somebody ran or wanted to run: CPU time, and the
time for which a runnable task was kept waiting for a CPU. So a load generator that shares its CPU
with Redis is seen to be at its limit though it had only half of that CPU. On a host of its own
somebody is also at the limit when the host's quota is: when all of it is used, or when it stopped
the host in most periods. A server with a quota of its own is at its limit when that is: when all of
it is used and it stopped the server in most periods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.records.figures import Bottleneck, HostFigures

LIMIT = 0.9
"""From here on somebody counts as being at the limit."""
THROTTLED = 0.5
"""In more than this share of the periods stopped: at the limit. A host that can keep up is stopped
now and then, too, when work comes in bursts."""


@dataclass(frozen=True)
class Demand:
    """Shares from 0 to 1, of one core each. None: not known, or not there."""

    server: float | None
    load: float | None
    redis: float | None
    nginx: float | None = None


def judge(demand: Demand) -> tuple[Bottleneck | None, bool]:
    """Who it was, and whether the figure is a lower bound: the load generator was at its limit
    and the server was not."""
    if demand.server is None or demand.load is None:
        return None, False
    if demand.server >= LIMIT:
        return "server", False
    others: dict[Bottleneck, float] = {
        "redis": demand.redis or 0.0,
        "nginx": demand.nginx or 0.0,
        "load": demand.load,
    }
    most = max(others, key=lambda name: (others[name], name == "load"))
    return (most if others[most] >= LIMIT else "none"), demand.load >= LIMIT


def pressure(demand: float | None, hosts: Sequence[HostFigures]) -> float | None:
    """A demand with that of the hosts on which it arises; None if nothing is known."""
    known = [found for host in hosts if (found := of_host(host)) is not None]
    return max([*known, *([] if demand is None else [demand])], default=None)


def of_quota(used: float, throttled: float | None) -> float:
    """How near a server was to its quota; `used`: a share of it, `throttled`: of its periods. One
    that is not stopped in most periods could have used more, however much it used."""
    at_limit = throttled is not None and throttled > THROTTLED
    return min(1.0, used) if at_limit else min(LIMIT / 2, used)


def of_host(host: HostFigures) -> float | None:
    """How near a host was to its limit; 1.0 and more: at it. None without a quota: its CPUs may
    have been busy with something else."""
    if host.throttled_share is None:
        return None
    return 1.0 + host.throttled_share if host.throttled_share > THROTTLED else host.cpu_share
