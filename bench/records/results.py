# SPDX-License-Identifier: MIT
"""The stored data of a sweep: results.json (everything) and results.csv (a row for each run). After
every run, new files replace both, so there are complete files even after SIGKILL.

The model `Results` is the schema of results.json. `schema_version` is increased if older programs
would misread the new files. Files of versions 1 to 3 can be read: missing fields are None or the
default. In version 1 the server under test was in `server`, and the workload was a path. Versions 1
and 2 had only one machine and one instance. In versions 1 to 3, baselines and reference servers had
other names.
"""

import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bench.records.conditions import CellKey, Conditions, Cores, Plan
from bench.records.environment import DoctorLine, Finding, Head, HostInfo, SystemLimits
from bench.records.figures import Run


class Published(BaseModel):
    """A row of a published table: one system under one load."""

    system: str  # The name of the system in the publication, often with its version.
    subject: str  # The name of the measured server that is compared with it.
    workload: str
    keep_alive: bool = False
    cores: Cores = "one"
    concurrency: int  # The published level.
    at: int  # The measured level that this row is compared with.
    requests_per_second: float | None = None
    """None: the run was not completed, or the rate was not published."""
    note: str = ""


class Measured(BaseModel):
    """Configurations of a study: each of these servers, under each condition, at each level."""

    subjects: list[str]
    conditions: list[Conditions]
    levels: list[int]


class StudyWords(BaseModel):
    """The texts of a study, in the study's file (see bench/studies/now.toml) and in results."""

    title: str
    question: str
    source: str
    machine: str = ""  # The machine of the published figures; empty: nothing was published.
    reference: str  # The server that ratios refer to.
    references: dict[str, str] = {}
    """Other servers that ratios refer to, for workloads that `reference` does not serve."""
    equal: list[str]  # The settings that were equal for all servers, a line each.
    changed: list[str] = []
    """Changes since publication, and the reasons why ratios differ today, a line each."""


class PeerStudy(StudyWords):
    """A study as it was declared when its servers were measured."""

    name: str
    published: list[Published] = []
    measured: list[Measured] = []

    def reference_of(self, workload: str) -> str:
        """Return the server that ratios under a workload refer to."""
        return self.references.get(workload, self.reference)

    def has(self, key: CellKey) -> bool:
        """Return whether a configuration belongs to the study."""
        return any(
            key.subject in some.subjects
            and key.conditions in some.conditions
            and key.concurrency in some.levels
            for some in self.measured
        )


BASELINE, ITSELF = OTHER_SIDES = ("baseline", "itself")
"""The other side of a ratio: the baseline of a server, or the server under other conditions."""


class Expect(BaseModel):
    """An expectation of a study: a limit for a figure, or for its ratio to another server's figure.
    Additional keys are conditions with their values."""

    model_config = ConfigDict(extra="allow", frozen=True)

    figure: str = "cpu_load"  # A key of metrics.csv.
    server: str = ""  # Empty: each server without its own version of this expectation.
    versus: tuple[str, ...] = ()
    """Server names or OTHER_SIDES, for ratios; empty: the limit is for the figure itself."""
    workloads: tuple[str, ...] = ()  # Empty: all workloads.
    level: int | None = None  # The number of connections; None: any number.
    than: dict[str, bool | int | float | str] = {}
    """The other side's conditions (also `workload` and `level`) that differ from this side's."""
    limit: float | None = None  # None: the ratio is shown without a target.
    sense: Literal["at most", "at least"] = "at most"

    @property
    def conditions(self) -> dict[str, object]:
        """Return the conditions to which the expectation applies."""
        return self.model_extra or {}

    def allows(self, value: float) -> bool:
        """Return whether a figure or a ratio meets the limit, or whether there is no limit."""
        if self.limit is None:
            return True
        return value <= self.limit if self.sense == "at most" else value >= self.limit


class Peer(BaseModel):
    """The description of a reference server, for readers of results."""

    about: str
    language: str
    origin: str
    how: str  # The processes or threads of the server, and how they wait for events.
    resembles: list[str]  # The servers of this project that have a similar architecture.
    settings: list[str]  # Settings that were changed for a fair comparison.
    warm_up: int
    keeps: str
    closes: str


