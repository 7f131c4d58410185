# SPDX-License-Identifier: MIT
"""What a sweep says before its first run and after its last, and into its log."""

import contextlib
import logging
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from bench.doctor.doctor import Diagnosis, show_cures
from bench.readers import order
from bench.readers.console import say
from bench.readers.table import result_table
from bench.records.environment import DoctorLine, Finding, HostInfo
from bench.records.results import Results
from bench.records.words import plural
from bench.report.charts.export import write_rates
from bench.sweep.cell import Bench
from bench.sweep.display import in_words
from bench.sweep.runs import Planned

LOG = "log.txt"


def announce(planned: Planned, bench: Bench, diagnosis: Diagnosis, out: Console) -> None:
    """What will be measured, and where; and what stands in the way."""
    runs, site, redis = planned.runs, bench.site, bench.redis
    levels = ", ".join(f"{level:,}" for level in sorted({run.concurrency for run in runs}))
    conditions = "; ".join(c.describe() for c in dict.fromkeys(run.conditions for run in runs))
    say(out, f"Servers: {', '.join(planned.subjects)}")
    say(out, f"Connections: {levels}; {plural(len(runs), 'run')}: {conditions}")
    say(out, f"Placement: {site.placement.note}")
    for host in site.host_infos():
        say(out, f"    {describe_host(host)}")
    for name, without in planned.left_out.items():
        say(out, f"{name} cannot serve: {'; '.join(without)}")
    for reason in site.left_out().values():
        say(out, reason, "yellow")
    if not redis.private:
        say(out, f"Redis: {redis.shown}; visits raise its visitor_count, nothing else is changed")
    _show_troubles(diagnosis.lines, diagnosis.findings, out)


def _show_troubles(said: Sequence[DoctorLine], findings: Sequence[Finding], out: Console) -> None:
    """What the doctor says, and the limits in the way of some levels."""
    well = sum(line.state in ("well", "note") for line in said)
    say(out, f"Doctor: {well} of {len(said)} things are as they should be")
    said_below = {finding.cure for finding in findings}
    left = [x for x in said if x.state != "note" and x.cure not in said_below]
    show_cures(left, out)
    for finding in findings:
        levels = ", ".join(f"{level:,}" for level in finding.levels)
        word = "Not possible" if finding.impossible else "Warning"
        say(out, f"{word} at {levels}: {finding.describe()}", "yellow")
        say(out, f"    cure: {finding.cure}", "yellow")
    out.print()


def describe_host(host: HostInfo) -> str:
    """A host in a line."""
    limit = f", {host.cpu_limit:.0%} of a CPU by {host.limited_by}" if host.cpu_limit else ""
    cpus = plural(host.cpus, "CPU") + limit
    return f"{host.role:<8}{host.name} ({host.address}): {cpus}, Linux {host.kernel}"


# The end of a sweep: the files in their last state, the table, the charts, where they are.


def conclude(results: Results, folder: Path, out: Console) -> None:
    """Whatever has happened."""
    out.print(result_table(results))
    conclude_briefly(results, folder, write_rates(folder), out)
    _answer(results, folder, out)


def conclude_briefly(results: Results, folder: Path, charts: Sequence[Path], out: Console) -> None:
    """What is kept, and how to go on."""
    took = ((results.finished or results.started) - results.started).total_seconds()
    interrupted = results.state == "interrupted"
    state = "Interrupted after" if interrupted else "Done in"
    names = ["results.json", "results.csv", LOG, *(path.name for path in charts)]
    out.print(f"{state} {in_words(took)}.", markup=False)
    say(out, f"Kept in {folder}/: {', '.join(names)}")
    if interrupted:
        say(out, f"To go on: {how_to_go_on(folder)}")


def how_to_go_on(folder: Path) -> str:
    """The command that makes the runs which are missing."""
    return f".venv/bin/zerohttpd sweep --resume {shlex.quote(str(folder))}"


def _answer(results: Results, folder: Path, out: Console) -> None:
    """The last lines: who came first, and what to type next."""
    if not results.runs:
        return
    out.print()
    for found in order.orders(results):
        for line in order.lines(found, results.stalled_by):
            say(out, line)
        out.print()
    if any(run.conditions.rated for run in results.runs):
        say(out, f"Next, a page of it: make report RESULTS={shlex.quote(str(folder))}")


@contextlib.contextmanager
def log_into(folder: Path) -> Iterator[None]:
    """Whatever this package logs meanwhile is added to the folder's log.txt, each line with the
    time."""
    handler = logging.FileHandler(folder / LOG)
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    package = logging.getLogger("bench")
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    try:
        yield
    finally:
        package.removeHandler(handler)
        handler.close()
