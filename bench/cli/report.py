# SPDX-License-Identifier: MIT
"""`zerohttpd report`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.records.errors import UserError
from bench.report.page.build import build


def run(words: Sequence[str]) -> int:
    """Make a report. Raises UserError where the results cannot be read or the page not written."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd report",
        description="Make one HTML page of stored results, with SVG, PNG, JSON, CSV and Markdown "
        "beside it.",
    )
    parser.add_argument("results", type=Path, help="folder of a sweep or a torture")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: report.html in it")
    chosen = parser.parse_args(words)
    if not chosen.results.exists():
        raise UserError(
            f"there is no file or folder {chosen.results}; give the folder of a sweep, "
            "e.g. make report RESULTS=results/2026-11-25_12-30-00"
        )
    print(
        f"Making a page of {chosen.results}; its charts as pictures take the longest.", flush=True
    )
    page, *others = build(chosen.results, chosen.output)
    print(f"Open {page} in a browser.")
    print(f"Beside it: {', '.join(sorted({_place(path, page) for path in others}))}")
    return 0


def _place(path: Path, page: Path) -> str:
    """A file that lies beside the page; of one in a folder, the folder."""
    name, *rest = path.relative_to(page.parent).parts
    return f"{name}/" if rest else name
