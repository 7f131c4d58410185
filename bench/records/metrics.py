# SPDX-License-Identifier: MIT
"""The figures of a run: name, unit, and how each is read from a run, the rows of metrics.csv.

`read` is the path of an attribute of the run, or of a ratio of two. Of several paths, the first is
used whose part the run has. So files of version 1, without process figures and latency, give the
server's final statistics and ab's summary. A figure that was not measured is None.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.run import Run


@dataclass(frozen=True)
class Metric:
    """One kind of figure."""

    key: str
    label: str
    """The name in table headings, tooltips and axes."""
    unit: str
    paths: Sequence[str]
    about: str = ""
    """The description for the schema of the exports."""
    more_is_better: bool = False

    def read(self, run: Run) -> float | None:
        """Return the figure of a run; None if it was not measured."""
        for path in self.paths:
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
    _ROWS = list(csv.DictReader(_file))
BY_KEY = {
    row["key"]: Metric(
        row["key"],
        row["label"],
        row["unit"],
        row["read"].split(),
        row["about"],
        row["better"] == "more",
    )
    for row in _ROWS
}
METRICS = tuple(BY_KEY[row["key"]] for row in _ROWS if row["exported"] == "yes")
"""The figures of the exports, in the order of their columns. Others are used for calculations."""
PERCENTILES = ("p50", "p90", "p99", "p999", "max")
