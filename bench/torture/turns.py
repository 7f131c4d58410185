# SPDX-License-Identifier: MIT
"""Measure all configurations one after another, because two servers would disturb each other."""

import time
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.readers.console import ProgressTable, console
from bench.records import torture as record
from bench.records.torture import Record, TortureCell, Verdict, verdict
from bench.report.findings import torture as words
from bench.subjects.subject import Subject
from bench.sweep.display import in_words
from bench.torture import cell as cells
from bench.torture.attacks import Attack
from bench.torture.options import TortureOptions
from bench.torture.scene import Ground

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


FIRST_GUESS = 2.6
"""The first estimate of a measurement's seconds without the attack; later the mean is used."""


def attack_all(
    options: TortureOptions, where: Ground, made: Record, folder: Path, begun: float
) -> None:
    """Measure all pairs and fill the record, attack by attack. May raise Interrupted."""
    pairs = [(attack, subject) for attack in options.attacks for subject in options.subjects]
    with ProgressTable(console(), partial(torture_table, made), len(pairs), columns=32) as progress:
        while pairs:
            left = options.minutes * 60 - (time.monotonic() - begun)
            need = seconds_of_a_cell(made, options.seconds)
            if left < need:
                break
            attack, subject = pairs.pop(0)
            left = min(left, need * (1 + len(pairs)))
            names = (subject.name, attack.name)
            progress.begin(names, ": ".join(names), in_words(left))
            cell = cells.measure(subject, attack, where, options.seconds)
            made.cells.append(cell)
            record.save(made, folder)
            after = in_words(max(0.0, left - cell.seconds))
            progress.end(f"{line_for(made, cell)}  ({after} left)", after)
    made.cells += [not_reached(attack, subject) for attack, subject in pairs]
    made.state = "out of time" if pairs else "complete"


def not_reached(attack: Attack, subject: Subject) -> TortureCell:
    """Return the result of a configuration for which no time was left."""
    empty = TortureCell(subject=subject.name, kind=subject.kind, attack=attack.name, reached=False)
    empty.reason = "the time limit (--minutes) was reached first"
    return empty


def seconds_of_a_cell(made: Record, attack_seconds: float) -> float:
    """Return the mean duration of a measurement, or an estimate before the first one."""
    known = [cell.seconds for cell in made.cells if cell.before]
    return sum(known) / len(known) if known else FIRST_GUESS + attack_seconds