# ---- Sweeps ----

SCHEMA = "zerohttpd-seven/sweep"
SCHEMA_VERSION = 4


class KeptOptions(BaseModel):
    """The options of a sweep that are stored for resuming it."""

    model_config = ConfigDict(frozen=True, revalidate_instances="subclass-instances")

    parts: tuple[Plan, ...] = ()
    """Empty in the oldest records, which stored one plan instead of parts."""
    redis: str | None = None
    hosts: Path | None = None  # The file that names the hosts; None: everything on this machine.
    programs: Path = Path()  # The folder of the servers' executables.

    @field_validator("parts", mode="before")
    @classmethod
    def _with_servers(cls, parts: Sequence[Any]) -> list[object]:
        """Return the parts in today's form: an older version stored a nested plan in each part."""
        return [{**one, **one.get("plan", {})} if isinstance(one, dict) else one for one in parts]


class Settings(BaseModel):
    """The settings of a sweep."""

    model_config = ConfigDict(extra="allow")

    full: bool = False
    path: str | None = None
    runs: int = 1
    timeout_s: float | None = None
    redis: str | None = None  # The URL of Redis without a password, or "private".
    redis_settings: dict[str, str | int | None] = {}
    options: KeptOptions | None = None
    resumed: list[str] = []  # The times at which the sweep was resumed.


class Results(Head, BaseModel):
    """The content of results.json."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(default=SCHEMA, alias="schema")
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "interrupted"] = "running"
    finished: datetime | None = None
    settings: Settings = Settings()
    hosts: list[HostInfo] = []  # The hosts and their roles; empty: one machine for everything.
    limits: SystemLimits | None = None
    findings: list[Finding] = []
    doctor: list[DoctorLine] = []
    servers: list[str] = []  # The servers under test, in the order in which they are shown.
    stalled_by: dict[str, str] = {}
    """The number of silent clients that block all other clients, by server: "one", "workers" (one
    for each worker), or "none". Older records may have another word. Empty: not recorded."""
    slicing: str | None = None  # The method of CPU quotas; empty: not possible. None: not recorded.
    levels: list[int] = []
    workloads: list[str] = []
    studies: list[PeerStudy] = []  # The studies that the sweep measures.
    expect: list[Expect] = []  # The expectations of these studies.
    peers: dict[str, Peer] = {}  # The descriptions of the reference servers; empty: not recorded.
    left_out: dict[str, str] = {}  # Servers that were requested but not available, and the reasons.
    runs: list[Run] = []

    def conditions(self) -> list[Conditions]:
        """Return the conditions of all runs, in the order in which they were measured."""
        return list(dict.fromkeys(run.conditions for run in self.runs))

    def circumstances(self) -> dict[str, object]:
        """Return the facts that affect all figures, by name: the machine, and the versions of the
        programs. Unrecorded facts are left out."""
        versions = self.versions.model_dump(include={"ab", "oha", "wrk", "redis", "nginx"})
        found: dict[str, object] = {"kernel": self.machine.kernel, "CPU": self.machine.cpu_model}
        found |= {"CPUs": self.machine.cpus, "sources": self.versions.sources, **versions}
        for kind in ("servers", "references", "compilers"):
            named = getattr(self.versions, kind).items()
            found |= {f"{kind.removesuffix('s')} of {name}": version for name, version in named}
        return {name: value for name, value in found.items() if value is not None}


OUTLIER_SHARE, OUTLIER_DEVIATIONS, OUTLIER_RUNS = 0.10, 4.0, 3


def flag_outliers(runs: Sequence[Run]) -> None:
    """Mark outliers among the runs of one configuration. The rate of an outlier differs from the
    median by more than a tenth, and by more than four times the median deviation. If there are
    fewer than three rates, no run is marked."""
    rates = [run.requests_per_second for run in runs]
    known = [rate for rate in rates if rate is not None]
    if len(known) < OUTLIER_RUNS:
        return
    median = statistics.median(known)
    usual = statistics.median(abs(rate - median) for rate in known)
    limit = max(OUTLIER_SHARE * median, OUTLIER_DEVIATIONS * usual)
    for run, rate in zip(runs, rates, strict=True):
        run.outlier = rate is not None and abs(rate - median) > limit
