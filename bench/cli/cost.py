# SPDX-License-Identifier: MIT
"""`zerohttpd cost`: show where the CPU time of a request goes. It measures each server and its
baseline, system calls and functions; one server without each of its optimisations; and the
experiments. It stores a page with the results in their folder, and prints them as Markdown."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.cli.cost_parts import build_experiments, how_stacks, parts_of
from bench.host.project import ROOT
from bench.readers.console import console, say
from bench.records import store
from bench.records.errors import UserError
from bench.records.values import add_results, add_size, words_of
from bench.report.page.build import build
from bench.report.page.cost import markdown
from bench.subjects.subject import select
from bench.sweep import sweep
from bench.sweep.options import SweepOptions

PAGE = "cost.html"


def run(words: Sequence[str]) -> int:
    """Return the exit status: 0 done, 1 in part, 128 + n after signal n. Raises UserError."""
    chosen = _parser().parse_args(words)
    out = console()
    if chosen.markdown and not chosen.markdown.parent.is_dir():
        raise UserError(f"--markdown: the folder {chosen.markdown.parent} does not exist")
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
    """Write the page, and the document if a path is given. Raises UserError."""
    results = store.load(source)
    page, *_ = build(source, store.file_of(source).with_name(PAGE))
    text = markdown(results)
    out = console()
    out.print(text, markup=False, soft_wrap=True)
    if document:
        store.replace(document, text)
        store.replace(document.with_suffix(".json"), store.slim(results))
    say(out, f"Open {page} in a browser: it also has the flame graphs.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerohttpd cost", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add_size(parser, runs=5, requests=20_000, connections=50)
    add("--servers", nargs="+", metavar="NAME", default=[], help="measure only these (default all)")
    without = "switch the optimisations of this server off, one by one (default %(default)s)"
    add("--tricks-of", default="epoll", metavar="NAME", help=without)
    add("--no-experiments", action="store_true", help="skip the experiments")
    how = "measure functions: samples by perf, instructions by callgrind (default perf if allowed)"
    add("--stacks", choices=("auto", "perf", "callgrind", "no"), default="auto", help=how)
    what = "write the document to FILE and its data to a *.json file in the same folder"
    add("--markdown", type=Path, metavar="FILE", help=what)
    add_results(parser, ROOT / "results")
    add("--read", type=Path, metavar="FOLDER", help="do not measure; read these results")
    return parser
