# SPDX-License-Identifier: MIT
"""The options of a sweep: from the command line, or from the results of a sweep to resume."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.host.project import ROOT
from bench.records.conditions import ASPECTS, DEFAULT_WORKLOAD, Plan, Value
from bench.records.errors import UserError
from bench.records.results import KeptOptions, Results
from bench.records.values import Parser, add_results, add_value, path, positive, value_of, words_of
from bench.records.workloads import ALL, WORKLOADS, named, workload_for
from bench.services.redis_server import without_password
from bench.stations.sampling import how_stacks
from bench.studies import runs
from bench.studies.study import DeclaredStudy, names, study
from bench.subjects.subject import chosen_names

BOTH = {"both": ("no", "yes")}


class SweepOptions(KeptOptions):
    """The options of a sweep."""

    results: Path
    command: tuple[str, ...] = ()  # The command line.
    studies: tuple[DeclaredStudy, ...] = ()
    """The studies to measure, see bench/studies/; servers that are not available are left out."""
    not_wanted: Mapping[str, str] = {}
    """The servers that the user did not want to install, with the reasons."""
    concludes: bool = True
    """Whether the sweep prints all rates at the end; False if its caller evaluates the results."""
    answers: bool = False
    """Whether one level gets enough runs for a ranking. False with --hosts or --studies, or if the
    user has chosen more of the plan than servers, baselines and workloads."""

    def answering(self, can_slice: bool) -> "SweepOptions":
        """Return the options; if `answers` is true, with the runs for a ranking."""
        if not self.answers:
            return self
        (part,) = self.parts
        parts = runs.answering(part, runs.SLICE if can_slice else 0.0)
        return self.model_copy(update={"parts": parts})

    @property
    def subjects(self) -> list[str]:
        """Return the names of the servers of all parts, then the names of requested baselines.
        Raise UserError if a server is unknown."""
        found = [name for part in self.parts for name in chosen_names(part.subjects)]
        parts = [part for part in self.parts if part.baselines]
        found += [name for part in parts for name in chosen_names(part.subjects, baselines=True)]
        return list(dict.fromkeys(found))

    def values(self, condition: str) -> set[Value]:
        """Return all values of one condition in all parts."""
        return {value for part in self.parts for value in part.values(condition)}


def add_plan(sub: argparse.ArgumentParser) -> None:
    """Add the options that select what is measured."""
    add = sub.add_argument
    add(
        "--full",
        action="store_true",
        help=f"measure {len(runs.FULL_LEVELS)} levels up to {runs.FULL_LEVELS[-1]:,} in three "
        f"runs, in about one hour (default: levels {', '.join(map(str, runs.SHORT_LEVELS))} in "
        f"one run, level {runs.ORDER_LEVEL} in {runs.ORDER_RUNS} runs)",
    )
    studies = f"measure these studies: {', '.join(names())}; or files *.toml"
    add("--studies", nargs="+", metavar="NAME", help=studies)
    only = (
        "measure only these servers (default: the project's servers); also baseline-NAME, and "
        "reference servers by their names in bench/references/"
    )
    add("--servers", nargs="+", metavar="NAME", help=only)
    add("--baselines", action="store_true", help="also measure the baseline of each server")
    add("--levels", nargs="+", metavar="N", help="concurrent connections (default: see --full)")
    workloads = f"requests: {', '.join(WORKLOADS)}; or {ALL} (default {DEFAULT_WORKLOAD})"
    add("--workloads", nargs="+", metavar="NAME", help=workloads)
    add_value(sub, "--path", path, "/about", help="request this path instead of a workload")
    for aspect in ASPECTS:
        add(aspect.option, dest=aspect.name, nargs="+", metavar=aspect.metavar, help=aspect.help)
    number = partial(add_value, sub, parse=positive)
    each = "send N requests in each run, at least one per connection (default "
    each += f"{runs.SHORT_REQUESTS:,}; fewer for slow servers and with a quota)"
    number("--requests", example="5000", metavar="N", help=each)
    often = "run each configuration N times; the result is the median (default: see --full)"
    number("--runs", example="3", metavar="N", help=often)
    limit = f"stop a run after SECONDS (default {runs.SHORT_TIMEOUT:g}; {runs.FULL_TIMEOUT:g} with "
    limit += "--full, --levels or --requests)"
    number("--timeout", example="30", metavar="SECONDS", help=limit)
    where = "folder of the servers' executables (default: the project's folder)"
    add("--programs", type=Path, default=ROOT, metavar="DIR", help=where)
    redis = "use this Redis (default: a private one, deleted at the end)"
    add("--redis", metavar="URL", help=redis)


def sweep_parser() -> argparse.ArgumentParser:
    """Return the parser of a sweep's options. Abbreviations are rejected, because the password in
    `--redi=URL` would be stored in the results."""
    sub = Parser(
        prog="zerohttpd sweep",
        allow_abbrev=False,
        description="Start each server again for each concurrency level, run ab against it, check "
        "that every request completed, and store the figures, a table and a chart in results/. "
        "Exit status: 0 all results valid, 1 not all valid, 2 not started, 130 after Ctrl-C.",
    )
    add_plan(sub)
    file = "run on the hosts in FILE, see bench/stations/site.py (default: this machine)"
    sub.add_argument("--hosts", type=Path, metavar="FILE", help=file)
    add_results(sub, ROOT / "results")
    sub.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="make the missing runs of an interrupted sweep (default: the latest) with its options",
    )
    return sub


def chosen_options(options: argparse.Namespace, command: Sequence[str] = ()) -> SweepOptions:
    """Check and return the options of a sweep. `command`: the command line. Raises UserError."""
    plan = _plan(options)
    studies, _ = profiled([study(word) for word in words_of(options.studies)])
    if studies and plan != Plan(full=plan.full):
        raise UserError("--studies excludes other options: a study defines all measurements")
    how_is_usual = Plan(workloads=plan.workloads, subjects=plan.subjects, baselines=plan.baselines)
    given = vars(options)
    if given.get("hosts") and options.redis:
        raise UserError("--redis and --hosts exclude each other: one of the hosts runs Redis")
    return SweepOptions(
        parts=parts_of(studies, plan.full) or (plan,),
        redis=options.redis,
        results=given.get("results", ROOT / "results"),
        hosts=given.get("hosts"),
        command=tuple(hide_password(command)),
        programs=options.programs.resolve(),
        studies=studies,
        answers=plan == how_is_usual and not given.get("hosts") and not studies,
    )


def _plan(options: argparse.Namespace) -> Plan:
    """Return the plan that the options select. Raises UserError."""
    if options.path and options.workloads:
        raise UserError("--path and --workloads exclude each other: leave out one of them")
    workloads = named(words_of(options.workloads)) or (DEFAULT_WORKLOAD,)
    if options.path:
        workloads = (workload_for(options.path).name,)
    writing = ", ".join(name for name in workloads if workload_for(name).private_only)
    if options.redis and writing:
        raise UserError(f"{writing} writes data, so it needs a private Redis. Omit --redis")
    servers = words_of(options.servers)
    levels = [value_of("--levels", x, positive, "20,100,500") for x in words_of(options.levels)]
    plan = Plan(
        full=options.full,
        levels=tuple(levels) or None,
        requests=options.requests,
        runs=options.runs,
        timeout=options.timeout,
        workloads=workloads,
        varied=_varied(options),
        subjects=tuple(chosen_names(servers)) if servers else None,
        baselines=options.baselines,
    )
    if set(plan.values("instances")) != {1} and set(plan.values("balancer")) == {"none"}:
        raise UserError("--instances above 1 needs nginx: add --balancer close or keep")
    return plan


def _varied(options: argparse.Namespace) -> dict[str, tuple[Value, ...]]:
    found: dict[str, tuple[Value, ...]] = {}
    for aspect in ASPECTS:
        words = words_of(getattr(options, aspect.name))
        if aspect.name == "keep_alive":
            words = [each for word in words for each in BOTH.get(word, (word,))]
        values = tuple(value_of(aspect.option, word, aspect.parse) for word in words)
        found |= {aspect.name: values} if values else {}
    return found


def profiled(
    studies: Sequence[DeclaredStudy], wanted: str = "auto"
) -> tuple[tuple[DeclaredStudy, ...], str]:
    """Return the studies with the profiler that works here, and the reason if it is not perf.
    `wanted`: auto, perf, callgrind or no. Raises UserError if the wanted profiler does not work."""
    if not any(one.profiles for one in studies):
        return tuple(studies), ""
    how, reason = how_stacks(wanted)
    return tuple(one.model_copy(update={"stacks": how}) for one in studies), reason


def parts_of(studies: Iterable[DeclaredStudy], full: bool) -> tuple[Plan, ...]:
    """Return all parts of a sweep for these studies."""
    return tuple(part for one in studies for part in one.parts(full))


def hide_password(words: Sequence[str]) -> list[str]:
    """Return a command line without the password in a Redis URL."""
    parts = [word.rpartition("--redis=") for word in words]
    return ["".join((*before, without_password(url))) for *before, url in parts]


def options_of(old: Results, parent: Path, redis: str | None) -> SweepOptions:
    """Return a sweep's stored options. Raises UserError if they are too old or lack a password."""
    stored = old.settings.options
    if not stored or not stored.parts:
        raise UserError(
            "this sweep was made by an older version and cannot be resumed: start a new sweep"
        )
    if redis is None and stored.redis and "***" in stored.redis:
        raise UserError("give --redis again: the password was not stored")
    given = {**dict(stored), "redis": redis or stored.redis}
    return SweepOptions(**given, results=parent, command=tuple(old.command))
