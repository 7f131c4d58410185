# SPDX-License-Identifier: MIT
"""Make the list of a sweep's runs from plans."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.records.conditions import (
    BY_NAME,
    DEFAULT_WORKLOAD,
    FROM_VALUES,
    Conditions,
    Plan,
    RunSpec,
)
from bench.records.errors import UserError
from bench.records.figures import grouped
from bench.records.workloads import workload_for
from bench.subjects.subject import Subject

SHORT_LEVELS = (20, 100, 500, 1000)
SHORT_REQUESTS = 10_000
SHORT_TIMEOUT = 20.0

ORDER_LEVEL, ORDER_RUNS = 100, 3
"""The default sweep ranks the servers at this level, with enough runs to distinguish differences
from noise."""
SLICE = 0.2
"""The CPU quota of each server in the default sweep, as a share of a core. ab and Redis must not be
the limit, but need two to four times as much CPU time for a request as the fastest server."""
SLICE_REQUESTS = 2_000

FULL_LEVELS = (
    *(20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000),
    *(1500, 2000, 2500, 3000, 5000, 8000, 10_000, 11_000, 12_000, 13_000, 14_000, 15_000),
)
FULL_REQUESTS, FULL_REQUESTS_HIGH = 10_000, 30_000
"""The numbers of requests at levels up to 1,000, and at higher levels."""
FULL_RUNS = 3
FULL_TIMEOUT = 120.0

FEWER_FOR, FEWER = frozenset({"iterative", "forking"}), 5
"""These servers get the usual number of requests divided by FEWER, because slow servers would need
most of the time of a sweep."""

USUAL = Conditions(DEFAULT_WORKLOAD)

OPEN_SECONDS, OPEN_SECONDS_FULL = 3.0, 10.0
"""The seconds of an open-loop run (short, full), unless a number of requests is given."""


def levels_of(plan: Plan) -> tuple[int, ...]:
    """Return the concurrency levels, ascending, each once."""
    return tuple(sorted({*(plan.levels or (FULL_LEVELS if plan.full else SHORT_LEVELS))}))


def runs_of(plan: Plan) -> int:
    """Return the number of runs of each configuration."""
    return plan.runs or (FULL_RUNS if plan.full else 1)


def timeout_of(plan: Plan, conditions: Conditions, waits: int) -> float:
    """Return the plan's timeout of a run in seconds. If the plan has none: SHORT_TIMEOUT (if levels
    or requests are not the defaults, FULL_TIMEOUT) plus `waits` times the delay of Redis."""
    if plan.timeout:
        return plan.timeout
    long = plan.full or plan.levels or plan.requests
    slowed = waits * conditions.redis_delay_ms / 1000
    return (FULL_TIMEOUT if long else SHORT_TIMEOUT) + slowed


def answering(plan: Plan, quota: float) -> tuple[Plan, Plan]:
    """Return the plans of the default sweep: one level with enough runs for a ranking, and the
    other default levels with one run. `quota`: the CPU quota of each server; 0: none."""
    varied = {"quota": (quota,)} if quota else {}
    rest = tuple(level for level in SHORT_LEVELS if level != ORDER_LEVEL)
    usual = replace(plan, varied=varied, timeout=SHORT_TIMEOUT)
    return (
        replace(usual, levels=(ORDER_LEVEL,), runs=ORDER_RUNS),
        replace(usual, levels=rest, runs=1),
    )


def requests_of(
    plan: Plan, subject: str, level: int, conditions: Conditions = USUAL, share: float = 1.0
) -> int:
    """Return the number of requests of a run: at least one per connection, because ab rejects
    fewer. In the open loop the default is the rate times the duration, and the plan's own number
    has no minimum. `share`: the share of the usual number, see `Workload`."""
    if conditions.rate is not None:
        due = round(conditions.rate * (OPEN_SECONDS_FULL if plan.full else OPEN_SECONDS))
        return plan.requests or max(due, level)
    if conditions.asks_once:
        return level  # each connection sends one request
    if plan.requests is not None:
        return max(plan.requests, level)
    if plan.full:
        usual = FULL_REQUESTS if level <= 1000 else FULL_REQUESTS_HIGH
    else:
        usual = SLICE_REQUESTS if conditions.quota else SHORT_REQUESTS
    usual = round(usual * share)
    return max(usual // FEWER if subject in FEWER_FOR else usual, level)


def conditions_of(plan: Plan) -> list[Conditions]:
    """Return all sets of conditions, in the order of the measurement. Redis is delayed only
    for workloads that wait for it. After each closed loop come the open loops at the given rates.
    Without a balancer clients connect to one server, so several instances are not measured. If the
    memory of connections is measured, the connections are persistent."""
    names = [name for name in BY_NAME if name != "rate"]
    found: list[Conditions] = []
    for workload in plan.workloads:
        waits = workload_for(workload).waits > 0 or workload.startswith("/")
        for values in itertools.product(*(plan.values(name) for name in names)):
            said = zip(names, values, strict=True)
            one = FROM_VALUES.validate_python({"workload": workload, **dict(said)})
            if one.instances > 1 and one.balancer == "none":
                continue
            if not waits:
                one = one._replace(redis_delay_ms=0.0)
            if one.asks_once:
                one = one._replace(keep_alive=True)
            found.append(one)
            if one.mode == "closed":
                found += [one._replace(mode="open", rate=float(rate or 0)) for rate in plan.rates]
    return list(dict.fromkeys(found))


def runs_in_order(
    plan: Plan,
    subjects: Sequence[str],
    can: Callable[[str, Conditions], bool] = lambda subject, conditions: True,
) -> list[RunSpec]:
    """Return all runs. The servers take turns, so a drift of the machine favours none of them.
    `can` returns whether a server supports some conditions; if not, it has no run."""
    found = []
    for conditions in conditions_of(plan):
        workload = workload_for(conditions.workload)
        turns = itertools.product(levels_of(plan), range(1, runs_of(plan) + 1), subjects)
        for level, run, subject in turns:
            if can(subject, conditions):
                requests = requests_of(plan, subject, level, conditions, workload.share)
                timeout = timeout_of(plan, conditions, requests * workload.waits)
                found.append(RunSpec(subject, conditions, level, run, requests, timeout))
    return found


def interleaved(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """Return the runs of several plans, each once. All servers with the same conditions and level
    take turns, also from different plans. A server also takes turns with its ablations and its
    variants of experiments."""
    once = [same[0] for same in grouped(((x.key, x.run), x) for x in runs).values()]
    turns = grouped(
        ((x.conditions._replace(without="", change=""), x.concurrency), x) for x in once
    )
    return [spec for each in turns.values() for spec in sorted(each, key=lambda x: x.run)]


@dataclass(frozen=True)
class Planned:
    """The servers and the runs of a sweep."""

    subjects: Mapping[str, Subject]  # The servers under test by name, in the order of their turns.
    runs: list[RunSpec]
    left_out: Mapping[str, list[str]]
    """The conditions that a server does not support, as texts, by server."""


def plan_runs(parts: Sequence[Plan], subjects: Sequence[Subject]) -> Planned:
    """Return the planned sweep. Raises UserError if it has no runs."""
    by_name = {subject.name: subject for subject in subjects}
    runs: list[RunSpec] = []
    left_out: dict[str, list[str]] = {}
    for part in parts:
        names = [subject.name for subject in subjects if _belongs(subject, part)]
        runs += runs_in_order(part, names, lambda name, c: by_name[name].can(c))
        for name, conditions in itertools.product(names, conditions_of(part)):
            if not by_name[name].can(conditions):
                left_out.setdefault(name, []).append(conditions.describe())
    if not runs:
        raise UserError("nothing to measure: no chosen server supports these conditions")
    return Planned(by_name, interleaved(runs), left_out)


def _belongs(subject: Subject, part: Plan) -> bool:
    if part.subjects is None or subject.name in part.subjects:
        return True
    return part.baselines and subject.kind == "baseline" and subject.architecture in part.subjects
