# SPDX-License-Identifier: MIT
"""`zerohttpd peers`: compare the seven servers with other servers. All studies of bench/peers/ are
measured in one sweep; a configuration that several studies need is measured once. Missing reference
servers are installed. Those that cannot be installed are skipped, and the reason is reported."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.host.project import ROOT
from bench.peers import installing
from bench.peers.study import chosen, names, study
from bench.readers.console import console, say
from bench.records.values import add_results
from bench.sweep import sweep
from bench.sweep.options import chosen_options, sweep_parser


def run(words: Sequence[str]) -> int:
    """Return the exit status: 0 all results valid, 1 not all, 128 + n after signal n. Raises
    UserError."""
    wanted = _parser().parse_args(words)
    out = console()
    if wanted.list:
        for name in [one.name for one in chosen(wanted.studies)]:
            say(out, f"{name:<16}{study(name).said.title}: {study(name).said.question}")
        return 0
    studies = chosen(wanted.studies)
    not_wanted: dict[str, str] = {}
    if not wanted.no_install:
        subjects = dict.fromkeys(x for one in studies for x in one.subjects)
        tools = installing.PROFILER if any(one.profiles for one in studies) else {}
        ask = installing.on_terminal()
        not_wanted = installing.install(
            subjects, lambda text: say(out, text), ask, wanted.yes, tools
        )
    if wanted.only_install:
        return 0
    say(out, "Building reference servers from source: this takes minutes the first time only")
    asked = ["--studies", *(one.name for one in studies)]
    asked += [*(["--full"] if wanted.full else []), "--results", str(wanted.results)]
    asked += ["--hosts", str(wanted.hosts)] if wanted.hosts else []
    options = chosen_options(sweep_parser().parse_args(asked), ("peers", *words))
    return sweep.sweep(replace(options, not_wanted=not_wanted)).status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd peers", description=__doc__)
    add = parser.add_argument
    add("studies", nargs="*", metavar="STUDY", help=f"{', '.join(names())} (default all)")
    add("--full", action="store_true", help="use the published numbers of requests and runs")
    add("--yes", action="store_true", help="install packages without asking")
    add("--no-install", action="store_true", help="install nothing; measure what is installed")
    add("--only-install", action="store_true", help="install what is missing; do not measure")
    add("--list", action="store_true", help="list the studies; do not measure")
    add("--hosts", type=Path, metavar="FILE", help="run on these hosts (default: this machine)")
    add_results(parser, ROOT / "results")
    return parser
