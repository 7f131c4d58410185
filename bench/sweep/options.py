# SPDX-License-Identifier: MIT
"""What a sweep was asked for, and how that is kept so that it can be resumed."""

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bench.host.project import ROOT
from bench.records.conditions import Conditions
from bench.records.errors import UserError
from bench.records.plan import Part
from bench.records.results import KeptOptions, Results
from bench.subjects.subject import Subject
from bench.sweep.ladder import SLICE, answering

_PARTS = TypeAdapter(tuple[Part, ...])


@dataclass(frozen=True)
class Options:
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
    answers: bool = False
    """Nothing was said of how to measure: the sweep that ends with an order."""

    def answering(self, can_slice: bool) -> "Options":
        """With the runs that an order takes, in place of a ladder that nobody chose."""
        if not self.answers:
            return self
        (part,) = self.parts
        plans = answering(part.plan, SLICE if can_slice else 0.0)
        return replace(self, parts=tuple(replace(part, plan=plan) for plan in plans))

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """Those of all parts; None: the project's servers."""
        named = [name for part in self.parts for name in part.subjects or ()]
        return tuple(dict.fromkeys(named)) or None

    @property
    def floors(self) -> bool:
        """Whether any part has floors."""
        return any(part.floors for part in self.parts)


def can_serve(subject: Subject, conditions: Conditions) -> bool:
    """Whether a subject can be measured under some conditions."""
    return subject.can(conditions.workload, conditions.server_keeps, conditions.idle)


def kept(options: Options, redis: str) -> KeptOptions:
    """The options in the form in which `options_of` reads them; `redis`: without a password."""
    return KeptOptions(
        parts=_PARTS.dump_python(options.parts, mode="json"),
        redis=redis if options.redis else None,
        hosts=str(options.hosts.resolve()) if options.hosts else None,
        programs=str(options.programs),
    )


def options_of(old: Results, parent: Path, redis: str | None) -> Options:
    """The options of a sweep from its results. Raises UserError for those of older versions."""
    stored = old.settings.options
    try:
        parts = _PARTS.validate_python(stored.parts if stored else [])
    except ValidationError:
        parts = ()
    if not stored or not parts:
        raise UserError("this sweep was made by an older version; it cannot be resumed by this one")
    if redis is None and stored.redis and "***" in stored.redis:
        raise UserError("give --redis again: the password was not kept")
    return Options(
        parts=parts,
        redis=redis or stored.redis,
        results=parent,
        hosts=Path(stored.hosts) if stored.hosts else None,
        command=tuple(old.command),
        programs=Path(stored.programs),
    )
