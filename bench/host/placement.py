# SPDX-License-Identifier: MIT
"""Which CPU does what: the server has one to itself; ab, Redis and nginx share the others. Of
several instances of the server each gets one, as long as one is left for the others."""

import os
from collections.abc import Iterable

from bench.records.environment import Placement


def place(available: Iterable[int], instances: int = 1) -> Placement:
    """Divide the CPUs that this process may use, for so many instances of a server at most."""
    cpus = sorted(available)
    if len(cpus) < 2:
        return Placement(
            server=[],
            load=[],
            note="one CPU only: server, ab and Redis share it, which costs every server speed",
        )
    split = min(instances, len(cpus) - 1)
    server, load = cpus[:split], cpus[split:]
    return Placement(
        server=server,
        load=load,
        note=f"server on CPU {_list(server)}; ab and Redis on CPU {_list(load)}",
    )


def place_here(instances: int = 1) -> Placement:
    """The placement on this machine. Moves this very process to the load's side."""
    placement = place(os.sched_getaffinity(0), instances)
    if placement.load:
        os.sched_setaffinity(0, placement.load)
    return placement


def _list(cpus: Iterable[int]) -> str:
    return ", ".join(map(str, cpus))
