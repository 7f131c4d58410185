# SPDX-License-Identifier: MIT
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
    """The load generator was at its limit in a run without which the median could be higher: the
    median one, one of the two in the middle, or a slower one."""
    bottleneck: Bottleneck | None = None
    """As the run nearest to the median has it, unless another one makes it a lower bound."""
    bottleneck_host: str | None = None
    outliers: int = 0
    """How many runs are far from the others."""
    runs: int = 0
    typical: Run | None = None
    """The run nearest to the median: for figures that are not to be averaged."""


class KeptOptions(BaseModel):
    """What was asked for, so that it can be resumed."""

    parts: list[Part] = []
    """Empty: an older version did not keep them so."""
    redis: str | None = None
    hosts: str | None = None
    programs: str = "."


class Settings(BaseModel):
    """How a sweep was made."""

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
    """When."""


class Results(Head, BaseModel):
    """The content of results.json."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(default=SCHEMA, alias="schema")
    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete", "interrupted"] = "running"
    finished: datetime | None = None
    settings: Settings = Settings()
    hosts: list[HostInfo] = []
    """The hosts and what they are there for; empty: one machine for everything."""
    limits: SystemLimits | None = None
    findings: list[Finding] = []
    doctor: list[DoctorLine] = []
    servers: list[str] = []
    """The subjects, in the order in which they are shown."""
    stalled_by: dict[str, str] = {}
    """How many silent clients shut out all others, by the subjects of which that is known:
    "nobody", "one", as many as there are "workers". Empty: not recorded."""
    slicing: str | None = None
    """How servers could be given a quota of CPU time; empty: they could not. None: not recorded."""
    levels: list[int] = []
    workloads: list[str] = []
    studies: list[PeerStudy] = []
    """Those that it was made for; empty: none."""
    peers: dict[str, Peer] = {}
    """What the strangers among the subjects say of themselves; empty: not recorded."""
    left_out: dict[str, str] = {}
    """Subjects that were asked for and could not be had, and why."""
    runs: list[Run] = []

    def by_cell(self) -> dict[CellKey, list[Run]]:
        """The runs of each cell, in the order in which the cells were begun."""
        groups: dict[CellKey, list[Run]] = {}
        for run in self.runs:
            groups.setdefault(run.key, []).append(run)
        return groups

    def cells(self) -> list[Cell]:
        """The cells, in the order in which their first runs were made."""
        return [cell_of(runs) for runs in self.by_cell().values()]

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
    """How often cells were measured: "one run", "median of 3 runs", "one run, at 100 the median of
    3"."""
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
