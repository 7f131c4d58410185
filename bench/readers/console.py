# SPDX-License-Identifier: MIT
"""Where what is read and measured is shown."""

import sys

from rich.console import Console

PLAIN_WIDTH = 120
"""Columns of the table where no terminal says how many there are."""


def console() -> Console:
    """Standard output."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
