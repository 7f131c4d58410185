# SPDX-License-Identifier: MIT
"""The words before a sweep: what will be measured, where, and what stands in the way."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.doctor import doctor
from bench.readers import order
from bench.readers.console import say
from bench.readers.table import result_table
from bench.records import store
from bench.records.environment import Finding, HostInfo, Line
from bench.records.results import Results
from bench.report.charts.export import write_rates
from bench.services.private_redis import RunRedis
from bench.stations.site import Site
from bench.sweep.beginning import LOG
from bench.sweep.estimate import in_words
from bench.sweep.runs import Planned


def announce(planned: Planned, site: Site, redis: RunRedis, out: Console) -> None:
    """What will be measured, and where."""
    runs = planned.runs
    levels = ", ".join(f"{level:,}" for level in sorted({run.concurrency for run in runs}))
    conditions = "; ".join(c.describe() for c in dict.fromkeys(run.conditions for run in runs))
    say(out, f"Servers: {', '.join(planned.subjects)}")
    say(out, f"Connections: {levels}; {len(runs)} runs: {conditions}")
    say(out, f"Placement: {site.placement.note}")
    for host in site.host_infos():
        say(out, f"    {describe_host(host)}")
    for name, without in planned.left_out.items():
        say(out, f"{name} cannot serve: {'; '.join(without)}")
    if not redis.private:
        say(out, f"Redis: {redis.shown}; visits raise its visitor_count, nothing else is changed")


def show_troubles(said: Sequence[Line], findings: Sequence[Finding], out: Console) -> None:
    """What the doctor says, and the limits in the way of some levels."""
    well = sum(line.state in ("well", "note") for line in said)
    say(out, f"Doctor: {well} of {len(said)} things are as they should be")
    said_below = {finding.cure for finding in findings}
    left = [x for x in said if x.state != "note" and x.cure not in said_below]
    doctor.show_cures(left, out)
    for finding in findings:
        levels = ", ".join(f"{level:,}" for level in finding.levels)
        word = "Not possible" if finding.impossible else "Warning"
        say(out, f"{word} at {levels}: {finding.describe()}", "yellow")
        say(out, f"    cure: {finding.cure}", "yellow")
    out.print()


def describe_host(host: HostInfo) -> str:
    """A host in a line."""
    limit = f", {host.cpu_limit:.0%} of a CPU by {host.limited_by}" if host.cpu_limit else ""
    cpus = "1 CPU" if host.cpus == 1 else f"{host.cpus} CPUs"
    return f"{host.role:<8}{host.name} ({host.address}): {cpus}{limit}, Linux {host.kernel}"


# The end of a sweep: the files in their last state, the table, the charts, where they are.


def conclude(results: Results, folder: Path, out: Console) -> None:
    """Whatever has happened."""
    results.finished = datetime.now().astimezone()
    store.save(results, folder)
    out.print(result_table(results))
    charts = write_rates(folder)
    took = (results.finished - results.started).total_seconds()
    interrupted = results.state == "interrupted"
    state = "Interrupted after" if interrupted else "Done in"
    names = ["results.json", "results.csv", LOG, *(path.name for path in charts)]
    out.print(f"{state} {in_words(took)}.", markup=False)
    say(out, f"Kept in {folder}/: {', '.join(names)}")
    if interrupted:
        say(out, f"To go on: .venv/bin/zerohttpd sweep --resume {folder}")
    _answer(results, folder, out)


def _answer(results: Results, folder: Path, out: Console) -> None:
    """The last lines: who came first, and what to type next."""
    if not results.runs:
        return
    out.print()
    for found in order.orders(results):
        for line in order.lines(found, results.stalled_by):
            say(out, line)
        out.print()
    say(out, f"Next, a page of it: make report RESULTS={folder}")
