# SPDX-License-Identifier: MIT
"""`zerohttpd experiment` and `make experiment N=edge`: measure a server with and without one
change, in turns."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from bench.faults.copying import Experiment, built, experiment
from bench.host.project import ROOT
from bench.readers.console import Table, console, paragraphs, say
from bench.readers.cost import Difference, experiments
from bench.records import store
from bench.records.conditions import CHANGES
from bench.records.plan import Part, Varied, calls_part, plan_at
from bench.records.values import add_results, add_size
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions


def parts_of(chosen: Experiment, runs: int, requests: int, level: int) -> list[Part]:
    """Return the parts of the sweep: CPU time in several runs, system calls in one run."""
    varied: Varied = {"change": ("", chosen.name), "keep_alive": chosen.kept}
    load = plan_at(level, requests, runs, chosen.workloads, varied)
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
    table = Table("<server", "<conditions", "<", "us/request", "calls", "writes", "<")
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
    add_size(parser, runs=7, requests=4000, connections=50)
    add_results(parser, ROOT / "results")
    return parser
