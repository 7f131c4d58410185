# SPDX-License-Identifier: MIT
"""Read a declared study: bench/peers/NAME/study.toml with its published.csv.

bench/peers/now/study.toml explains the keys.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.host.project import ROOT, declaration
from bench.records.conditions import Conditions, Value, conditions_from
from bench.records.errors import UserError, in_words
from bench.records.plan import Part, Plan, counted_parts
from bench.records.results import Measured, Peer, PeerStudy, Published, StudyWords
from bench.records.values import one_of
from bench.records.workloads import WORKLOADS
from bench.subjects import declared
from bench.subjects.subject import discover, known_names, server_names

STUDIES = ROOT / "bench" / "peers"
SEVEN = "seven"
"""In the key `subjects` this name means all servers of the project."""

Cells = tuple[list[Conditions], list[int]]
"""Conditions, and the levels that apply to all of them."""


class Form(BaseModel):
    """The length of a study's form: requests in each run, and the number of runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: int = Field(gt=0)
    runs: int = Field(gt=0)


class Measure(BaseModel):
    """One entry `measure` of a study.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    subjects: tuple[str, ...]
    workloads: tuple[str, ...]
    levels: tuple[int, ...]
    varied: dict[str, tuple[bool | int | float | str, ...]] = {}
    """The values of each condition by its name, see `bench.records.conditions`."""
    short: Form
    full: Form


class StudyDeclaration(StudyWords):
    """The content of a study.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout: float = 60.0
    measure: tuple[Measure, ...] = Field(min_length=1)


@dataclass(frozen=True)
class DeclaredStudy:
    """A study that is ready to be measured."""

    name: str
    said: StudyDeclaration
    published: tuple[Published, ...]
    counted: bool = False
    """perf is not available: callgrind counts the project's servers instead."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of all servers under test, each once."""
        return tuple(dict.fromkeys(x for measure in self.said.measure for x in _names(measure)))

    @property
    def profiles(self) -> bool:
        """Whether a profiler samples some of its runs."""
        return any("sampled" in measure.varied.get("mode", ()) for measure in self.said.measure)

    def parts(self, full: bool) -> tuple[Part, ...]:
        """Return the study as parts of a sweep."""
        return tuple(x for measure in self.said.measure for x in self._parts(measure, full))

    def record(self, cells: Callable[[Plan], Cells]) -> PeerStudy:
        """Return the study for the results; `cells` returns the conditions and levels of a plan."""
        said = self.said.model_dump(exclude={"measure", "timeout"})
        measured = [
            Measured(subjects=list(part.subjects or ()), conditions=conditions, levels=levels)
            for part in self.parts(False)
            for conditions, levels in [cells(part.plan)]
        ]
        return PeerStudy(name=self.name, published=list(self.published), measured=measured, **said)

    def _parts(self, measure: Measure, full: bool) -> list[Part]:
        part = self._part(measure, full)
        if not self.counted or "sampled" not in part.plan.values("mode"):
            return [part]
        ours = [name for name in part.subjects or () if name in discover()]
        others = tuple(name for name in part.subjects or () if name not in ours)
        sampled = [replace(part, subjects=others)] if others else []
        return [*sampled, *counted_parts(ours, measure.workloads)]

    def _part(self, measure: Measure, full: bool) -> Part:
        form = measure.full if full else measure.short
        varied: dict[str, tuple[Value, ...]] = dict(measure.varied)
        plan = Plan(
            levels=measure.levels,
            requests=form.requests,
            runs=form.runs,
            timeout=self.said.timeout,
            workloads=measure.workloads,
            varied=varied,
        )
        return Part(plan, _names(measure))


def names(parent: Path = STUDIES) -> list[str]:
    """Return the names of all declared studies."""
    return sorted(file.parent.name for file in parent.glob("*/study.toml"))


def study(name: str, parent: Path = STUDIES) -> DeclaredStudy:
    """Return a study. Raise UserError if it is unknown or not valid."""
    file = parent / one_of("study", name, names(parent)) / "study.toml"
    said = declaration(StudyDeclaration, file)
    found = DeclaredStudy(name, said, tuple(_published(file.with_name("published.csv"))))
    _require_known(found)
    return found


def chosen(words: Iterable[str], parent: Path = STUDIES) -> tuple[DeclaredStudy, ...]:
    """Return the named studies, or all if none is named. Raise UserError if one is not valid."""
    return tuple(study(name, parent) for name in (list(words) or names(parent)))


def peer(name: str) -> Peer:
    """Return the declaration of a reference server, for the results."""
    said = declared.stranger(name).said
    return Peer.model_validate(said.model_dump(include=set(Peer.model_fields)))


def _names(measure: Measure) -> tuple[str, ...]:
    every = [
        x for name in measure.subjects for x in (server_names(None) if name == SEVEN else [name])
    ]
    return tuple(dict.fromkeys(every))


def _published(file: Path) -> list[Published]:
    """Return the rows of a published.csv, if it exists. Raise UserError if it is not valid."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        said = [{name: text for name, text in row.items() if text} for row in rows]
    try:
        return [Published.model_validate(row) for row in said]
    except ValidationError as error:
        raise UserError(f"{file}: {in_words(error)}") from error


def _require_known(found: DeclaredStudy) -> None:
    """Raise UserError if the study contains an unknown name."""
    known = set(known_names(discover()))
    named = {*found.subjects, found.said.reference, *found.said.references.values()}
    if unknown := sorted(named - known):
        raise UserError(f"study {found.name}: unknown server: {', '.join(unknown)}")
    asked = {x for measure in found.said.measure for x in measure.workloads}
    if unknown := sorted(asked - WORKLOADS.keys()):
        raise UserError(f"study {found.name}: unknown workload: {', '.join(unknown)}")
    for measure in found.said.measure:
        for name, values in measure.varied.items():
            for value in values:
                _require_condition(found.name, name, value)


def _require_condition(study_name: str, name: str, value: Value) -> None:
    try:
        conditions_from({"workload": "redirect", name: value})
    except (ValidationError, TypeError) as error:
        raise UserError(f"study {study_name}: {name} = {value!r} is not a condition") from error
