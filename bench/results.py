"""What is kept of a sweep: results.json (all of it) and results.csv (a row for each run).

Both are written anew after every run, beside the old file and then put in its place, so that at
any moment there is a whole file: Ctrl-C, and even a kill, keeps what was measured.

The form of results.json is this module's models; `schema_version` rises when a reader of the
older form would misread the newer one. Files of versions 1 and 2 open: what they do not have is
None or the default, and their names are those of today (in version 1 `server` was what is `subject`
now, and the workload was a path; version 2 knew one machine and one instance only).
"""

import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from bench import json_file
from bench.ab_output import AbFigures
from bench.banner import ServerStatistics
from bench.checks import Check
from bench.conditions import CellKey, Conditions
from bench.csv_rows import csv_text
from bench.doctor import Line
from bench.errors import UserError, in_words
from bench.limits import Finding
from bench.measurement import (
    Balancer,
    Bottleneck,
    HostFigures,
    HostInfo,
    Kind,
    Latency,
    LittlesLaw,
    Mode,
    OpenLoopFigures,
    OtherProcess,
    ProcessFigures,
)
from bench.placement import Placement
from bench.system_limits import SystemLimits

SCHEMA = "zerohttpd-seven/sweep"
SCHEMA_VERSION = 3

Held = Literal["held", "failed", "skipped"]


OLD_WORKLOADS = {"/guestbook": "guestbook", "/redirect": "redirect", "/sorted": "sorted"}
"""Paths that stand for a workload in files of version 1."""


class Reason(BaseModel):
    """Why there is no figure."""

    label: str
    """A word or two, for a table."""
    text: str
    """A sentence."""


class Run(BaseModel):
    """One run of a cell. A run that does not hold has no figure, whatever was printed."""

    model_config = ConfigDict(populate_by_name=True)

    subject: str = Field(validation_alias=AliasChoices("subject", "server"))
    """What was measured: a server ("epoll"), a floor ("floor-epoll"), a stranger ("nginx")."""
    kind: Kind = "server"
    architecture: str | None = None
    """The server whose architecture the subject has: "epoll" for epoll and for floor-epoll."""
    workload: str
    keep_alive: bool = False
    idle: int = 0
    redis_delay_ms: float = 0.0
    mode: Mode = "closed"
    rate: float | None = None
    instances: int = 1
    """Processes of the server side by side; the figures are their sum."""
    balancer: Balancer = "none"
    concurrency: int
    """Connections at once; in the open loop the most that may be open."""
    run: int
    """Counted from 1."""
    state: Held
    reason: Reason | None = None
    outlier: bool = False
    """Far from the other runs of its cell; it still counts."""
    requests: int
    """As asked for."""
    started: datetime | None = None
    seconds: float = 0.0
    """The whole run: start of the server, warm-up, load, end of the server."""
    waited: float = 0.0
    """Seconds, beside those, until the kernel had room for what it leaves: `bench.time_wait`."""
    probe_status: int | None = None
    idle_reopened: int | None = None
    """How many of the idle connections the server closed during the load; they were opened anew."""
    ab_command: list[str] = []
    """The load generator's command line, also where it is not ab."""
    ab: AbFigures | None = None
    open_loop: OpenLoopFigures | None = None
    latency: Latency | None = None
    process: ProcessFigures | None = None
    load_process: OtherProcess | None = None
    redis_process: OtherProcess | None = None
    nginx_process: OtherProcess | None = None
    hosts: list[HostFigures] = []
    """The hosts during the load; empty where everything ran on one machine."""
    bottleneck: Bottleneck | None = None
    """Who was at the limit of what it had: "none" where all had time to spare."""
    bottleneck_host: str | None = None
    """By name; None where everything ran on one machine, or nobody was at the limit."""
    lower_bound: bool = False
    """The load generator was at its limit and the server was not: it could have done more."""
    littles_law: LittlesLaw | None = None
    server_statistics: ServerStatistics | None = None
    """What the server itself printed at its end; strangers and floors print nothing."""
    checks: list[Check] = []

    @field_validator("workload")
    @classmethod
    def _name_of_path(cls, value: str) -> str:
        return OLD_WORKLOADS.get(value, value)

    @property
    def conditions(self) -> Conditions:
        """All but subject, level and number."""
        return Conditions(*(getattr(self, name) for name in Conditions._fields))

    @property
    def key(self) -> CellKey:
        """The cell it belongs to."""
        return CellKey(self.subject, self.conditions, self.concurrency)

    @property
    def requests_per_second(self) -> float | None:
        """The figure; None if the run does not hold."""
        if self.state != "held":
            return None
        if self.open_loop:
            return self.open_loop.rate_done
        return self.ab.requests_per_second if self.ab else None


