# SPDX-License-Identifier: MIT
"""What a sweep is asked for: on the command line, and as it is kept so that it can be resumed."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.host.project import ROOT
from bench.peers.study import DeclaredStudy, names
from bench.peers.study import chosen as chosen_studies
from bench.records.conditions import ASPECTS, FLOOR_PREFIX, Value
from bench.records.errors import UserError
from bench.records.plan import DEFAULT_WORKLOAD, Part, Plan
from bench.records.results import KeptOptions, Results
from bench.records.values import add_value, path, positive, value_of, words_of
from bench.records.workloads import ALL, WORKLOADS, named, workload_for
from bench.services.redis_server import without_password
from bench.stations.sampling import why_no_perf
from bench.subjects.subject import discover, known_names
from bench.sweep.runs import (
    FULL_LEVELS,
    ORDER_LEVEL,
    ORDER_RUNS,
    SHORT_LEVELS,
    SLICE,
    answering,
)

BOTH = {"both": ("no", "yes")}


@dataclass(frozen=True)
class SweepOptions:
    """What the command line asked for."""

    parts: tuple[Part, ...] = (Part(),)
    redis: str | None = None
    results: Path = Path("results")
    hosts: Path | None = None
    """The file that names the hosts; None: everything on this machine."""
    command: tuple[str, ...] = ()
    """The command line that asked for it."""
    programs: Path = ROOT
    """The folder of the servers' executables."""
    studies: tuple[DeclaredStudy, ...] = ()
    """What it is made for, see bench/peers/; subjects of theirs that cannot be had are left out."""
    not_wanted: Mapping[str, str] = field(default_factory=dict)
    """Those of them that are left out though they could be had, and why, by name."""
    concludes: bool = True
    """Whether it ends with the rates of all; not where somebody else reads its results."""
    answers: bool = False
    """Nothing was said of how to measure: the sweep that ends with an order."""

    def answering(self, can_slice: bool) -> "SweepOptions":
        """With the runs that an order takes, in place of a ladder that nobody chose."""
        if not self.answers:
            return self
        (part,) = self.parts
        plans = answering(part.plan, SLICE if can_slice else 0.0)
        return replace(self, parts=tuple(replace(part, plan=plan) for plan in plans))

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """Those of all parts, and the floors of those parts that have some; None: the project's
        servers."""
        named = [name for part in self.parts for name in part.subjects or ()]
        known = known_names(discover())
        floors = [FLOOR_PREFIX + x for p in self.parts if p.floors for x in p.subjects or ()]
        return tuple(dict.fromkeys([*named, *(name for name in floors if name in known)])) or None

    def values(self, condition: str) -> set[Value]:
        """Those of one condition that any part has."""
        return {value for part in self.parts for value in part.plan.values(condition)}

    @property
    def floors(self) -> bool:
        """Whether the project's servers shall have theirs, where a part names none."""
        return any(part.floors for part in self.parts if part.subjects is None)


def sweep_parser() -> argparse.ArgumentParser:
    """The options of a sweep. Whole words only: `--redi=URL` would be kept in the results with its
    password."""
    sub = argparse.ArgumentParser(
        prog="zerohttpd sweep",
        allow_abbrev=False,
        description="Start each server fresh for each concurrency of a ladder, run ab against it, "
        "check that every request completed, and keep the figures, a table and a chart in "
        "results/. Exit status: 0 all cells hold, 1 some do not, 2 could not begin, 130 after "
        "Ctrl-C.",
    )
    add_plan(sub)
    file = "run on the hosts that this file names; see bench/stations/hosts.py (default: here)"
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
    return sub


def add_plan(sub: argparse.ArgumentParser) -> None:
    """The options that say what is to be measured."""
    add = sub.add_argument
    add(
        "--full",
        action="store_true",
        help=f"{len(FULL_LEVELS)} levels up to {FULL_LEVELS[-1]:,}, three runs, their median, "
        f"an hour or so; default: {', '.join(map(str, SHORT_LEVELS))}, once, "
        f"{ORDER_LEVEL} {ORDER_RUNS} times",
    )
    add("--studies", nargs="+", metavar="NAME", help=f"as bench/peers/ says: {', '.join(names())}")
    only = "only these, in this order; also nginx and others of bench/strangers/, floor-epoll, ..."
    add("--servers", nargs="+", metavar="NAME", help=only)
    add("--floors", action="store_true", help="beside each server the barest of its architecture")
    add("--levels", nargs="+", metavar="N", help="concurrent connections")
    add(
        "--workloads",
        nargs="+",
        metavar="NAME",
        help=f"{', '.join(WORKLOADS)}; or {ALL} ({DEFAULT_WORKLOAD})",
    )
    add_value(sub, "--path", path, "/about", help="ask for this path, in place of a workload")
    for aspect in ASPECTS:
        add(aspect.option, dest=aspect.name, nargs="+", metavar=aspect.metavar, help=aspect.help)
    number = partial(add_value, sub, parse=positive)
    number("--requests", example="5000", metavar="N", help="of each run (never below the level)")
    number("--runs", example="3", metavar="N", help="of each cell; the figure is their median")
    number("--timeout", example="30", metavar="SECONDS", help="after which a run is broken off")
    where = "where the servers' executables are (the project's folder)"
    add("--programs", type=Path, default=ROOT, metavar="DIR", help=where)
    add("--redis", metavar="URL", help="use this Redis; default: a private one, thrown away")


