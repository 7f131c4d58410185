# SPDX-License-Identifier: MIT
"""`zerohttpd hosts`: the benchmark over several hosts, from preparation to results. The command
runs the plays of deploy/site.yml with ansible-playbook, and the sweep on the load host. It prints
the sweep's output. After a signal it ends the sweep."""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.host.process import POLL_SECONDS, SignalWatch, guarded
from bench.host.project import ROOT
from bench.load.generators import OHA
from bench.records import store
from bench.records.errors import UserError
from bench.records.values import Parser, words_of
from bench.sweep.options import sweep_parser

LAB = "lab"
LAB_INVENTORY = Path("/run/zerohttpd-lab/default/inventory.ini")
QUIET_END = ("ControlMaster=no", "ControlPath=none", "ServerAliveInterval=15")
"""Options of ssh. The sweep uses a new connection, because only a new login has the limits that
Ansible has raised. The connection ends with the sweep."""


def find(name: str) -> Path:
    """Return the path of the inventory `name`; `lab`: the lab's inventory. Raises UserError."""
    if name == LAB:
        if not LAB_INVENTORY.exists():
            raise UserError("there is no lab on this machine. Run first: make lab")
        return LAB_INVENTORY
    path = Path(name)
    if not path.exists():
        raise UserError(f"there is no inventory {name}. deploy/inventory.example.ini is an example")
    # Ansible would run an executable inventory, and the executable files of an inventory folder.
    if not path.is_file() or path.stat().st_mode & 0o111:
        raise UserError(f"{name} is not an inventory: give a file in INI or YAML format")
    return path.resolve()


def on_load_host(file: Path, words: Sequence[str], terminal: bool) -> list[str]:
    """Return the command line that runs `words` on the load host. `file`: the playbook's report on
    that host, see load_host.json.j2. Raises UserError if the host asks for a password."""
    found = json.loads(file.read_text())
    if found["password"]:
        raise UserError(
            "the load host asks for a password, which the sweep cannot type. Install a key with "
            "ssh-copy-id, and set ansible_ssh_private_key_file in the inventory"
        )
    if not found["ssh"]:
        return list(words)
    program, *options = shlex.split(found["ssh"])
    first = [word for option in QUIET_END for word in ("-o", option)]
    return [program, *first, "-tt" if terminal else "-T", *options, shlex.join(words)]


SWEEP = "/opt/zerohttpd-seven/deploy/files/sweep"
CONNECTION_LOST = 255
"""The exit status of ssh if it could not connect, or if the connection broke."""


