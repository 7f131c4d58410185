# SPDX-License-Identifier: MIT
"""Console output: text, tables and progress."""

import html
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

PLAIN_WIDTH = 120
"""The width of a line in characters if the output is not a terminal."""

TEXT_WIDTH = 88


class _Output(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit; the command line returns the right exit status


def console() -> Console:
    """Return a console on standard output."""
    return _Output(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def say(out: Console, text: str, style: str = "") -> None:
    """Print a line without markup. Only the terminal wraps the line."""
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def paragraphs(text: str) -> str:
    """Return a text with wrapped paragraphs. Indented paragraphs stay as they are."""
    return "\n\n".join(
        one if one.startswith("    ") else textwrap.fill(" ".join(one.split()), TEXT_WIDTH)
        for one in text.strip("\n").split("\n\n")
    )


@dataclass(frozen=True)
class Field:
    """A field of a table, with a text and other properties."""

    text: str
    notes: Sequence[str] = ()  # Lines below the text.
    style: str = ""  # A style of rich, for a terminal.
    kind: str = ""
    """A verdict's name. A page shows the text in its colour, and the name if the text lacks it."""
    link: str = ""  # The anchor on the page that the text links to.
    drawing: str = ""  # A picture in HTML, for a page.
    sort: str | float = ""  # The sort key on a page; an empty key sorts last.
    title: str = ""  # The text that a page shows when the pointer is on the field.


class Table:
    """A table for a terminal (print it on a Console), a page or a Markdown document."""

    def __init__(self, *heads: str | Field, rows: Iterable[Sequence[str | Field]] = ()) -> None:
        """A column whose head begins with "<" is aligned left; other columns are for numbers and
        aligned right. The note of a head is the column's unit."""
        fields = [Field(head) if isinstance(head, str) else head for head in heads]
        self.left = [head.text.startswith("<") for head in fields]
        self.head = [replace(head, text=head.text.removeprefix("<")) for head in fields]
        self.rows = [*rows]

    def add_row(self, *cells: str | Field) -> None:
        """Add a row. A text may have rich's markup, for a terminal."""
        self.rows.append(cells)

    def __rich__(self) -> RichTable:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        names = [lines_of(row[0])[0] for row in self.rows]
        for head, left in zip(self._heads, self.left, strict=True):
            whole = not table.columns and not any(" " in name for name in names)
            sides: JustifyMethod = "left" if left else "right"
            table.add_column(head, justify=sides, overflow="fold", no_wrap=whole)
        for row in self.rows:
            cells = (
                c if isinstance(c, str) else Text("\n".join(lines_of(c)), c.style) for c in row
            )
            table.add_row(*cells)
        return table

    def markdown(self) -> str:
        """Return this table in Markdown."""
        ruler = ["---" if left else "--:" for left in self.left]
        rows = (["<br>".join(map(escaped, lines_of(c))) for c in row] for row in self.rows)
        return "\n".join("| " + " | ".join(line) + " |" for line in (self._heads, ruler, *rows))

    @property
    def _heads(self) -> list[str]:
        return [", ".join(lines_of(head)) for head in self.head]


def lines_of(field: str | Field) -> list[str]:
    """Return the lines of a field of a table."""
    return [field] if isinstance(field, str) else [field.text, *field.notes]


def escaped(text: str) -> str:
    """Return a text escaped for one field of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


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
        """`table`: returns the table to show; its argument is the current step, or None between
        steps; `total`: number of steps; `columns`: width of a step's description."""
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
        # Only twice a second, because drawing uses CPU time that the load generator needs.
        self._live = Live(console=out, refresh_per_second=2, transient=True)

    def __enter__(self) -> "ProgressTable[Step]":
        if self._out.is_terminal:
            self._live.update(Group(self._table(None), self._bar))
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, step: Step, words: str, left: str) -> None:
        """Show that a step has begun. `words`: its description; `left`: the remaining time."""
        self._bar.update(self._task, description=words, left=left)
        self._show(step)

    def end(self, line: str, left: str) -> None:
        """Show that the step has ended. `line`: its result; `left`: the remaining time."""
        self._done += 1
        self._bar.update(self._task, advance=1, left=left)
        self._show(None)
        if not self._out.is_terminal:
            say(self._out, f"[{self._done:>{len(str(self._total))}}/{self._total}] {line}")

    def _show(self, step: Step | None) -> None:
        if self._out.is_terminal:
            self._live.update(Group(self._table(step), self._bar))
