# SPDX-License-Identifier: MIT
"""Run whole sweeps in a process of their own; a mark finds what they leave."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.host.project import ROOT

MARK = "ZEROHTTPD_TEST_MARK"
SECONDS = 300
"""Seconds that a test waits for anything; a loaded machine is slow."""
GRACE_SECONDS = 20
AGENT = [sys.executable, "-m", "bench.stations.agent"]


class Marked:
    """A command in a process of its own, whose descendants have a mark."""

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

    def end(self) -> str:
        """Wait for its end; return all it printed."""
        return self.process.communicate(timeout=SECONDS)[0]

    def strays(self) -> list[str]:
        """Return processes that have its mark, after a time of grace."""
        return strays(self.mark)


class Sweep(Marked):
    def __init__(self, *words: str | Path) -> None:
        super().__init__("sweep", *words)


def strays(mark: str, but: int = 0) -> list[str]:
    """Return processes that have a mark, after a time of grace; `but`: an accepted one."""
    deadline = time.monotonic() + GRACE_SECONDS
    while found := [command for pid, command in marked(mark) if pid != but]:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.03)
    return []


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """Return the processes with the mark: number and command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                yield int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def results_in(folder: Path) -> dict[str, Any] | None:
    """Return the results.json of the only sweep in a folder; None if there is none."""
    file = next(folder.glob("*/results.json"), None)
    return json.loads(file.read_text()) if file else None


def wait_for_a_run(folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        content = results_in(folder)
        if content and content["runs"]:
            return
        time.sleep(0.02)
    raise AssertionError("no run within the time")


def hosts_file(
    folder: Path, servers: int = 1, nginx: bool = False, address: str = "127.0.0.1"
) -> Path:
    """Write a file of hosts that are all this machine, with an agent each."""
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
