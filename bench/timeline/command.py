# SPDX-License-Identifier: MIT
"""The command `zerohttpd timeline`, which `make timeline` runs."""

import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.values import Parser, words_of
from bench.subjects.subject import discover, server_names
from bench.timeline.page import render, viewer_trace
from bench.timeline.record import Refused, record
from bench.timeline.scenarios import SCENARIOS, named
from bench.timeline.sentence import sentence
from bench.timeline.story import tell
from bench.timeline.strace import Trace, lines_of, today

RECORDED = Path(__file__).parent / "recorded"
"""The folder of recorded traces, SCENARIO-SERVER.trace.gz, for machines that cannot trace."""


def run(words: Sequence[str]) -> int:
    """Make the page and return 0. Raises UserError or Interrupted."""
    parser = Parser(
        prog="zerohttpd timeline", description="Draw each server's system calls on a time axis."
    )
    add = parser.add_argument
    add("--servers", nargs="+", metavar="NAME", help="trace only these servers (default: all)")
    titles = "; ".join(f"{one.name}: {one.title}" for one in SCENARIOS.values())
    play = f"play this scenario (default eight): {titles}"
    add("--scenario", default="eight", metavar="NAME", help=play)
    where = "write the page into DIR (default: results/timeline)"
    add("--output", type=Path, default=ROOT / "results" / "timeline", metavar="DIR", help=where)
    add("--recorded", action="store_true", help="show recorded traces instead of new traces")
    add("--keep", action="store_true", help="replace the recorded traces with the new traces")
    options = parser.parse_args(words)
    names = words_of(options.servers) or None
    page = make(names, options.scenario, options.output, options.recorded)
    if options.keep and not options.recorded:
        keep(options.output, options.scenario, server_names(names))
    viewers = for_viewers(page).name
    print(f"Open {page} in a browser, or {viewers} (same folder) in Perfetto or speedscope.")
    return 0


def make(names: Sequence[str] | None, scenario: str, folder: Path, recorded: bool = False) -> Path:
    """Write the page, the file for trace viewers and the traces into the folder, print a sentence
    for each server, and return the page's path.

    Raises UserError, Interrupted.
    """
    chosen, names, note = named(scenario), server_names(names), ""
    traces: list[Trace] = []
    if not recorded:
        try:
            with SignalWatch() as watch:
                traces = record(names, chosen, watch)
        except Refused as refused:
            print(f"timeline: {refused}. Showing recorded traces instead.", file=sys.stderr)
            note = f"No server could be traced: {refused}. "
    if not traces:
        traces = kept(names, scenario)
        note += "These traces were recorded on another machine."
    pictures = [*map(tell, traces)]
    for one in pictures:
        print(f"{one.server}: {sentence(one)}")
    folder.mkdir(parents=True, exist_ok=True)
    for trace in traces:
        (folder / f"{scenario}-{trace.server}.trace").write_text(trace.model_dump_json())
    # A page of some servers must not replace the page of all servers.
    only = [one.server for one in pictures] if set(names) != set(server_names(None)) else []
    page = folder / f"{'-'.join([scenario, *only])}.html"
    page.write_text(render(pictures, note, for_viewers(page).name), encoding="utf-8")
    for_viewers(page).write_text(viewer_trace(pictures))
    return page


def for_viewers(page: Path) -> Path:
    """Return the path of a page's file for trace viewers. Its ending is not .chrome.json, because
    speedscope would read such a file in another format."""
    return page.with_suffix(".trace.json")


def keep(folder: Path, scenario: str, names: Sequence[str]) -> None:
    """Replace the recorded traces of these servers in a scenario with the traces in a folder."""
    paths = [folder / f"{scenario}-{name}.trace" for name in names]
    for path in filter(Path.exists, paths):
        packed = gzip.compress(path.read_bytes(), mtime=0)
        (RECORDED / f"{path.name}.gz").write_bytes(packed)


def kept(names: Sequence[str] | None, scenario: str) -> list[Trace]:
    """Return the recorded traces of a scenario, in the order of the servers' folders, with source
    lines as they are now. Raises UserError if there are none."""
    wanted = [name for name in discover() if not names or name in names]
    paths = [RECORDED / f"{scenario}-{name}.trace.gz" for name in wanted]
    found = [
        Trace.model_validate_json(gzip.decompress(path.read_bytes()))
        for path in filter(Path.exists, paths)
    ]
    if not found:
        raise UserError(
            f"no trace is recorded of {scenario} with {', '.join(names or ['any server'])}"
        )
    for call in (call for trace in found for call in trace.calls):
        now = (today(one, lines_of(one.file)) for one in call.stack)
        call.stack = [one for one in now if one]
    return found
