# SPDX-License-Identifier: MIT
"""The stored data of a robustness test, torture.json, and its verdicts. The project's servers must
keep the promises that `broken` checks; reference servers make no promises. A server that is only
slow during an attack breaks no promise."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from bench.records import store
from bench.records.environment import Head
from bench.records.figures import Kind
from bench.records.words import plural

SCHEMA = "zerohttpd-seven/torture"
SCHEMA_VERSION = 1
FILE = "torture.json"

Verdict = Literal[
    "served", "slower", "much slower", "waiting", "broken", "no figure", "left out", "not reached"
]
LEAST: dict[Verdict, float] = {"served": 0.9, "slower": 0.5, "much slower": 0.1}
"""The least rate during the attack for each verdict, as a share of the rate before."""
QUIET_SHARE = 0.7
"""A test is disturbed if visitors get less than this share of their requested rate before the
attack."""
STARVED_SHARE = 0.2
"""A test is disturbed if server and visitors together wait longer for a CPU than this share of the
time until the attack ends."""
BACK_SECONDS = 15.0
"""The time limit for a server's recovery. A client can block a server for 10 s."""
SLICE = 0.1
"""The length of the intervals of `TortureCell.course`, in seconds."""


class AttackFacts(BaseModel):
    """The description of an attack. A record stores only these fields of an attack."""

    model_config = ConfigDict(revalidate_instances="subclass-instances")

    name: str
    title: str
    what: str
    rated: Literal["all visitors", "visitors who need no Redis"] = "all visitors"
    """The visitors whose rate is shown."""
    excused: Sequence[str] = []
    """Outcomes that are correct in this attack, e.g. a 503 without Redis."""
    crowd_counts: bool = False
    """Whether the crowd (`CrowdTally`) is well-behaved: its missing responses count as lost."""
    crowd_promised: bool = False  # Whether each client of the crowd must get a response.


class Phase(BaseModel):
    """The visitors' results in one phase of a test."""

    seconds: float
    rate: float
    """Good responses per second to the rated visitors: the median of intervals of 0.1 s."""
    outcomes: dict[str, int] = {}  # The outcomes of all visitors' requests.
    why: dict[str, dict[str, int]] = {}  # The numbers of failures by outcome and reason.
    longest_ms: float = 0.0


class CrowdTally(BaseModel):
    """The results of the clients of an attack (the crowd)."""

    opened: int = 0  # Opened connections.
    answers: dict[str, int] = {}
    why: dict[str, dict[str, int]] = {}


class Ending(BaseModel):
    """The end of a server: its exit status or signal."""

    obeyed: bool  # False if the server did not end after SIGTERM and had to be killed.
    well: bool  # Whether the exit status was 0.
    words: str


class Remarks(BaseModel):
    """The remarks that the server confirmed, with 303."""

    answered: int = 0
    missing: int = 0  # Remarks that are missing from Redis.
    twice: int = 0  # Remarks that are in Redis more than once.


class LeftOver(BaseModel):
    """What remains after all clients have disconnected: connections, and additional tasks."""

    connections: int = 0  # Connections to clients.
    processes: int = 0
    threads: int = 0


class TortureCell(BaseModel):
    """The test of one server under one attack."""

    subject: str
    kind: Kind
    attack: str
    reason: str | None = None  # The reason why there are no figures.
    reached: bool = True  # False: the time limit for all tests passed before this test began.
    before: Phase | None = None
    during: Phase | None = None
    settling: Phase | None = None
    """The phase from the end of the attack until the server has recovered."""
    after: Phase | None = None
    back_after_s: float | None = None
    """The seconds from the attack's end to the server's recovery; None: no recovery in time."""
    course: list[int] = []
    """Good responses to the rated visitors in each interval of 0.1 s from the start."""
    attack_from_s: float = 0.0  # The start of the attack in `course`, in seconds.
    attack_to_s: float = 0.0  # The end of the attack in `course`, in seconds.
    wanted: float = 0.0
    """The rate of the rated visitors with an infinitely fast server, in pages/s."""
    starved_s: float = 0.0
    """The seconds for which the server (before the attack) and the visitors (until the attack ends)
    were runnable but did not run."""
    crowd: CrowdTally | None = None
    killed: int = 0  # The number of killed children.
    remarks: Remarks = Remarks()
    left_over: LeftOver = LeftOver()
    died: Ending | None = None  # How the server ended, if it ended by itself; None if it did not.
    ended: list[Ending] = []  # How each server ended after SIGTERM.
    seconds: float = 0.0  # The duration of the whole test.


class TortureSettings(BaseModel):
    """The settings of a robustness test."""

    attack_seconds: float | None = None
    minutes: float | None = None  # The time limit for all attacks.
    visitors: int | None = None
    think_seconds: float = 0.0  # A visitor's pause after each response.


