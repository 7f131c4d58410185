# SPDX-License-Identifier: MIT
"""`zerohttpd hosts`: the benchmark over several hosts, from preparation to results."""

import argparse
import json
import shlex
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.deploy.playbook import CONNECTION_LOST, Playbook, WayToLoad, attended_sweep, find
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.load import open_loop
from bench.records import store
from bench.records.errors import UserError
from bench.records.values import words_of
from bench.sweep.options import sweep_parser

FAILED = 2
"""Exit status: the sweep could not begin, or its results did not come."""

TAGS = {
    "check": "look at the hosts, change nothing",
    "prepare": "install, tune, build; what `sweep` needs",
    "collect": "bring the results, end agents, take away their key: after a run that was cut off",
    "remove": "collect, and take everything back but packages of the distribution",
}


@dataclass(frozen=True)
class DeployOptions:
    """What the command line asked for."""

    inventory: Path
    only: str | None
    results: Path
    """Here, on this machine."""
    resume: Path | None
    """The unfinished sweep to go on with."""
    sweep: tuple[str, ...]
    """For the sweep on the load host."""
    oha: str | None
    """The tool of the open loop, if one is asked for: few hosts could make their own."""
    by_wrk: bool = False
    """Whether wrk asks, too, and must be on the load host."""


def run(words: Sequence[str]) -> int:
    """The exit status is the sweep's; 2 if there was none, or its results could not be fetched.
    Raises UserError."""
    return play(parse(words))


def parser() -> argparse.ArgumentParser:
    """The options of our own; all others are the sweep's."""
    own = argparse.ArgumentParser(
        prog="zerohttpd hosts",
        allow_abbrev=False,
        description="Sweep over several hosts: prepare them, measure, collect the results, take "
        "away what could start anything there. All other options are those of the sweep; see "
        "`zerohttpd sweep --help`.",
    )
    add = own.add_argument
    add(
        "--inventory",
        required=True,
        metavar="FILE",
        help="the hosts, for Ansible (deploy/inventory.example.ini); `lab`: those of `make lab`",
    )
    words = "; ".join(f"{tag}: {what}" for tag, what in TAGS.items())
    add("--only", choices=TAGS, help=f"a part of it. {words}")
    add("--results", type=Path, default=ROOT / "results", metavar="DIR", help="on this machine")
    add("--resume", nargs="?", const="", metavar="FOLDER", help="go on with an unfinished sweep")
    return own


def parse(arguments: Sequence[str]) -> DeployOptions:
    """What was asked for, checked as far as it can be here. Raises UserError."""
    own, rest = parser().parse_known_args(arguments)
    theirs = sweep_parser().parse_args(rest)  # says what is wrong, and ends
    if getattr(theirs, "hosts", None):
        raise UserError("--hosts is for the load host, where the playbook writes that file")
    resume = None
    if own.resume is not None:
        resume = Path(own.resume) if own.resume else store.latest_unfinished(own.results)
        if not (resume / "results.json").exists():
            raise UserError(f"{resume} has no results.json: nothing to resume")
    oha = None
    if theirs.rate:
        open_loop.require_oha()
        oha = open_loop.program()
    where = find(own.inventory)
    by_wrk = bool(theirs.studies) or "wrk" in words_of(theirs.generator)
    return DeployOptions(where, own.only, own.results.resolve(), resume, tuple(rest), oha, by_wrk)


def play(options: DeployOptions) -> int:
    """All of it, or the part that was asked for."""
    # In /tmp, because the path of a socket must not be long.
    with tempfile.TemporaryDirectory(prefix="zerohttpd-deploy-", dir="/tmp") as name:
        scratch = Path(name)
        variables: dict[str, str] = {"results_here": str(options.results)}
        if options.oha:
            variables["oha"] = options.oha
        if options.by_wrk:
            variables["by_wrk"] = "yes"
        if options.resume:
            variables["resume"] = str(_packed(options.resume, scratch))
        playbook = Playbook(options.inventory, variables, scratch)
        with playbook, SignalWatch() as watch:
            if options.only:
                return 0 if playbook.run(options.only, watch) else FAILED
            return _all(options, playbook, watch, scratch)


def _all(options: DeployOptions, playbook: Playbook, watch: SignalWatch, scratch: Path) -> int:
    # Before the check has passed nothing is removed: it may belong to another user's sweep.
    if not playbook.run("check", watch):
        return _ended(watch, FAILED)
    host = WayToLoad(scratch / "load_host.json")
    status = FAILED
    before = _folders(options.results)
    try:
        if playbook.run("prepare", watch) and watch.number is None:
            status = attended_sweep(host, _sweep_options(options), watch)
            if status == CONNECTION_LOST:
                print("bench: the connection to the load host broke", file=sys.stderr)
    finally:
        collected = playbook.run("collect")
    _say_where(options, before)
    if not collected:
        print(
            "bench: not all could be collected; when the hosts are back: zerohttpd "
            f"hosts --inventory {options.inventory} --only collect",
            file=sys.stderr,
        )
        return status or FAILED
    return _ended(watch, status)


def _sweep_options(options: DeployOptions) -> list[str]:
    """For the sweep on the load host, where an unfinished one was sent to."""
    resume = ["--resume", f"results/{options.resume.resolve().name}"] if options.resume else []
    return [*options.sweep, *resume]


def _packed(folder: Path, scratch: Path) -> Path:
    """An unfinished sweep as an archive for the load host."""
    archive = scratch / "resume.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.resolve().name)
    return archive


def _folders(results: Path) -> set[Path]:
    return {file.parent for file in results.glob("*/results.json")}


def _say_where(options: DeployOptions, before: set[Path]) -> None:
    found = _folders(options.results)
    # A resumed sweep keeps its name, and is now in the folder of the results.
    resumed = options.results / options.resume.resolve().name if options.resume else None
    for folder in sorted(found & {resumed} if resumed else found - before):
        quoted = shlex.quote(str(folder))
        print(f"Here: {folder}/; a page of it: make report RESULTS={quoted}")
        if json.loads((folder / "results.json").read_text())["state"] != "complete":
            print(
                "To go on with it from here: .venv/bin/zerohttpd hosts --inventory "
                f"{shlex.quote(str(options.inventory))} --resume {quoted}"
            )


def _ended(watch: SignalWatch, status: int) -> int:
    """The status of a run that a signal ended is that signal's."""
    return 128 + watch.number if watch.number and (status == FAILED or status < 0) else status
