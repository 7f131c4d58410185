# SPDX-License-Identifier: MIT
"""Plays of deploy/site.yml, run with ansible-playbook; and the sweep on the load host, seen from
here: where the inventory is, how the host is reached, the sweep's words as they come, and a way to
end it."""

import codecs
import contextlib
import json
import locale
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bench.host.process import POLL_SECONDS, guarded
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import UserError

LAB = "lab"
LAB_INVENTORY = Path("/run/zerohttpd-lab/default/inventory.ini")
QUIET_END = ("ControlMaster=no", "ControlPath=none", "ServerAliveInterval=15")
"""A connection of its own: it ends with the command, and a limit that was raised for logins since
the others began is in force."""


def find(name: str) -> Path:
    """The inventory that is meant: a file, or `lab` for the lab here. Raises UserError."""
    if name == LAB:
        if not LAB_INVENTORY.exists():
            raise UserError("there is no lab on this machine. Run first: make lab")
        return LAB_INVENTORY
    path = Path(name)
    if not path.exists():
        raise UserError(f"there is no inventory {name}. deploy/inventory.example.ini is an example")
    # Ansible would run all programs in a folder, and a file that is one.
    if not path.is_file() or path.stat().st_mode & 0o111:
        raise UserError(f"{name} is no inventory: that is a plain file, and not an executable one")
    return path.resolve()


class FoundHost(BaseModel):
    """What the playbook found of the load host, with all variables filled in: load_host.json.j2."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    connection: str
    host: str
    port: str
    user: str
    key: str
    password: bool
    executable: str
    ssh_args: str
    common_args: str
    extra_args: str


class WayToLoad:
    """How the load host is reached."""

    def __init__(self, file: Path) -> None:
        """`file`: what the playbook wrote. Raises UserError if it has no way that we could go."""
        self._found = FoundHost.model_validate_json(file.read_text())
        if self._found.password:
            raise UserError(
                "the load host needs a password, and the sweep cannot type it. "
                "Give it a key: ssh-copy-id, and ansible_ssh_private_key_file in the inventory"
            )

    def command(self, words: Sequence[str], terminal: bool) -> list[str]:
        """The command line that runs a command there."""
        found = self._found
        if found.connection == "local":
            return list(words)
        ssh = [found.executable]
        for option in QUIET_END:
            ssh += ["-o", option]
        for more in (found.ssh_args, found.common_args, found.extra_args):
            ssh += shlex.split(more)
        for option, value in (("-p", found.port), ("-i", found.key), ("-l", found.user)):
            ssh += [option, value] if value else []
        ssh += ["-tt"] if terminal else ["-T"]
        return [*ssh, found.host, shlex.join(words)]


SWEEP = "/opt/zerohttpd-seven/deploy/files/sweep"
CONNECTION_LOST = 255
"""The exit status of ssh when the connection broke, or never was."""


def attended_sweep(host: WayToLoad, options: Sequence[str], watch: SignalWatch) -> int:
    """Run the sweep there; its exit status. A signal to us becomes one to the sweep, which then
    ends in order; and should we be killed, it notices that too.

    At a terminal it has that terminal, so that its live table is seen, and Ctrl-C goes to it
    directly. Elsewhere its standard input is a lifeline; see deploy/files/sweep.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _at_terminal(host.command([SWEEP, *options], terminal=True), watch)
    return _with_lifeline(host.command([SWEEP, "--attended", *options], terminal=False), watch)


def _at_terminal(command: Sequence[str], watch: SignalWatch) -> int:
    # Not in a session of its own: it needs the terminal.
    process = subprocess.Popen(guarded(command, ()))
    _wait_for_input(process, watch, process.terminate)
    return process.returncode


def _with_lifeline(command: Sequence[str], watch: SignalWatch) -> int:
    process = subprocess.Popen(guarded(command, ()), stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    lifeline = process.stdin

    def pass_on() -> None:
        word = signal.Signals(watch.number or signal.SIGINT).name.removeprefix("SIG")
        with contextlib.suppress(BrokenPipeError):
            lifeline.write(f"{word}\n".encode())
            lifeline.flush()

    _wait_for_input(process, watch, pass_on)
    with contextlib.suppress(BrokenPipeError):
        lifeline.close()
    return process.returncode


def _wait_for_input(
    process: subprocess.Popen[bytes], watch: SignalWatch, pass_on: Callable[[], None]
) -> None:
    """Until it ends. The first signal that we get is passed on; the end is then its affair."""
    passed = False
    while process.poll() is None:
        if watch.number is not None and not passed:
            passed = True
            pass_on()
        time.sleep(POLL_SECONDS)


DEPLOY = ROOT / "deploy"
LOOK_SECONDS = 0.1
PATIENCE = 3.0
"""So long Ansible has to notice Ctrl-C by itself. A signal to us alone is passed on after it."""


class Playbook:
    """Runs plays over one inventory. Its ssh connections stay open until the `with` block ends."""

    def __init__(self, inventory: Path, variables: Mapping[str, str], scratch: Path) -> None:
        """`scratch`: a folder of this run's alone. Raises UserError if Ansible is not installed."""
        self._program = Path(sys.executable).parent / "ansible-playbook"
        if not self._program.exists():
            raise UserError("Ansible is not installed. Run: scripts/setup.sh hosts")
        self._inventory = inventory
        self._variables = {**variables, "scratch": str(scratch)}
        self._sockets = scratch / "ssh"

    def __enter__(self) -> "Playbook":
        self._sockets.mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._sockets.iterdir():
            command = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(command, capture_output=True)

    def run(self, tag: str, watch: SignalWatch | None = None) -> bool:
        """The plays with this tag; whether all went well. Without a watch nothing interrupts."""
        print(f"---- {tag} ----", flush=True)
        command = [str(self._program), "--inventory", str(self._inventory), "--tags", tag]
        command += ["--extra-vars", json.dumps(self._variables)]
        process = subprocess.Popen(
            [*command, str(DEPLOY / "site.yml")],
            cwd=DEPLOY,
            env=self._environment(),
            # Out of the terminal's reach, so that a second Ctrl-C does not break the tidying.
            start_new_session=watch is None,
        )
        return _wait(process, watch) == 0

    def _environment(self) -> dict[str, str]:
        found = {
            **os.environ,
            "ANSIBLE_CONFIG": str(DEPLOY / "ansible.cfg"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._sockets),
            "PYTHONUNBUFFERED": "1",
        }
        if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
            found["LC_ALL"] = "C.UTF-8"  # Ansible insists
        return found


def _wait(process: subprocess.Popen[bytes], watch: SignalWatch | None) -> int:
    """Wait for the end of it, whatever comes."""
    asked = False
    while True:
        noted = watch is not None and watch.number is not None and not asked
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(PATIENCE if noted else LOOK_SECONDS)
        if noted:
            process.send_signal(signal.SIGINT)
            asked = True
