# SPDX-License-Identifier: MIT
"""`zerohttpd timeline`, and `make timeline`."""

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import UserError
from bench.records.values import words_of
from bench.subjects.subject import discover, server_names
from bench.timeline.page import chrome_trace, render
from bench.timeline.picture import picture
from bench.timeline.record import Refused, record
from bench.timeline.scenarios import SCENARIOS, named

RECORDED = Path(__file__).parent / "recorded"
"""Traces to show where nobody may be traced: SCENARIO-SERVER.trace.gz; `--keep` writes them."""


def run(words: Sequence[str]) -> int:
    """Make the page. Exit status: 0. Raises UserError or Interrupted."""
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
    add("--keep", action="store_true", help="keep these traces in place of the recorded ones")
    options = parser.parse_args(words)
    names = words_of(options.servers) or None
    page = make(names, options.scenario, options.output, options.recorded)
    if options.keep and not options.recorded:
        keep(options.output, options.scenario)
    print(f"Open {page} in a browser. Beside it: {chrome_of(page).name}, for Perfetto and Chrome.")
    return 0


def make(names: Sequence[str] | None, scenario: str, folder: Path, recorded: bool = False) -> Path:
    """Write the page, the Chrome trace and the traces themselves into the folder; returns the page.

    Raises UserError, Interrupted.
    """
    chosen = named(scenario)
    names = server_names(names)
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
    # A page of some servers does not replace the page of all.
    only = [one.server for one in pictures] if set(names) < set(discover()) else []
    page = folder / f"{'-'.join([scenario, *only])}.html"
    page.write_text(render(pictures, note, chrome_of(page).name), encoding="utf-8")
    chrome_of(page).write_text(chrome_trace(pictures))
    return page


def chrome_of(page: Path) -> Path:
    """The file for Chrome's viewer beside a page."""
    return page.with_suffix(".chrome.json")


def keep(folder: Path, scenario: str) -> None:
    """Put the traces of a scenario in a folder among the recorded ones."""
    for path in folder.glob(f"{scenario}-*.trace"):
        packed = gzip.compress(path.read_bytes(), mtime=0)
        (RECORDED / f"{path.name}.gz").write_bytes(packed)


def kept(names: Sequence[str] | None, scenario: str) -> list[str]:
    """The recorded traces of a scenario, in the order of the servers' folders; those of servers
    that nobody has recorded are left out. Raises UserError if there are none."""
    wanted = [name for name in discover() if not names or name in names]
    paths = [RECORDED / f"{scenario}-{name}.trace.gz" for name in wanted]
    found = [gzip.decompress(path.read_bytes()).decode() for path in paths if path.exists()]
    if not found:
        raise UserError(
            f"nothing is recorded of {scenario} with {', '.join(names or ['any server'])}"
        )
    return found
