# SPDX-License-Identifier: MIT
"""The figures of a run. Each row of metrics.csv has the name and the unit of a figure, and how it
is read from a run. `read` is the path of an attribute of the run, or the ratio of two paths. Of
several paths, the first path whose first attribute the run has is used. A file of version 1 has no
process figures and no latency, so the server's final statistics and ab's summary are used."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

from bench.records.run import Run


class Metric(NamedTuple):
    """One kind of figure: a row of metrics.csv."""

    key: str
    label: str
    """The name in table headings, tooltips and axes."""
    unit: str
    paths: str
    """The column `read`: paths, separated by spaces."""
    better: str
    """Whether "more" or "less" is better."""
    exported: str
    """Whether the exports have this figure: "yes" or "no"."""
    about: str
    """The description for the schema of the exports."""

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
"""The figures of the exports, in the order of their columns. Others are used for calculations."""
PERCENTILES = ("p50", "p90", "p99", "p999", "max")