class Record(Head, BaseModel):
    """The content of torture.json."""

    schema_name: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "out of time", "interrupted"] = "running"
    seconds: float = 0.0
    settings: TortureSettings = TortureSettings()
    notes: list[str] = []  # The servers and attacks that were left out, and why.
    subjects: list[str] = []
    attacks: list[AttackFacts] = []
    cells: list[TortureCell] = []

    @model_validator(mode="after")
    def _check_attacks(self) -> "Record":
        known = {facts.name for facts in self.attacks}
        if unknown := {cell.attack for cell in self.cells} - known:
            raise ValueError(f"attacks without a description: {', '.join(sorted(unknown))}")
        return self

    def cell(self, subject: str, attack: str) -> TortureCell | None:
        """Return the test of a server under an attack; None if there is none yet."""
        return next((c for c in self.cells if (c.subject, c.attack) == (subject, attack)), None)

    def facts(self, cell: TortureCell) -> AttackFacts:
        """Return the description of a test's attack."""
        return next(a for a in self.attacks if a.name == cell.attack)

    def broken(self) -> list[tuple[TortureCell, list[str]]]:
        """Return the tests in which promises were broken, and these promises."""
        found = [(cell, broken(cell, self.facts(cell))) for cell in self.cells]
        return [(cell, words) for cell, words in found if words]


def disturbed(cell: TortureCell) -> bool:
    """Return whether server and visitors had too little CPU time, or visitors too few responses
    before the attack. A slow server can also cause too few responses."""
    if cell.before is None:
        return False
    late = cell.starved_s > STARVED_SHARE * max(cell.attack_to_s, 0.1)
    return late or cell.before.rate < QUIET_SHARE * cell.wanted


def share(cell: TortureCell) -> float | None:
    """Return the rate during the attack divided by the rate before it; None without figures."""
    if cell.before is None or cell.during is None or not cell.before.rate:
        return None
    return cell.during.rate / cell.before.rate


def since(cell: TortureCell) -> list[Phase]:
    """Return the phases since the attack began."""
    return [phase for phase in (cell.during, cell.settling, cell.after) if phase]


def lost(cell: TortureCell, facts: AttackFacts) -> dict[str, int]:
    """Return the visitors' lost requests since the attack began, by outcome. The crowd's requests
    are included if `crowd_counts`."""
    parts = [phase.outcomes for phase in since(cell)]
    if cell.crowd and facts.crowd_counts:
        parts.append(cell.crowd.answers)
    found = sum(map(Counter, parts), Counter[str]())
    return {name: n for name, n in found.items() if name not in ("good", *facts.excused)}


def excused(cell: TortureCell, facts: AttackFacts) -> int:
    """Return the number of the visitors' excused outcomes since the attack began."""
    return sum(p.outcomes.get(outcome, 0) for p in since(cell) for outcome in facts.excused)


def verdict(cell: TortureCell, facts: AttackFacts) -> Verdict:
    """Return the verdict of a test."""
    if not cell.reached:
        return "not reached"
    if broken(cell, facts):
        return "broken"
    exact = share(cell)
    if exact is None:
        return "no figure" if cell.before else "left out"
    held = round(exact, 2)  # the value that is shown
    return next((word for word, least in LEAST.items() if held >= least), "waiting")


def broken(cell: TortureCell, facts: AttackFacts) -> list[str]:
    """Return the broken promises as texts. Reference servers make no promises."""
    if cell.kind != "server" or cell.before is None:
        return []
    wrong = sum(phase.outcomes.get("wrong", 0) for phase in (cell.before, *since(cell)))
    calm = [phase.outcomes for phase in (cell.before, cell.after) if phase]
    bad = sum(n for part in calm for outcome, n in part.items() if outcome != "good")
    promised = cell.crowd.answers if cell.crowd and facts.crowd_promised else {}
    gone = sum(n for outcome, n in promised.items() if outcome not in ("good", "unavailable"))
    left, missing, twice = cell.left_over, cell.remarks.missing, cell.remarks.twice
    remain = "left after all clients had disconnected"
    found: dict[str, object] = {
        "served no client before the attack": not cell.before.outcomes.get("good"),
        f"{cell.died.words if cell.died else ''} by itself": cell.died,
        f"had not recovered {BACK_SECONDS:.0f} s after the attack": cell.back_after_s is None
        and not cell.died,
        f"{missing:,} of {cell.remarks.answered:,} confirmed remarks "
        f"{'is' if missing == 1 else 'are'} not in Redis": missing,
        f"{plural(twice, 'remark is', 'remarks are')} in Redis more than once": twice,
        f"{plural(wrong, 'response was', 'responses were')} complete but wrong": wrong,
        f"{plural(bad, 'request')} had no correct response before or after the attack": bad,
        f"{gone:,} of {sum(promised.values()):,} requests in progress "
        f"{'was' if gone == 1 else 'were'} dropped": gone,
        f"{plural(left.connections, 'connection')} {remain}": left.connections,
        f"{plural(left.processes, 'process', 'processes')} {remain}": left.processes,
        f"{plural(left.threads, 'thread')} {remain}": left.threads,
    }
    endings = [
        f"{end.words} after SIGTERM" if end.obeyed else "did not end after SIGTERM and was killed"
        for end in cell.ended
        if not (end.obeyed and end.well)
    ]
    return [words for words, is_so in found.items() if is_so] + endings


def is_record(path: Path) -> bool:
    """Return whether `path` is a record or a folder with a record, by the file's name."""
    file = store.file_of(path, FILE)
    return file.name == FILE and file.is_file()


def save(record: Record, folder: Path) -> None:
    """Write torture.json atomically."""
    store.replace(folder / FILE, record.model_dump_json(indent=1) + "\n")


def load(path: Path) -> Record:
    """Read a torture.json, or the torture.json of a folder. Raises UserError if the file is no
    record of a robustness test, or has a newer version."""
    file, what = store.file_of(path, FILE), "record of a robustness test"
    return store.record(Record, file, what, SCHEMA_VERSION, schema_name=SCHEMA)
