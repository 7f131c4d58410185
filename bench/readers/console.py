# SPDX-License-Identifier: MIT
"""Console output: text, tables and progress."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

PLAIN_WIDTH = 120
"""Width of tables in columns if the output is not a terminal."""

TEXT_WIDTH = 88


class _Output(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit; the command line returns the right exit status


def console() -> Console:
    """Return a console on standard output."""
    return _Output(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def say(out: Console, text: str, style: str = "") -> None:
    """Print a line without markup; only the terminal wraps it."""
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def paragraphs(text: str) -> str:
    """Return a text with wrapped paragraphs; indented ones, which are to be copied, stay."""
    return "\n\n".join(
        one if one.startswith("    ") else textwrap.fill(" ".join(one.split()), TEXT_WIDTH)
        for one in text.strip("\n").split("\n\n")
    )


class Table:
    """A table of texts for a terminal (print it on a Console), a page or a Markdown document."""

    def __init__(self, *heads: str, rows: Iterable[Sequence[str]] = ()) -> None:
        """A head that begins with "<" is for text and aligned left; the others are for numbers and
        aligned right."""
        self.head = [head.removeprefix("<") for head in heads]
        self.left = [head.startswith("<") for head in heads]
        self.rows = [*rows]

    def add_row(self, *cells: str) -> None:
        """Add a row of texts; in a terminal they may have rich's markup."""
        self.rows.append(cells)

    def __rich__(self) -> RichTable:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for head, left in zip(self.head, self.left, strict=True):
            table.add_column(head, justify="left" if left else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return it as a Markdown table."""
        ruler = ["---" if left else "--:" for left in self.left]
        return "\n".join("| " + " | ".join(line) + " |" for line in (self.head, ruler, *self.rows))


Step = TypeVar("Step")


class ProgressTable(Generic[Step]):
    """Shows progress: on a terminal a table with a progress bar, elsewhere a line for each step.
    Use in a `with` block."""

    def __init__(
        self,
        out: Console,
        table: Callable[[Step | None], RenderableType],
        total: int,
        columns: int,
    ) -> None:
        """`table`: returns the table during a step, or (None) between steps; `total`: number of
        steps; `columns`: width of a step's description."""
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
        """Show that a step has begun; `words`: its description; `left`: the time to the end."""
        self._bar.update(self._task, description=words, left=left)
        self._show(step)

    def end(self, line: str, left: str) -> None:
        """Show that the step has ended; `line`: its result."""
        self._done += 1
        self._bar.update(self._task, advance=1, left=left)
        self._show(None)
        if not self._out.is_terminal:
            say(self._out, f"[{self._done:>{len(str(self._total))}}/{self._total}] {line}")

    def _show(self, step: Step | None) -> None:
        if self._out.is_terminal:
            self._live.update(Group(self._table(step), self._bar))
