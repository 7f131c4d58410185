# SPDX-License-Identifier: MIT
"""The TCP sockets of this network namespace, as /proc/net/tcp has them: see proc_net(5)."""

from pathlib import Path
from typing import NamedTuple

LISTENING, TIME_WAIT = "0A", "06"
"""States."""


class Socket(NamedTuple):
    """A line of it."""

    local: int
    remote: int
    """Its ports."""
    state: str
    queues: str
    """Bytes to send : bytes received, in hexadecimal."""
    inode: str
    """"0": no process has it."""


def tcp_sockets() -> list[Socket]:
    """All over IPv4."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [Socket(_port(line[1]), _port(line[2]), line[3], line[4], line[9]) for line in lines]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
