# SPDX-License-Identifier: MIT
"""The command `zerohttpd torture`. The command measures one configuration after another, because
two servers would disturb each other, and prints the results."""

import shutil
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import redis
from rich.console import Group, RenderableType
from rich.text import Text

from bench.host.signals import SignalWatch
from bench.readers.console import ProgressTable, console
from bench.records import torture as record
from bench.records.errors import Interrupted, UserError
from bench.records.store import make_folder
from bench.records.torture import Record, TortureCell, verdict
from bench.report.page import torture as words
from bench.report.page.build import build
from bench.sweep.display import in_words
from bench.torture import cell as cells
from bench.torture.ground import Ground, enter_own_network, ground
from bench.torture.options import empty_record, parse


def run(arguments: Sequence[str]) -> int:
    """Run the test. Exit status: 0 if all promises are kept, 1 if a promise is broken, 128 + n
    after signal n. Raises UserError, and Interrupted before the first configuration."""
    options = parse(arguments)
    enter_own_network(["-m", "bench", "torture", *arguments])
    with SignalWatch() as watch:
        try:
            with ground(watch) as where:
                return attack(options, empty_record(options, arguments, where), where)
        except redis.RedisError as error:
            raise UserError(f"the private Redis is lost: {error}") from error


def attack(options: Namespace, made: Record, where: Ground) -> int:
    """Measure all configurations and return the exit status. Save the results even after an error.
    Raises UserError, and redis.RedisError if the private Redis is lost."""
    begun, status = time.monotonic(), 0
    folder = make_folder(options.results, made.started, "torture-")
    try:
        attack_all(options, where, made, folder, begun)
    except Interrupted as interrupted:
        status = interrupted.exit_status
    finally:
        if made.state == "running":
            made.state = "interrupted"
        made.seconds = round(time.monotonic() - begun, 1)
        record.save(made, folder)
        _, table = build(folder)
        if options.markdown:
            shutil.copyfile(table, options.markdown)
    out = console()
    out.print(summary(made))
    out.print(f"Stored in {folder}", soft_wrap=True, markup=False)
    return status or int(bool(made.broken()))


FIRST_GUESS = 2.6
"""The estimated seconds of the first measurement, in addition to the attack's duration."""


def attack_all(options: Namespace, where: Ground, made: Record, folder: Path, begun: float) -> None:
    """Measure each server under each attack until the time limit, and fill the record. May raise
    Interrupted."""
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
    for attack, subject in pairs:
        cell = TortureCell(subject=subject.name, kind=subject.kind, attack=attack.name)
        cell.reached, cell.reason = False, "the time limit (--minutes) was reached first"
        made.cells.append(cell)
    made.state = "out of time" if pairs else "complete"


def seconds_of_a_cell(made: Record, attack_seconds: float) -> float:
    """Return the mean duration of a measurement, or an estimate before the first measurement."""
    known = [cell.seconds for cell in made.cells if cell.before]
    return sum(known) / len(known) if known else FIRST_GUESS + attack_seconds


def torture_table(made: Record, current: tuple[str, str] | None = None) -> RenderableType:
    """Return the table so far. `current`: server and attack of the running measurement."""
    return Group(words.overview(made, current), words.legend(made))


def line_for(made: Record, cell: TortureCell) -> str:
    """Return a result as a line for a log."""
    facts = made.facts(cell)
    start = f"{cell.attack:<16} {cell.subject:<13}"
    if cell.before is None:
        return f"{start} {verdict(cell, facts)}: {cell.reason}"
    figures = f"{words.sign(cell, facts):<7} {verdict(cell, facts):<13} {words.rates(cell)}/s"
    texts = [*words.asides(cell, facts), words.losses(cell, facts)]
    texts += next((what for one, what in made.broken() if one is cell), [])
    return "  ".join([f"{start} {figures}", *(text for text in texts if text)])


def summary(made: Record) -> RenderableType:
    """Return the final report: headline, cautions, table, broken promises and omissions."""
    parts: list[RenderableType] = [Text(words.headline(made) + ".", style="bold")]
    parts += [Text(text) for text in words.cautions(made)]
    parts.append(torture_table(made))
    for subject, title, what in words.promises_broken(made):
        parts += [Text(f"✗ {subject}, {title}: {text}", style="bold red") for text in what]
    for reason, places in words.reasons(made).items():
        parts.append(Text(f"– {reason}: {', '.join(places)}", style="dim"))
    return Group(*parts)
