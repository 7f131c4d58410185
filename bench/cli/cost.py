# SPDX-License-Identifier: MIT
"""`zerohttpd cost`: where the microseconds of a request go. It is a sweep: each server beside its
floor, its system calls and its functions; one server with one trick after another switched off; and
the experiments. A page and a document are made of its results, and lie beside them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.faults.experiments import built, experiment
from bench.host.programs import find_program
from bench.host.project import ROOT
from bench.readers.console import console, say
from bench.records import store
from bench.records.conditions import CHANGES, Value
from bench.records.errors import UserError
from bench.records.figures import Mode
from bench.records.plan import Part, Plan
from bench.records.values import positive, words_of
from bench.report.page.build import build
from bench.report.page.cost_markdown import markdown
from bench.stations.sampling import why_no_perf
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions
from bench.sweep.runs import FEWER_FOR

TRACED_REQUESTS, TRACED_CONNECTIONS = 300, 10
COUNTED_REQUESTS, COUNTED_CONNECTIONS = 100, 4
SLOW = 4
"""One process or one connection at a time is dear, and shows it in a quarter of the requests."""
SAMPLED = 2
"""So many times the requests of a run, for enough samples of the fast; half of them of the slow."""
BOTH = (False, True)
WORKLOADS = ("redirect", "guestbook")
TRICK_CELLS: dict[str, tuple[tuple[str, tuple[bool, ...]], ...]] = {
    "more": (("redirect", (False,)), ("large", BOTH)),
    "defer": (("redirect", (False,)),),
    "gather": (("redirect", BOTH), ("small", (True,))),
    "sendfile": (("large", BOTH),),
    "nodelay": (("redirect", (True,)), ("large", BOTH)),
}
"""By trick the workloads, and whether connections are kept, in which it does something."""
PAGE = "cost.html"


def parts_of(
    chosen: argparse.Namespace, servers: tuple[str, ...], stacks: Mode | None
) -> list[Part]:
    """What is measured, as parts of a sweep. `stacks`: how functions are looked at, if at all."""
    slow = tuple(name for name in servers if name in FEWER_FOR)
    fast = tuple(name for name in servers if name not in FEWER_FOR)
    level, few = min(chosen.concurrency, chosen.requests), max(chosen.requests // SLOW, 1)

    def plan(
        workloads: tuple[str, ...], requests: int, varied: dict[str, tuple[Value, ...]]
    ) -> Plan:
        return Plan(
            levels=(min(level, requests),),
            requests=requests,
            runs=chosen.runs,
            workloads=workloads,
            varied=varied,
        )

    loads = [
        Part(plan(WORKLOADS, requests, {"keep_alive": kept}), names, True)
        for names, requests, kept in (
            (fast, chosen.requests, BOTH),
            (slow, few, (False,)),
            (slow, chosen.requests, (True,)),
        )
        if names
    ]
    calls = Plan(
        levels=(TRACED_CONNECTIONS,),
        requests=TRACED_REQUESTS,
        runs=1,
        workloads=WORKLOADS,
        varied={"mode": ("traced",), "keep_alive": BOTH},
    )
    parts = [Part(calls, servers), *loads]  # in this order the servers are shown
    for trick, cells in TRICK_CELLS.items():
        for workload, kept in cells:
            varied: dict[str, tuple[Value, ...]] = {"without": ("", trick), "keep_alive": kept}
            parts.append(Part(plan((workload,), chosen.requests, varied), (chosen.tricks_of,)))
    for one in map(experiment, [] if chosen.no_experiments else CHANGES):
        varied = {"change": ("", one.name), "keep_alive": one.kept}
        parts.append(Part(plan(one.workloads, chosen.requests, varied), one.servers))
    return [*parts, *_of_stacks(chosen.requests, level, (fast, slow), stacks)]


def _of_stacks(
    requests: int, level: int, groups: tuple[tuple[str, ...], ...], stacks: Mode | None
) -> list[Part]:
    """For all, where functions are looked at; more requests of the fast ones."""
    if stacks is None:
        return []
    found = []
    for names, share in zip(groups, (SAMPLED, 1 / SAMPLED), strict=True):
        number = max(int(requests * share), 1)
        at = min(level, number)
        if stacks == "counted":
            number, at = COUNTED_REQUESTS, COUNTED_CONNECTIONS
        varied: dict[str, tuple[Value, ...]] = {"mode": (stacks,)}
        if stacks == "counted":  # a process for each connection would write a file each
            varied["keep_alive"] = tuple(name == "forking" for name in names[:1]) or (False,)
        plan = Plan(levels=(at,), requests=number, runs=1, workloads=WORKLOADS, varied=varied)
        if names:
            found.append(Part(plan, names))
    return found


def how_stacks(wanted: str) -> tuple[Mode | None, str]:
    """How functions can be looked at here, and why not as it was wanted. Raises UserError if that
    was said in so many words."""
    if wanted == "no":
        return None, ""
    reason = why_no_perf() if wanted in ("auto", "perf") else ""
    if not reason and wanted != "callgrind":
        return "sampled", ""
    if wanted == "perf":
        raise UserError(reason)
    if find_program("valgrind"):
        return "counted", reason
    if wanted == "callgrind":
        raise UserError("valgrind is not installed: apt-get install valgrind")
    return None, f"{reason}; and valgrind, which could count instructions, is not installed"


def run(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 not all of it, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    out = console()
    if chosen.markdown and not chosen.markdown.parent.is_dir():
        raise UserError(f"--markdown: there is no folder {chosen.markdown.parent}")
    if chosen.read:
        finish(chosen.read, chosen.markdown)
        return 0
    servers = tuple(s.name for s in select(words_of(chosen.servers), programs=ROOT))
    stacks, reason = how_stacks(chosen.stacks)
    if reason:
        say(out, f"Functions: {reason}")
    if not chosen.no_experiments:
        for one in map(experiment, CHANGES):
            built(one)
    parts = tuple(parts_of(chosen, servers, stacks))
    command = ("cost", *words)
    done = sweep.sweep(
        SweepOptions(parts, None, chosen.results, None, command, ROOT, concludes=False)
    )
    if done.folder is not None:
        finish(done.folder, chosen.markdown)
    return done.status


def finish(source: Path, document: Path | None) -> None:
    """Make the page, and the document where it is wanted. Raises UserError."""
    results = store.load(source)
    page, *_ = build(source, store.file_of(source).with_name(PAGE))
    text = markdown(results)
    out = console()
    out.print(text, markup=False, soft_wrap=True)
    if document:
        store.replace(document, text)
        store.replace(document.with_suffix(".json"), store.slim(results))
    say(out, f"Open {page} in a browser: it has the flame graphs as well.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd cost", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--runs", type=positive, default=3, metavar="N", help="of each cell (%(default)s)")
    add("--requests", type=positive, default=4000, metavar="N", help="of each run (%(default)s)")
    add("--concurrency", type=positive, default=50, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="these only (all)")
    add("--tricks-of", default="epoll", metavar="NAME", help="switch its tricks off (%(default)s)")
    add("--no-experiments", action="store_true", help="leave the experiments out")
    how = "functions: samples by perf, or instructions by callgrind (perf where it is allowed)"
    add("--stacks", choices=("auto", "perf", "callgrind", "no"), default="auto", help=how)
    what = "put the document there, and beside it what it is made of (*.json)"
    add("--markdown", type=Path, metavar="FILE", help=what)
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    add("--read", type=Path, metavar="FOLDER", help="measure nothing; read these results")
    return parser
