# SPDX-License-Identifier: MIT
"""Plays of deploy/site.yml, run with ansible-playbook."""

import codecs
import contextlib
import json
import locale
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import UserError

DEPLOY = ROOT / "deploy"
POLL_SECONDS = 0.1
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
            return process.wait(PATIENCE if noted else POLL_SECONDS)
        if noted:
            process.send_signal(signal.SIGINT)
            asked = True
