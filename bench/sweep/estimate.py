# SPDX-License-Identifier: MIT
"""The estimated time of the remaining runs of a sweep."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from bench.records.conditions import Conditions, RunSpec
from bench.records.figures import Run
from bench.records.workloads import workload_for


class Estimate:
    """Estimates the remaining time: a run's time is assumed to be proportional to its requests,
    including the declared warm-up requests."""

    def __init__(self, free: Callable[[RunSpec], object], warm_ups: Mapping[str, int] = {}) -> None:
        """`free` returns a true value if a run will be skipped. `warm_ups`: the declared numbers of
        warm-up requests, by server."""
        self._free, self._warm_ups = free, warm_ups
        self._known: dict[tuple[str, Conditions], float] = {}
        """Seconds per request of the last run, by server and conditions."""

    def learn(self, run: Run) -> None:
        """Store a run's time per request for its server and conditions. Ignore skipped runs."""
        if run.state != "skipped":
            self._known[run.subject, run.conditions] = run.seconds / self._all_requests(run)

    def seconds_left(self, rest: Sequence[RunSpec]) -> float | None:
        """Return the seconds for the remaining runs; None if no time is known."""
        if not self._known:
            return None
        return sum(self._seconds(spec) for spec in rest if not self._free(spec))

    def _seconds(self, spec: RunSpec) -> float:
        requests = self._all_requests(spec)
        # The timeout of the warm-up grows with its number of requests.
        longest = spec.timeout * requests / spec.requests
        # First choice: this server under these conditions; then this server; then all servers.
        cost = self._known.get((spec.subject, spec.conditions))
        if cost is None:
            costs = [cost for (name, _), cost in self._known.items() if name == spec.subject]
            cost = fmean(costs or self._known.values())
        return min(requests * cost, longest)

    def _all_requests(self, one: Run | RunSpec) -> int:
        """Return the number of requests of a run and of its declared warm-up."""
        if one.conditions.asks_once:
            return one.requests
        share = workload_for(one.conditions.workload).share
        return one.requests + round(self._warm_ups.get(one.subject, 0) * share)
