# SPDX-License-Identifier: MIT
"""What was asked for on the command line, checked."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.values import value_of, within, words_of
from bench.subjects.subject import Subject, available, select
from bench.torture import attacks
from bench.torture.attacks import ATTACKS, Attack

SECONDS, SHORTEST, LONGEST = 0.8, 0.3, 60.0
"""How long an attack lasts."""
MINUTES, MOST_MINUTES = 5.0, 24 * 60.0
BESIDE = ("nginx", "h2o", "lighttpd", "go")
"""Strangers that are tortured unasked: all of them would take an hour."""


@dataclass(frozen=True)
class TortureOptions:
    """What is to be done."""

    subjects: list[Subject]
    attacks: list[Attack]
    notes: list[str]
    """Who is left out altogether, and why."""
    seconds: float
    minutes: float
    results: Path
    markdown: Path | None
    words: tuple[str, ...]
    """All of it, as it was said."""


def parse(arguments: Sequence[str]) -> TortureOptions:
    """The options. Raises UserError for what is not known or not built."""
    said = parser().parse_args(arguments)
    subjects, notes = chosen(words_of(said.servers))
    if said.markdown and not said.markdown.parent.is_dir():
        raise UserError(f"--markdown: there is no folder {said.markdown.parent}")
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
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="zerohttpd torture",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Attack each server in every way, and see what its visitors get meanwhile "
        "and afterwards.\nExit status: 0 all promises were kept, 1 one was broken, 2 could not "
        "begin, 130 after Ctrl-C.",
        epilog="attacks:\n" + "".join(f"  {a.name:<16} {a.what}\n" for a in ATTACKS.values()),
    )
    add = top.add_argument
    add("--servers", nargs="+", metavar="NAME", help=f"only these (all, and {', '.join(BESIDE)})")
    add("--attacks", nargs="+", metavar="NAME", help="only these (all)")
    add("--seconds", default=str(SECONDS), metavar="S", help="that an attack lasts (%(default)s)")
    what = "after which no other cell is begun (%(default)s)"
    add("--minutes", default=f"{MINUTES:.0f}", metavar="M", help=what)
    where = "a folder for each torture is made in it (results/)"
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help=where)
    add("--markdown", type=Path, metavar="FILE", help="put the table there as well")
    return top


def chosen(names: list[str]) -> tuple[list[Subject], list[str]]:
    """The named ones; for no names all servers, and those of BESIDE that can be had. Raises
    UserError."""
    if names:
        floors = [name for name in names if name.startswith("floor-")]
        if floors:
            raise UserError(f"{', '.join(floors)}: floors promise nothing and are not tortured")
        return select(names), []
    servers = select(None)
    strangers, left_out = available(BESIDE)
    return [*servers, *strangers], list(left_out.values())
