# SPDX-License-Identifier: MIT
"""Where what is read and measured is shown."""

import sys

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
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


class LiveTable:
    """A table that fills up, with a progress bar below it. Use in a `with` block."""

    def __init__(self, out: Console, table: RenderableType, total: int, columns: int) -> None:
        """`total`: what must be done until the end; `columns`: of what is being done, in words."""
        self._progress = Progress(
            TextColumn(f"{{task.description:{columns}}}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            console=out,
        )
        self._task = self._progress.add_task("", total=total, left="?")
        # Twice a second: drawing costs CPU time on the side of the load.
        view = Group(table, self._progress)
        self._live = Live(view, console=out, refresh_per_second=2, transient=True)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, table: RenderableType, what: str, left: str) -> None:
        """This is being done now; `left`: time until the end, in words."""
        self._progress.update(self._task, description=what, left=left)
        self._live.update(Group(table, self._progress))

    def end(self, table: RenderableType, left: str) -> None:
        """It is done."""
        self._progress.update(self._task, advance=1, left=left)
        self._live.update(Group(table, self._progress))
