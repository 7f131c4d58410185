"""`python -m bench.torture`: see bench/torture/__init__.py."""

import sys

from bench.errors import UserError
from bench.torture import line
from bench.torture.options import parse
from bench.torture.run import torture

USAGE_ERROR = 2


def main() -> int:
    """Exit status: see `bench.torture.run.torture`; 2: something stands in the way."""
    try:
        options = parse()
        if not line.in_own_network() and not line.why_no_network():
            line.enter_own_network("bench.torture", sys.argv[1:])
        return torture(options)
    except UserError as error:
        print(f"bench.torture: {error}", file=sys.stderr)
        return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
