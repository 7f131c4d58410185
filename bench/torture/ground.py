# SPDX-License-Identifier: MIT
"""The resources that all configurations share: Redis, CPUs, and the network.

If root starts the test, the test runs in its own network namespace, which ends with its last
process. The slow line connects this namespace with a second namespace. The line limits the rate of
data from the server to SPEED, with a short queue (tc-tbf(8)).
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.host import machine
from bench.host.accounting import Group, parent_of_groups
from bench.host.process import Child, SignalWatch, last_line
from bench.host.sockets import bring_up_loopback
from bench.records.environment import Placement
from bench.services.redis_server import PrivateRedis

KEPT = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": "0"}
"""Redis writes each command to its append-only file before it replies, without waiting for the
disk. So a remark that is missing after `kill -9` was never stored."""


@dataclass(frozen=True)
class Ground:
    """The resources that all configurations share."""

    redis: PrivateRedis
    placement: Placement
    watch: SignalWatch
    groups: Path | None = None  # The folder for the servers' cgroups; None: no cgroups.
    far_end: Sequence[str] = ()
    """The words before a command that run it in the namespace of the slow line's clients."""
    why_no_line: str = ""  # The reason why there is no slow line, or an empty string.

    def group(self) -> Group | None:
        """Return a new cgroup for a server; None without cgroups. May raise OSError."""
        return Group(self.groups) if self.groups else None


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """Yield the resources that all configurations share. May raise UserError or Interrupted."""
    placement = machine.place_here()
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(SignalWatch())
        far_end, why = [], ""
        try:
            if MARK not in os.environ:
                raise NoLine(why_no_network())
            far_end = stack.enter_context(slow_line(watch))
        except NoLine as reason:
            why = f"no slow line here: {reason}"
        own = stack.enter_context(PrivateRedis(placement.load, watch, KEPT))
        yield Ground(own, placement, watch, parent_of_groups(), far_end, why)


MARK = "ZEROHTTPD_TORTURE_NETWORK"
"""The environment variable that marks a test in its own network namespace."""
TOOLS = ("unshare", "nsenter", "ip", "tc")
SPEED, BURST, QUEUE = "8mbit", "8kb", "400ms"
NEAR, FAR = "10.77.0.1", "10.77.0.2"
WAIT_SECONDS = 5.0


class NoLine(Exception):
    """A slow line cannot be made on this machine. The message gives the reason."""


def why_no_network() -> str:
    """Return the reason why this process cannot create a network namespace, or an empty string."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (util-linux, iproute2)"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return last_line(done.stderr) if done.returncode else ""


def enter_own_network(arguments: Sequence[str]) -> None:
    """Execute Python with these arguments in a new network namespace. If this process already has
    one, only enable its loopback; if it cannot create one, do nothing. May raise OSError."""
    if MARK in os.environ:
        bring_up_loopback()
    elif not why_no_network():
        os.environ[MARK] = "yes"
        words = ["unshare", "--net", "--", sys.executable, *arguments]
        os.execvp(words[0], words)


@contextlib.contextmanager
def slow_line(watch: SignalWatch) -> Iterator[list[str]]:
    """Make the slow line. Yield the words before a command that run it in the second namespace,
    where the address NEAR leads to the first namespace. Raises NoLine or Interrupted."""
    keeper = Child(["unshare", "--net", "--", "sh", "-c", "echo; exec sleep infinity"])
    try:
        if not keeper.until(lambda: keeper.stdout, WAIT_SECONDS, watch):
            raise NoLine("the second network namespace did not start")
        inside = f"nsenter --net=/proc/{keeper.pid}/ns/net --"
        for command in (
            f"ip link add near type veth peer name far netns {keeper.pid}",
            f"ip address add {NEAR}/30 dev near",
            "ip link set near up",
            f"{inside} ip address add {FAR}/30 dev far",
            f"{inside} ip link set far up",
            f"tc qdisc add dev near root tbf rate {SPEED} burst {BURST} latency {QUEUE}",
        ):
            words = command.split()
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                said = (done.stderr.strip().splitlines() or ["it printed no reason"])[0]
                raise NoLine(f"{' '.join(words[:4])}: {said}")
        yield inside.split()
    finally:
        keeper.end()  # the kernel then removes the namespace and both ends of the line
