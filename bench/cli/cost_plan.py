# SPDX-License-Identifier: MIT
"""What `make cost` measures: the parts of its sweep, and the programs that they need."""

import argparse

from bench.faults.experiments import built, experiment
from bench.host.programs import find_program
from bench.records.conditions import CHANGES, Value
from bench.records.errors import UserError
from bench.records.figures import Mode
from bench.records.plan import Part, Plan
from bench.stations.sampling import why_no_perf
from bench.sweep.runs import FEWER_FOR

TRACED_REQUESTS, TRACED_CONNECTIONS = 300, 10
COUNTED_REQUESTS, COUNTED_CONNECTIONS = 100, 4
SLOW = 4
"""One process or one connection at a time is dear, and shows it in a quarter of the requests."""
SAMPLED = 2
"""So many times the requests of a run, for enough samples of the fast; half of them of the slow."""
BOTH = (False, True)
WORKLOADS = ("redirect", "guestbook")
TRICK_CELLS: dict[str, tuple[tuple[str, tuple[bool, ...]], ...]] = {
    "more": (("redirect", (False,)), ("large", BOTH)),
    "defer": (("redirect", (False,)),),
    "gather": (("redirect", BOTH), ("small", (True,))),
    "sendfile": (("large", BOTH),),
    "nodelay": (("redirect", (True,)), ("large", BOTH)),
}
"""By trick the workloads, and whether connections are kept, in which it does something."""


def parts_of(
    chosen: argparse.Namespace, servers: tuple[str, ...], stacks: Mode | None
) -> list[Part]:
    """What is measured, as parts of a sweep. `stacks`: how functions are looked at, if at all."""
    slow = tuple(name for name in servers if name in FEWER_FOR)
    fast = tuple(name for name in servers if name not in FEWER_FOR)
    level, few = min(chosen.concurrency, chosen.requests), max(chosen.requests // SLOW, 1)

    def plan(
        workloads: tuple[str, ...], requests: int, varied: dict[str, tuple[Value, ...]]
    ) -> Plan:
        return Plan(
            levels=(min(level, requests),),
            requests=requests,
            runs=chosen.runs,
            workloads=workloads,
            varied=varied,
        )

    loads = [
        Part(plan(WORKLOADS, requests, {"keep_alive": kept}), names, True)
        for names, requests, kept in (
            (fast, chosen.requests, BOTH),
            (slow, few, (False,)),
            (slow, chosen.requests, (True,)),
        )
        if names
    ]
    calls = Plan(
        levels=(TRACED_CONNECTIONS,),
        requests=TRACED_REQUESTS,
        runs=1,
        workloads=WORKLOADS,
        varied={"mode": ("traced",), "keep_alive": BOTH},
    )
    parts = [Part(calls, servers), *loads]  # in this order the servers are shown
    for trick, cells in TRICK_CELLS.items():
        for workload, kept in cells:
            varied: dict[str, tuple[Value, ...]] = {"without": ("", trick), "keep_alive": kept}
            parts.append(Part(plan((workload,), chosen.requests, varied), (chosen.tricks_of,)))
    for one in map(experiment, [] if chosen.no_experiments else CHANGES):
        varied = {"change": ("", one.name), "keep_alive": one.kept}
        parts.append(Part(plan(one.workloads, chosen.requests, varied), one.servers))
    return [*parts, *_of_stacks(chosen.requests, level, (fast, slow), stacks)]


def _of_stacks(
    requests: int, level: int, groups: tuple[tuple[str, ...], ...], stacks: Mode | None
) -> list[Part]:
    """For all, where functions are looked at; more requests of the fast ones."""
    if stacks is None:
        return []
    found = []
    for names, share in zip(groups, (SAMPLED, 1 / SAMPLED), strict=True):
        number = max(int(requests * share), 1)
        at = min(level, number)
        if stacks == "counted":
            number, at = COUNTED_REQUESTS, COUNTED_CONNECTIONS
        varied: dict[str, tuple[Value, ...]] = {"mode": (stacks,)}
        if stacks == "counted":  # a process for each connection would write a file each
            varied["keep_alive"] = tuple(name == "forking" for name in names[:1]) or (False,)
        plan = Plan(levels=(at,), requests=number, runs=1, workloads=WORKLOADS, varied=varied)
        if names:
            found.append(Part(plan, names))
    return found


def how_stacks(wanted: str) -> tuple[Mode | None, str]:
    """How functions can be looked at here, and why not as it was wanted. Raises UserError if that
    was said in so many words."""
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


def build_experiments() -> None:
    """The servers with each of the changes. Raises UserError."""
    for one in map(experiment, CHANGES):
        built(one)
