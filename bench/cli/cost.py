# SPDX-License-Identifier: MIT
"""Measure the CPU cost of a request (`zerohttpd cost`). Measure each server and its baseline,
system calls and functions of each server, one server without each of its optimisations, and
experiments. Write a page into the folder of the results, and print the results as Markdown."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.cli.report import existing
from bench.cli.study import measured
from bench.host.project import ROOT
from bench.readers.console import Table, console, paragraphs, say
from bench.readers.cost import Difference, differences
from bench.records import store
from bench.records.conditions import CHANGES
from bench.records.errors import UserError
from bench.records.values import Parser, add_results, add_size, one_of
from bench.report.page.build import build
from bench.studies.study import DeclaredStudy, study

PAGE = "cost.html"


def run(words: Sequence[str]) -> int:
    """Measure, and write the page. Return the exit status: 0 all results valid, 1 not all valid,
    128 + n after signal n. Raises UserError."""
    wanted = study("cost")
    chosen = _parser(wanted).parse_args(words)
    if chosen.markdown and not chosen.markdown.parent.is_dir():
        raise UserError(f"--markdown: the folder {chosen.markdown.parent} does not exist")
    if chosen.read:
        finish(chosen.read, chosen.markdown)
        return 0
    only = {"servers": (chosen.optimisations_of,)}
    entries = [
        one.model_copy(update=only if "without" in one.varied else {}) for one in wanted.measure
    ]
    if not chosen.no_experiments:
        closed = {"mode": "closed"}
        changes = [one for name in CHANGES for one in study(name).measure]
        entries += [one.model_copy(update=closed) for one in changes]
    wanted = wanted.model_copy(update={"measure": tuple(entries)})
    done, _ = measured([wanted], chosen, ("cost", *words), concludes=False)
    if done.folder is not None:
        finish(done.folder, chosen.markdown)
    return done.status


def finish(source: Path, document: Path | None) -> None:
    """Write the page and print the results; also write them to `document`. Raises UserError."""
    stored = store.file_of(source)
    results = store.load(stored)
    if results.command[:1] != ["cost"]:
        raise UserError(f"{stored} is not from `make cost`; make its page with: make report")
    page, written = build(source, stored.with_name(PAGE))
    text = written.read_text(encoding="utf-8")
    out = console()
    out.print(text, markup=False, soft_wrap=True)
    if document:
        store.replace(document, text)
        store.replace(document.with_suffix(".json"), store.slim(results))
    say(out, f"Open {page} in a browser: it also has the flame graphs.")


def _parser(wanted: DeclaredStudy) -> argparse.ArgumentParser:
    parser = Parser(prog="zerohttpd cost", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add_size(parser, *wanted.usual)
    only = "measure only these servers (default all)"
    add("--servers", nargs="+", metavar="NAME", default=[], help=only)
    without = "disable the optimisations of this server, one by one (default %(default)s)"
    add("--optimisations-of", default="epoll", metavar="NAME", help=without)
    add("--no-experiments", action="store_true", help="skip the experiments")
    how = "measure functions by samples (perf) or by counted instructions (callgrind) (default "
    how += "auto: perf if allowed)"
    add("--stacks", choices=("auto", "perf", "callgrind", "no"), default="auto", help=how)
    what = "write the document to FILE and its data to a *.json file in the same folder"
    add("--markdown", type=Path, metavar="FILE", help=what)
    add_results(parser, ROOT / "results")
    add("--read", type=existing, metavar="FOLDER", help="read these results, do not measure")
    return parser


def experiment(words: Sequence[str]) -> int:
    """Run `zerohttpd experiment`. Return the exit status, see `run`. Raises UserError."""
    what = "Measure a server with and without one change, alternately."
    parser = Parser(prog="zerohttpd experiment", description=what)
    known = f"one of {', '.join(CHANGES)}; without a name: list all experiments"
    parser.add_argument("name", nargs="?", help=known)
    add_size(parser, *study(next(iter(CHANGES))).usual)
    add_results(parser, ROOT / "results")
    options, out = parser.parse_args(words), console()
    if options.name is None:
        for name, title in CHANGES.items():
            say(out, f"{name:<12} {title}")
        return 0
    chosen = study(one_of("experiment", options.name, CHANGES))
    say(out, f"{chosen.title}\n\n{paragraphs(chosen.question)}\n")
    done, _ = measured([chosen], options, ("experiment", *words), concludes=False)
    if done.folder is not None:
        show(differences(store.load(done.folder), "change"), chosen, out)
    return done.status


def show(found: Sequence[Difference], chosen: DeclaredStudy, out: Console) -> None:
    """Print the figures of each server with and without the change, and the expected result."""
    table = Table("<server", "<conditions", "<", "us/request", "calls", "writes", "<")
    for one in found:
        start = (one.usual.subject, one.usual.conditions.describe())
        table.add_row(*start, "unchanged", *one.usual.words(), "")
        table.add_row("", "", chosen.name, *one.other.words(), one.verdict)
    out.print(table)
    say(out, paragraphs(chosen.answer))
