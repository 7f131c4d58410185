# SPDX-License-Identifier: MIT
"""A network of our own, and a slow line in it.

As root the torture runs in a network namespace of its own: its loopback is nobody else's, and all
that it makes there is gone with its last process. The slow line leads from there into a second
namespace, and carries what a server sends at SPEED, through a short queue (tc-tbf(8)).
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.host.loopback import bring_up_loopback
from bench.host.process import Child, last_line
from bench.host.signals import SignalWatch

MARK = "ZEROHTTPD_TORTURE_NETWORK"
"""In the environment of a torture that is in a namespace of its own."""
TOOLS = ("unshare", "nsenter", "ip", "tc")
SPEED, BURST, QUEUE = "8mbit", "8kb", "400ms"
NEAR, FAR = "10.77.0.1", "10.77.0.2"
WAIT_SECONDS = 5.0


class NoLine(Exception):
    """There can be no slow line here; the message says why."""


def in_own_network() -> bool:
    """Whether this process was started by `enter_own_network`."""
    return MARK in os.environ


def why_no_network() -> str:
    """Why this process cannot have a network of its own; an empty text if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (util-linux, iproute2)"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return last_line(done.stderr) if done.returncode else ""


def enter_own_network(arguments: Sequence[str]) -> None:
    """Become Python with these arguments, in a network namespace of its own; returns where it is
    there already, or can have none. May raise OSError."""
    if in_own_network():
        bring_up_loopback()
    elif not why_no_network():
        os.environ[MARK] = "yes"
        words = ["unshare", "--net", "--", sys.executable, *arguments]
        os.execvp(words[0], words)


@contextlib.contextmanager
def slow_line(watch: SignalWatch) -> Iterator[list[str]]:
    """Make the line. Yields the words that start a program at its far end; servers that listen at
    NEAR can be reached from there. Raises NoLine or Interrupted."""
    keeper = Child(["unshare", "--net", "--", "sleep", "infinity"])
    try:
        inside = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net", "--"]
        _await_namespace(keeper.pid, watch)
        _tool("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns",
              str(keeper.pid))  # fmt: skip
        _tool("ip", "address", "add", f"{NEAR}/30", "dev", "near")
        _tool("ip", "link", "set", "near", "up")
        _tool(*inside, "ip", "address", "add", f"{FAR}/30", "dev", "far")
        _tool(*inside, "ip", "link", "set", "far", "up")
        shape = f"rate {SPEED} burst {BURST} latency {QUEUE}"
        _tool("tc", "qdisc", "add", "dev", "near", "root", "tbf", *shape.split())
        yield inside
    finally:
        keeper.end()  # and with it its namespace, the far end, and so the near one


def _await_namespace(pid: int, watch: SignalWatch) -> None:
    """Until a process has left our network for its own."""
    ours, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if Path("/proc", str(pid), "ns/net").readlink() != ours:
                return
        watch.sleep(0.005)
    raise NoLine("the second network namespace did not come up")


def _tool(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it did not say why"])[0]
        raise NoLine(f"{' '.join(command[:4])}: {said}")
