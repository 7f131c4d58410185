#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print all commands and options in Markdown, from the texts of the Makefile and of --help.

.venv/bin/python scripts/commands.py >docs/reference/commands.md
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from unittest.mock import patch

from bench.cli.main import COMMANDS, main
from bench.host.project import ROOT

HEAD = """\
# Commands

The texts are those of `--help`. `make TARGET ARGS="..."` passes options to the command of the same
name, but `make bench` runs `sweep`, or `hosts` with `HOSTS=`. Without make, a command is
`.venv/bin/zerohttpd COMMAND ...`. The times were measured on two CPUs, without the installation.
"""
TARGET = re.compile(r"^([a-z._-]+):.*##-? ([A-Z]\w+): (.*)$", re.MULTILINE)


def parser_of(*words: str) -> argparse.ArgumentParser:
    """Return the parser that prints the help of a command."""
    found: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> None:
        found.append(parser)

    printed = patch.object(argparse.ArgumentParser, "print_help", keep)
    with printed, contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return found[0]


def rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the name and the table row of each argument of a command."""
    formatter = parser.formatter_class(parser.prog, width=1000)
    for action in parser._actions:
        if action.help in (None, argparse.SUPPRESS) or isinstance(action, argparse._HelpAction):
            continue
        if action.option_strings:
            value = formatter._format_args(action, (action.dest or "").upper())
            name = f"{', '.join(action.option_strings)} {value if action.nargs != 0 else ''}"
        else:
            name = formatter._format_args(action, action.dest)
        text = " ".join(formatter._expand_help(action).split())
        yield name.split()[0], f"| `{cell(name.strip())}` | {cell(text)} |"


def cell(text: str) -> str:
    """Return a text escaped for a Markdown table. Paths become relative to the project's folder."""
    return text.replace(f"{ROOT}/", "").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def section(level: str, *words: str) -> Iterator[str]:
    """Yield the lines about a command: its description, options and subcommands."""
    parser = parser_of(*words)
    yield f"\n{level} {' '.join(words)}\n"
    if parser.description:
        yield cell(" ".join(parser.description.split())) + "\n"
    table = dict(rows(parser))
    known = {} if words == ("sweep",) else dict(rows(parser_of("sweep")))
    if shared := [name for name, row in table.items() if known.get(name) == row]:
        yield f"Same as for `sweep`: `{'`, `'.join(shared)}`.\n"
    if own := [row for name, row in table.items() if name not in shared]:
        yield from ("| argument | |", "|---|---|", *own)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                yield from section(f"{level}#", *words, name)


def page() -> Iterator[str]:
    """Yield the lines of docs/reference/commands.md."""
    yield HEAD
    yield from ("## make", "", "| target | for | |", "|---|---|---|")
    for target, group, text in TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")):
        yield f"| `{target}` | {group.lower()} | {cell(text)} |"
    for name in COMMANDS:
        yield from section("##", name)


if __name__ == "__main__":
    print("\n".join(page()))
