"""`zerohttpd measure`: see bench/measure/__init__.py."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bench.host import machine, programs, project
from bench.host.placement import place_here
from bench.host.project import ROOT
from bench.host.signals import Interrupted, SignalWatch
from bench.load import ab
from bench.measure import agreement, comparisons, crowd, many, memory, syscalls
from bench.measure.comparisons import Part, Plan
from bench.measure.report import Report, markdown, save
from bench.measure.running import Bench
from bench.records.errors import UserError
from bench.services.private_redis import PrivateRedis
from bench.subjects.declared import LeftOut
from bench.subjects.servers import discover
from bench.sweep.arguments import positive, words_of

COMPARISONS: dict[str, Callable[[Plan, Bench], Part]] = {
    "redirect": comparisons.redirect,
    "guestbook": comparisons.guestbook,
    "floor": comparisons.floor,
    "floor_guestbook": comparisons.floor_guestbook,
}
OTHERS: dict[str, Callable[[Plan, Bench], Sequence[BaseModel]]] = {
    "memory": memory.measure,
    "connections": many.measure,
    "syscalls": syscalls.measure,
    "agreement": agreement.measure,
}
"""By the name of what they fill in the report."""
PARTS = (*COMPARISONS, *OTHERS)


def run(words: Sequence[str]) -> int:
    """Exit status: 0 all targets met, 1 not, 128 + n after signal n. Raises UserError."""
    return _measure(_arguments(words))


def _measure(options: argparse.Namespace) -> int:
    ab.require_ab()
    crowd.possible(memory.CONNECTIONS)  # before Redis starts: it inherits the limit
    plan = Plan(
        options.runs,
        options.requests,
        options.concurrency,
        options.programs,
        tuple(words_of(options.servers)),
    )
    plan.servers()  # names that are not known are told at once
    placement = place_here()
    with SignalWatch() as watch, contextlib.ExitStack() as stack:
        status = 0
        try:
            redis = stack.enter_context(PrivateRedis(placement.load, watch))
            bench = Bench(redis, placement, watch, _say)
            report = _empty_report(plan, bench)
            folder = options.results / f"measure-{report.started:%Y-%m-%d-%H%M%S}"
            for name in options.only:
                _measure_part(name, plan, bench, report)
                save(report, folder)
        except Interrupted as interrupted:
            status = interrupted.exit_status
            if "report" not in locals():
                return status
            report.interrupted = True
            save(report, folder)
    _say("")
    print(markdown(report), end="")
    print(f"\nKept in {folder}", file=sys.stderr)
    return status or (0 if report.holds else 1)


def _measure_part(name: str, plan: Plan, bench: Bench, report: Report) -> None:
    try:
        if name in COMPARISONS:
            report.comparisons[name] = COMPARISONS[name](plan, bench)
        else:
            setattr(report, name, OTHERS[name](plan, bench))
    except LeftOut as reason:
        report.left_out.append(f"{name}: {reason}")


def _empty_report(plan: Plan, bench: Bench) -> Report:
    return Report(
        started=datetime.now(timezone.utc).astimezone(),
        machine=machine.describe_machine(),
        versions=_versions(bench),
        placement=bench.placement,
        accounting=bench.accounting,
        runs=plan.runs,
        requests=plan.requests,
        concurrency=plan.concurrency,
    )


def _versions(bench: Bench) -> dict[str, Any]:
    return {
        "ab": ab.version(),
        "redis": bench.redis.version(),
        "compilers": {s.name: programs.compiler_of(s.executable) for s in discover()},
        "git": project.git_state(),
    }


def _say(text: str) -> None:
    """What is being done, on one line that is written anew, if somebody is watching."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zerohttpd measure")
    add = parser.add_argument
    add("--only", nargs="+", metavar="PART", default=list(PARTS), help=", ".join(PARTS))
    add("--runs", type=positive, default=5, metavar="N", help="of each cell (%(default)s)")
    add("--requests", type=positive, default=8000, metavar="N", help="of each run (%(default)s)")
    add("--concurrency", type=positive, default=100, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="compare these only (all)")
    add("--programs", type=Path, default=ROOT, metavar="DIR", help="where the executables are")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    options = parser.parse_args(given)
    options.only = words_of(options.only)
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        raise UserError(f"unknown part: {', '.join(unknown)}. Known: {', '.join(PARTS)}")
    options.programs = options.programs.resolve()
    return options
