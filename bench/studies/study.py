# SPDX-License-Identifier: MIT
"""Read a study: a TOML file with the measurements of a sweep and the expected results.
bench/studies/now.toml and measure.toml explain the keys. An error message names the line, the entry
and the value."""

import csv
import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from bench.host.project import ROOT
from bench.records.conditions import BY_NAME as CONDITIONS
from bench.records.conditions import CHANGES, Conditions, Mode, Plan, Value
from bench.records.errors import UserError, in_words
from bench.records.points import BY_KEY
from bench.records.results import OTHER_SIDES, Expect, Measured, PeerStudy, Published, StudyWords
from bench.records.values import one_of, toml_of
from bench.records.workloads import WORKLOADS
from bench.studies.runs import conditions_of, levels_of
from bench.subjects.subject import discover, known_names, server_names

STUDIES = ROOT / "bench" / "studies"
EXPERIMENTS = ROOT / "course" / "experiments"
"""The folder of the experiments: NAME.toml is the study of a change, NAME.patch is the change."""
SEVEN = "seven"
"""In the key `servers`, this name means all chosen servers of the project."""

Place = tuple[str | int, ...]
"""The place of a value, in pydantic's form: ("measure", 0, "workloads", 2)."""


def no_such(word: str, kind: str, known: Collection[str]) -> str:
    """Return the message for an unknown word: it names a similar known word, or all known words."""
    near = difflib.get_close_matches(word, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f". Known: {', '.join(known)}"
    return f"{word!r} is not {kind}{hint}"


def values_of(name: str, said: object) -> tuple[Value, ...]:
    """Return the values of a condition, given as one value or as a list. Raises UserError."""
    aspect = CONDITIONS[name]
    values: list[Value] = said if isinstance(said, list) else [said]  # type: ignore[list-item]
    yes_or_no = isinstance(Conditions._field_defaults[name], bool)
    for value in values:
        if isinstance(value, bool) != yes_or_no:
            kind = "true or false" if yes_or_no else "a number or a word in quotes"
            raise UserError(f"{value!r}: write {kind}")
    try:
        return tuple(aspect.parse(aspect.word(value)) for value in values)
    except ValueError as error:
        raise UserError(f"{said!r} is not a value of this condition: {error}") from error


class Form(BaseModel):
    """The length of a measurement: requests in each run, and runs of each configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: PositiveInt | None = None
    runs: PositiveInt | None = None


class Size(Form):
    """The levels, requests, runs and timeout of a study or of one entry. None: the default."""

    levels: tuple[PositiveInt, ...] | None = None
    timeout: PositiveFloat | None = None
    full: Form = Form()  # The numbers with the option --full.


SIZES = {
    "traced": Size(levels=(10,), requests=300, runs=1),
    "counted": Size(levels=(4,), requests=100, runs=1),
    "sampled": Size(runs=1),
}
"""The default size by mode. callgrind ("counted") makes a server fifty times slower."""


class Measure(Size):
    """An entry `measure`. Keys without a field are conditions, each with one or several values."""

    model_config = ConfigDict(extra="allow", frozen=True)

    part: str = ""
    servers: tuple[str, ...] = Field(min_length=1)
    but: tuple[str, ...] = ()
    baselines: bool = False
    workloads: tuple[str, ...] = Field(min_length=1)
    times: PositiveFloat = 1.0

    @property
    def varied(self) -> dict[str, tuple[Value, ...]]:
        """Return the values of each condition by its name. Raises UserError."""
        return {name: values_of(name, said) for name, said in (self.model_extra or {}).items()}

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the entry's part names, for the option --only."""
        return (self.part,) if self.part else self.workloads

    def subjects(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """Return the servers of the entry, each once. `chosen`: servers of the project; empty: the
        default. Other servers of the project are left out, except in an ablation or an experiment.
        If no server of the project remains in an entry that had some, no server is returned."""
        ours, project = server_names(chosen), {*discover()}
        named = [x for name in self.servers for x in (ours if name == SEVEN else [name])]
        every = tuple(dict.fromkeys(x for x in named if x not in self.but))
        if not chosen or {"without", "change"} & self.varied.keys():
            return every
        left = tuple(x for x in every if x in ours or x not in project)
        return left if project & {*left} or not project & {*every} else ()


class DeclaredStudy(StudyWords, Size):
    """The content of a study's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str = ""
    reference: str = ""  # Empty: the report has no chapter on the study.
    equal: list[str] = []
    answer: str = ""  # The expected result of an experiment, and the reason.
    still: tuple[str, ...] = ()  # Tests in tests/e2e/ that the servers of an experiment pass.
    measure: tuple[Measure, ...] = Field(min_length=1)
    expect: tuple[Expect, ...] = ()
    published: tuple[Published, ...] = ()
    chosen: tuple[str, ...] = ()
    """The servers of the project that are measured; empty: the default."""
    stacks: Mode | None = "sampled"
    """The profiling method on this host: "sampled" (perf), "counted" (callgrind) or None."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the names of all servers, each once, without the baselines that entries add."""
        return tuple(dict.fromkeys(x for one in self.measure for x in one.subjects(self.chosen)))

    @property
    def usual(self) -> tuple[int | None, int | None, int | None]:
        """Return the study's numbers of runs, requests and connections (the first level)."""
        return self.runs, self.requests, self.levels[0] if self.levels else None

    @property
    def profiles(self) -> bool:
        """Return whether a profiler samples runs of the study."""
        return any("sampled" in one.varied.get("mode", ()) for one in self.measure)

    def parts(self, full: bool) -> tuple[Plan, ...]:
        """Return the study as parts of a sweep."""
        modes = [(one, m) for one in self.measure for m in one.varied.get("mode", ("closed",))]
        found = (self._part(one, str(mode), full) for one, mode in modes)
        return tuple(part for part in found if part.subjects)

    def record(self) -> PeerStudy:
        """Return the study as the results store it."""
        measured = [
            Measured(
                subjects=list(part.subjects or ()),
                conditions=conditions_of(part),
                levels=list(levels_of(part)),
            )
            for part in self.parts(False)
        ]
        said = self.model_dump(include={*StudyWords.model_fields, "name", "published"})
        return PeerStudy(measured=measured, **said)

    def narrowed(
        self,
        only: Sequence[str] = (),
        servers: Sequence[str] = (),
        requests: int | None = None,
        runs: int | None = None,
        level: int | None = None,
    ) -> tuple["DeclaredStudy", list[str]]:
        """Return the study with only these parts and servers of the project, and with these numbers
        (empty or None: as declared). Also return the reason for each part without servers. An
        entry's own numbers remain, except that it has at most `runs` runs."""
        number, levels = requests or self.requests, (level,) if level else self.levels
        if number and levels and (requests or level):
            levels = tuple(min(one, number) for one in levels)
        changed: dict[str, object] = {"requests": number, "runs": runs or self.runs}
        entries = [
            one if one.part or not only else one.model_copy(update={"workloads": (name,)})
            for name in only or ("",)
            for one in self.measure
            if not only or name in one.parts
        ]
        if runs:
            entries = [x.model_copy(update={"runs": x.runs and min(x.runs, runs)}) for x in entries]
        chosen = tuple(server_names(servers)) if servers else ()
        changed |= {"levels": levels, "measure": tuple(entries), "chosen": chosen}
        found, reasons = self.model_copy(update=changed), []
        for name in found.part_names():
            its = [one for one in entries if name in one.parts]
            if not any(one.subjects(chosen) for one in its):
                lost = dict.fromkeys(x for one in its for x in one.subjects(()) if x in discover())
                about = f"it measures {', '.join(lost)}, which --servers does not name"
                reasons.append(f"{name} is left out: {about}")
        return found, reasons

    def part_names(self) -> list[str]:
        """Return the names for the option --only."""
        return list(dict.fromkeys(name for one in self.measure for name in one.parts))

    def _part(self, entry: Measure, mode: str, full: bool) -> Plan:
        probe = SIZES.get(mode, Size())
        forms = [entry.full, probe, self.full] if full else []
        share = self.requests and max(int(self.requests * entry.times), 1)
        levels = entry.levels or probe.levels or self.levels
        if share and levels and levels is self.levels and entry.times < 1:
            levels = tuple(min(level, share) for level in levels)
        return Plan(
            levels=levels,
            requests=_first(*(x.requests for x in (*forms, entry, probe)), share),
            runs=_first(*(x.runs for x in (*forms, entry, probe, self))),
            timeout=entry.timeout or self.timeout,
            workloads=entry.workloads,
            varied={**entry.varied, "mode": (mode,)},
            subjects=self._able(entry, mode),
            baselines=entry.baselines and mode == "closed",
        )

    def _able(self, entry: Measure, mode: str) -> tuple[str, ...]:
        """Return the servers that can be measured in `mode`. Without perf, only reference servers
        can be sampled, because they profile themselves. For the project's servers callgrind
        replaces perf."""
        names = entry.subjects(self.chosen)
        if not self.profiles or mode not in ("sampled", "counted") or mode == self.stacks:
            return names
        return tuple(x for x in names if mode == "sampled" and x not in discover())


MODELS: dict[str, type[BaseModel]] = {
    "": DeclaredStudy,
    "measure": Measure,
    "expect": Expect,
    "full": Form,
}
"""The models of the tables in a study's file, by the names of the tables."""


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number), None)


