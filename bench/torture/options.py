# SPDX-License-Identifier: MIT
"""Parse and check the command line of `zerohttpd torture`, and store it in a record."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from bench.host import machine
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.torture import Record, TortureSettings
from bench.records.values import Parser, add_results, add_value, within, words_of
from bench.stations.survey import versions_of, with_tools
from bench.subjects.subject import Subject, select
from bench.torture import attacks
from bench.torture import cell as cells
from bench.torture.attacks import ATTACKS
from bench.torture.ground import Ground

REFERENCES = ("nginx", "h2o", "lighttpd", "go")
"""The reference servers that are tested by default, because a test of all takes an hour."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options, with servers and attacks in place of their names, and with `notes`: the
    omitted servers and the reasons. Raises UserError for unknown values and unbuilt servers."""
    said = parser().parse_args(arguments)
    said.subjects, said.notes = chosen(words_of(said.servers))
    said.attacks = attacks.select(words_of(said.attacks))
    if said.markdown and not said.markdown.parent.is_dir():
        raise UserError(f"--markdown: the folder {said.markdown.parent} does not exist; create it")
    return said


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
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
    return top


def chosen(names: list[str]) -> tuple[list[Subject], list[str]]:
    """Return the named servers, and the reasons for omitted ones. Without names: all servers of the
    project and the installed servers of REFERENCES. Raises UserError."""
    if names:
        baselines = [name for name in names if name.startswith("baseline-")]
        if baselines:
            raise UserError(
                f"{', '.join(baselines)}: baselines make no promises and are not tested"
            )
        return select(names), []
    left_out: dict[str, str] = {}
    servers = [*select(None), *select(REFERENCES, left_out=left_out)]
    return servers, list(left_out.values())


def empty_record(options: argparse.Namespace, command: Sequence[str], where: Ground) -> Record:
    """Return a record without results; `command`: the command line."""
    return Record(
        started=datetime.now().astimezone(),
        command=list(command),
        machine=machine.describe_machine(),
        versions=with_tools(versions_of(options.subjects), where.redis.version()),
        placement=where.placement,
        settings=TortureSettings(
            attack_seconds=options.seconds,
            minutes=options.minutes,
            visitors=cells.VISITORS,
            think_seconds=cells.THINK_SECONDS,
        ),
        notes=options.notes,
        subjects=[subject.name for subject in options.subjects],
        attacks=options.attacks,
    )
