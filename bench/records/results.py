# SPDX-License-Identifier: MIT
"""The stored data of a sweep: results.json (everything) and results.csv (a row for each run).

Both are written again after every run, to a new file that then replaces the old one. So there is
always a complete file, and results survive Ctrl-C and even SIGKILL.

The schema of results.json is this module's models. `schema_version` is increased if a reader of the
older schema would misread the newer one. Files of versions 1 and 2 can be read: missing fields are
None or the default. In version 1 the server under test was in `server`, and the workload was a
path; version 2 had one machine and one instance only.
"""

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.records.conditions import CellKey, Conditions
from bench.records.environment import DoctorLine, Finding, Head, HostInfo, SystemLimits
from bench.records.figures import Bottleneck, Kind
from bench.records.peers import Peer, PeerStudy
from bench.records.plan import Part
from bench.records.run import Held, Reason, Run

SCHEMA = "zerohttpd-seven/sweep"
SCHEMA_VERSION = 3


class Cell(BaseModel):
    """A data point: all runs of one server under the same conditions at one level."""

    subject: str
    kind: Kind = "server"
    architecture: str | None = None
    conditions: Conditions
    concurrency: int
    state: Held
    reason: Reason | None = None
    median: float | None = None
    """Requests per second, median of the runs; None unless all of them are valid."""
    low: float | None = None
    high: float | None = None
    lower_bound: bool = False
    """Whether the load generator was at its limit in the median run, in one of the two in the
    middle, or in a slower one: the median could be higher."""
    bottleneck: Bottleneck | None = None
    """That of the run nearest to the median, or of the run that makes it a lower bound."""
    bottleneck_host: str | None = None
    outliers: int = 0
    """The number of runs that differ much from the others."""
    runs: int = 0
    typical: Run | None = None
    """The run nearest to the median, for figures that cannot be averaged."""


class KeptOptions(BaseModel):
    """The options of a sweep, stored so that it can be resumed."""

    parts: list[Part] = []
    """Empty: from an older version, which stored them in another form."""
    redis: str | None = None
    hosts: str | None = None
    programs: str = "."


class Settings(BaseModel):
    """The settings of a sweep."""

    model_config = ConfigDict(extra="allow")

    full: bool = False
    path: str | None = None
    runs: int = 1
    timeout_s: float | None = None
    redis: str | None = None
    """Its URL without a password, or "private"."""
    redis_settings: dict[str, str | int | None] = {}
    options: KeptOptions | None = None
    resumed: list[str] = []
    """The times at which it was resumed."""


class Results(Head, BaseModel):
    """The content of results.json."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(default=SCHEMA, alias="schema")
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "interrupted"] = "running"
    finished: datetime | None = None
    settings: Settings = Settings()
    hosts: list[HostInfo] = []
    """The hosts and their roles; empty: one machine for everything."""
    limits: SystemLimits | None = None
    findings: list[Finding] = []
    doctor: list[DoctorLine] = []
    servers: list[str] = []
    """The servers under test, in the order in which they are shown."""
    stalled_by: dict[str, str] = {}
    """Which number of silent clients blocks all others, by server: "one", "workers" (as many as it
    has workers), or "nobody" (no number does). Empty: not recorded."""
    slicing: str | None = None
    """The method of CPU quotas; empty: not possible. None: not recorded."""
    levels: list[int] = []
    workloads: list[str] = []
    studies: list[PeerStudy] = []
    """The studies that the sweep measures."""
    peers: dict[str, Peer] = {}
    """The descriptions of the reference servers; empty: not recorded."""
    left_out: dict[str, str] = {}
    """Servers that were requested but not available, and the reasons."""
    runs: list[Run] = []

    def by_cell(self) -> dict[CellKey, list[Run]]:
        """Return the runs of each configuration, in the order of their first runs."""
        groups: dict[CellKey, list[Run]] = {}
        for run in self.runs:
            groups.setdefault(run.key, []).append(run)
        return groups

    def cells(self) -> list[Cell]:
        """Return all data points, in the order of their first runs."""
        return [cell_of(runs) for runs in self.by_cell().values()]

    def conditions(self) -> list[Conditions]:
        """Return the conditions of all runs, in the order in which they were measured."""
        return list(dict.fromkeys(run.conditions for run in self.runs))


def cell_of(runs: Sequence[Run]) -> Cell:
    """Return a data point from its runs: a rate if all are valid, else the first failure."""
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
        cell.typical = sorted(runs, key=lambda run: run.cost or 0.0)[len(runs) // 2]
        return cell
    median = statistics.median(rates)
    cell.median, cell.low, cell.high = median, min(rates), max(rates)
    cell.typical = min(rated, key=lambda pair: abs(pair[0] - median))[1]
    middle = statistics.median_high(rates)
    bounded = [run for rate, run in rated if run.lower_bound and rate <= middle]
    cell.lower_bound = bool(bounded)
    decisive = bounded[0] if bounded and not cell.typical.lower_bound else cell.typical
    cell.bottleneck, cell.bottleneck_host = decisive.bottleneck, decisive.bottleneck_host
    cell.outliers = sum(run.outlier for run in runs)
    return cell


def runs_in_words(cells: Sequence[Cell]) -> str:
    """Return how often data points were measured: "one run", "median of 3 runs", "one run, at 100
    the median of 3"."""
    levels: dict[int, list[int]] = {}
    for cell in cells:
        levels.setdefault(cell.runs, []).append(cell.concurrency)
    fewest, most = min(levels, default=1), max(levels, default=1)
    if fewest == most:
        return "one run" if most == 1 else f"median of {most} runs"
    where = ", ".join(f"{level:,}" for level in sorted(set(levels[most])))
    least = "one run" if fewest == 1 else f"median of {fewest} runs"
    return f"{least}, at {where} the median of {most}"


OUTLIER_SHARE = 0.10
OUTLIER_DEVIATIONS = 4.0
OUTLIER_RUNS = 3


def flag_outliers(runs: Sequence[Run]) -> None:
    """Mark outliers among the runs of one configuration: their rate differs from the median by more
    than a tenth and by more than four times the median deviation. Needs at least three runs."""
    rates = [run.requests_per_second for run in runs]
    known = [rate for rate in rates if rate is not None]
    if len(known) < OUTLIER_RUNS:
        return
    median = statistics.median(known)
    usual = statistics.median(abs(rate - median) for rate in known)
    limit = max(OUTLIER_SHARE * median, OUTLIER_DEVIATIONS * usual)
    for run, rate in zip(runs, rates, strict=True):
        run.outlier = rate is not None and abs(rate - median) > limit
