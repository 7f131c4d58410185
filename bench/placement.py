"""Which CPU does what: the server has one to itself, ab and Redis share the others."""

import os
from collections.abc import Iterable

from pydantic import BaseModel


class Placement(BaseModel):
    """CPU numbers. Empty: not placed, the kernel decides."""

    server: list[int]
    load: list[int]
    """For ab, Redis and this program."""
    note: str


def place(available: Iterable[int]) -> Placement:
    """Divide the CPUs that this process may use."""
    cpus = sorted(available)
    if len(cpus) < 2:
        return Placement(
            server=[],
            load=[],
            note="one CPU only: server, ab and Redis share it, which costs every server speed",
        )
    first, *others = cpus
    return Placement(
        server=[first],
        load=others,
        note=f"server on CPU {first}; ab and Redis on CPU {', '.join(map(str, others))}",
    )


def place_here() -> Placement:
    """The placement on this machine. Moves this very process to the load's side."""
    placement = place(os.sched_getaffinity(0))
    if placement.load:
        os.sched_setaffinity(0, placement.load)
    return placement
