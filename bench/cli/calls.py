# SPDX-License-Identifier: MIT
"""The part of a sweep that counts system calls: few requests, once, because strace is slow."""

from collections.abc import Mapping

from bench.records.conditions import Value
from bench.records.plan import Part, Plan

REQUESTS, CONNECTIONS = 300, 10


def calls_part(
    subjects: tuple[str, ...],
    workloads: tuple[str, ...],
    varied: Mapping[str, tuple[Value, ...]],
) -> Part:
    """Return the part for these servers; `varied`: conditions other than the mode, as in a Plan."""
    plan = Plan(
        levels=(CONNECTIONS,),
        requests=REQUESTS,
        runs=1,
        workloads=workloads,
        varied={**varied, "mode": ("traced",)},
    )
    return Part(plan, subjects)