def names() -> list[str]:
    """Return the names of all studies of the project, without the experiments."""
    return sorted(file.stem for file in STUDIES.glob("*.toml"))


def published() -> list[str]:
    """Return the names of the studies that have a chapter in the report."""
    return [name for name in names() if "reference" in toml_of(STUDIES / f"{name}.toml")]


def study(word: str) -> DeclaredStudy:
    """Return a study or an experiment by its name, or from a file *.toml. Raise UserError."""
    if word in CHANGES:
        return _read(EXPERIMENTS / f"{word}.toml", title=CHANGES[word])
    if word.endswith(".toml"):
        return _read(Path(word))
    return _read(STUDIES / f"{one_of('study', word, names())}.toml")


def _read(file: Path, **more: str) -> DeclaredStudy:
    if not file.exists():
        raise UserError(f"the file {file} does not exist; give a file or the name of a study")
    try:
        said, lines = toml_of(file), file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: {error}") from error

    def mistake(place: Place, words: str) -> UserError:
        """Return an error for the value at a place. Entries are numbered from 1."""
        steps = (f".{step}" if isinstance(step, str) else f"[{step + 1}]" for step in place)
        where = "".join(steps).lstrip(".")
        return UserError(f"{file}: line {_line_of(place, lines)}: {where}: {words}")

    for key in {"name", "published", "chosen", "stacks", *more} & said.keys():
        raise mistake((key,), "this key cannot be set: remove it")
    own = {"name": file.stem, "published": _published(file.with_suffix(".published.csv"))}
    try:
        found = DeclaredStudy.model_validate({**said, **own, **more})
    except ValidationError as error:
        raise mistake(*_first_mistake(error)) from error
    for place, words in _mistakes(found):
        raise mistake(place, words)
    return found


