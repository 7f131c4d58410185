# SPDX-License-Identifier: MIT
"""Show the progress of a sweep: a live table on a terminal, lines of text elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from rich.console import Console

from bench.readers.console import ProgressTable
from bench.readers.table import result_table
from bench.records.conditions import Conditions, RunSpec
from bench.records.figures import Run
from bench.records.results import Results
from bench.records.workloads import workload_for

WORTH_A_WORD = 1.0
"""Shorter waits, in seconds, are not printed."""


def progress_of(out: Console, results: Results, total: int) -> ProgressTable[RunSpec]:
    """Return the progress display of a sweep with `total` runs."""
    return ProgressTable(
        out, lambda spec: result_table(results, spec, out.height - 2), total, columns=28
    )


def words_for(spec: RunSpec, results: Results) -> str:
    """Return a short description of the run in progress."""
    what = f"{spec.subject} at {spec.concurrency:,}"
    if spec.conditions != Conditions(spec.conditions.workload):
        what += f" ({spec.conditions.describe()})"
    return what + (f", run {spec.run}" if results.settings.runs > 1 else "")


def took(run: Run) -> str:
    """Return the time of a run in words, and the time that the run waited before its load."""
    waited = f" after waiting {run.waited:.0f} s until older connections left TIME_WAIT"
    return f"{run.seconds:.1f} s" + (waited if run.waited > WORTH_A_WORD else "")


def line_for(run: Run) -> str:
    """Return a line with a run and its outcome."""
    configuration = f"{run.subject:<18} {run.concurrency:>6,} connections"
    return f"{configuration}  {run.conditions.describe():<12}  {outcome_text(run)}"


def outcome_text(run: Run) -> str:
    """Return a run's figures, or the reason why the run has no figures."""
    rate = run.requests_per_second
    if run.state == "held" and run.memory:
        return f"{run.memory.per_connection:>8,.0f} bytes for each connection"
    if run.state == "held" and run.calls:
        return f"{run.calls.total:>8,.2f} system calls/request"
    if run.state == "held" and run.stacks:
        return f"{run.stacks.count:>8,} {run.stacks.unit} by {run.stacks.how}"
    if rate is None:
        return f"{run.state}: {run.reason.text if run.reason else 'unknown reason'}"
    text = f"{rate:>8,.0f} requests/s"
    if run.latency:
        text += f"  99 % within {run.latency.p99:,.1f} ms"
    if run.process:
        text += f"  {run.process.cpu_us_per_request:,.1f} us CPU/request"
    if run.lower_bound:
        text += "  lower bound: the load generator was at its limit"
    elif run.bottleneck and run.bottleneck != "server":
        text += f"  bottleneck: {run.bottleneck}"
        if run.bottleneck_host and run.bottleneck_host != run.bottleneck:
            text += f" on {run.bottleneck_host}"
    if run.idle_reopened:
        text += f"  closed {run.idle_reopened:,} idle connections"
    if run.disturbed:
        text += f"  disturbed: other programs used {run.disturbed_by:.0%} of the server's CPU"
    return text


# ---- The estimated time of the remaining runs ----


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


def in_words(seconds: float | None) -> str:
    """Return a duration as text: 0:05, 1:20, 2:03:00; a question mark for None."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
