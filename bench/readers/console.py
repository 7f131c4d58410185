# SPDX-License-Identifier: MIT
"""Where what is read and measured is shown."""

import sys
import textwrap
from collections.abc import Callable
from typing import Generic, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

PLAIN_WIDTH = 120
"""Columns of the table where no terminal says how many there are."""

TEXT_WIDTH = 88


class _Output(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the program; the command line knows what is due


def console() -> Console:
    """Standard output."""
    return _Output(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def say(out: Console, text: str, style: str = "") -> None:
    """A line of words as they are: no markup in them, and broken by the terminal alone."""
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def paragraphs(text: str) -> str:
    """Paragraphs in lines of a width; those that are indented are to be copied, and stay."""
    return "\n\n".join(
        one if one.startswith("    ") else textwrap.fill(" ".join(one.split()), TEXT_WIDTH)
        for one in text.strip("\n").split("\n\n")
    )


def plain_table(*heads: str) -> Table:
    """A table with these heads; those of words begin with "<" and stand left, those of figures
    right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        left = head.startswith("<")
        table.add_column(head.removeprefix("<"), justify="left" if left else "right")
    return table


Step = TypeVar("Step")


class ProgressTable(Generic[Step]):
    """How far something is: at a terminal a table that fills up, with a bar below it; elsewhere a
    line for each step, for logs. Use in a `with` block."""

    def __init__(
        self,
        out: Console,
        table: Callable[[Step | None], RenderableType],
        total: int,
        columns: int,
    ) -> None:
        """`table`: what there is so far, while a step is being made or (None) none is; `total`: so
        many steps there are; `columns`: of the words for a step."""
        self._out, self._table, self._total, self._done = out, table, total, 0
        self._bar = Progress(
            TextColumn(f"{{task.description:{columns}}}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            console=out,
        )
        self._task = self._bar.add_task("", total=total, left="?")
        # Twice a second: drawing costs CPU time on the side of the load.
        self._live = Live(console=out, refresh_per_second=2, transient=True)

    def __enter__(self) -> "ProgressTable[Step]":
        if self._out.is_terminal:
            self._live.update(Group(self._table(None), self._bar))
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, step: Step, words: str, left: str) -> None:
        """This step is being made now; `left`: time until the end, in words."""
        self._bar.update(self._task, description=words, left=left)
        self._show(step)

    def end(self, line: str, left: str) -> None:
        """It is made; `line`: what came of it."""
        self._done += 1
        self._bar.update(self._task, advance=1, left=left)
        self._show(None)
        if not self._out.is_terminal:
            say(self._out, f"[{self._done:>{len(str(self._total))}}/{self._total}] {line}")

    def _show(self, step: Step | None) -> None:
        if self._out.is_terminal:
            self._live.update(Group(self._table(step), self._bar))
