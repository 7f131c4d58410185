# SPDX-License-Identifier: MIT
"""`zerohttpd measure`: what a request costs, against nginx, Go and the floors; what a connection
costs; 15,000 at once; system calls. It is a sweep, and its targets are read from the results."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.readers import targets
from bench.readers.console import console, say
from bench.records import store
from bench.records.conditions import Value
from bench.records.errors import UserError
from bench.records.plan import Part, Plan
from bench.records.values import positive, words_of
from bench.subjects.declared import LeftOut
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import Options

MANY = 15_000
MANY_REQUESTS = 30_000
MANY_SECONDS = 120.0
TRACED_REQUESTS, TRACED_CONNECTIONS = 300, 10
BOTH = (False, True)


class Measurement:
    """What was asked for, as parts of a sweep."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.requests, self.runs = chosen.requests, chosen.runs
        self.level = min(chosen.concurrency, chosen.requests)
        self.servers = tuple(words_of(chosen.servers)) or None

    def cost(self, workload: str, subjects: Sequence[str] | None, *, floors: bool) -> list[Part]:
        """A connection for each request."""
        return [self._part(workload, subjects, {}, self.requests, floors)]

    def beside(self, workload: str, stranger: str) -> list[Part]:
        """epoll and a stranger; also with connections that are kept, which twice as many requests
        are made over."""
        pair = ("epoll", stranger)
        kept: dict[str, tuple[Value, ...]] = {"keep_alive": (True,)}
        return [
            self._part(workload, pair, {}, self.requests, False),
            self._part(workload, pair, kept, 2 * self.requests, False),
        ]

    def memory(self) -> list[Part]:
        """Of the event servers' connections."""
        plan = Plan(levels=(MANY,), runs=1, varied={"mode": ("parked", "pending")})
        return [Part(plan, ("poll", "epoll"))]

    def connections(self) -> list[Part]:
        """Many at once."""
        plan = Plan(levels=(MANY,), requests=MANY_REQUESTS, runs=1, timeout=MANY_SECONDS)
        return [Part(plan, ("epoll", "prethreading"))]

    def calls(self) -> list[Part]:
        """System calls per request."""
        plan = Plan(
            levels=(TRACED_CONNECTIONS,),
            requests=TRACED_REQUESTS,
            runs=1,
            workloads=("redirect", "guestbook"),
            varied={"mode": ("traced",), "keep_alive": BOTH},
        )
        return [Part(plan, self.servers)]

    def _part(
        self,
        workload: str,
        subjects: Sequence[str] | None,
        varied: Mapping[str, tuple[Value, ...]],
        requests: int,
        floors: bool,
    ) -> Part:
        plan = Plan(
            levels=(min(self.level, requests),),
            requests=requests,
            runs=self.runs,
            timeout=MANY_SECONDS,
            workloads=(workload,),
            varied=varied,
        )
        return Part(plan, tuple(subjects) if subjects else None, floors)


PARTS: dict[str, Callable[[Measurement], list[Part]]] = {
    "redirect": lambda m: m.beside("redirect", "nginx"),
    "guestbook": lambda m: m.beside("guestbook", "go"),
    "floor": lambda m: m.cost("redirect", m.servers, floors=True),
    "floor_guestbook": lambda m: m.cost("guestbook", m.servers, floors=True),
    "memory": Measurement.memory,
    "connections": Measurement.connections,
    "syscalls": Measurement.calls,
}


def run(words: Sequence[str]) -> int:
    """Exit status: 0 all targets met, 1 not, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    if chosen.read:
        return targets.show(store.load(chosen.read), console())
    names = words_of(chosen.only)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise UserError(f"unknown part: {', '.join(unknown)}. Known: {', '.join(PARTS)}")
    programs = chosen.programs.resolve()
    measurement, out = Measurement(chosen), console()
    known = [subject.name for subject in select(measurement.servers, programs=programs)]
    measurement.servers = tuple(known)
    parts, left_out = [], []
    for name in names:
        found = PARTS[name](measurement)
        try:
            for part in found:
                select(part.subjects, part.floors, programs)
        except LeftOut as missing:
            left_out.append(f"{name}: {missing}")
            continue
        parts += found
    for reason in left_out:
        say(out, f"Left out: {reason}", "yellow")
    if not parts:
        return 1
    command = ("measure", *words)
    options = Options(tuple(parts), None, chosen.results, None, command, programs)
    done = sweep.sweep(options)
    if done.folder is None or done.interrupted:
        return done.status
    status = targets.show(store.load(done.folder), out)
    return 1 if left_out else status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd measure", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="PART", default=list(PARTS), help=", ".join(PARTS))
    add("--runs", type=positive, default=5, metavar="N", help="of each cell (%(default)s)")
    add("--requests", type=positive, default=8000, metavar="N", help="of each run (%(default)s)")
    add("--concurrency", type=positive, default=100, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="compare these only (all)")
    add("--programs", type=Path, default=ROOT, metavar="DIR", help="where the executables are")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    add("--read", type=Path, metavar="FOLDER", help="measure nothing; read these results")
    return parser