def attended_sweep(host: Path, options: Sequence[str], watch: SignalWatch) -> int:
    """Run the sweep on the load host (see `on_load_host`) and return its exit status. Forward a
    signal to the sweep, which then ends in order. If this process is killed, the sweep also ends.

    If this process has a terminal, the sweep uses the terminal for its live table, and gets Ctrl-C
    directly. Otherwise the sweep ends at the end of its input; see deploy/files/sweep.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        # The sweep gets no new session, because it needs the terminal.
        process = subprocess.Popen(guarded(on_load_host(host, [SWEEP, *options], terminal=True)))
        return _wait(process, watch, process.terminate)
    words = [SWEEP, "--attended", *options]
    return _with_lifeline(on_load_host(host, words, terminal=False), watch)


def _with_lifeline(command: Sequence[str], watch: SignalWatch) -> int:
    process = subprocess.Popen(guarded(command), stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    lifeline = process.stdin

    def forward() -> None:
        word = signal.Signals(watch.number or signal.SIGINT).name.removeprefix("SIG")
        with contextlib.suppress(BrokenPipeError):
            lifeline.write(f"{word}\n".encode())
            lifeline.flush()

    status = _wait(process, watch, forward)
    with contextlib.suppress(BrokenPipeError):
        lifeline.close()
    return status


def _wait(
    process: subprocess.Popen[bytes],
    watch: SignalWatch | None,
    forward: Callable[[], None],
    timeout: float = 0.0,
) -> int:
    """Wait for the end of a process and return its status. After a signal to this process, wait up
    to `timeout` seconds more, then call `forward` once."""
    while watch and watch.number is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_SECONDS)
    if watch:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout)
        forward()
    return process.wait()


DEPLOY = ROOT / "deploy"
TIMEOUT = 3.0
"""The seconds in which Ansible can end by itself after Ctrl-C. Then this process forwards the
signal to Ansible, because perhaps the terminal did not send the signal to Ansible."""


class Playbook:
    """Runs plays over one inventory. ssh connections stay open until the `with` block ends."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """`options`: see `parse`. `scratch`: a folder for this run only. Raises UserError if
        Ansible is not installed."""
        program = Path(sys.executable).parent / "ansible-playbook"
        if not program.exists():
            raise UserError("Ansible is not installed. Run: scripts/setup.sh hosts")
        self.scratch, self._sockets = scratch, scratch / "ssh"
        variables = {"results_here": str(options.results), "scratch": str(scratch)}
        if options.oha:
            variables["oha"] = options.oha
        if options.by_wrk:
            variables["by_wrk"] = "yes"
        if options.resume:
            variables["resume"] = str(scratch / "resume.tar.gz")
            with tarfile.open(variables["resume"], "w:gz") as tar:
                tar.add(options.resume, options.resume.resolve().name)
        self._command = [str(program), "--inventory", str(options.inventory)]
        self._command += ["--extra-vars", json.dumps(variables), str(DEPLOY / "site.yml"), "--tags"]

    def __enter__(self) -> "Playbook":
        self._sockets.mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._sockets.iterdir():
            command = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(command, capture_output=True)

    def run(self, tag: str, watch: SignalWatch | None = None) -> bool:
        """Run the plays with this tag. Return whether all of them succeeded."""
        print(f"---- {tag} ----", flush=True)
        process = subprocess.Popen(
            [*self._command, tag],
            cwd=DEPLOY,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(DEPLOY / "ansible.cfg"),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._sockets),
                "PYTHONUNBUFFERED": "1",
                "LC_ALL": "C.UTF-8",  # Ansible does not start with another encoding
            },
            # The cleanup gets a new session, so that a second Ctrl-C does not reach it.
            start_new_session=watch is None,
        )
        return _wait(process, watch, lambda: process.send_signal(signal.SIGINT), TIMEOUT) == 0


FAILED = 2
"""The exit status if the sweep did not begin, or if only the fetching of its results failed. With
--only: the exit status after a failure."""

TAGS = {
    "check": "examine the hosts and change nothing",
    "prepare": "install packages, tune and build what a sweep needs",
    "collect": "after an interrupted run, fetch the results, end the agents and remove their key",
    "remove": "do the same as collect, then remove everything except the distribution's packages",
}


def run(words: Sequence[str]) -> int:
    """Run `zerohttpd hosts`. Return the sweep's exit status; 2 if no sweep began, or if the sweep's
    status is 0 but its results could not be fetched. With --only, return 0, or 2 after a failure.
    Raises UserError."""
    options = parse(words)
    # The folder is in /tmp, because the path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="zerohttpd-deploy-", dir="/tmp") as scratch,
        Playbook(options, Path(scratch)) as playbook,
        SignalWatch() as watch,
    ):
        if options.only:
            return 0 if playbook.run(options.only, watch) else FAILED
        return _all(options, playbook, watch)


def parser() -> argparse.ArgumentParser:
    """Return the parser of this command's own options; all other options are for the sweep."""
    own = Parser(
        prog="zerohttpd hosts",
        allow_abbrev=False,
        description="Sweep over several hosts: prepare them, measure, collect the results, remove "
        "keys and agents. All other options go to the sweep; see "
        "`zerohttpd sweep --help`.",
    )
    add = own.add_argument
    add(
        "--inventory",
        required=True,
        metavar="FILE",
        help="inventory of the hosts (deploy/inventory.example.ini); `lab`: hosts of `make lab`",
    )
    words = "; ".join(f"{tag}: {what}" for tag, what in TAGS.items())
    add("--only", choices=TAGS, help=f"do only this part. {words}")
    add(
        "--results",
        type=Path,
        default=ROOT / "results",
        metavar="DIR",
        help="create the results' folder in DIR on this machine (default results/)",
    )
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="continue an unfinished sweep (default: the latest)",
    )
    return own


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the values of this command's own options, and in `sweep` the arguments for the sweep
    on the load host. Check both groups of options as far as possible here. Raises UserError."""
    own, rest = parser().parse_known_args(arguments)
    theirs = sweep_parser().parse_args(rest)  # ends this process if an argument is wrong
    if getattr(theirs, "hosts", None):
        raise UserError("do not give --hosts: the playbook writes that file on the load host")
    if own.resume is not None:
        own.resume = Path(own.resume) if own.resume else store.latest_unfinished(own.results)
        if not (own.resume / "results.json").exists():
            raise UserError(f"{own.resume} has no results.json: nothing to resume")
    own.sweep, own.inventory, own.results = rest, find(own.inventory), own.results.resolve()
    # oha is sent to the load host, because few hosts can build it.
    own.oha = OHA.require() if theirs.rate else None
    own.by_wrk = bool(theirs.studies) or not {*words_of(theirs.generator)} <= {"ab"}
    return own


def _all(options: argparse.Namespace, playbook: Playbook, watch: SignalWatch) -> int:
    # Before the check has passed, remove nothing: files may belong to another user's sweep.
    if not playbook.run("check", watch):
        return _ended(watch, FAILED)
    host = playbook.scratch / "load_host.json"
    # Report a password prompt now, before the step "prepare" changes the hosts.
    on_load_host(host, (), terminal=False)
    status = FAILED
    before = _folders(options.results)
    try:
        if playbook.run("prepare", watch) and watch.number is None:
            # On the load host, the unfinished sweep is in the folder results/.
            there = f"results/{options.resume.resolve().name}" if options.resume else ""
            resume = ["--resume", there] if there else []
            status = attended_sweep(host, [*options.sweep, *resume], watch)
            if status == CONNECTION_LOST:
                print("bench: the connection to the load host broke", file=sys.stderr)
    finally:
        collected = playbook.run("collect")
    _say_where(options, before)
    if not collected:
        print(
            "bench: some hosts failed; when all hosts can be reached, run: zerohttpd "
            f"hosts --inventory {options.inventory} --only collect",
            file=sys.stderr,
        )
        return status or FAILED
    return _ended(watch, status)


def _folders(results: Path) -> set[Path]:
    return {file.parent for file in results.glob("*/results.json")}


def _say_where(options: argparse.Namespace, before: set[Path]) -> None:
    found = _folders(options.results)
    # A resumed sweep keeps its name; its folder is now in `options.results`.
    resumed = options.results / options.resume.resolve().name if options.resume else None
    for folder in sorted(found & {resumed} if resumed else found - before):
        quoted = shlex.quote(str(folder))
        print(f"Results: {folder}/; make a page of them: make report RESULTS={quoted}")
        if json.loads((folder / "results.json").read_text())["state"] != "complete":
            print(
                "To continue it from here: .venv/bin/zerohttpd hosts --inventory "
                f"{shlex.quote(str(options.inventory))} --resume {quoted}"
            )


def _ended(watch: SignalWatch, status: int) -> int:
    """Return `status`, or 128 + n if signal n has ended the run."""
    return 128 + watch.number if watch.number and (status == FAILED or status < 0) else status
