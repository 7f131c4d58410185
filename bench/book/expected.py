# SPDX-License-Identifier: MIT
"""`zerohttpd slides --expected`: run the sweeps of the sheets in docs/teaching/ on this machine,
and print the figures as tables for the lecturer."""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.readers.console import Table
from bench.records.errors import UserError
from bench.records.figures import Run
from bench.records.results import Results
from bench.records.store import load
from bench.records.values import each_of

COURSE = ROOT / "docs" / "teaching"
SHEETS = ("1-baseline", "4-redis", "5-idle")
"""The sheets with figures from a sweep. Sheet 3 prints its own figures; other sheets have none."""


def measure(sheets: Sequence[str]) -> int:
    """Measure and print the tables of `sheets` (empty: of all sheets). Return the exit status 0.
    Raises UserError."""
    wanted = sorted(each_of("sheet", sheets or SHEETS, SHEETS))
    with tempfile.TemporaryDirectory(prefix="zerohttpd-expected-") as name:
        measured = {sheet: _sweep(sheet, Path(name) / sheet) for sheet in wanted}
    print(f"## {_machine(next(iter(measured.values())))}\n")
    for sheet, results in measured.items():
        print(table(sheet, results) + "\n")
    return 0


def sweep_words(sheet: str) -> list[str]:
    """Return the ARGS of the sheet's first `make bench`. Raises UserError."""
    text = (COURSE / "sheets" / f"{sheet}.md").read_text(encoding="utf-8")
    found = re.search(r'^make bench ARGS="([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise UserError(f"sheet {sheet} has no `make bench`")
    return shlex.split(found[1])


def table(sheet: str, results: Results) -> str:
    """Return a Markdown table with a line for each run: CPU time per request, requests per second
    and the sheet's ratio."""
    of_rates = sheet == "4-redis"
    ratio = f"{'pages a second' if of_rates else 'CPU'}, relative to the architecture's first run"
    found = Table("<run", "<CPU per request", "<requests/s", f"<{ratio}")
    first: dict[str, float] = {}
    # Each baseline comes before the server that is compared with it.
    runs = sorted(results.runs, key=lambda one: (one.architecture or "", one.kind != "baseline"))
    for one in runs:
        name = ", ".join([one.subject, *one.conditions.particulars()])
        cpu = one.process.cpu_us_per_request if one.process else None
        rate = one.requests_per_second
        if cpu is None or rate is None:
            why = one.reason.text if one.reason else one.state
            found.add_row(name, f"no figure: {why}", "", "")
            continue
        value = rate if of_rates else cpu
        base = first.setdefault(one.architecture or one.subject, value)
        at_least = "at least " if one.lower_bound else ""
        figures = (f"{cpu:.1f} us", f"{at_least}{rate:,.0f}", f"{value / base:.2f}")
        found.add_row(name, *figures)
    return f"Sheet {sheet[0]}:\n\n{found.markdown()}"


def _sweep(sheet: str, folder: Path) -> Results:
    """Run the sweep of a sheet. Raises UserError."""
    command = [sys.executable, "-m", "bench", "sweep", *sweep_words(sheet)]
    done = subprocess.run([*command, "--results", str(folder)], stdout=sys.stderr)
    found = sorted(folder.glob("*/results.json"))
    if not found:
        raise UserError(f"sheet {sheet} was not measured (status {done.returncode})")
    return load(found[-1])


def _machine(results: Results) -> str:
    machine = results.machine
    memory = f"{(machine.memory_bytes or 0) / 2**30:.0f} GB"
    load = "".join(f", load {one:.1f} at the start" for one in machine.load_average_at_start[:1])
    return f"{machine.describe()}, {memory}, {results.started:%Y-%m-%d}{load}"
