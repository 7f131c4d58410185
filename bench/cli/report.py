# SPDX-License-Identifier: MIT
"""`zerohttpd report` and `zerohttpd compare`."""

from collections.abc import Sequence
from pathlib import Path

from bench.readers import capacity, targets
from bench.readers.compare import compare
from bench.readers.console import console
from bench.records.errors import UserError
from bench.records.store import load
from bench.records.values import Parser, positive, value_of, words_of


def existing(text: str) -> Path:
    """Return the path of stored results. Raises UserError if it does not exist."""
    if not Path(text).exists():
        give = "give the folder of a sweep, e.g. results/2026-11-25_12-30-00"
        raise UserError(f"the file or folder {text} does not exist; {give}")
    return Path(text)


def compared(words: Sequence[str]) -> int:
    """Compare two sweeps. Return the exit status. Raises UserError."""
    parser = Parser(
        prog="zerohttpd compare",
        description="Compare two sweeps and show the changes that exceed the noise of both. "
        "Exit status: 0 no change, 1 a change or a disturbed sweep.",
    )
    for name in ("before", "after"):
        parser.add_argument(name, type=existing, help="a results.json, or its folder")
    chosen = parser.parse_args(words)
    return compare(chosen.before, chosen.after, console())


FLEETS = "4,40,400"


def run(words: Sequence[str]) -> int:
    """Make a report, or print tables; return the exit status. Raises UserError."""
    parser = Parser(
        prog="zerohttpd report",
        description="Make one HTML page of stored results, and SVG, PNG, JSON, CSV and Markdown "
        "files in the same folder.",
    )
    parser.add_argument("results", type=existing, help="folder of a sweep or a robustness test")
    output = "write the page to FILE (default report.html or torture.html in the results' folder)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument(
        "--targets",
        action="store_true",
        help="make no page; print whether the results meet the targets for CPU time per request "
        "and memory per connection (exit status 1 if not)",
    )
    alone.add_argument(
        "--capacity",
        metavar="N,N",
        help="make no page; print the requests per second that N one-core hosts can serve, from "
        f"a sweep through nginx (docs/explanation/capacity.md); for example {FLEETS}",
    )
    chosen = parser.parse_args(words)
    if chosen.targets:
        results = load(chosen.results)
        return targets.show(results, targets.expected_of(results), console())
    if chosen.capacity is not None:
        hosts = [value_of("--capacity", n, positive, FLEETS) for n in words_of([chosen.capacity])]
        return capacity.show(chosen.results, hosts, console())
    from bench.report.page.build import build  # noqa: PLC0415 - only this needs vl_convert

    print(f"Making a page of {chosen.results}; the charts take most of the time.", flush=True)
    page, *others = build(chosen.results, chosen.output)
    print(f"Open {page} in a browser.")
    places = (path.relative_to(page.parent).parts for path in others)
    names = {f"{name}/" if below else name for name, *below in places}
    print(f"In the same folder: {', '.join(sorted(names))}")
    return 0