class Cell(BaseModel):
    """All runs of one subject under the same conditions at one level, put together."""

    subject: str
    kind: Kind = "server"
    architecture: str | None = None
    conditions: Conditions
    concurrency: int
    state: Held
    reason: Reason | None = None
    median: float | None = None
    """Requests per second, median of the runs; None unless all of them held."""
    low: float | None = None
    high: float | None = None
    lower_bound: bool = False
    """The load generator was at its limit in the median run, or in one that was slower."""
    bottleneck: Bottleneck | None = None
    """As the run nearest to the median has it, unless a slower one makes it a lower bound."""
    outliers: int = 0
    """How many runs are far from the others."""
    runs: int = 0
    typical: Run | None = None
    """The run nearest to the median: for figures that are not to be averaged."""


class Results(BaseModel):
    """The content of results.json."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(default=SCHEMA, alias="schema")
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "interrupted"] = "running"
    started: datetime
    finished: datetime | None = None
    command: list[str] = []
    machine: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    hosts: list[HostInfo] = []
    """The hosts and what they are there for; empty: one machine for everything."""
    placement: Placement | None = None
    limits: SystemLimits | None = None
    findings: list[Finding] = []
    doctor: list[Line] = []
    servers: list[str] = []
    """The subjects, in the order in which they are shown."""
    levels: list[int] = []
    workloads: list[str] = []
    runs: list[Run] = []

    def cells(self) -> list[Cell]:
        """The cells, in the order in which their first runs were made."""
        groups: dict[CellKey, list[Run]] = {}
        for run in self.runs:
            groups.setdefault(run.key, []).append(run)
        return [cell_of(runs) for runs in groups.values()]

    def conditions(self) -> list[Conditions]:
        """All conditions under which there are runs, in the order in which they were measured."""
        return list(dict.fromkeys(run.conditions for run in self.runs))


def cell_of(runs: Sequence[Run]) -> Cell:
    """Put the runs of one cell together: a figure if all held, else the reason of the first."""
    first = runs[0]
    cell = Cell(
        subject=first.subject,
        kind=first.kind,
        architecture=first.architecture,
        conditions=first.conditions,
        concurrency=first.concurrency,
        state="held",
        runs=len(runs),
    )
    bad = next((run for run in runs if run.state != "held"), None)
    if bad is not None:
        cell.state, cell.reason = bad.state, bad.reason
        return cell
    rated = [(run.requests_per_second, run) for run in runs if run.requests_per_second is not None]
    rates = [rate for rate, _ in rated]
    if not rates:
        return cell
    median = statistics.median(rates)
    cell.median, cell.low, cell.high = median, min(rates), max(rates)
    cell.typical = min(rated, key=lambda pair: abs(pair[0] - median))[1]
    cell.lower_bound = any(run.lower_bound and rate <= median for rate, run in rated)
    cell.bottleneck = cell.typical.bottleneck
    if cell.lower_bound and cell.bottleneck == "server":
        cell.bottleneck = "load"
    cell.outliers = sum(run.outlier for run in runs)
    return cell


OUTLIER_SHARE = 0.10
OUTLIER_DEVIATIONS = 4.0
OUTLIER_RUNS = 3


def flag_outliers(runs: Sequence[Run]) -> None:
    """Mark the runs of one cell whose rate is far from the median: by more than a tenth of it,
    and by more than four times what is usual in that cell. Of fewer than three nobody can say."""
    rates = [run.requests_per_second for run in runs]
    known = [rate for rate in rates if rate is not None]
    if len(known) < OUTLIER_RUNS:
        return
    median = statistics.median(known)
    usual = statistics.median(abs(rate - median) for rate in known)
    limit = max(OUTLIER_SHARE * median, OUTLIER_DEVIATIONS * usual)
    for run, rate in zip(runs, rates, strict=True):
        run.outlier = rate is not None and abs(rate - median) > limit


def make_folder(parent: Path, now: datetime) -> Path:
    """A new folder below `parent`, named after the time. Raises UserError if it cannot be made."""
    name = now.strftime("%Y-%m-%d_%H-%M-%S")
    for suffix in ("", *(f"_{n}" for n in range(2, 100))):
        folder = parent / (name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot make the folder for the results: {error}") from error
        return folder
    raise UserError(f"cannot make a folder for the results in {parent}")


def save(results: Results, folder: Path) -> None:
    """Write results.json and results.csv, each at once."""
    replace(folder / "results.json", results.model_dump_json(indent=1, by_alias=True) + "\n")
    replace(folder / "results.csv", csv_text(results.runs))


def file_of(path: Path) -> Path:
    """The results.json in a folder; of a file, itself."""
    return path / "results.json" if path.is_dir() else path


def load(path: Path) -> Results:
    """Read a results.json, or the one in a folder. Raises UserError if it is none, or of a newer
    form."""
    path = file_of(path)
    content = json_file.read(path)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{path} is no result of a sweep")
    version = content.get("schema_version", 1)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(f"{path} was written by a newer version of this program")
    try:
        return Results.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} is no result of a sweep: {in_words(error)}") from error


def replace(path: Path, content: str) -> None:
    """Put a file in place at once, so that no reader ever sees half of it."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(content)
    beside.replace(path)
