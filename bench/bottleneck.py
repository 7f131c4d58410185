"""Who was the bottleneck of a run. Pure.

Demand is the share of the load's time in which somebody ran or wanted to run: CPU time, and the
time for which a runnable task was kept waiting for a CPU. So a load generator that shares its CPU
with Redis is seen to be at its limit though it had only half of that CPU.
"""

from dataclasses import dataclass

from bench.measurement import Bottleneck

LIMIT = 0.9
"""From here on somebody counts as being at the limit."""


@dataclass(frozen=True)
class Demand:
    """Shares from 0 to 1, of one core each. None: not known."""

    server: float | None
    load: float | None
    redis: float | None


def judge(demand: Demand) -> tuple[Bottleneck | None, bool]:
    """Who it was, and whether the figure is a lower bound: the load generator was at its limit
    and the server was not."""
    if demand.server is None or demand.load is None:
        return None, False
    server, load = demand.server >= LIMIT, demand.load >= LIMIT
    redis = demand.redis is not None and demand.redis >= LIMIT
    if server:
        return "server", False
    if redis and (not load or (demand.redis or 0) > demand.load):
        return "redis", load
    return ("load", True) if load else ("none", False)
