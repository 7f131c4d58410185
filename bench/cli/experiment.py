# SPDX-License-Identifier: MIT
"""`zerohttpd experiment` and `make experiment N=edge`: measure a server with and without one
change, in turns."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.cli.calls import calls_part
from bench.faults.experiments import Experiment, built, experiment
from bench.host.project import ROOT
from bench.readers.console import console, paragraphs, plain_table, say
from bench.readers.cost import Difference, experiments
from bench.records import store
from bench.records.conditions import CHANGES, Value
from bench.records.plan import Part, Plan
from bench.records.values import add_value, positive
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions


def parts_of(chosen: Experiment, runs: int, requests: int, level: int) -> list[Part]:
    """Return the parts of the sweep: CPU time in several runs, system calls in one run."""
    varied: dict[str, tuple[Value, ...]] = {"change": ("", chosen.name), "keep_alive": chosen.kept}
    load = Plan(
        levels=(min(level, requests),),
        requests=requests,
        runs=runs,
        workloads=chosen.workloads,
        varied=varied,
    )
    calls = calls_part(chosen.servers, chosen.workloads, varied)
    return [Part(load, chosen.servers), calls]


def run(words: Sequence[str]) -> int:
    """Return the exit status: 0 done, 1 in part, 128 + n after signal n. Raises UserError."""
    options = _parser().parse_args(words)
    out = console()
    if options.name is None:
        for name, title in CHANGES.items():
            say(out, f"{name:<12} {title}")
        return 0
    chosen = experiment(options.name)
    select(chosen.servers, programs=ROOT)  # raises UserError if a server is not built
    say(out, f"{chosen.title}\n\n{paragraphs(chosen.question)}\n")
    say(out, f"Building {built(chosen).relative_to(ROOT)}/")
    parts = tuple(parts_of(chosen, options.runs, options.requests, options.concurrency))
    command = ("experiment", *words)
    wanted = SweepOptions(parts, results=options.results, command=command, concludes=False)
    done = sweep.sweep(wanted)
    if done.folder is None:
        return done.status
    show(experiments(store.load(done.folder)), chosen, out)
    return done.status


def show(found: Sequence[Difference], chosen: Experiment, out: Console) -> None:
    """Print the figures of both variants, and the expected result."""
    table = plain_table("<server", "<conditions", "<", "us/request", "calls", "writes", "<")
    for one in found:
        start = (one.subject, one.conditions.describe())
        table.add_row(*start, "unchanged", *one.usual.words(), "")
        table.add_row("", "", chosen.name, *one.other.words(), one.verdict)
    out.print(table)
    say(out, paragraphs(chosen.answer))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd experiment", description=__doc__)
    add = parser.add_argument
    add("name", nargs="?", help=f"one of {', '.join(CHANGES)}; without a name: list all of them")
    number = partial(add_value, parser, parse=positive)
    runs = "run each configuration N times (default %(default)s)"
    number("--runs", example="7", default=7, metavar="N", help=runs)
    each = "send N requests in each run (default %(default)s)"
    number("--requests", example="4000", default=4000, metavar="N", help=each)
    level = "concurrent connections of ab (default %(default)s)"
    number("--concurrency", example="50", default=50, metavar="N", help=level)
    where = "create the folder of results in DIR (default results/)"
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help=where)
    return parser
