# SPDX-License-Identifier: MIT
"""The command `zerohttpd torture`. The command measures one configuration after another, because
two servers would disturb each other, and prints the results."""

import argparse
import shutil
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import redis
from rich.console import Group, RenderableType
from rich.text import Text

from bench.host.project import ROOT
from bench.readers.console import ProgressTable, console
from bench.records import torture as record
from bench.records.errors import Interrupted, UserError
from bench.records.store import make_folder
from bench.records.torture import Record, TortureCell, verdict
from bench.records.values import Parser, add_results, add_value, within, words_of
from bench.report.page import torture as words
from bench.report.page.build import build
from bench.sweep.display import in_words
from bench.torture.attacks import ATTACKS, REFERENCES, attacks_of, servers_of
from bench.torture.cell import empty_record, measure
from bench.torture.ground import Ground, enter_own_network, ground


def run(arguments: Sequence[str]) -> int:
    """Run the test. Exit status: 0 if all promises are kept, 1 if a promise is broken, 128 + n
    after signal n. Raises UserError, and Interrupted before the first configuration."""
    options = parse(arguments)
    enter_own_network(["-m", "bench", "torture", *arguments])
    try:
        with ground() as where:
            return attack(options, empty_record(options, arguments, where), where)
    except redis.RedisError as error:
        raise UserError(f"the private Redis is lost: {error}") from error


def parse(arguments: Sequence[str]) -> Namespace:
    """Return the options, with servers and attacks in place of their names, and with `notes`: the
    omitted servers and the reasons. Raises UserError for unknown values and unbuilt servers."""
    top = Parser(
        prog="zerohttpd torture",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Attack each server in several ways, and measure what its visitors get.\nExit "
        "status: 0 all promises kept, 1 a promise broken, 2 could not begin, 130 after Ctrl-C.",
        epilog="attacks:\n"
        + "".join(f"  {name:<16} {one.what}\n" for name, one in ATTACKS.items()),
    )
    add = top.add_argument
    which = f"test only these servers (default: all of the project, {', '.join(REFERENCES)})"
    add("--servers", nargs="+", metavar="NAME", help=which)
    add("--attacks", nargs="+", metavar="NAME", help="run only these attacks (default: all)")
    limit = "start no further attack if it cannot end within M minutes"
    for option, least, usual, most, metavar, text in (
        ("--seconds", 0.3, 0.8, 60.0, "S", "let each attack last S seconds"),
        ("--minutes", 0.1, 5.0, 1440.0, "M", limit),
    ):
        more = {"default": usual, "metavar": metavar, "help": f"{text} (default {usual:g})"}
        add_value(top, option, partial(within, least=least, most=most), f"{usual:g}", **more)
    add_results(top, ROOT / "results")
    add("--markdown", type=Path, metavar="FILE", help="also write the table to FILE (Markdown)")
    said = top.parse_args(arguments)
    said.subjects, said.notes = servers_of(words_of(said.servers))
    said.attacks = attacks_of(words_of(said.attacks))
    if said.markdown and not said.markdown.parent.is_dir():
        raise UserError(f"--markdown: the folder {said.markdown.parent} does not exist; create it")
    return said


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
            cell = measure(subject, attack, where, options.seconds)
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
