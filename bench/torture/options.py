# SPDX-License-Identifier: MIT
"""Parse and check the command line of `zerohttpd torture`, and store it in a record."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.host import machine
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.torture import Record, TortureSettings
from bench.records.values import add_results, value_of, within, words_of
from bench.stations.survey import versions_of, with_tools
from bench.subjects.subject import Subject, select
from bench.torture import attacks
from bench.torture import cell as cells
from bench.torture.attacks import ATTACKS, Attack
from bench.torture.ground import Ground

SECONDS, SHORTEST, LONGEST = 0.8, 0.3, 60.0
"""The length of an attack in seconds: default, minimum, maximum."""
MINUTES, MOST_MINUTES = 5.0, 24 * 60.0
BESIDE = ("nginx", "h2o", "lighttpd", "go")
"""The reference servers that are tested by default; all of them would take an hour."""


@dataclass(frozen=True)
class TortureOptions:
    """The checked options of a test."""

    subjects: list[Subject]
    attacks: list[Attack]
    notes: list[str]
    """The servers that are left out, and the reasons."""
    seconds: float
    minutes: float
    results: Path
    markdown: Path | None
    words: tuple[str, ...]
    """The original command line."""


def parse(arguments: Sequence[str]) -> TortureOptions:
    """Return the options. Raises UserError for unknown values and servers that are not built."""
    said = parser().parse_args(arguments)
    subjects, notes = chosen(words_of(said.servers))
    if said.markdown and not said.markdown.parent.is_dir():
        raise UserError(f"--markdown: the folder {said.markdown.parent} does not exist; create it")
    return TortureOptions(
        subjects,
        attacks.select(words_of(said.attacks)),
        notes,
        value_of("--seconds", said.seconds, lambda x: within(x, SHORTEST, LONGEST), f"{SECONDS}"),
        value_of("--minutes", said.minutes, lambda x: within(x, 0.1, MOST_MINUTES), f"{MINUTES:g}"),
        said.results,
        said.markdown,
        tuple(arguments),
    )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="zerohttpd torture",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Attack each server in several ways, and measure what its visitors get.\nExit "
        "status: 0 all promises were kept, 1 one was broken, 2 could not begin, 130 after Ctrl-C.",
        epilog="attacks:\n"
        + "".join(f"  {name:<16} {one.facts().what}\n" for name, one in ATTACKS.items()),
    )
    add = top.add_argument
    which = f"test only these servers (default: all of the project, {', '.join(BESIDE)})"
    add("--servers", nargs="+", metavar="NAME", help=which)
    add("--attacks", nargs="+", metavar="NAME", help="run only these attacks (default: all)")
    length = "let each attack last S seconds (default %(default)s)"
    add("--seconds", default=str(SECONDS), metavar="S", help=length)
    limit = "start no further attack if it cannot end within M minutes (default %(default)s)"
    add("--minutes", default=f"{MINUTES:.0f}", metavar="M", help=limit)
    add_results(top, ROOT / "results")
    add("--markdown", type=Path, metavar="FILE", help="also write the table to FILE (Markdown)")
    return top


def chosen(names: list[str]) -> tuple[list[Subject], list[str]]:
    """Return the named servers; without names all servers of the project and the installed default
    reference servers. Raises UserError."""
    if names:
        floors = [name for name in names if name.startswith("floor-")]
        if floors:
            raise UserError(f"{', '.join(floors)}: baselines make no promises and are not tested")
        return select(names), []
    left_out: dict[str, str] = {}
    servers = [*select(None), *select(BESIDE, left_out=left_out)]
    return servers, list(left_out.values())


def empty_record(options: TortureOptions, where: Ground) -> Record:
    """Return a record without results."""
    return Record(
        started=datetime.now().astimezone(),
        command=list(options.words),
        machine=machine.describe_machine(),
        versions=with_tools(versions_of(options.subjects), where.redis.version()),
        placement=where.placement,
        settings=TortureSettings(
            attack_seconds=options.seconds,
            minutes=options.minutes,
            visitors=cells.VISITORS,
            think_seconds=cells.THINK_SECONDS,
        ),
        notes=list(options.notes),
        subjects=[subject.name for subject in options.subjects],
        attacks=[attack.facts() for attack in options.attacks],
    )
