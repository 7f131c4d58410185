# SPDX-License-Identifier: MIT
"""Lists the TCP sockets over IPv4 of this network namespace, and enables its loopback interface.

sock_diag(7) returns the sockets of one port. If it does not work (a kernel without that module, a
sandbox), all are read from /proc/net/tcp. After a load test that is a text of 20 MB, and it lacks
the size of a listener's accept queue.
"""

import fcntl
import socket
import struct
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.host.kernel import text_of

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def bring_up_loopback() -> None:
    """Bring the loopback interface up: in a new network namespace it is down. May raise OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
STATES = (
    "?", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
    "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "SYN_RECV",
)  # fmt: skip
"""<net/tcp_states.h>; the last is a connection of which only the SYN has been received."""
ALL = 0x1FFF
LISTEN, TIME_WAIT = 1 << STATES.index("LISTEN"), 1 << STATES.index("TIME_WAIT")

_SOCK_DIAG = 4  # <linux/netlink.h>
_BY_FAMILY = 20  # <linux/sock_diag.h>
_ONE, _ALL = 0x1, 0x301  # NLM_F_REQUEST; with NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ASKED = struct.Struct("=BBBxI" + "HH16s16s4x8s")  # struct inet_diag_req_v2
_TOLD = struct.Struct("=BBBB" + "HH44x" + "IIIII")  # struct inet_diag_msg
_LOOPBACK = socket.inet_aton("127.0.0.1")
_WHICHEVER = b"\xff" * 8  # INET_DIAG_NOCOOKIE


class Socket(NamedTuple):
    """A TCP socket."""

    state: str
    local: int
    remote: int
    """`local` and `remote` are ports."""
    received: int
    """Bytes that are not read; of a listener: connections in its accept queue."""
    unsent: int
    """Bytes that are not acknowledged; of a listener: its queue's size, 0: unknown."""
    inode: int
    """0: no process has it open."""


def tcp_sockets(local: int = 0, remote: int = 0, states: int = ALL) -> list[Socket]:
    """Return the sockets with these ports (0: any) in these states."""
    try:
        return list(asked(local, remote, states))
    except OSError:
        return list(read(local, remote, states))


def read(local: int = 0, remote: int = 0, states: int = ALL) -> Iterator[Socket]:
    """Yield the sockets from /proc/net/tcp, see proc_net_tcp in the kernel's documentation."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        state = int(words[3], 16)
        own, other = (int(word.rpartition(":")[2], 16) for word in words[1:3])
        if own == (local or own) and other == (remote or other) and states >> state & 1:
            unsent, received = (int(queue, 16) for queue in words[4].split(":"))
            yield Socket(STATES[state], own, other, received, unsent, int(words[9]))


def asked(local: int = 0, remote: int = 0, states: int = ALL) -> Iterator[Socket]:
    """Yield the sockets from sock_diag, for which the kernel searches all. Raises OSError."""
    return _ask(_ALL, local, remote, states)


def end(local: int, remote: int) -> Socket | None:
    """Return the local socket of a connection over 127.0.0.1; the kernel finds it by its hash."""
    try:
        found = next(_ask(_ONE, local, remote, ALL), None)
    except FileNotFoundError:
        return None
    except OSError:
        return next(read(local, remote), None)
    # If there is no such connection, the kernel returns the listener that would accept it.
    return found if found is not None and found.remote == remote else None


def _ask(flags: int, local: int, remote: int, states: int) -> Iterator[Socket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        ports = socket.htons(local), socket.htons(remote)
        question = _ASKED.pack(
            socket.AF_INET, socket.IPPROTO_TCP, 0, states, *ports, _LOOPBACK, _LOOPBACK, _WHICHEVER
        )
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _BY_FAMILY, flags, 0, 0) + question)
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
            if flags == _ONE:
                return


def _row(data: bytes, place: int) -> Socket:
    _, state, _, _, local, remote, _, received, unsent, _, inode = _TOLD.unpack_from(data, place)
    ports = socket.ntohs(local), socket.ntohs(remote)
    return Socket(STATES[state], *ports, received, unsent, inode)


def accept_queue(port: int) -> int:
    """Return how many connections to a local port wait to be accepted."""
    return sum(one.received for one in tcp_sockets(port, states=LISTEN))


def own_backlog(ports: Container[int]) -> int | None:
    """Return the smallest backlog that a listener on these ports has passed to listen(), if it is
    below the kernel's limit. None: it is not below, or unknown."""
    try:
        rooms = [one.unsent for one in asked(states=LISTEN) if one.local in ports]
    except OSError:
        return None
    allowed = int(text_of(SOMAXCONN) or 0)
    return min((room for room in rooms if room < allowed), default=None)
