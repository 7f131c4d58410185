# SPDX-License-Identifier: MIT
"""What `zerohttpd cost` measures, as parts of a sweep."""

import argparse
from dataclasses import replace

from bench.faults.copying import built, experiment
from bench.host.programs import find_program
from bench.records.conditions import CHANGES
from bench.records.errors import UserError
from bench.records.figures import Mode
from bench.records.plan import Part, Plan, Varied, calls_part, counted_parts, plan_at
from bench.stations.sampling import why_no_perf

DEAR, FEWER = "forking", 4
"""A process for each connection is slow: `DEAR` gets its number of requests divided by `FEWER`."""
BOTH = (False, True)
WORKLOADS = ("redirect", "guestbook")
TRICK_CELLS: dict[str, tuple[tuple[str, tuple[bool, ...]], ...]] = {
    "more": (("redirect", (False,)), ("large", BOTH)),
    "cork": (("large", (False,)),),
    "defer": (("redirect", (False,)),),
    "inherit": (("redirect", (False,)),),
    "at-once": (("redirect", (False,)),),
    "gather": (("redirect", BOTH), ("small", (True,))),
    "send": (("redirect", (True,)),),
    "sendfile": (("large", BOTH),),
    "nodelay": (("redirect", (True,)), ("large", BOTH)),
    "cache": (("small", (True,)), ("large", (True,)), ("guestbook", (True,))),
    "date": (("redirect", (True,)),),
    "pipeline": (("guestbook", BOTH),),
    "control": (("redirect", BOTH),),
}
"""For each optimisation the workloads in which it has an effect, and whether with keep-alive."""


def parts_of(
    chosen: argparse.Namespace, servers: tuple[str, ...], stacks: Mode | None
) -> list[Part]:
    """Return the parts of the sweep. `stacks`: how functions are measured; None: they are not."""
    dear = tuple(name for name in servers if name == DEAR)
    rest = tuple(name for name in servers if name != DEAR)
    number = chosen.requests
    # The first part determines the order in which the servers are shown.
    parts = [calls_part(servers, WORKLOADS, {"keep_alive": BOTH})]
    for names, requests, kept in (
        (rest, number, BOTH),
        (dear, max(number // FEWER, 1), (False,)),
        (dear, number, (True,)),
    ):
        plan = _plan(chosen, WORKLOADS, {"keep_alive": kept}, requests)
        parts += [Part(plan, names, True)] if names else []
        if names and stacks == "sampled":
            looked_at = {**plan.varied, "mode": ("sampled",)}
            parts.append(Part(replace(plan, runs=1, varied=looked_at), names))
    for trick, cells in TRICK_CELLS.items():
        for workload, each in cells:
            plan = _plan(chosen, (workload,), {"without": ("", trick), "keep_alive": each})
            parts.append(Part(plan, (chosen.tricks_of,)))
    for one in map(experiment, [] if chosen.no_experiments else CHANGES):
        plan = _plan(chosen, one.workloads, {"change": ("", one.name), "keep_alive": one.kept})
        parts.append(Part(plan, one.servers))
    return [*parts, *(counted_parts(servers, WORKLOADS) if stacks == "counted" else [])]


def _plan(
    chosen: argparse.Namespace,
    workloads: tuple[str, ...],
    varied: Varied,
    requests: int | None = None,
) -> Plan:
    number = requests or chosen.requests
    return plan_at(chosen.concurrency, number, chosen.runs, workloads, varied)


def build_experiments() -> None:
    """Build the servers of all experiments. Raises UserError."""
    for one in map(experiment, CHANGES):
        built(one)


def how_stacks(wanted: str) -> tuple[Mode | None, str]:
    """Return how functions can be measured here, and the reason if not as wanted by "auto". Raises
    UserError if the wanted method is named and does not work."""
    if wanted == "no":
        return None, ""
    reason = why_no_perf() if wanted in ("auto", "perf") else ""
    if not reason and wanted != "callgrind":
        return "sampled", ""
    if wanted == "perf":
        raise UserError(reason)
    if find_program("valgrind"):
        return "counted", reason
    if wanted == "callgrind":
        raise UserError("valgrind is not installed: apt-get install valgrind")
    return None, f"{reason}; and valgrind, which could count instructions, is not installed"
