# SPDX-License-Identifier: MIT
"""Showing a torture while it runs: a table that fills up, or a line for each cell."""

from rich.console import Console

from bench.readers.console import LiveTable, say
from bench.records.torture import Record, TortureCell, verdict
from bench.report.findings import torture as words
from bench.sweep.display import in_words
from bench.torture.table import torture_table


def show_for(out: Console, record: Record, total: int) -> "Show":
    """The one that suits the place where the output goes."""
    return LiveShow(out, record, total) if out.is_terminal else Show(out, record, total)


class Show:
    """What a torture tells its audience. Use in a `with` block. A line for each cell, for logs."""

    def __init__(self, out: Console, record: Record, total: int) -> None:
        self._out, self._record, self._total, self._left = out, record, total, 0.0

    def __enter__(self) -> "Show":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def begin(self, subject: str, attack: str, left: float) -> None:
        """A cell begins; `left`: seconds until the end of the last one."""
        self._left = left

    def end(self, cell: TortureCell) -> None:
        """It has been made."""
        count = f"[{len(self._record.cells):>{len(str(self._total))}}/{self._total}]"
        say(self._out, f"{count} {line_for(self._record, cell)}  ({self._after(cell)} left)")

    def _after(self, cell: TortureCell) -> str:
        return in_words(max(0.0, self._left - cell.seconds))


class LiveShow(Show):
    """A table with a progress bar below it."""

    def __init__(self, out: Console, record: Record, total: int) -> None:
        super().__init__(out, record, total)
        self._live = LiveTable(out, torture_table(record), total, columns=32)

    def __enter__(self) -> "LiveShow":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__()

    def begin(self, subject: str, attack: str, left: float) -> None:
        super().begin(subject, attack, left)
        table = torture_table(self._record, (subject, attack))
        self._live.begin(table, f"{subject}: {attack}", in_words(left))

    def end(self, cell: TortureCell) -> None:
        self._live.end(torture_table(self._record), self._after(cell))


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
