# SPDX-License-Identifier: MIT
"""Tables and log lines of the robustness test, for a terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.records.torture import Record, TortureCell, Verdict, verdict
from bench.report.findings import torture as words

STYLES: dict[Verdict, str] = {
    "served": "green",
    "slower": "cyan",
    "hard pressed": "yellow",
    "held up": "yellow",
    "broken": "bold red",
    "no figure": "dim",
    "left out": "dim",
    "not reached": "dim",
}


def torture_table(record: Record, current: tuple[str, str] | None = None) -> RenderableType:
    """Return the table so far; `current`: server and attack that are being measured."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("attack", style="bold", no_wrap=True)
    for subject in record.subjects:
        table.add_column(subject, overflow="fold")
    for facts in record.attacks:
        row = []
        for subject in record.subjects:
            cell = record.cell(subject, facts.name)
            if current == (subject, facts.name):
                row.append(Text("...", style="bold cyan"))
            else:
                row.append(cell_text(record, cell) if cell else Text(""))
        table.add_row(facts.name, *row)
    return Group(table, legend(record))


def cell_text(record: Record, cell: TortureCell) -> Text:
    """Return the sign, the figure and the remarks of a result."""
    facts = record.facts(cell)
    text = "\n".join([words.sign(cell, facts), *words.asides(cell, facts)])
    return Text(text, style=STYLES[verdict(cell, facts)])


def line_for(record: Record, cell: TortureCell) -> str:
    """Return a result as a line for a log."""
    facts = record.facts(cell)
    start = f"{cell.attack:<16} {cell.subject:<13}"
    if cell.before is None:
        return f"{start} {verdict(cell, facts)}: {cell.reason}"
    figures = f"{words.sign(cell, facts):<7} {verdict(cell, facts):<13} {words.rates(cell)}/s"
    told = [*words.asides(cell, facts), words.losses(cell, facts)]
    told += next((what for one, what in record.broken() if one is cell), [])
    return "  ".join([f"{start} {figures}", *(text for text in told if text)])


def legend(record: Record) -> Text:
    """Return the meanings of the signs in the table."""
    lines = [
        Text(f"{sign} {name}: {words.MEANINGS[name]}", style=STYLES[name])
        for name, sign in words.signs(record).items()
    ]
    return Text("\n").join(lines)


def summary(record: Record) -> RenderableType:
    """Return the final report: headline, table, broken promises, and what was left out."""
    parts: list[RenderableType] = [Text(words.headline(record) + ".", style="bold")]
    parts += [Text(text) for text in words.cautions(record)]
    parts.append(torture_table(record))
    for subject, title, what in words.promises_broken(record):
        parts += [Text(f"✗ {subject}, {title}: {text}", style="bold red") for text in what]
    for reason, places in words.reasons(record).items():
        parts.append(Text(f"– {reason}: {', '.join(places)}", style="dim"))
    return Group(*parts)
