# SPDX-License-Identifier: MIT
"""`zerohttpd cost`: where the microseconds of a request go. It is a sweep: each server beside its
floor, its system calls, and epoll with one trick after another switched off. The document is read
from the results, and lies beside them (cost.md)."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.readers import cost
from bench.readers.console import console, say
from bench.records import store
from bench.records.conditions import TRICKS
from bench.records.plan import Part, Plan
from bench.records.values import positive, words_of
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions

TRACED_REQUESTS, TRACED_CONNECTIONS = 300, 10
BOTH = (False, True)
DOCUMENT = "cost.md"


def parts_of(chosen: argparse.Namespace, servers: tuple[str, ...]) -> list[Part]:
    """What is measured, as parts of a sweep."""
    level = min(chosen.concurrency, chosen.requests)
    workloads = ("redirect", "guestbook")
    load = Plan(
        levels=(level,),
        requests=chosen.requests,
        runs=chosen.runs,
        workloads=workloads,
        varied={"keep_alive": BOTH},
    )
    calls = Plan(
        levels=(TRACED_CONNECTIONS,),
        requests=TRACED_REQUESTS,
        runs=1,
        workloads=workloads,
        varied={"mode": ("traced",), "keep_alive": BOTH},
    )
    tricks = Plan(
        levels=(level,),
        requests=chosen.requests,
        runs=chosen.runs,
        workloads=("redirect", "large"),
        varied={"without": ("", *TRICKS), "keep_alive": BOTH},
    )
    return [Part(load, servers, True), Part(calls, servers), Part(tricks, (chosen.tricks_of,))]


def run(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 not all of it, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    out = console()
    if chosen.read:
        out.print(cost.document(store.load(chosen.read)), markup=False, soft_wrap=True)
        return 0
    servers = tuple(s.name for s in select(words_of(chosen.servers), programs=ROOT))
    parts = tuple(parts_of(chosen, servers))
    done = sweep.sweep(SweepOptions(parts, None, chosen.results, None, ("cost", *words), ROOT))
    if done.folder is None:
        return done.status
    text = cost.document(store.load(done.folder))
    (done.folder / DOCUMENT).write_text(text, encoding="utf-8")
    out.print(text, markup=False, soft_wrap=True)
    say(out, f"Kept in {done.folder / DOCUMENT}")
    return done.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd cost", description=__doc__)
    add = parser.add_argument
    add("--runs", type=positive, default=5, metavar="N", help="of each cell (%(default)s)")
    add("--requests", type=positive, default=4000, metavar="N", help="of each run (%(default)s)")
    add("--concurrency", type=positive, default=50, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="these only (all)")
    add("--tricks-of", default="epoll", metavar="NAME", help="switch its tricks off (%(default)s)")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    add("--read", type=Path, metavar="FOLDER", help="measure nothing; read these results")
    return parser
