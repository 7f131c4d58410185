# SPDX-License-Identifier: MIT
"""The options of a sweep on the command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.records.conditions import ASPECTS, Value
from bench.records.errors import UserError
from bench.records.plan import DEFAULT_WORKLOAD, Part, Plan
from bench.records.values import path, positive, words_of
from bench.records.workloads import ALL, WORKLOADS, named, workload_for
from bench.services.redis_server import without_password
from bench.sweep.ladder import FULL_LEVELS, ORDER_LEVEL, ORDER_RUNS, SHORT_LEVELS
from bench.sweep.options import Options

BOTH = {"both": ("no", "yes")}


def sweep_parser() -> argparse.ArgumentParser:
    """The options of a sweep. Whole words only: `--redi=URL` would be kept in the results with its
    password."""
    sub = argparse.ArgumentParser(
        prog="zerohttpd sweep",
        allow_abbrev=False,
        description="Start each server fresh for each concurrency of a ladder, run ab against it, "
        "check that every request completed, and keep the figures, a table and a chart in "
        "results/. Exit status: 0 all cells hold, 1 some do not, 2 could not begin, 130 after "
        "Ctrl-C.",
    )
    add_plan(sub)
    file = "run on the hosts that this file names; see bench/stations/hosts.py (default: here)"
    sub.add_argument("--hosts", type=Path, metavar="FILE", help=file)
    where = "a folder for each sweep is made in it (results/)"
    sub.add_argument("--results", type=Path, default=ROOT / "results", metavar="DIR", help=where)
    sub.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="make the runs that are missing in an unfinished sweep (the latest); "
        "all other options are those of that sweep",
    )
    return sub


def add_plan(sub: argparse.ArgumentParser) -> None:
    """The options that say what is to be measured."""
    add = sub.add_argument
    add(
        "--full",
        action="store_true",
        help=f"{len(FULL_LEVELS)} levels up to {FULL_LEVELS[-1]:,}, three runs, their median, "
        f"an hour or so; default: {SHORT_LEVELS}, once, {ORDER_LEVEL} "
        f"{ORDER_RUNS} times",
    )
    names = "only these, in this order; also nginx and others of bench/strangers/, floor-epoll, ..."
    add("--servers", nargs="+", metavar="NAME", help=names)
    add("--floors", action="store_true", help="beside each server the barest of its architecture")
    add("--levels", nargs="+", metavar="N", help="concurrent connections")
    add(
        "--workloads",
        nargs="+",
        metavar="NAME",
        help=f"{', '.join(WORKLOADS)}; or {ALL} ({DEFAULT_WORKLOAD})",
    )
    add("--path", type=path, help="ask for this path, in place of a workload")
    for aspect in ASPECTS:
        add(aspect.option, dest=aspect.name, nargs="+", metavar=aspect.metavar, help=aspect.help)
    add("--requests", type=positive, metavar="N", help="of each run (never below the level)")
    add("--runs", type=positive, metavar="N", help="of each cell; the figure is their median")
    add("--timeout", type=positive, metavar="SECONDS", help="after which a run is broken off")
    where = "where the servers' executables are (the project's folder)"
    add("--programs", type=Path, default=ROOT, metavar="DIR", help=where)
    add("--redis", metavar="URL", help="use this Redis; default: a private one, thrown away")


def options_of(options: argparse.Namespace, command: Sequence[str] = ()) -> Options:
    """What was asked for, checked; `command`: in these words. Raises UserError."""
    if options.path and options.workloads:
        raise UserError("--path and --workloads exclude each other")
    workloads = named(words_of(options.workloads)) or (DEFAULT_WORKLOAD,)
    plan = Plan(
        full=options.full,
        levels=tuple(positive(word) for word in words_of(options.levels)) or None,
        requests=options.requests,
        runs=options.runs,
        timeout=options.timeout,
        workloads=(workload_for(options.path).name,) if options.path else workloads,
        varied=_varied(options),
    )
    given = vars(options)
    usual = not plan.varied and plan == Plan(workloads=plan.workloads) and not given.get("hosts")
    return Options(
        parts=(Part(plan, tuple(words_of(options.servers)) or None, options.floors),),
        redis=options.redis,
        results=given.get("results", ROOT / "results"),
        hosts=given.get("hosts"),
        command=tuple(hide_password(command)),
        programs=options.programs.resolve(),
        answers=usual,
    )


def _varied(options: argparse.Namespace) -> dict[str, tuple[Value, ...]]:
    found = {}
    for aspect in ASPECTS:
        words = words_of(getattr(options, aspect.name))
        if aspect.name == "keep_alive":
            words = [each for word in words for each in BOTH.get(word, (word,))]
        if words:
            found[aspect.name] = tuple(aspect.parse(word) for word in words)
    return found


def hide_password(words: Sequence[str]) -> list[str]:
    """A command line without the password in the URL of a Redis."""
    return [without_password(word.removeprefix("--redis=")) for word in words]
