# SPDX-License-Identifier: MIT
"""The end of a sweep: the files in their last state, the table, the charts, where they are."""

from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.readers import order
from bench.readers.chart import write_charts
from bench.readers.table import result_table
from bench.records import store
from bench.records.results import Results
from bench.sweep.estimate import in_words
from bench.sweep.log import LOG


def conclude(results: Results, folder: Path, out: Console) -> None:
    """Whatever has happened."""
    results.finished = datetime.now().astimezone()
    store.save(results, folder)
    out.print(result_table(results))
    charts = write_charts(results, folder)
    took = (results.finished - results.started).total_seconds()
    interrupted = results.state == "interrupted"
    state = "Interrupted after" if interrupted else "Done in"
    names = ["results.json", "results.csv", LOG, *(path.name for path in charts)]
    out.print(f"{state} {in_words(took)}.", markup=False)
    out.print(f"Kept in {folder}/: {', '.join(names)}", markup=False, soft_wrap=True)
    if interrupted:
        again = f"To go on: .venv/bin/zerohttpd sweep --resume {folder}"
        out.print(again, markup=False, soft_wrap=True)
    _answer(results, folder, out)


def _answer(results: Results, folder: Path, out: Console) -> None:
    """The last lines: who came first, and what to type next."""
    if not results.runs:
        return
    out.print()
    for found in order.orders(results):
        for line in order.lines(found, results.stalled_by):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        out.print()
    out.print(f"Next, a page of it: make report RESULTS={folder}", markup=False, soft_wrap=True)