def chosen_options(options: argparse.Namespace, command: Sequence[str] = ()) -> SweepOptions:
    """What was asked for, checked; `command`: in these words. Raises UserError."""
    if options.path and options.workloads:
        raise UserError("--path and --workloads exclude each other")
    workloads = named(words_of(options.workloads)) or (DEFAULT_WORKLOAD,)
    if options.path:
        workloads = (workload_for(options.path).name,)
    writing = [name for name in workloads if workload_for(name).private_only]
    if options.redis and writing:
        raise UserError(
            f"{', '.join(writing)}: only with a private Redis, since data are written to it. "
            "Leave out --redis"
        )
    plan = Plan(
        full=options.full,
        levels=tuple(
            value_of("--levels", word, positive, "20,100,500") for word in words_of(options.levels)
        )
        or None,
        requests=options.requests,
        runs=options.runs,
        timeout=options.timeout,
        workloads=workloads,
        varied=_varied(options),
    )
    studies = chosen_studies(words_of(options.studies)) if options.studies else ()
    studies = tuple(replace(x, counted=x.profiles and bool(why_no_perf())) for x in studies)
    more = plan != Plan(full=plan.full, workloads=(DEFAULT_WORKLOAD,))
    if studies and (more or options.servers or options.floors):
        raise UserError("--studies says all that is measured: leave out the other options")
    given = vars(options)
    if given.get("hosts") and options.redis:
        raise UserError("--redis and --hosts exclude each other: one of the hosts has the Redis")
    if set(plan.values("instances")) != {1} and set(plan.values("balancer")) == {"none"}:
        raise UserError("several instances need something before them: --balancer close, keep")
    usual = not plan.varied and plan == Plan(workloads=plan.workloads) and not given.get("hosts")
    part = Part(plan, tuple(words_of(options.servers)) or None, options.floors)
    return SweepOptions(
        parts=tuple(x for study in studies for x in study.parts(plan.full)) or (part,),
        redis=options.redis,
        results=given.get("results", ROOT / "results"),
        hosts=given.get("hosts"),
        command=tuple(hide_password(command)),
        programs=options.programs.resolve(),
        studies=studies,
        answers=usual and not studies,
    )


def _varied(options: argparse.Namespace) -> dict[str, tuple[Value, ...]]:
    found = {}
    for aspect in ASPECTS:
        words = words_of(getattr(options, aspect.name))
        if aspect.name == "keep_alive":
            words = [each for word in words for each in BOTH.get(word, (word,))]
        if words:
            found[aspect.name] = tuple(
                value_of(aspect.option, word, aspect.parse) for word in words
            )
    return found


def hide_password(words: Sequence[str]) -> list[str]:
    """A command line without the password in the URL of a Redis."""
    parts = [word.rpartition("--redis=") for word in words]
    return ["".join((*before, without_password(url))) for *before, url in parts]


# ---- Kept, so that it can be resumed ----


def kept(options: SweepOptions, redis: str) -> KeptOptions:
    """The options in the form in which `options_of` reads them; `redis`: without a password."""
    return KeptOptions(
        parts=list(options.parts),
        redis=redis if options.redis else None,
        hosts=str(options.hosts.resolve()) if options.hosts else None,
        programs=str(options.programs),
    )


def options_of(old: Results, parent: Path, redis: str | None) -> SweepOptions:
    """The options of a sweep from its results. Raises UserError for those of older versions."""
    stored = old.settings.options
    if not stored or not stored.parts:
        raise UserError("this sweep was made by an older version; it cannot be resumed by this one")
    if redis is None and stored.redis and "***" in stored.redis:
        raise UserError("give --redis again: the password was not kept")
    return SweepOptions(
        parts=tuple(stored.parts),
        redis=redis or stored.redis,
        results=parent,
        hosts=Path(stored.hosts) if stored.hosts else None,
        command=tuple(old.command),
        programs=Path(stored.programs),
    )
