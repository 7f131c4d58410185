# SPDX-License-Identifier: MIT
"""How long the rest of a sweep will take, judged by what the runs so far took. Pure."""

from collections.abc import Container, Sequence

from bench.records.conditions import Conditions
from bench.records.plan import RunSpec
from bench.records.run import Run


class Estimate:
    """Learns from each run. A run's cost is taken as proportional to its requests."""

    def __init__(self, free: Container[int] = ()) -> None:
        """`free`: levels whose runs are not made and cost nothing."""
        self._free = free
        self._known: dict[tuple[str, Conditions], float] = {}
        """Seconds per request, by subject and conditions."""

    def learn(self, run: Run) -> None:
        """Remember what a run took; the latest of its kind counts. Skipped runs teach nothing."""
        if run.state != "skipped":
            self._known[run.subject, run.conditions] = run.seconds / run.requests

    def seconds_left(self, rest: Sequence[RunSpec]) -> float | None:
        """Seconds for the runs still to be made; None while nothing is known."""
        if not self._known:
            return None
        return sum(
            min(spec.requests * self._per_request(spec), spec.timeout)
            for spec in rest
            if spec.concurrency not in self._free
        )

    def _per_request(self, spec: RunSpec) -> float:
        """What is known of the very same; else of the same subject; else the mean of all."""
        same = self._known.get((spec.subject, spec.conditions))
        if same is not None:
            return same
        of_subject = [cost for (name, _), cost in self._known.items() if name == spec.subject]
        costs = of_subject or list(self._known.values())
        return sum(costs) / len(costs)


def in_words(seconds: float | None) -> str:
    """A duration for people: 0:05, 1:20, 2:03:00; a question mark for None."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
