# SPDX-License-Identifier: MIT
"""The options that select what a sweep measures, if it measures no study."""

import argparse
from functools import partial
from pathlib import Path

from bench.host.project import ROOT
from bench.records.conditions import ASPECTS, Value
from bench.records.errors import UserError
from bench.records.plan import DEFAULT_WORKLOAD, Part, Plan
from bench.records.values import add_value, path, positive, value_of, words_of
from bench.records.workloads import ALL, WORKLOADS, named, workload_for
from bench.studies.runs import (
    FULL_LEVELS,
    FULL_TIMEOUT,
    ORDER_LEVEL,
    ORDER_RUNS,
    SHORT_LEVELS,
    SHORT_REQUESTS,
    SHORT_TIMEOUT,
)
from bench.studies.study import names

BOTH = {"both": ("no", "yes")}


def add_plan(sub: argparse.ArgumentParser) -> None:
    """Add the options that select what is measured."""
    add = sub.add_argument
    add(
        "--full",
        action="store_true",
        help=f"measure {len(FULL_LEVELS)} levels up to {FULL_LEVELS[-1]:,} in three runs, about "
        f"one hour (default: levels {', '.join(map(str, SHORT_LEVELS))} in one run, level "
        f"{ORDER_LEVEL} in {ORDER_RUNS} runs)",
    )
    studies = f"measure these studies: {', '.join(names())}; or files *.toml"
    add("--studies", nargs="+", metavar="NAME", help=studies)
    only = "measure only these servers (default: the project's); others: bench/strangers/, floor-*"
    add("--servers", nargs="+", metavar="NAME", help=only)
    add("--floors", action="store_true", help="measure the baseline of each server, too")
    add("--levels", nargs="+", metavar="N", help="concurrent connections (default: see --full)")
    workloads = f"{', '.join(WORKLOADS)}; or {ALL} (default {DEFAULT_WORKLOAD})"
    add("--workloads", nargs="+", metavar="NAME", help=workloads)
    add_value(sub, "--path", path, "/about", help="request this path instead of a workload")
    for aspect in ASPECTS:
        add(aspect.option, dest=aspect.name, nargs="+", metavar=aspect.metavar, help=aspect.help)
    number = partial(add_value, sub, parse=positive)
    each = f"send N requests in each run, at least one per connection (default {SHORT_REQUESTS:,}; "
    each += "fewer for slow servers and with a quota)"
    number("--requests", example="5000", metavar="N", help=each)
    runs = "run each configuration N times; the result is the median (default: see --full)"
    number("--runs", example="3", metavar="N", help=runs)
    limit = f"stop a run after SECONDS (default {SHORT_TIMEOUT:g}; {FULL_TIMEOUT:g} with --full, "
    limit += "--levels or --requests)"
    number("--timeout", example="30", metavar="SECONDS", help=limit)
    where = "folder of the servers' executables (default: the project's folder)"
    add("--programs", type=Path, default=ROOT, metavar="DIR", help=where)
    redis = "use this Redis (default: a private one, deleted at the end)"
    add("--redis", metavar="URL", help=redis)


def part_of(options: argparse.Namespace) -> Part:
    """Return the plan that the options select. Raises UserError."""
    if options.path and options.workloads:
        raise UserError("--path and --workloads exclude each other: leave out one of them")
    workloads = named(words_of(options.workloads)) or (DEFAULT_WORKLOAD,)
    if options.path:
        workloads = (workload_for(options.path).name,)
    writing = [name for name in workloads if workload_for(name).private_only]
    if options.redis and writing:
        raise UserError(
            f"{', '.join(writing)}: writes data, so it needs a private Redis. Leave out --redis"
        )
    levels = [value_of("--levels", x, positive, "20,100,500") for x in words_of(options.levels)]
    plan = Plan(
        full=options.full,
        levels=tuple(levels) or None,
        requests=options.requests,
        runs=options.runs,
        timeout=options.timeout,
        workloads=workloads,
        varied=_varied(options),
    )
    if set(plan.values("instances")) != {1} and set(plan.values("balancer")) == {"none"}:
        raise UserError("--instances above 1 needs nginx: add --balancer close or keep")
    return Part(plan, tuple(words_of(options.servers)) or None, options.floors)


def is_chosen(part: Part) -> bool:
    """Return whether an option other than --full selects something."""
    return part != Part(Plan(full=part.plan.full))


def is_usual(plan: Plan) -> bool:
    """Return whether no option sets how to measure."""
    return plan == Plan(workloads=plan.workloads)


def _varied(options: argparse.Namespace) -> dict[str, tuple[Value, ...]]:
    found = {}
    for aspect in ASPECTS:
        words = words_of(getattr(options, aspect.name))
        if aspect.name == "keep_alive":
            words = [each for word in words for each in BOTH.get(word, (word,))]
        if words:
            found[aspect.name] = tuple(
                value_of(aspect.option, word, aspect.parse) for word in words
            )
    return found
