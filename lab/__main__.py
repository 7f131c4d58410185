# SPDX-License-Identifier: MIT
"""`python -m lab`, which scripts/lab starts: it needs no installed package."""

import sys

from lab.command import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
