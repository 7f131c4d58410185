"""The command line: `python -m bench SUBCOMMAND`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from bench.errors import UserError
from bench.ladder import DEFAULT_WORKLOAD, FULL_LEVELS, SHORT_LEVELS, Plan
from bench.measurement import Balancer
from bench.servers import ROOT
from bench.workloads import ALL, WORKLOADS, named, workload_for

if TYPE_CHECKING:
    from bench.sweep import Options

USAGE_ERROR = 2
LONGEST_DELAY_MS = 1500
"""Redis is given up by the servers after 2 s."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit status. 2: something stands in the way that the user can mend."""
    try:
        options = parser().parse_args(arguments)
        return int(options.function(options))
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return USAGE_ERROR


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="python -m bench", description="Measure the servers.")
    subcommands = top.add_subparsers(required=True, metavar="SUBCOMMAND")

    def subcommand(name: str, what: str) -> argparse.ArgumentParser:
        # Whole words only: `--redi=URL` would be kept in the results with its password.
        return subcommands.add_parser(name, help=what, allow_abbrev=False)

    _add_sweep(subcommand("sweep", "every server at every concurrency"))
    _add_doctor(subcommand("doctor", "what stands in the way, and its cure"))
    _add_compare(subcommand("compare", "two sweeps side by side"))
    _add_capacity(subcommand("capacity", "what 4, 40, 400 such hosts carry"))
    _add_serve(subcommand("serve", "one server, to look at in a browser"))
    return top


def _add_sweep(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Start each server fresh for each concurrency of a ladder, run ab against it, check that "
        "every request completed, and keep the figures, a table and a chart in results/. "
        "Exit status: 0 all cells hold, 1 some do not, 2 could not begin, 130 after Ctrl-C."
    )
    _add_plan(sub)
    file = "run on the hosts that this file names; see bench/hosts.py (default: on this machine)"
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
    sub.set_defaults(function=_sweep)


def _add_doctor(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Say of this machine what is, what the chosen runs need, and the command that cures it; "
        "change nothing. Takes the options of `sweep`. "
        "Exit status: 0 all is well, 1 something is not."
    )
    _add_plan(sub)
    sub.set_defaults(function=_doctor)


def _add_compare(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Show two sweeps side by side, and what changed beyond the noise of both. "
        "Exit status: 0 nothing did, 1 something did."
    )
    for name in ("before", "after"):
        sub.add_argument(name, type=Path, help="a results.json, or the folder that holds it")
    sub.set_defaults(function=_compare)


def _add_capacity(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Work out from a sweep through nginx what one-core hosts carry, and who ends it; hold it "
        "against what the sweep measured with several instances. docs/scaling.md explains it."
    )
    sub.add_argument("results", type=Path, help="a results.json, or the folder that holds it")
    sub.add_argument("--fleets", metavar="N,N", default="4,40,400", help="hosts (%(default)s)")
    sub.set_defaults(function=_capacity)


def _add_plan(sub: argparse.ArgumentParser) -> None:
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


def _add_serve(sub: argparse.ArgumentParser) -> None:
    sub.description = "Serve with a private Redis until Ctrl-C."
    add = sub.add_argument
    add("server", metavar="ARCH", help="iterative, ..., epoll")
    add("--port", type=port, default=8000, help="(%(default)s; 0: any free one)")
    add("--redis", metavar="URL", help="use this Redis; default: a private one, thrown away")
    sub.set_defaults(function=_serve)


def _sweep(options: argparse.Namespace) -> int:
    from bench import sweep  # noqa: PLC0415  the chart's library loads slowly

    if options.resume is not None:
        folder = Path(options.resume or sweep.latest_unfinished(options.results))
        return sweep.resume(folder, options.redis)
    return sweep.sweep(_options(options))


def _doctor(options: argparse.Namespace) -> int:
    from bench import display, doctor, sweep  # noqa: PLC0415

    chosen = _options(options)
    _, runs = sweep.plan_runs(chosen)
    lines = sweep.examine(chosen, runs)
    doctor.show(lines, display.console())
    return int(any(line.state in ("warning", "impossible") for line in lines))


def _compare(options: argparse.Namespace) -> int:
    from bench import compare, display  # noqa: PLC0415

    return compare.compare(options.before, options.after, display.console())


def _options(options: argparse.Namespace) -> "Options":
    """What was asked for, checked. Raises UserError."""
    from bench.sweep import Options  # noqa: PLC0415

    if options.path and options.workloads:
        raise UserError("--path and --workloads exclude each other")
    workloads = named(words(options.workloads)) or (DEFAULT_WORKLOAD,)
    plan = Plan(
        full=options.full,
        levels=tuple(positive(word) for word in words(options.levels)) or None,
        requests=options.requests,
        runs=options.runs,
        timeout=options.timeout,
        workloads=(workload_for(options.path).name,) if options.path else workloads,
        keep_alive={"no": (False,), "yes": (True,), "both": (False, True)}[options.keep_alive],
        idle=tuple(whole(word) for word in words(options.idle)) or (0,),
        redis_delays_ms=tuple(milliseconds(word) for word in words(options.redis_delay)) or (0.0,),
        rates=tuple(float(positive(word)) for word in words(options.rate)),
        instances=tuple(positive(word) for word in words(options.instances)) or (1,),
        balancers=tuple(balancer(word) for word in words(options.balancer)) or ("none",),
    )
    subjects = tuple(words(options.servers)) or None
    results = getattr(options, "results", ROOT / "results")
    hosts = getattr(options, "hosts", None)
    return Options(plan, subjects, options.floors, options.redis, results, hosts)


def _capacity(options: argparse.Namespace) -> int:
    from bench import capacity, display  # noqa: PLC0415

    fleets = [positive(word) for word in words([options.fleets])]
    return capacity.show(options.results, fleets, display.console())


def _serve(options: argparse.Namespace) -> int:
    from bench.serve import ServeOptions, serve  # noqa: PLC0415

    return serve(ServeOptions(options.server, options.port, options.redis))


def words(values: Sequence[str] | None) -> list[str]:
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


def port(text: str) -> int:
    """A port number. Raises UserError."""
    if not text.isdecimal() or int(text) > 65535:
        raise UserError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def path(text: str) -> str:
    """A path to ask for. Raises UserError."""
    if not text.startswith("/") or not text.isprintable() or " " in text:
        raise UserError(f"{text!r} is not a path: it begins with / and has no blanks")
    return text
