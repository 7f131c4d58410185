# SPDX-License-Identifier: MIT
"""The options of a sweep: from the command line, and stored so that it can be resumed."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.host.project import ROOT
from bench.records.conditions import FLOOR_PREFIX, Value
from bench.records.errors import UserError
from bench.records.plan import Part
from bench.records.results import KeptOptions, Results
from bench.records.values import add_results, words_of
from bench.services.redis_server import without_password
from bench.stations.sampling import how_stacks
from bench.studies.ladder import add_plan, is_chosen, is_usual, part_of
from bench.studies.runs import SLICE, answering
from bench.studies.study import DeclaredStudy, study
from bench.subjects.subject import discover, known_names


@dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep."""

    parts: tuple[Part, ...] = (Part(),)
    redis: str | None = None
    results: Path = Path("results")
    hosts: Path | None = None
    """The file that names the hosts; None: everything on this machine."""
    command: tuple[str, ...] = ()
    """The command line."""
    programs: Path = ROOT
    """The folder of the servers' executables."""
    studies: tuple[DeclaredStudy, ...] = ()
    """The studies to measure, see bench/studies/; servers that are not available are left out."""
    not_wanted: Mapping[str, str] = field(default_factory=dict)
    """Servers of the studies that the user does not want to install, with reasons, by name."""
    concludes: bool = True
    """Whether it ends with all rates; False for a command that evaluates the results itself."""
    answers: bool = False
    """Whether no option sets how to measure: the default sweep, which ends with a ranking."""

    def answering(self, can_slice: bool) -> "SweepOptions":
        """Return the options with the runs for a ranking, if no ladder was chosen."""
        if not self.answers:
            return self
        (part,) = self.parts
        plans = answering(part.plan, SLICE if can_slice else 0.0)
        return replace(self, parts=tuple(replace(part, plan=plan) for plan in plans))

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """Return the servers of all parts, and requested baselines; None: the project's servers."""
        named = [name for part in self.parts for name in part.subjects or ()]
        known = known_names(discover())
        floors = [FLOOR_PREFIX + x for p in self.parts if p.floors for x in p.subjects or ()]
        return tuple(dict.fromkeys([*named, *(name for name in floors if name in known)])) or None

    def values(self, condition: str) -> set[Value]:
        """Return all values of one condition, of all parts."""
        return {value for part in self.parts for value in part.plan.values(condition)}

    @property
    def floors(self) -> bool:
        """Return whether a part without named servers requests the baselines."""
        return any(part.floors for part in self.parts if part.subjects is None)


def sweep_parser() -> argparse.ArgumentParser:
    """Return the parser of a sweep's options. It allows no abbreviations, because the password in
    `--redi=URL` would be stored in the results."""
    sub = argparse.ArgumentParser(
        prog="zerohttpd sweep",
        allow_abbrev=False,
        description="Start each server again for each concurrency level, run ab against it, check "
        "that every request completed, and store the figures, a table and a chart in results/. "
        "Exit status: 0 all results valid, 1 not all, 2 could not start, 130 after Ctrl-C.",
    )
    add_plan(sub)
    file = "run on the hosts in FILE, see bench/stations/hosts.py (default: this machine)"
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
    """Return the options of a sweep, checked; `command`: the command line. Raises UserError."""
    part = part_of(options)
    studies, _ = profiled([study(word) for word in words_of(options.studies)])
    if studies and is_chosen(part):
        raise UserError("--studies defines all that is measured: leave out the other options")
    given = vars(options)
    if given.get("hosts") and options.redis:
        raise UserError("--redis and --hosts exclude each other: one of the hosts runs Redis")
    return SweepOptions(
        parts=parts_of(studies, part.plan.full) or (part,),
        redis=options.redis,
        results=given.get("results", ROOT / "results"),
        hosts=given.get("hosts"),
        command=tuple(hide_password(command)),
        programs=options.programs.resolve(),
        studies=studies,
        answers=is_usual(part.plan) and not given.get("hosts") and not studies,
    )


def profiled(
    studies: Sequence[DeclaredStudy], wanted: str = "auto"
) -> tuple[tuple[DeclaredStudy, ...], str]:
    """Return the studies with the method by which functions are profiled here, and the reason if
    it is not perf. `wanted`: auto, perf, callgrind or no. Raises UserError if the named method does
    not work."""
    if not any(one.profiles for one in studies):
        return tuple(studies), ""
    how, reason = how_stacks(wanted)
    return tuple(one.model_copy(update={"stacks": how}) for one in studies), reason


def parts_of(studies: Iterable[DeclaredStudy], full: bool) -> tuple[Part, ...]:
    """Return all parts of a sweep for these studies."""
    return tuple(part for one in studies for part in one.parts(full))


def hide_password(words: Sequence[str]) -> list[str]:
    """Return a command line without the password in a Redis URL."""
    parts = [word.rpartition("--redis=") for word in words]
    return ["".join((*before, without_password(url))) for *before, url in parts]


# ---- Stored, so that a sweep can be resumed ----


def kept(options: SweepOptions, redis: str) -> KeptOptions:
    """Return the options in the form that `options_of` reads; `redis`: without a password."""
    return KeptOptions(
        parts=list(options.parts),
        redis=redis if options.redis else None,
        hosts=str(options.hosts.resolve()) if options.hosts else None,
        programs=str(options.programs),
    )


def options_of(old: Results, parent: Path, redis: str | None) -> SweepOptions:
    """Return the options of a sweep from its results. Raises UserError if they are too old."""
    stored = old.settings.options
    if not stored or not stored.parts:
        raise UserError("this sweep is of an older version and cannot be resumed: start a new one")
    if redis is None and stored.redis and "***" in stored.redis:
        raise UserError("give --redis again: its password was not stored")
    return SweepOptions(
        parts=tuple(stored.parts),
        redis=redis or stored.redis,
        results=parent,
        hosts=Path(stored.hosts) if stored.hosts else None,
        command=tuple(old.command),
        programs=Path(stored.programs),
    )
