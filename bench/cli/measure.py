# SPDX-License-Identifier: MIT
"""`zerohttpd measure`: what a request costs, against nginx, fasthttp and others, and against the
floors; with 10,000 idle connections beside it, and with 15,000 at once; what a connection costs;
system calls. It is a sweep, and its targets are read from the results."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.cli.calls import calls_part
from bench.host.project import ROOT
from bench.readers import targets
from bench.readers.console import console, say
from bench.records import store
from bench.records.plan import Part, Plan
from bench.records.values import each_of, positive, words_of
from bench.subjects.declared import LeftOut
from bench.subjects.subject import available, select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions

THREADS = 900
"""Fewer than 04 may have: the last ones are not kept."""
MANY_REQUESTS = 30_000
MANY_SECONDS = 120.0
FILES = ("redirect", "small", "large")
STRANGERS = ("nginx", "h2o", "lighttpd")
"""Those that are measured with these."""
PROGRAMMED = ("go", "fasthttp")
"""Those that have the guestbook."""
PARTS = (
    *(*FILES, "guestbook", "floor", "floor_kept", "floor_guestbook"),
    *("memory", "idle", "scale", "syscalls"),
)


def parts_of(
    chosen: argparse.Namespace,
    servers: tuple[str, ...],
    present: tuple[str, ...],
    programmed: tuple[str, ...],
) -> dict[str, list[Part]]:
    """What can be asked for, as parts of a sweep. `present` and `programmed`: those strangers that
    are installed."""

    def cost(
        workload: str, subjects: tuple[str, ...], floors: bool = False, kept: bool = False
    ) -> Part:
        """A connection for each request; or connections that are kept, which twice as many
        requests are made over."""
        requests = chosen.requests * (2 if kept else 1)
        plan = Plan(
            levels=(min(chosen.concurrency, chosen.requests),),
            requests=requests,
            runs=chosen.runs,
            timeout=MANY_SECONDS,
            workloads=(workload,),
            varied={"keep_alive": (True,)} if kept else {},
        )
        return Part(plan, subjects, floors)

    def beside(workload: str, strangers: tuple[str, ...]) -> list[Part]:
        """Those that are here, in one part: the runs of all of them take turns."""
        subjects = ("epoll", *strangers)
        return [cost(workload, subjects), cost(workload, subjects, kept=True)]

    memory = Plan(levels=(targets.MOST,), runs=1, varied={"mode": ("parked", "pending")})
    threads = Plan(levels=(THREADS,), runs=1, varied={"mode": ("parked",)})
    idle = Plan(
        levels=(targets.FEW,),
        requests=chosen.requests * 2,
        runs=chosen.runs,
        timeout=MANY_SECONDS,
        workloads=("redirect",),
        varied={"keep_alive": (True,), "idle": (0, targets.IDLE)},
    )
    scale = Plan(
        levels=(targets.FEW, targets.MOST),
        requests=MANY_REQUESTS,
        runs=min(chosen.runs, 3),
        timeout=MANY_SECONDS,
        workloads=("redirect",),
    )
    calls = calls_part(servers, ("redirect", "guestbook"), {"keep_alive": (False, True)})
    return {
        **{name: beside(name, present) for name in FILES},
        "guestbook": beside("guestbook", programmed),
        "floor": [cost("redirect", servers, floors=True)],
        "floor_kept": [cost("redirect", ("epoll",), floors=True, kept=True)],
        "floor_guestbook": [cost("guestbook", servers, floors=True)],
        "memory": [Part(memory, ("poll", "epoll")), Part(threads, ("threading",))],
        "idle": [Part(idle, ("poll", "epoll"))],
        "scale": [Part(scale, servers)],
        "syscalls": [calls],
    }


def run(words: Sequence[str]) -> int:
    """Exit status: 0 all targets met, 1 not, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    if chosen.read:
        return targets.show(store.load(chosen.read), console())
    names = each_of("part", words_of(chosen.only), PARTS)
    programs = chosen.programs.resolve()
    out = console()
    subjects = select(words_of(chosen.servers), programs=programs)
    present, programmed = (
        available(strangers if set(parts) & set(names) else ())
        for strangers, parts in ((STRANGERS, FILES), (PROGRAMMED, ("guestbook",)))
    )
    left_out = [why for _, lacking in (present, programmed) for why in lacking.values()]
    groups = (tuple(one.name for one in found) for found in (subjects, present[0], programmed[0]))
    every = parts_of(chosen, *groups)
    parts: list[Part] = []
    for name in names:
        try:
            for part in every[name]:
                select(part.subjects, part.floors, programs)
        except LeftOut as missing:
            left_out.append(f"{name}: {missing}")
            continue
        parts += every[name]
    for reason in left_out:
        say(out, f"Left out: {reason}", "yellow")
    if not parts:
        return 1
    command = ("measure", *words)
    options = SweepOptions(tuple(parts), results=chosen.results, command=command, programs=programs)
    done = sweep.sweep(options)
    if done.folder is None or done.interrupted:
        return done.status
    status = targets.show(store.load(done.folder), out)
    return 1 if left_out else status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd measure", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="PART", default=PARTS, help=", ".join(PARTS))
    add("--runs", type=positive, default=5, metavar="N", help="of each cell (%(default)s)")
    add("--requests", type=positive, default=8000, metavar="N", help="of each run (%(default)s)")
    add("--concurrency", type=positive, default=100, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="compare these only (all)")
    add("--programs", type=Path, default=ROOT, metavar="DIR", help="where the executables are")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    add("--read", type=Path, metavar="FOLDER", help="measure nothing; read these results")
    return parser
