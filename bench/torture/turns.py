# SPDX-License-Identifier: MIT
"""Measure all configurations one after another, because two servers would disturb each other."""

import time
from functools import partial
from pathlib import Path

from bench.readers.console import ProgressTable, console
from bench.records import torture as record
from bench.records.torture import Record, TortureCell
from bench.subjects.subject import Subject
from bench.sweep.display import in_words
from bench.torture import cell as cells
from bench.torture.attacks import Attack
from bench.torture.options import TortureOptions
from bench.torture.scene import Ground
from bench.torture.table import line_for, torture_table

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
