# SPDX-License-Identifier: MIT
"""Run a command of the benchmark: `python -m bench COMMAND`."""

import sys

from bench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
