# SPDX-License-Identifier: MIT
"""TCP sockets as the kernel tells them by sock_diag(7).

/proc/net/tcp has the same, of all sockets of the machine: after a load test that is a text of
twenty megabytes. Here the kernel is asked for one port. And there it does not say how many a
listener's accept queue takes.
"""

import socket
import struct
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.host.kernel import text_of

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
STATES = (
    "?", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
    "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "SYN_RECV",
)  # fmt: skip
"""<net/tcp_states.h>; the last is a connection of which only the first packet has come."""
ALL = 0x1FFF
LISTEN, TIME_WAIT = 1 << STATES.index("LISTEN"), 1 << STATES.index("TIME_WAIT")

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


def own_backlog(ports: Container[int]) -> int | None:
    """The least that a listener on these ports has given to listen(), if that is less than the
    kernel allows. None: the accept queue is as long as it may be, or cannot be looked at."""
    try:
        rooms = [row.room for row in dump(states=LISTEN) if row.local in ports]
    except OSError:
        return None
    allowed = int(text_of(SOMAXCONN) or 0)
    return min((room for room in rooms if room < allowed), default=None)
