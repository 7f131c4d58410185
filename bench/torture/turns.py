# SPDX-License-Identifier: MIT
"""All cells, one after another: two servers at once would disturb each other."""

import time
from pathlib import Path

from bench.readers.console import console
from bench.records import torture as record
from bench.records.torture import Record, TortureCell
from bench.subjects.subject import Subject
from bench.torture import cell as cells
from bench.torture.attacks import Attack
from bench.torture.live import show_for
from bench.torture.options import TortureOptions
from bench.torture.scene import Ground

FIRST_GUESS = 2.6
"""Seconds that a cell takes beyond its attack; afterwards the mean of those made."""


def attack_all(
    options: TortureOptions, where: Ground, made: Record, folder: Path, begun: float
) -> None:
    """Fill the record, attack by attack. May raise Interrupted."""
    pairs = [(attack, subject) for attack in options.attacks for subject in options.subjects]
    with show_for(console(), made, len(pairs)) as show:
        while pairs:
            left = options.minutes * 60 - (time.monotonic() - begun)
            need = seconds_of_a_cell(made, options.seconds)
            if left < need:
                break
            attack, subject = pairs.pop(0)
            show.begin(subject.name, attack.name, min(left, need * (1 + len(pairs))))
            made.cells.append(cells.measure(subject, attack, where, options.seconds))
            record.save(made, folder)
            show.end(made.cells[-1])
    made.cells += [not_reached(attack, subject) for attack, subject in pairs]
    made.state = "out of time" if pairs else "complete"


def not_reached(attack: Attack, subject: Subject) -> TortureCell:
    """A cell for which there was no time."""
    empty = TortureCell(subject=subject.name, kind=subject.kind, attack=attack.name, reached=False)
    empty.reason = "the time was over before its turn"
    return empty


def seconds_of_a_cell(made: Record, attack_seconds: float) -> float:
    """What a cell takes on average, as far as that is known."""
    known = [cell.seconds for cell in made.cells if cell.before]
    return sum(known) / len(known) if known else FIRST_GUESS + attack_seconds
