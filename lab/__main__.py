# SPDX-License-Identifier: MIT
"""Run the lab command (scripts/lab starts this file). It needs no installed package."""

import sys

from lab.command import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
