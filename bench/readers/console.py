# SPDX-License-Identifier: MIT
"""Where what is read and measured is shown."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 120
"""Columns of the table where no terminal says how many there are."""


def console() -> Console:
    """Standard output."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def say(out: Console, text: str, style: str = "") -> None:
    """A line of words as they are: no markup in them, and broken by the terminal alone."""
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def plain_table(*heads: str) -> Table:
    """A table with these heads; those of words begin with "<" and stand left, those of figures
    right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        left = head.startswith("<")
        table.add_column(head.removeprefix("<"), justify="left" if left else "right")
    return table
