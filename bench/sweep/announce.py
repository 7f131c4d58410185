# SPDX-License-Identifier: MIT
"""Print the reports before the first and after the last run of a sweep, and set up its log."""

import contextlib
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bench.doctor.doctor import Diagnosis, show_fixes
from bench.readers import order
from bench.readers.console import say
from bench.readers.table import result_table
from bench.records.environment import HostInfo
from bench.records.results import Results
from bench.records.words import plural
from bench.report.charts.catalogue import write_rates
from bench.stations.site import Site
from bench.studies.runs import Planned
from bench.sweep.display import in_words

LOG = "log.txt"


def announce(planned: Planned, site: Site, diagnosis: Diagnosis, out: Console) -> None:
    """Print the planned measurements, their hosts, failed checks, and limits that are too low."""
    runs, redis = planned.runs, site.redis
    levels = ", ".join(f"{level:,}" for level in sorted({run.concurrency for run in runs}))
    conditions = "; ".join(c.describe() for c in dict.fromkeys(run.conditions for run in runs))
    say(out, f"Servers: {', '.join(planned.subjects)}")
    say(out, f"Connections: {levels}; {plural(len(runs), 'run')}: {conditions}")
    say(out, f"Placement: {site.placement.note}")
    for host in site.host_infos():
        say(out, f"    {describe_host(host)}")
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


def describe_host(host: HostInfo) -> str:
    """Return a line about a host."""
    limit = f", {host.cpu_limit:.0%} of a CPU by {host.limited_by}" if host.cpu_limit else ""
    cpus = plural(host.cpus, "CPU") + limit
    return f"{host.role:<8}{host.name} ({host.address}): {cpus}, Linux {host.kernel}"


# ---- The end of a sweep: the table, the charts, the names of the files ----


def conclude(results: Results, folder: Path, out: Console, with_rates: bool) -> None:
    """Print the names of a sweep's files, and the command that resumes an interrupted sweep.
    `with_rates`: also print the table and the ranking, and write the charts."""
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
    if with_rates and results.runs:
        _answer(results, folder, out)


def how_to_go_on(folder: Path) -> str:
    """Return the command that resumes the sweep in `folder`."""
    return f".venv/bin/zerohttpd sweep --resume {shlex.quote(str(folder))}"


def _answer(results: Results, folder: Path, out: Console) -> None:
    """Print the last lines: the ranking, and the next command."""
    out.print()
    for found in order.orders(results):
        for line in order.lines(found, results.stalled_by):
            say(out, line)
        out.print()
    if any(run.conditions.rated for run in results.runs):
        say(out, f"To make a page of the results: make report RESULTS={shlex.quote(str(folder))}")


@contextlib.contextmanager
def log_into(folder: Path) -> Iterator[None]:
    """Append the log of the package `bench` to the folder's log.txt during the `with` block."""
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