def _line_of(place: Place, lines: Sequence[str]) -> int:
    """Return the number of the line of a key, or of its entry if the key is missing."""
    known = (f"[[{place[0]}]]", f"[{place[0]}]")
    heads = [n for n, line in enumerate(lines) if line.strip() in known]
    number = place[1] if len(place) > 1 and isinstance(place[1], int) else 0
    start = heads[number] if number < len(heads) else 0
    after = (n for n in range(start + 1, len(lines)) if lines[n].startswith("["))
    end = next(after, len(lines)) if heads else len(lines)
    for key in (step for step in reversed(place) if isinstance(step, str)):
        for n in range(start, end):
            if re.match(rf"\s*{re.escape(key)}\s*=", lines[n]):
                return n + 1
    return start + 1


def _first_mistake(error: ValidationError) -> tuple[Place, str]:
    """Return the place and the text of the first unknown key, otherwise of pydantic's first
    error."""
    # Unknown keys come first, because a missing key may only be misspelt.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    place, kind = first["loc"], first["type"]
    if kind == "missing":
        return place, "this key is missing"
    if kind == "extra_forbidden":
        table = [str(step) for step in place[:-1] if isinstance(step, str)]
        known = MODELS[table[-1] if table else ""].model_fields
        return place, no_such(str(place[-1]), "a key", known)
    words = "write a list: [...]" if kind == "tuple_type" else first["msg"]
    return place, f"{first['input']!r}: {words}"


def _published(file: Path) -> list[Published]:
    """Return the rows of a published.csv, if it exists. Raise UserError if a row is not valid."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        said = [{name: text for name, text in row.items() if text} for row in rows]
    try:
        return [Published.model_validate(row) for row in said]
    except ValidationError as error:
        raise UserError(f"{file}: {in_words(error)}") from error


def _mistakes(found: DeclaredStudy) -> Iterator[tuple[Place, str]]:
    """Yield the place of each unknown name or value, and the error."""
    servers = known_names(discover())
    known: dict[str, tuple[str, Collection[str]]] = {
        "reference": ("a server", [*servers, ""]),
        "references": ("a server", servers),
        "servers": ("a server", [*servers, SEVEN]),
        "but": ("a server", servers),
        "workloads": ("a workload", WORKLOADS),
        "figure": ("a figure", BY_KEY),
        "server": ("a server", [*servers, ""]),
        "versus": ("a server", [*servers, *OTHER_SIDES]),
        "than": ("a key", [*CONDITIONS, "workload", "level"]),
    }
    tables: list[tuple[Place, BaseModel]] = [((), found)]
    tables += [(("measure", number), one) for number, one in enumerate(found.measure)]
    tables += [(("expect", number), one) for number, one in enumerate(found.expect)]
    for place, table in tables:
        for key, (kind, words) in known.items():
            said = vars(table).get(key, ())
            named = said.values() if said and key == "references" else said
            for word in [named] if isinstance(named, str) else named:
                path = key == "workloads" and isinstance(table, Measure) and word.startswith("/")
                if word not in words and not path:
                    yield (*place, key), no_such(word, kind, words)
        for key, value in (table.model_extra or {}).items():
            if key not in CONDITIONS:
                keys = [*type(table).model_fields, *CONDITIONS]
                yield (*place, key), no_such(key, "a key", keys)
            if isinstance(value, list) and isinstance(table, Expect):
                yield (*place, key), "give one value; for more values, write more entries"
            try:
                values_of(key, value)
            except UserError as error:
                yield (*place, key), str(error)
