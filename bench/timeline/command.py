# SPDX-License-Identifier: MIT
"""`zerohttpd timeline`, and `make timeline`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.host.signals import Interrupted, SignalWatch
from bench.records.errors import UserError
from bench.timeline.page import chrome_trace, render
from bench.timeline.record import Refused, picture, record
from bench.timeline.scenarios import SCENARIOS, named

RECORDED = Path(__file__).parent / "recorded"
"""Traces to show where nobody may be traced: SCENARIO-SERVER.trace."""


def run(words: Sequence[str]) -> int:
    """Make the page. Exit status: 0, or 130 after Ctrl-C. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd timeline", description="Draw what each server does, call by call."
    )
    add = parser.add_argument
    add("--servers", nargs="+", metavar="NAME", help="only these (all)")
    add(
        "--scenario",
        default="eight",
        metavar="NAME",
        help="; ".join(f"{one.name}: {one.title}" for one in SCENARIOS.values()),
    )
    add("--output", type=Path, default=ROOT / "results" / "timeline", metavar="DIR")
    add("--recorded", action="store_true", help="show the recorded traces, trace nothing")
    options = parser.parse_args(words)
    try:
        names = [name for word in options.servers or () for name in word.split(",") if name] or None
        page = make(names, options.scenario, options.output, options.recorded)
    except Interrupted as interrupted:
        return interrupted.exit_status
    print(f"Open {page} in a browser.")
    return 0


def make(names: Sequence[str] | None, scenario: str, folder: Path, recorded: bool = False) -> Path:
    """Write the page, the Chrome trace and the traces themselves into the folder; returns the page.

    Raises UserError, Interrupted.
    """
    chosen = named(scenario)
    note = ""
    if recorded:
        texts, note = kept(names, scenario), "These traces were recorded on another machine."
    else:
        try:
            with SignalWatch() as watch:
                texts = record(names, chosen, watch)
        except Refused as refused:
            print(f"timeline: {refused}. Showing recorded traces instead.", file=sys.stderr)
            texts = kept(names, scenario)
            note = f"Nobody could be traced here: {refused}. These traces were recorded elsewhere."
    pictures = [picture(text) for text in texts]
    folder.mkdir(parents=True, exist_ok=True)
    for text, one in zip(texts, pictures, strict=True):
        (folder / f"{scenario}-{one.server}.trace").write_text(text)
    page = folder / f"{scenario}.html"
    page.write_text(render(pictures, note), encoding="utf-8")
    page.with_suffix(".chrome.json").write_text(chrome_trace(pictures))
    return page


def kept(names: Sequence[str] | None, scenario: str) -> list[str]:
    """The recorded traces of a scenario, in the order of the servers' folders. Raises UserError."""
    found = {
        path.stem.partition(f"{scenario}-")[2]: path for path in RECORDED.glob(f"{scenario}-*")
    }
    order = ["iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll"]
    wanted = [name for name in names or order if name in found]
    if not wanted:
        raise UserError(
            f"nothing is recorded of {scenario} with {', '.join(names or ['any server'])}"
        )
    return [found[name].read_text() for name in wanted]
