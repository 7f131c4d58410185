# SPDX-License-Identifier: MIT
"""Run whole sweeps in their own processes. An environment variable marks all their processes."""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.host.project import ROOT
from tests.e2e.timing import wait_until

MARK = "ZEROHTTPD_TEST_MARK"
SECONDS = 300
"""The longest wait of a test, enough for a loaded machine."""
GRACE_SECONDS = 20
needs_a_sweep = pytest.mark.skipif(
    not (ROOT / "epoll").exists() or not shutil.which("ab") or not shutil.which("redis-server"),
    reason="needs ./epoll, ab and redis-server",
)
wait_for = partial(wait_until, seconds=SECONDS)
AGENT = [sys.executable, "-m", "bench.stations.agent"]


class Marked:
    """A command in its own process, whose descendants have a mark in their environment."""

    def __init__(self, *words: str | Path) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench", *map(str, words)],
            cwd=ROOT,
            env={**os.environ, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self, status: int = 0) -> str:
        """Wait for the end, check the status and that no descendant runs, and return the output."""
        said = self.process.communicate(timeout=SECONDS)[0]
        assert self.process.returncode == status, said
        assert strays(self.mark) == []
        return said


class Sweep(Marked):
    def __init__(self, *words: str | Path) -> None:
        super().__init__("sweep", *words)


def strays(mark: str, but: int = 0) -> list[str]:
    """Return the commands of processes with a mark after a grace time, except the PID `but`."""
    deadline = time.monotonic() + GRACE_SECONDS
    while found := [command for pid, command in marked(mark) if pid != but]:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.03)
    return []


def marked(mark: str, also: str = "") -> Iterator[tuple[int, str]]:
    """Yield PID and command line of each process with a mark (and `also`) in its environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_text(errors="replace").split("\0")
            if {f"{MARK}={mark}", also} <= {*environment, ""}:
                yield int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def results_in(folder: Path, name: str = "results.json") -> dict[str, Any] | None:
    """Return the results of the only run in a folder; None if there is none."""
    file = next(folder.glob(f"*/{name}"), None)
    return json.loads(file.read_text()) if file else None


def wait_for_a_run(folder: Path) -> None:
    wait_for(lambda: (results_in(folder) or {}).get("runs"), "the sweep stored no run")


def hosts_file(
    folder: Path, servers: int = 1, nginx: bool = False, address: str = "127.0.0.1"
) -> Path:
    """Write a file of hosts that are all this machine, and return its path. All except the load
    host have agents."""
    names = ["zerohttpd", *(f"zerohttpd{n}" for n in range(2, servers + 1))]
    content: dict[str, Any] = {
        "load": {"name": "load", "address": address},
        "servers": [{"name": name, "address": address, "agent": AGENT} for name in names],
        "redis": {"name": "redis", "address": address, "agent": AGENT},
    }
    if nginx:
        content["nginx"] = {"name": "nginx", "address": address, "agent": AGENT}
    file = folder / "hosts.json"
    file.write_text(json.dumps(content))
    return file
