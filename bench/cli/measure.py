# SPDX-License-Identifier: MIT
"""`zerohttpd measure`: compare the CPU time of a request with nginx, fasthttp, others and the
baselines; with 10,000 idle connections too, and with 15,000 at once. It also measures the memory
of a connection, and system calls. `zerohttpd report --targets` reads the results again."""

import argparse
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from bench.host.project import ROOT
from bench.readers import targets
from bench.readers.console import console, say
from bench.records import store
from bench.records.plan import Part, Plan, Varied, calls_part, plan_at
from bench.records.values import add_results, add_size, each_of, words_of
from bench.subjects.subject import available, discover, select, server_names
from bench.sweep import sweep
from bench.sweep.options import SweepOptions

THREADS = 900
"""Below the thread limit of 04_threading: at the limit it keeps no connection alive."""
MANY_REQUESTS = 30_000
MANY_SECONDS = 120.0
FILES = ("redirect", "small", "large")
STRANGERS = ("nginx", "h2o", "lighttpd")
"""Reference servers for static files and redirects."""
PROGRAMMED = ("go", "fasthttp")
"""Reference servers with the guestbook."""
PARTS = (
    *(*FILES, "guestbook", "floor", "floor_guestbook"),
    *("memory", "idle", "scale", "syscalls"),
)


def parts_of(chosen: argparse.Namespace, servers: tuple[str, ...]) -> dict[str, list[Part]]:
    """Return the parts of the sweep by the names of --only. Parts without servers of their own
    measure `servers`."""

    def cost(workload: str, subjects: tuple[str, ...], kept: bool = False) -> Part:
        """Measure with a connection for each request, or with keep-alive and twice the requests."""
        requests, level = chosen.requests, min(chosen.concurrency, chosen.requests)
        varied: Varied = {"keep_alive": (True,)} if kept else {}
        plan = plan_at(level, requests * (2 if kept else 1), chosen.runs, (workload,), varied)
        return Part(replace(plan, timeout=MANY_SECONDS), subjects, floors=True)

    def beside(workload: str, strangers: tuple[str, ...]) -> list[Part]:
        """Measure epoll, its baseline and these in one part, so that their runs take turns."""
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
        **{name: beside(name, STRANGERS) for name in FILES},
        "guestbook": beside("guestbook", PROGRAMMED),
        "floor": [cost("redirect", servers)],
        "floor_guestbook": [cost("guestbook", servers)],
        "memory": [Part(memory, ("poll", "epoll")), Part(threads, ("threading",))],
        "idle": [Part(idle, ("poll", "epoll"))],
        "scale": [Part(scale, servers, floors=True)],
        "syscalls": [calls],
    }


def without(part: Part, gone: Collection[str]) -> list[Part]:
    """Return the part without these servers; nothing if none of the project's servers is left."""
    subjects = tuple(name for name in part.subjects or () if name not in gone)
    return [replace(part, subjects=subjects)] if {*subjects} & {*discover()} else []


def run(words: Sequence[str]) -> int:
    """Return the exit status: 0 all targets met, 1 not all met or a wanted part was skipped,
    128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    names = each_of("part", words_of(chosen.only) or PARTS, PARTS)
    programs, out = chosen.programs.resolve(), console()
    servers = tuple(server_names(words_of(chosen.servers)))
    select(servers, programs=programs)  # raises UserError if a server is not built
    others = {*discover()} - {*servers}
    every = parts_of(chosen, servers)
    parts: list[Part] = []
    not_chosen: list[str] = []
    lacking: dict[str, str] = {}
    for name in names:
        wanted = [one for part in every[name] for one in without(part, others)]
        if not wanted:
            about = dict.fromkeys(x for part in every[name] for x in part.subjects or ())
            its = ", ".join(x for x in about if x in others)
            not_chosen.append(
                f"{name} is left out: it is about {its}, which --servers does not name"
            )
        for part in wanted:
            _, missing = available(part.subjects or (), part.floors, programs)
            lacking |= missing
            parts += without(part, missing)
    for reason in (*not_chosen, *lacking.values()):
        say(out, reason, "yellow")
    if not parts:
        return 1
    command = ("measure", *words)
    options = SweepOptions(tuple(parts), results=chosen.results, command=command, programs=programs)
    done = sweep.sweep(options)
    if done.folder is None or done.interrupted:
        return done.status
    status = targets.show(store.load(done.folder), out)
    return 1 if lacking or (chosen.only and not_chosen) else status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd measure", description=__doc__)
    add = parser.add_argument
    only = f"measure only these parts: {', '.join(PARTS)} (default all)"
    add("--only", nargs="+", metavar="PART", default=[], help=only)
    add_size(parser, runs=5, requests=8000, connections=100)
    servers = "measure only these servers of the project (default all)"
    add("--servers", nargs="+", metavar="NAME", default=[], help=servers)
    programs = "folder of the servers' executables (default: the project's folder)"
    add("--programs", type=Path, default=ROOT, metavar="DIR", help=programs)
    add_results(parser, ROOT / "results")
    return parser
