# SPDX-License-Identifier: MIT
"""The kinds of figures, and data points: all runs of one server under the same conditions at one
level, with their figures. A figure is the median of the runs, with the lowest and the highest
value. Tables, charts, comparisons and exports read these figures."""

import csv
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bench.records.conditions import CellKey
from bench.records.figures import QUIET, Held, HostFigures, Reason, Run, grouped
from bench.records.results import Results

LEAST_NOISE = 0.03
"""The least noise of several runs. Smaller differences are never significant."""
NOISE_OF_ONE = 0.10
"""The assumed noise of a single run."""


class Metric(NamedTuple):
    """One kind of figure of a run: a row of metrics.csv. A path in the column `read` leads to
    an attribute of the run, or to the two attributes of a ratio. If there are several paths, the
    first whose beginning (e.g. `latency`) is not None in the run is used. For example, files of
    version 1 have no process figures and no latency."""

    key: str
    label: str  # The name in table headings, tooltips and axes.
    unit: str
    paths: str  # The column `read`: paths, separated by spaces.
    better: str  # Whether "more" or "less" is better.
    exported: str  # Whether the exports have this figure: "yes" or "no".
    about: str  # The description for the schema of the exports.

    def read(self, run: Run) -> float | None:
        """Return the figure of a run; None if it was not measured."""
        for path in self.paths.split():
            if getattr(run, path.split(".")[0]) is not None:
                above, _, below = path.partition("/")
                value, by = _at(run, above), _at(run, below) if below else None
                return value if not below else value / by if value is not None and by else None
        return None


def _at(run: Run, path: str) -> float | None:
    found: Any = run
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else getattr(found, name)
    value: float | None = found
    return value


with Path(__file__).with_name("metrics.csv").open(encoding="utf-8", newline="") as _file:
    _, *_ROWS = csv.reader(_file)
BY_KEY = {key: Metric(key, *more) for key, *more in _ROWS}
METRICS = tuple(metric for metric in BY_KEY.values() if metric.exported == "yes")
"""The figures of the exports, in the order of their columns. The other figures are only for
tables and calculations."""
PERCENTILES = ("p50", "p90", "p99", "p999", "max")
HOST_FIGURES = tuple(name for name in HostFigures.model_fields if name not in ("role", "name"))


@dataclass(frozen=True)
class Spread:
    """A figure of several runs: median and range."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of the values of all runs; there must be at least one."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    @property
    def noise(self) -> float:
        """Return range / median, at least LEAST_NOISE. A single run has NOISE_OF_ONE instead."""
        known = (self.high - self.low) / self.median if self.median else 0.0
        return max(known, LEAST_NOISE) if self.runs > 1 else NOISE_OF_ONE


def verdict(
    before: Spread | None, after: Spread | None, key: str = "rate"
) -> Literal["same", "better", "worse"] | None:
    """Return whether a figure differs significantly, and in which direction; None if one of the two
    is missing. The difference is significant if the ranges do not overlap and the medians differ by
    more than the larger noise."""
    if before is None or after is None:
        return None
    overlap = before.low <= after.high and after.low <= before.high
    change = after.median / before.median - 1 if before.median else 0.0
    if overlap or abs(change) <= max(before.noise, after.noise):
        return "same"
    return "better" if (change > 0) == (BY_KEY[key].better == "more") else "worse"


def spread_of(runs: Iterable[Run], key: str) -> Spread | None:
    """Return a figure's spread over the valid runs that have it; None if no run has it."""
    read = (BY_KEY[key].read(run) for run in runs if run.state == "held")
    known = [float(value) for value in read if value is not None]
    return Spread.of(known) if known else None


