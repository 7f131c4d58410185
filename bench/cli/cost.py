# SPDX-License-Identifier: MIT
"""`zerohttpd cost`: where the microseconds of a request go. It is a sweep: each server beside its
floor, its system calls and its functions; one server with one trick after another switched off; and
the experiments. A page and a document are made of its results, and lie beside them."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.cli.cost_parts import build_experiments, how_stacks, parts_of
from bench.host.project import ROOT
from bench.readers.console import console, say
from bench.records import store
from bench.records.errors import UserError
from bench.records.values import add_value, positive, words_of
from bench.report.page.build import build
from bench.report.page.cost_markdown import markdown
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions

PAGE = "cost.html"


def run(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 not all of it, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    out = console()
    if chosen.markdown and not chosen.markdown.parent.is_dir():
        raise UserError(f"--markdown: there is no folder {chosen.markdown.parent}")
    if chosen.read:
        finish(chosen.read, chosen.markdown)
        return 0
    servers = tuple(s.name for s in select(words_of(chosen.servers), programs=ROOT))
    stacks, reason = how_stacks(chosen.stacks)
    if reason:
        say(out, f"Functions: {reason}")
    if not chosen.no_experiments:
        build_experiments()
    parts = tuple(parts_of(chosen, servers, stacks))
    command = ("cost", *words)
    options = SweepOptions(parts, results=chosen.results, command=command, concludes=False)
    done = sweep.sweep(options)
    if done.folder is not None:
        finish(done.folder, chosen.markdown)
    return done.status


def finish(source: Path, document: Path | None) -> None:
    """Make the page, and the document where it is wanted. Raises UserError."""
    results = store.load(source)
    page, *_ = build(source, store.file_of(source).with_name(PAGE))
    text = markdown(results)
    out = console()
    out.print(text, markup=False, soft_wrap=True)
    if document:
        store.replace(document, text)
        store.replace(document.with_suffix(".json"), store.slim(results))
    say(out, f"Open {page} in a browser: it has the flame graphs as well.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd cost", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    number = partial(add_value, parser, parse=positive)
    number("--runs", example="5", default=5, metavar="N", help="of each cell (%(default)s)")
    number(
        "--requests", example="20000", default=20_000, metavar="N", help="of each run (%(default)s)"
    )
    number("--concurrency", example="50", default=50, metavar="N", help="of ab (%(default)s)")
    add("--servers", nargs="+", metavar="NAME", default=[], help="these only (all)")
    add("--tricks-of", default="epoll", metavar="NAME", help="switch its tricks off (%(default)s)")
    add("--no-experiments", action="store_true", help="leave the experiments out")
    how = "functions: samples by perf, or instructions by callgrind (perf where it is allowed)"
    add("--stacks", choices=("auto", "perf", "callgrind", "no"), default="auto", help=how)
    what = "put the document there, and beside it what it is made of (*.json)"
    add("--markdown", type=Path, metavar="FILE", help=what)
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="(results/)")
    add("--read", type=Path, metavar="FOLDER", help="measure nothing; read these results")
    return parser
