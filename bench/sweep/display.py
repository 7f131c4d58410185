# SPDX-License-Identifier: MIT
"""Show a sweep: its plan, its progress (a live table on a terminal, lines of text elsewhere), the
remaining time, and its end."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

from bench.doctor.doctor import Diagnosis, show_fixes
from bench.readers import order
from bench.readers.console import ProgressTable, say
from bench.readers.table import result_table
from bench.records.conditions import RunSpec
from bench.records.figures import Run
from bench.records.results import Results
from bench.records.words import plural
from bench.records.workloads import workload_for
from bench.report.charts.catalogue import write_rates
from bench.stations.site import Site
from bench.studies.runs import Planned

LOG = "log.txt"
WORTH_A_WORD = 1.0
"""Shorter waits, in seconds, are not printed."""


def announce(planned: Planned, site: Site, diagnosis: Diagnosis, out: Console) -> None:
    """Print the planned measurements, their hosts, failed checks, and limits that are too low."""
    runs, redis = planned.runs, site.redis
    levels = ", ".join(f"{level:,}" for level in sorted({run.concurrency for run in runs}))
    conditions = "; ".join(c.describe() for c in dict.fromkeys(run.conditions for run in runs))
    say(out, f"Servers: {', '.join(planned.subjects)}")
    say(out, f"Connections: {levels}; {plural(len(runs), 'run')}: {conditions}")
    say(out, f"Placement: {site.placement.note}")
    for host in site.host_infos():
        limit = f", {host.cpu_limit:.0%} of a CPU by {host.limited_by}" if host.cpu_limit else ""
        cpus = f"{plural(host.cpus, 'CPU')}{limit}, Linux {host.kernel}"
        say(out, f"    {host.role:<8}{host.name} ({host.address}): {cpus}")
    for name, without in planned.left_out.items():
        say(out, f"{name} does not support: {'; '.join(without)}")
    for reason in site.left_out().values():
        say(out, reason, "yellow")
    if not redis.private:
        say(out, f"Redis: {redis.shown}; each visit changes its visitor_count, and nothing else")
    _show_problems(diagnosis, out)


def _show_problems(found: Diagnosis, out: Console) -> None:
    """Print the doctor's failed checks, and the limits that are too low for some levels."""
    well = sum(line.state in ("well", "note") for line in found.lines)
    say(out, f"Doctor: {well} of {len(found.lines)} checks passed")
    said_below = {finding.fix for finding in found.findings}
    show_fixes([x for x in found.lines if x.state != "note" and x.fix not in said_below], out)
    for finding in found.findings:
        levels = ", ".join(f"{level:,}" for level in finding.levels)
        word = "Not possible" if finding.impossible else "Warning"
        say(out, f"{word} at {levels}: {finding.describe()}", "yellow")
        say(out, f"    fix: {finding.fix}", "yellow")
    out.print()


def progress_of(out: Console, results: Results, total: int) -> ProgressTable[RunSpec]:
    """Return the progress display of a sweep with `total` runs."""
    return ProgressTable(
        out, lambda spec: result_table(results, spec, out.height - 2), total, columns=28
    )


def words_for(spec: RunSpec, results: Results) -> str:
    """Return a short description of the run in progress."""
    what = f"{spec.subject} at {spec.concurrency:,}"
    if spec.conditions.particulars():
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


# ---- The end of a sweep: the table, the charts, the names of the files ----


def conclude(results: Results, folder: Path, out: Console, with_rates: bool) -> None:
    """Print the names of a sweep's files, and the command that resumes an interrupted sweep.
    `with_rates`: also print the table, the ranking and the next command, and write the charts."""
    if with_rates:
        out.print(result_table(results))
    charts = write_rates(folder) if with_rates else []
    took = ((results.finished or results.started) - results.started).total_seconds()
    interrupted = results.state == "interrupted"
    state = "Interrupted after" if interrupted else "Done in"
    names = ["results.json", "results.csv", LOG, *(path.name for path in charts)]
    out.print(f"{state} {in_words(took)}.", markup=False)
    say(out, f"Stored in {folder}/: {', '.join(names)}")
    if interrupted:
        say(out, f"To resume: {how_to_go_on(folder)}")
    if not (with_rates and results.runs):
        return
    out.print()
    for found in order.orders(results):
        for line in order.lines(found, results.stalled_by):
            say(out, line)
        out.print()
    if any(run.conditions.rated for run in results.runs):
        say(out, f"To make a page of the results: make report RESULTS={shlex.quote(str(folder))}")


def how_to_go_on(folder: Path) -> str:
    """Return the command that resumes the sweep in `folder`."""
    return f".venv/bin/zerohttpd sweep --resume {shlex.quote(str(folder))}"


def in_words(seconds: float | None) -> str:
    """Return a duration as text: 0:05, 1:20, 2:03:00; a question mark for None."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Estimate:
    """Estimates the remaining time: a run's time is assumed to be proportional to its requests,
    including the declared warm-up requests."""

    def __init__(self, free: Callable[[RunSpec], object], warm_ups: Mapping[str, int] = {}) -> None:
        """`free` returns a true value if a run will be skipped. `warm_ups`: the declared numbers of
        warm-up requests, by server."""
        self._free, self._warm_ups = free, warm_ups
        self._known: dict[tuple[str, object], float] = {}
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
