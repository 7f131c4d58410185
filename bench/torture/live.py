# SPDX-License-Identifier: MIT
"""Showing a torture while it runs: a table that fills up, or a line for each cell."""

from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.records.torture import Record, TortureCell, verdict
from bench.report.findings import torture as words
from bench.sweep.display import in_words
from bench.torture.table import torture_table


class Show(Protocol):
    """What a torture tells its audience. Use in a `with` block."""

    def __enter__(self) -> "Show": ...

    def __exit__(self, *what: object) -> None: ...

    def begin(self, subject: str, attack: str, left: float) -> None:
        """A cell begins; `left`: seconds until the end of the last one."""

    def end(self, cell: TortureCell) -> None:
        """It has been made."""


def show_for(out: Console, record: Record, total: int) -> Show:
    """The one that suits the place where the output goes."""
    return LiveShow(out, record, total) if out.is_terminal else PlainShow(out, record, total)


class LiveShow:
    """A table with a progress bar below it."""

    def __init__(self, out: Console, record: Record, total: int) -> None:
        self._record = record
        self._progress = Progress(
            TextColumn("{task.description:32}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            console=out,
        )
        self._task = self._progress.add_task("", total=total, left="?")
        # Twice a second: drawing costs CPU time on the side of the visitors.
        view = Group(torture_table(record), self._progress)
        self._live = Live(view, console=out, refresh_per_second=2, transient=True)

    def __enter__(self) -> "LiveShow":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, subject: str, attack: str, left: float) -> None:
        """Show which cell is being made."""
        self._progress.update(self._task, description=f"{subject}: {attack}", left=in_words(left))
        self._live.update(Group(torture_table(self._record, (subject, attack)), self._progress))

    def end(self, cell: TortureCell) -> None:
        """Fill the cell."""
        self._progress.update(self._task, advance=1)
        self._live.update(Group(torture_table(self._record), self._progress))


class PlainShow:
    """A line for each cell, for logs."""

    def __init__(self, out: Console, record: Record, total: int) -> None:
        self._out, self._record, self._total, self._left = out, record, total, 0.0

    def __enter__(self) -> "PlainShow":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def begin(self, subject: str, attack: str, left: float) -> None:
        """A line says what has happened, not what will."""
        self._left = left

    def end(self, cell: TortureCell) -> None:
        """One line."""
        count = f"[{len(self._record.cells):>{len(str(self._total))}}/{self._total}]"
        text = line_for(self._record, cell)
        left = in_words(max(0.0, self._left - cell.seconds))
        self._out.print(f"{count} {text}  ({left} left)", markup=False, soft_wrap=True)


def line_for(record: Record, cell: TortureCell) -> str:
    """A cell in a line."""
    facts = record.facts(cell)
    start = f"{cell.attack:<16} {cell.subject:<13}"
    if cell.before is None:
        return f"{start} {verdict(cell, facts)}: {cell.reason}"
    figures = f"{words.sign(cell, facts):<7} {verdict(cell, facts):<13} {words.rates(cell)}/s"
    told = [*words.asides(cell, facts), words.losses(cell, facts)]
    told += next((what for one, what in record.broken() if one is cell), [])
    return "  ".join([f"{start} {figures}", *(text for text in told if text)])
