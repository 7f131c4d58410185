# SPDX-License-Identifier: MIT
"""A server's connections and its accept queue, as the kernel tells them by sock_diag(7).

/proc/net/tcp has the same, of all sockets of the machine: after a load test that is a text of
twenty megabytes. Here the kernel is asked for one port.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

STATES = (
    "?", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
    "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "SYN_RECV",
)  # fmt: skip
"""<net/tcp_states.h>; the last is a connection of which only the first packet has come."""
ALL = 0x1FFF
TIME_WAIT = 1 << STATES.index("TIME_WAIT")

_SOCK_DIAG = 4  # <linux/netlink.h>
_BY_FAMILY = 20  # <linux/sock_diag.h>
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ASKED = struct.Struct("=BBBxI" + "HH44x")  # struct inet_diag_req_v2; the rest of the id is 0
_TOLD = struct.Struct("=BBBB" + "HH44x" + "IIIII")  # struct inet_diag_msg


class SocketRow(NamedTuple):
    """A socket."""

    state: str
    local: int
    remote: int
    """Its ports."""
    waiting: int
    """Of a listener: connections in its accept queue."""
    room: int
    """Of a listener: how many the queue takes."""
    inode: int


@dataclass
class Sockets:
    """What a server's port looks like in one moment."""

    states: dict[str, int] = field(default_factory=dict)
    """How many connections are in each state; the listener is none."""
    queue: int = 0
    """Made by the kernel, and not accepted yet."""
    room: int = 0
    """How many the accept queue takes."""
    listener: int = 0
    """The inode of the listening socket."""
    clients: dict[int, int] = field(default_factory=dict)
    """By inode the client's port."""
    redis: set[int] = field(default_factory=set)
    """The inodes of the connections to Redis."""


def look(port: int, redis_port: int) -> Sockets:
    """Those of a server that listens on a port, in our own network namespace. Raises OSError."""
    found = Sockets()
    for row in dump(local=port, states=ALL & ~TIME_WAIT):
        if row.state == "LISTEN":
            found.listener, found.queue, found.room = row.inode, row.waiting, row.room
            continue
        found.states[row.state] = found.states.get(row.state, 0) + 1
        if row.inode:
            found.clients[row.inode] = row.remote
    over = sum(1 for _ in dump(local=port, states=TIME_WAIT))
    found.states |= {"TIME_WAIT": over} if over else {}
    if redis_port:
        found.redis = {row.inode for row in dump(remote=redis_port) if row.inode}
    return found


def dump(local: int = 0, remote: int = 0, states: int = ALL) -> Iterator[SocketRow]:
    """All TCP sockets over IPv4 with these ports (0: any), in these states. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        ports = socket.htons(local), socket.htons(remote)
        asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, states, *ports)
        size = _HEADER.size + len(asked)
        kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST_DUMP, 0, 0) + asked)
        while True:
            data = kernel.recv(1 << 17)
            place = 0
            while place < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, place)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", data, place + _HEADER.size)[0]
                    raise OSError(number, "sock_diag")
                yield _row(data, place + _HEADER.size)
                place += (length + 3) & ~3


def _row(data: bytes, place: int) -> SocketRow:
    _, state, _, _, local, remote, _, waiting, room, _, inode = _TOLD.unpack_from(data, place)
    ports = socket.ntohs(local), socket.ntohs(remote)
    return SocketRow(STATES[state], *ports, waiting, room, inode)
