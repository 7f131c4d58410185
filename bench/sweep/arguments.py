"""The options of a sweep on the command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.figures import Balancer
from bench.records.plan import DEFAULT_WORKLOAD, Plan
from bench.records.workloads import ALL, WORKLOADS, named, workload_for
from bench.sweep.ladder import FULL_LEVELS, SHORT_LEVELS
from bench.sweep.options import Options

LONGEST_DELAY_MS = 1500
"""Redis is given up by the servers after 2 s."""


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
        f"an hour or so; default: {SHORT_LEVELS}, once",
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
    add(
        "--keep-alive",
        choices=("no", "yes", "both"),
        default="no",
        help="a connection for each request, or connections that are kept (%(default)s)",
    )
    add("--idle", nargs="+", metavar="N", help="hold so many idle connections open (0)")
    add("--redis-delay", nargs="+", metavar="MS", help="delay each reply of Redis (0)")
    add("--instances", nargs="+", metavar="N", help="so many processes of a server (1)")
    add(
        "--balancer",
        nargs="+",
        metavar="HOW",
        help="nginx before them: none; close: a new connection to a server for each request; "
        "keep: connections to the servers are kept (none)",
    )
    add("--rate", nargs="+", metavar="N", help="and an open loop of N requests a second, by oha")
    add("--requests", type=positive, metavar="N", help="of each run (never below the level)")
    add("--runs", type=positive, metavar="N", help="of each cell; the figure is their median")
    add("--timeout", type=positive, metavar="SECONDS", help="after which a run is broken off")
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
        keep_alive={"no": (False,), "yes": (True,), "both": (False, True)}[options.keep_alive],
        idle=tuple(whole(word) for word in words_of(options.idle)) or (0,),
        redis_delays_ms=tuple(milliseconds(word) for word in words_of(options.redis_delay))
        or (0.0,),
        rates=tuple(float(positive(word)) for word in words_of(options.rate)),
        instances=tuple(positive(word) for word in words_of(options.instances)) or (1,),
        balancers=tuple(balancer(word) for word in words_of(options.balancer)) or ("none",),
    )
    subjects = tuple(words_of(options.servers)) or None
    results = getattr(options, "results", ROOT / "results")
    hosts = getattr(options, "hosts", None)
    return Options(plan, subjects, options.floors, options.redis, results, hosts, tuple(command))


def words_of(values: Sequence[str] | None) -> list[str]:
    """Names or numbers, given as several words or with commas between them."""
    return [word for value in values or () for word in value.split(",") if word]


def positive(text: str) -> int:
    """A whole number above 0. Raises UserError."""
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """A whole number, 0 included. Raises UserError."""
    return 0 if text == "0" else positive(text)


def balancer(text: str) -> Balancer:
    """A way of balancing. Raises UserError."""
    found = next((known for known in get_args(Balancer) if known == text), None)
    if found is None:
        raise UserError(f"unknown balancer: {text}. Known: {', '.join(get_args(Balancer))}")
    return cast(Balancer, found)


def milliseconds(text: str) -> float:
    """A time of 0 to LONGEST_DELAY_MS milliseconds. Raises UserError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= LONGEST_DELAY_MS:
        raise UserError(f"{text!r} is not a number of milliseconds: 0 to {LONGEST_DELAY_MS:,}")
    return value


def path(text: str) -> str:
    """A path to ask for. Raises UserError."""
    if not text.startswith("/") or not text.isprintable() or " " in text:
        raise UserError(f"{text!r} is not a path: it begins with / and has no blanks")
    return text
