# SPDX-License-Identifier: MIT
"""Whole sweeps in a process of their own, for the tests: what they leave is found by a mark."""

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
"""For anything that a test waits for; a loaded machine is slow."""
GRACE_SECONDS = 20
AGENT = [sys.executable, "-m", "bench.stations.agent"]


class Marked:
    """A command in a process of its own, whose descendants can be told by a mark."""

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
        """Wait for its end; all it said."""
        return self.process.communicate(timeout=SECONDS)[0]

    def strays(self) -> list[str]:
        """Processes that carry its mark, after a time of grace."""
        return strays(self.mark)


class Sweep(Marked):
    """A sweep."""

    def __init__(self, *words: str | Path) -> None:
        super().__init__("sweep", *words)


def strays(mark: str, but: int = 0) -> list[str]:
    """Processes that carry a mark, after a time of grace; `but`: one that may."""
    deadline = time.monotonic() + GRACE_SECONDS
    while found := [command for pid, command in marked(mark) if pid != but]:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.03)
    return []


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """The processes that carry a mark: number and command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                yield int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def results_in(folder: Path) -> dict[str, Any] | None:
    """The results.json of the only sweep whose results go to a folder; None while there is none."""
    file = next(folder.glob("*/results.json"), None)
    return json.loads(file.read_text()) if file else None


def wait_for_a_run(folder: Path) -> None:
    """Until a first run of a sweep is kept."""
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
    """A file of hosts that are all this machine, each with an agent of its own."""
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
