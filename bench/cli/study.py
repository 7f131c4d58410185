# SPDX-License-Identifier: MIT
"""`zerohttpd run FILE`: make the measurements of a study, and check its expectations. `zerohttpd
measure` and `zerohttpd peers` do the same for studies of the project."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.faults.copying import built
from bench.host.project import ROOT
from bench.readers import targets
from bench.readers.console import console, say
from bench.records import store
from bench.records.errors import UserError
from bench.records.results import Expect
from bench.records.values import Parser, add_results, add_size, each_of, words_of
from bench.studies import installing
from bench.studies.study import DeclaredStudy, names, published, study
from bench.sweep import sweep
from bench.sweep.options import SweepOptions, parts_of, profiled

RUN = """Make the measurements of a study, and check its expectations. A study is a file *.toml (see
docs/how-to/benchmark.md) or the name of a study of the project. Exit status: 0 all expectations are
met (without expectations: all results are valid), 1 not all, 2 not started, 130 after Ctrl-C."""
MEASURE = """Compare the servers with nginx, fasthttp, other reference servers and the baselines:
CPU time per request, also with 10,000 idle and with 15,000 concurrent connections; memory per
connection; system calls. `zerohttpd report --targets` prints the comparison again."""
PEERS = """Compare the seven servers with other servers. One sweep measures all studies that have a
chapter in the report. A configuration of several studies is measured once.
Missing reference servers are installed. If an installation fails, the server is skipped and the
reason is printed."""


def run(words: Sequence[str]) -> int:
    """Run `zerohttpd run`. Return the exit status. Raises UserError."""
    parser = Parser(prog="zerohttpd run", description=RUN)
    known = f"files *.toml, or names: {', '.join(names())}"
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=known)
    full = "use the study's larger numbers of requests and runs"
    parser.add_argument("--full", action="store_true", help=full)
    _add_choice(parser, [])
    add_size(parser)
    _add_hosts(parser)
    add_results(parser, ROOT / "results")
    again = "make the missing runs of an interrupted study (default: the latest)"
    parser.add_argument("--resume", nargs="?", const="", metavar="FOLDER", help=again)
    chosen = parser.parse_args(words)
    if chosen.resume is not None:
        folder = chosen.resume or store.latest_unfinished(chosen.results)
        return finish(sweep.resume(Path(folder)))
    if not chosen.studies:
        raise UserError(f"give a study: a file *.toml, or one of {', '.join(names())}")
    return perform([study(word) for word in chosen.studies], chosen, ("run", *words))


def measure(words: Sequence[str]) -> int:
    """Run `zerohttpd measure`. Return the exit status: 0 all targets met, 1 not all met or a wanted
    part was skipped, 128 + n after signal n. Raises UserError."""
    parser = Parser(prog="zerohttpd measure", description=MEASURE)
    wanted = study("measure")
    _add_choice(parser, wanted.part_names())
    add_size(parser, *wanted.usual)
    add_results(parser, ROOT / "results")
    return perform([wanted], parser.parse_args(words), ("measure", *words))


def peers(words: Sequence[str]) -> int:
    """Run `zerohttpd peers`. Return the exit status, see RUN. Raises UserError."""
    parser = Parser(prog="zerohttpd peers", description=PEERS)
    add = parser.add_argument
    add("studies", nargs="*", metavar="STUDY", help=f"{', '.join(published())} (default all)")
    add("--full", action="store_true", help="use the published numbers of requests and runs")
    add("--yes", action="store_true", help="install packages without asking")
    add("--no-install", action="store_true", help="install nothing; measure only installed servers")
    add("--only-install", action="store_true", help="install missing packages; do not measure")
    add("--list", action="store_true", help="list the studies; do not measure")
    _add_hosts(parser)
    add_results(parser, ROOT / "results")
    chosen = parser.parse_args(words)
    studies = [study(word) for word in chosen.studies or published()]
    if chosen.list:
        for one in studies:
            say(console(), f"{one.name:<16}{one.title}: {one.question}")
        return 0
    not_wanted: dict[str, str] = {}
    if not chosen.no_install:
        subjects = dict.fromkeys(x for one in studies for x in one.subjects)
        tools = installing.PROFILER if any(one.profiles for one in studies) else {}
        ask = input if sys.stdin.isatty() and sys.stdout.isatty() else None
        tell = partial(say, console())
        not_wanted = installing.install(subjects, tell, ask, chosen.yes, tools)
    if chosen.only_install:
        return 0
    say(console(), "Building reference servers from source; only the first build takes minutes")
    return perform(studies, chosen, ("peers", *words), not_wanted)


def perform(
    studies: Sequence[DeclaredStudy],
    chosen: argparse.Namespace,
    command: Sequence[str],
    not_wanted: Mapping[str, str] = {},
) -> int:
    """Measure studies and show whether they meet their expectations. Return the exit status."""
    done, gone = measured(studies, chosen, command, not_wanted)
    only, servers = (vars(chosen).get(name) for name in ("only", "servers"))
    expected = [each for one in studies for each in one.expect]
    status = finish(done, expected, every=not (only or servers))
    return 1 if only and gone else status


def measured(
    studies: Sequence[DeclaredStudy],
    chosen: argparse.Namespace,
    command: Sequence[str],
    not_wanted: Mapping[str, str] = {},
    concludes: bool = True,
) -> tuple[sweep.Done, bool]:
    """Make all measurements of the studies, with the chosen sizes, parts and servers, as one sweep.
    Print the reason for each part that is skipped because it has no server. Return how the sweep
    ended, and whether a part was skipped. Raises UserError."""
    given = vars(chosen).get  # most commands lack some of the options
    only = each_of("part", words_of(given("only")), [x for s in studies for x in s.part_names()])
    size = [given(name) for name in ("requests", "runs", "concurrency")]
    narrowed = [one.narrowed(only, words_of(given("servers")), *size) for one in studies]
    reasons = [reason for _, each in narrowed for reason in each]
    for reason in reasons:
        say(console(), reason, "yellow")
    wanted, why = profiled([one for one, _ in narrowed], given("stacks") or "auto")
    if why:
        say(console(), f"Functions: {why}")
    options = SweepOptions(
        parts=parts_of(wanted, bool(given("full"))),
        results=chosen.results,
        hosts=given("hosts"),
        command=tuple(command),
        programs=(given("programs") or ROOT).resolve(),
        studies=wanted,
        not_wanted=not_wanted,
        concludes=concludes,
    )
    if not options.parts:
        return sweep.Done(1), bool(reasons)
    for name in sorted(str(name) for name in options.values("change") if name):
        say(console(), f"Building {built(study(name)).relative_to(ROOT)}/")
    return sweep.sweep(options), bool(reasons)


def finish(done: sweep.Done, expected: Sequence[Expect] = (), every: bool = False) -> int:
    """Show whether a sweep meets `expected` (empty: the expectations in its record). Return the
    exit status. `every`: as in `targets.show`."""
    if done.folder is None or done.interrupted:
        return done.status
    results = store.load(done.folder)
    expected = expected or results.expect
    if not expected:
        return done.status
    status = targets.show(results, expected, console(), every)
    return 1 if results.left_out else status


def _add_choice(parser: argparse.ArgumentParser, parts: Sequence[str]) -> None:
    only = f"measure only these parts: {', '.join(parts) or 'see `part` in the file'} (default all)"
    parser.add_argument("--only", nargs="+", metavar="PART", default=[], help=only)
    servers = "measure only these servers of the project (default all)"
    parser.add_argument("--servers", nargs="+", metavar="NAME", default=[], help=servers)
    programs = "folder of the servers' executables (default: the project's folder)"
    parser.add_argument("--programs", type=Path, default=ROOT, metavar="DIR", help=programs)


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    hosts = "run on the hosts of FILE (default: this machine)"
    parser.add_argument("--hosts", type=Path, metavar="FILE", help=hosts)
