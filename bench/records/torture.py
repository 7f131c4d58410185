# SPDX-License-Identifier: MIT
"""What a torture leaves: torture.json. What it means is worked out here too, from nothing else.

A cell whose server is one of the project's must keep the promises that `broken` knows; what becomes
of strangers is shown and not judged. That a server is held up *while* it is attacked breaks none:
it is the price of an architecture, and the figure says how high it is.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, model_validator

from bench.records import json_file
from bench.records.environment import Head
from bench.records.figures import Kind
from bench.records.store import replace
from bench.records.words import plural

SCHEMA = "zerohttpd-seven/torture"
SCHEMA_VERSION = 1
FILE = "torture.json"

Verdict = Literal[
    "served", "slower", "hard pressed", "held up", "broken", "no figure", "left out", "not reached"
]
AS_BEFORE, SLOWER, PRESSED = 0.9, 0.5, 0.1
"""From these shares of the rate before the attack on a server is called so."""
QUIET_SHARE = 0.7
"""Visitors who get less than this share of what they want, before anything is done, are disturbed
by something else."""
STARVED_SHARE = 0.2
BACK_SECONDS = 15.0
"""By when a server must be back: longer than the 10 s that one client may keep it waiting."""

SLICE = 0.1


class AttackFacts(BaseModel):
    """What a reader must know of an attack."""

    name: str
    title: str
    what: str
    rated: Literal["all visitors", "visitors who need no Redis"]
    """Whose rate is shown."""
    excused: list[str] = []
    """Outcomes that are right in it: a 503 where there is no Redis."""
    crowd_counts: bool = False
    """Its crowd is well-behaved as well: what it did not get is lost."""
    crowd_promised: bool = False
    """None of the crowd may go without its answer."""


class Phase(BaseModel):
    """What the visitors saw in a part of a cell."""

    seconds: float
    rate: float
    """Good answers per second to the rated visitors, median of short slices."""
    outcomes: dict[str, int] = {}
    """Of all visitors."""
    why: dict[str, dict[str, int]] = {}
    """What was not good: by outcome, how often for which reason."""
    longest_ms: float = 0.0


class CrowdTally(BaseModel):
    """What a crowd has done."""

    opened: int = 0
    """Connections."""
    answers: dict[str, int] = {}
    why: dict[str, dict[str, int]] = {}


class Ending(BaseModel):
    """How a server ended."""

    obeyed: bool
    """False if it did not end by itself after SIGTERM and had to be killed."""
    well: bool
    """With exit status 0."""
    words: str


class Remarks(BaseModel):
    """The remarks that were answered with "stored"."""

    answered: int = 0
    missing: int = 0
    """Of these are not in Redis."""
    twice: int = 0
    """Of these are there more than once."""


class LeftOver(BaseModel):
    """What the server still had when everybody had gone, beyond what it had at first."""

    connections: int = 0
    """To clients."""
    processes: int = 0
    threads: int = 0


class TortureCell(BaseModel):
    """One subject, one attack."""

    subject: str
    kind: Kind
    attack: str
    reason: str | None = None
    """Why there are no figures."""
    reached: bool = True
    """False: the time was over before its turn."""
    before: Phase | None = None
    during: Phase | None = None
    settling: Phase | None = None
    """From the end of the attack until the server was back."""
    after: Phase | None = None
    back_after_s: float | None = None
    """None: it did not come back in time."""
    course: list[int] = []
    """Good answers to the rated visitors, a figure for each slice, from the first phase on."""
    attack_from_s: float = 0.0
    attack_to_s: float = 0.0
    """When in the course the attack began and ended."""
    wanted: float = 0.0
    """What the rated visitors would get of a server that needs no time at all, in pages/s."""
    starved_s: float = 0.0
    """For how long the server or the visitors wanted to run and could not."""
    crowd: CrowdTally | None = None
    killed: int = 0
    """Children."""
    remarks: Remarks = Remarks()
    left_over: LeftOver = LeftOver()
    died: Ending | None = None
    """How it ended, if it did so by itself."""
    ended: list[Ending] = []
    """How it ended when it was asked to."""
    seconds: float = 0.0
    """All in all."""


class TortureSettings(BaseModel):
    """How it was done."""

    attack_seconds: float | None = None
    minutes: float | None = None
    """For all of it."""
    visitors: int | None = None
    think_seconds: float = 0.0
    """After each answer."""


class Record(Head, BaseModel):
    """The content of torture.json."""

    schema_name: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "out of time", "interrupted"] = "running"
    seconds: float = 0.0
    settings: TortureSettings = TortureSettings()
    notes: list[str] = []
    """Who or what was left out altogether, and why."""
    subjects: list[str] = []
    attacks: list[AttackFacts] = []
    cells: list[TortureCell] = []

    @model_validator(mode="after")
    def _knows_its_attacks(self) -> "Record":
        known = {facts.name for facts in self.attacks}
        if unknown := {cell.attack for cell in self.cells} - known:
            raise ValueError(f"nothing is said of these attacks: {', '.join(sorted(unknown))}")
        return self

    def cell(self, subject: str, attack: str) -> TortureCell | None:
        """None while it was not made."""
        pairs = (c for c in self.cells if (c.subject, c.attack) == (subject, attack))
        return next(pairs, None)

    def facts(self, cell: TortureCell) -> AttackFacts:
        """Those of its attack."""
        return next(a for a in self.attacks if a.name == cell.attack)

    def broken(self) -> list[tuple[TortureCell, list[str]]]:
        """The cells in which a promise was broken, and which."""
        found = [(cell, broken(cell, self.facts(cell))) for cell in self.cells]
        return [(cell, words) for cell, words in found if words]


def disturbed(cell: TortureCell) -> bool:
    """Whether the machine was not quiet: server or visitors were not let run for a part of the
    time; or visitors got too little even before the attack (which may be the server, too)."""
    if cell.before is None:
        return False
    late = cell.starved_s > STARVED_SHARE * max(cell.attack_to_s, 0.1)
    return late or cell.before.rate < QUIET_SHARE * cell.wanted


def share(cell: TortureCell) -> float | None:
    """The rate during the attack, of that before it; None without figures."""
    if cell.before is None or cell.during is None or not cell.before.rate:
        return None
    return cell.during.rate / cell.before.rate


def lost(cell: TortureCell, facts: AttackFacts) -> dict[str, int]:
    """What visitors (and a crowd that counts) did not get, by outcome, from the attack on."""
    parts = [p.outcomes for p in (cell.during, cell.settling, cell.after) if p]
    if cell.crowd and facts.crowd_counts:
        parts.append(cell.crowd.answers)
    found: dict[str, int] = {}
    for part in parts:
        for outcome, count in part.items():
            if outcome != "good" and outcome not in facts.excused and count:
                found[outcome] = found.get(outcome, 0) + count
    return found


def excused(cell: TortureCell, facts: AttackFacts) -> int:
    """How many answers were turned down as they should be."""
    parts = [p.outcomes for p in (cell.during, cell.settling, cell.after) if p]
    return sum(part.get(outcome, 0) for part in parts for outcome in facts.excused)


def verdict(cell: TortureCell, facts: AttackFacts) -> Verdict:
    """A cell in a word."""
    if not cell.reached:
        return "not reached"
    if broken(cell, facts):
        return "broken"
    exact = share(cell)
    if exact is None:
        return "no figure" if cell.before else "left out"
    held = round(exact, 2)  # as it is shown
    if held >= AS_BEFORE:
        return "served"
    if held >= SLOWER:
        return "slower"
    return "hard pressed" if held >= PRESSED else "held up"


def broken(cell: TortureCell, facts: AttackFacts) -> list[str]:
    """The promises that were broken, each in words. Strangers have made none."""
    if cell.kind != "server" or cell.before is None:
        return []
    found = []
    if not cell.before.outcomes.get("good"):
        found.append("served nobody before the attack")
    if cell.died:
        found.append(f"{cell.died.words} by itself")
    elif cell.back_after_s is None:
        found.append(f"was not back {BACK_SECONDS:.0f} s after the attack")
    return [*found, *_lost_for_good(cell, facts), *_not_put_away(cell)]


def _lost_for_good(cell: TortureCell, facts: AttackFacts) -> list[str]:
    found = []
    phases = [p for p in (cell.before, cell.during, cell.settling, cell.after) if p]
    wrong = sum(p.outcomes.get("wrong", 0) for p in phases)
    calm = [p for p in (cell.before, cell.after) if p]
    bad = sum(n for p in calm for outcome, n in p.outcomes.items() if outcome != "good")
    if cell.remarks.missing:
        found.append(
            f'{cell.remarks.missing:,} of {cell.remarks.answered:,} remarks answered "stored" '
            f"{'is' if cell.remarks.missing == 1 else 'are'} not in Redis"
        )
    if cell.remarks.twice:
        found.append(
            f"{plural(cell.remarks.twice, 'remark is', 'remarks are')} in Redis more than once"
        )
    if wrong:
        found.append(f"{plural(wrong, 'answer was', 'answers were')} whole and wrong")
    if bad:
        found.append(f"{plural(bad, 'request')} had no right answer before or after the attack")
    if cell.crowd and facts.crowd_promised:
        answered = ("good", "unavailable")
        gone = sum(n for outcome, n in cell.crowd.answers.items() if outcome not in answered)
        if gone:
            found.append(
                f"{gone:,} of {sum(cell.crowd.answers.values()):,} requests under way "
                f"{'was' if gone == 1 else 'were'} dropped"
            )
    return found


def _not_put_away(cell: TortureCell) -> list[str]:
    left = cell.left_over
    found = [
        f"{plural(count, *what)} left over when everybody had gone"
        for count, what in (
            (left.connections, ("connection",)),
            (left.processes, ("process", "processes")),
            (left.threads, ("thread",)),
        )
        if count
    ]
    for end in cell.ended:
        if not end.obeyed:
            found.append("did not end when asked to, and was killed")
        elif not end.well:
            found.append(f"{end.words} when asked to end")
    return found


def file_of(path: Path) -> Path:
    """The torture.json in a folder; of a file, itself."""
    return path / FILE if path.is_dir() else path


def is_record(path: Path) -> bool:
    """Whether a folder or a file is one of a torture, by its name."""
    return file_of(path).name == FILE and file_of(path).is_file()


def save(record: Record, folder: Path) -> None:
    """Write torture.json, at once."""
    replace(folder / FILE, record.model_dump_json(indent=1) + "\n")


def load(path: Path) -> Record:
    """Read a torture.json, or the one in a folder. Raises UserError if it is none, or of a newer
    form."""
    words = "record of a torture"
    return json_file.record(Record, file_of(path), words, SCHEMA_VERSION, schema_name=SCHEMA)
