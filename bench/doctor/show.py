# SPDX-License-Identifier: MIT
"""What the doctor says, shown."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from bench.records.environment import Line, State

SIGNS: dict[State, tuple[str, str]] = {
    "well": ("ok", "green"),
    "note": ("note", "cyan"),
    "warning": ("WARN", "yellow"),
    "impossible": ("STOP", "red"),
}


def show(lines: Sequence[Line], out: Console) -> None:
    """All lines as a table, the cures below it, ready to be copied."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("", "what", "is", "the chosen runs need"):
        table.add_column(head)
    for line in lines:
        sign, style = SIGNS[line.state]
        table.add_row(f"[{style}]{sign}[/]", line.topic, line.have, line.need)
    out.print(table)
    show_cures(lines, out)


def show_cures(lines: Sequence[Line], out: Console) -> None:
    """For each line that is not well: what it is and what cures it."""
    for line in lines:
        if line.state in ("warning", "impossible"):
            sign, style = SIGNS[line.state]
            text = f"{sign}  {line.topic}: {line.have}; needed: {line.need}"
            out.print(text, style=style, markup=False, soft_wrap=True)
        if line.cure and line.state != "well":
            out.print(f"      {line.topic}, cure: {line.cure}", markup=False, soft_wrap=True)
