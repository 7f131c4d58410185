# SPDX-License-Identifier: MIT
"""`zerohttpd peers`: what people would use beside the seven. Each study of bench/peers/ is measured
again, all in one sweep: what several of them ask for is measured once. Peers that are missing are
installed; those that cannot be had are left out, with the reason, and the studies go on."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.host.project import ROOT
from bench.peers import installing
from bench.peers.study import chosen, names, study
from bench.readers.console import console, say
from bench.sweep import sweep
from bench.sweep.options import chosen_options, sweep_parser


def run(words: Sequence[str]) -> int:
    """Exit status: 0 all cells hold, 1 some do not, 128 + n after signal n. Raises UserError."""
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
    say(out, "Building the peers that must be built: minutes for the first time, nothing later")
    asked = ["--studies", *(one.name for one in studies)]
    asked += [*(["--full"] if wanted.full else []), "--results", str(wanted.results)]
    asked += ["--hosts", str(wanted.hosts)] if wanted.hosts else []
    options = chosen_options(sweep_parser().parse_args(asked), ("peers", *words))
    return sweep.sweep(replace(options, not_wanted=not_wanted)).status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd peers", description=__doc__)
    add = parser.add_argument
    add("studies", nargs="*", metavar="STUDY", help=f"{', '.join(names())} (all)")
    add("--full", action="store_true", help="as many requests and runs as were published")
    add("--yes", action="store_true", help="fetch packages without a question, however many")
    add("--no-install", action="store_true", help="take what is there")
    add("--only-install", action="store_true", help="fetch what is missing, and measure nothing")
    add("--list", action="store_true", help="list the studies and measure nothing")
    add("--hosts", type=Path, metavar="FILE", help="run on the hosts that this file names")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    return parser
