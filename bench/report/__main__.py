"""`python -m bench.report`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.records.errors import UserError
from bench.report.page.build import build

USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a report. Exit status: 0 done, 2 the results cannot be read or the page not written."""
    top = argparse.ArgumentParser(
        prog="python -m bench.report",
        description="Make one HTML page of stored results, with SVG, PNG, JSON, CSV and Markdown "
        "beside it.",
    )
    top.add_argument("results", type=Path, help="folder of a sweep, or its results.json")
    top.add_argument("--output", type=Path, metavar="FILE", help="default: report.html in it")
    options = top.parse_args(arguments)
    try:
        for path in build(options.results, options.output):
            print(path)
    except UserError as error:
        print(f"bench.report: {error}", file=sys.stderr)
        return USAGE_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