class Point:
    """The data point of one configuration, with figures only if all of its runs are valid."""

    def __init__(self, runs: Sequence[Run]) -> None:
        first = runs[0]
        self.runs, self.key = runs, first.key
        self.subject, self.conditions, self.level = first.key
        self.kind = first.kind
        self.architecture = first.architecture or (
            first.subject if first.kind == "server" else None
        )
        bad = next((run for run in runs if run.state != "held"), None)
        self.state: Held = bad.state if bad else "held"
        self.reason: Reason | None = bad.reason if bad else None
        self._spreads: dict[str, Spread | None] = {}

    def spread(self, key: str) -> Spread | None:
        """Return one kind of figure; None if it was not measured or a run is not valid."""
        if key not in self._spreads:
            self._spreads[key] = spread_of(self.runs, key) if self.state == "held" else None
        return self._spreads[key]

    def of_all(self, key: str) -> Spread | None:
        """Return one kind of figure; None unless each run has it."""
        found = self.spread(key)
        return found if found and found.runs == len(self.runs) else None

    def by_run(self, key: str) -> dict[int, float]:
        """Return one kind of figure by the number of the run; empty unless each run has it."""
        if not self.of_all(key):
            return {}
        return {run.run: BY_KEY[key].read(run) or 0.0 for run in self.runs}

    def get(self, key: str) -> float | None:
        """Return the median of one kind of figure; None if `spread` returns None."""
        found = self.spread(key)
        return found.median if found else None

    def __getitem__(self, key: str) -> float:
        """Return the median of one kind of figure; raise KeyError if `get` returns None."""
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    @property
    def held(self) -> bool:
        """Return whether the data point is valid and has a rate."""
        return self.spread("rate") is not None

    @property
    def outliers(self) -> int:
        """Return the number of outliers, see `flag_outliers`; 0 without a valid rate."""
        return sum(run.outlier for run in self.runs) if self.held else 0

    @property
    def disturbed(self) -> bool:
        """Return whether other programs used much of the server's CPU (median of the runs). False
        if the server used up its CPU quota."""
        found = (BY_KEY["foreign_share"].read(run) for run in self.runs)
        known = [share for share in found if share is not None]
        sliced = self.conditions.quota and self.bottleneck == "server"
        return bool(known) and not sliced and statistics.median(known) > QUIET

    @cached_property
    def typical(self) -> Run | None:
        """Return the run nearest to the median, for figures that cannot be averaged."""
        if self.state != "held":
            return None
        key = "rate" if self.held else "probed"
        middle, read = self.get(key) or 0.0, BY_KEY[key].read
        return min(self.runs, key=lambda run: abs((read(run) or 0.0) - middle))

    @cached_property
    def _decisive(self) -> Run | None:
        """Return the run nearest to the median, or another run that makes the median a lower bound:
        the load generator was at its limit, and the rate is at most the median (of two middle
        rates, the higher one)."""
        typical = self.typical
        if typical is None or typical.lower_bound or not self.held:
            return typical
        rated = [(run, rate) for run in self.runs if (rate := run.requests_per_second) is not None]
        middle = statistics.median_high(rate for _, rate in rated)
        return next((run for run, rate in rated if run.lower_bound and rate <= middle), typical)

    @property
    def lower_bound(self) -> bool:
        """Return whether the median could be higher: the load generator was at its limit."""
        return self.held and self._decisive is not None and self._decisive.lower_bound

    @property
    def bottleneck(self) -> str | None:
        """Return the host or program that was at its limit; None if it is unknown."""
        return self._decisive.bottleneck if self._decisive else None

    @property
    def bottleneck_host(self) -> str | None:
        """Return the name of the host at its limit, if there are several hosts."""
        return self._decisive.bottleneck_host if self._decisive else None

    @cached_property
    def hosts(self) -> tuple[HostFigures, ...]:
        """Return the medians of each host's figures over the runs."""
        hosts = (host for run in self.runs if self.state == "held" for host in run.hosts)
        groups = grouped(((host.role, host.name), host) for host in hosts)
        return tuple(
            found[0].model_copy(update={name: _middle(found, name) for name in HOST_FIGURES})
            for found in groups.values()
        )


def _middle(hosts: Sequence[HostFigures], name: str) -> float | None:
    known = [value for host in hosts if (value := getattr(host, name)) is not None]
    return statistics.median_high(known) if known else None


def data_points(results: Results) -> dict[CellKey, Point]:
    """Return all data points, in the order of their first runs."""
    groups = grouped((run.key, run) for run in results.runs)
    return {key: Point(runs) for key, runs in groups.items()}


def best_level(points: Iterable[Point]) -> int:
    """Return the level at which servers are compared: the level with most valid points. In a tie,
    the larger minimum of runs per valid point decides, then the higher level. Return 0 without
    points."""
    levels: dict[int, list[int]] = {}
    for point in points:
        levels.setdefault(point.level, []).extend([len(point.runs)] if point.held else [])
    return max(levels, key=lambda n: (len(levels[n]), min(levels[n], default=0), n), default=0)


def ratios(above: Point | None, below: Point | None, key: str) -> dict[int, float]:
    """Return the ratios of two data points by the number of the run; empty unless all runs of both
    have the figure. Two runs with the same number are close in time, so a disturbance affects both
    equally."""
    over, under = (point.by_run(key) if point else {} for point in (above, below))
    return {number: over[number] / under[number] for number in over if under.get(number)}


def ratio(above: Point | None, below: Point | None, key: str) -> float | None:
    """Return the ratio of two medians; None if a run lacks the figure, or if the second is 0."""
    over, under = (point.of_all(key) if point else None for point in (above, below))
    return over.median / under.median if over and under and under.median else None


def runs_in_words(points: Iterable[Point]) -> str:
    """Return how often data points were measured, e.g. "one run, at 100 the median of 3"."""
    levels = grouped((len(point.runs), point.level) for point in points)
    fewest, most = min(levels, default=1), max(levels, default=1)
    if fewest == most:
        return "one run" if most == 1 else f"median of {most} runs"
    where = ", ".join(f"{level:,}" for level in sorted(set(levels[most])))
    least = "one run" if fewest == 1 else f"median of {fewest} runs"
    return f"{least}, at {where} the median of {most}"
