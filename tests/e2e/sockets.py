# SPDX-License-Identifier: MIT
"""What the kernel knows of TCP connections: what a server has done with the bytes of a client.

It is asked where a test must know that the server has come to a certain point, and would else
have to sleep and hope. Linux only; see sock_diag(7).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
QUESTION = struct.Struct("=BBBxI")  # struct inet_diag_req_v2, and then the socket
SOCKET = struct.Struct("!HH16s16s12s")  # struct inet_diag_sockid
ANSWER = struct.Struct("=BBBB48s5I")  # struct inet_diag_msg
LOOPBACK = socket.inet_aton("127.0.0.1")
ANY_COOKIE = b"\0" * 4 + b"\xff" * 8

ESTABLISHED, GREETING, LISTENING = 1, 3, 10  # enum tcp_state; GREETING is TCP_SYN_RECV


@dataclass(frozen=True)
class End:
    """One end of a connection over 127.0.0.1.

    unread:  bytes that came and have not been read by the program
    unacked: bytes that were sent and have not been received by the other end's kernel
    inode:   0 before it is accepted and after it is closed
    """

    port: int
    state: int
    unread: int
    unacked: int
    inode: int


def _ask(flags: int, states: int, own: int = 0, other: int = 0) -> Iterator[End]:
    """The ends in some states (a bit each): all, or the one between two ports."""
    question = QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, states)
    question += SOCKET.pack(own, other, LOOPBACK, LOOPBACK, ANY_COOKIE)
    size = HEADER.size + len(question)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(HEADER.pack(size, SOCK_DIAG_BY_FAMILY, flags, 0, 0) + question)
        while True:
            data = kernel.recv(1 << 20)
            while data:
                length, kind = HEADER.unpack_from(data)[:2]
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    return
                yield _end(data)
                data = data[(length + 3) // 4 * 4 :]
            if not flags & NLM_F_DUMP:
                return


def _end(data: bytes) -> End:
    _, state, _, _, ports, _, unread, unacked, _, inode = ANSWER.unpack_from(data, HEADER.size)
    return End(SOCKET.unpack(ports)[0], state, unread, unacked, inode)


def _find(own: int, other: int) -> End | None:
    """The end at port `own` of the connection with port `other`; 0 for the listening socket."""
    end = next(_ask(NLM_F_REQUEST, 0xFFFFFFFF, own, other), None)
    # Where there is no such connection the kernel names the socket that would accept it.
    return end if end is not None and (end.state == LISTENING) == (other == 0) else None


def listens(port: int) -> bool:
    """Whether somebody listens on a port."""
    return _find(port, 0) is not None


def backlog(port: int) -> int:
    """How many connections wait to be accepted on a port where somebody listens."""
    end = _find(port, 0)
    assert end is not None, f"nobody listens on port {port}"
    return end.unread  # for a listening socket that is what the kernel tells here


def longest_backlog(port: int) -> int:
    """How many connections may wait to be accepted on a port where somebody listens."""
    end = _find(port, 0)
    assert end is not None, f"nobody listens on port {port}"
    return end.unacked  # for a listening socket that is what the kernel tells here


def is_read(port: int, client: socket.socket) -> bool:
    """Whether the server on `port` has read all that a client has sent, or closed since."""
    number = client.getsockname()[1]
    own, other = _find(number, port), _find(port, number)
    if own is not None and own.unacked > 0:
        return False
    if other is None or other.state not in (ESTABLISHED, GREETING):
        return True
    return other.inode != 0 and other.unread == 0


def any_unread(port: int) -> bool:
    """Whether somebody has sent to the server on `port` what it has not read."""
    ends = _ask(NLM_F_REQUEST | NLM_F_DUMP, 1 << ESTABLISHED)
    return any(end.port == port and end.unread > 0 for end in ends)


def is_given_up(port: int, client: socket.socket) -> bool:
    """Whether the server on `port` has closed its end of a client's connection."""
    end = _find(port, client.getsockname()[1])
    return end is None or end.state != ESTABLISHED


def can_listen(address: str) -> bool:
    """Whether this machine has an address; many containers have no IPv6."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as probe:
        probe.bind((address, 0))
        return True
    return False


# As long as this process lives.
_reservations: list[socket.socket] = []


def _reserve(port: int) -> bool:
    """Take a port among the test processes of this machine, which run side by side."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0zerohttpd-tests-port-{port}")
    except OSError:
        mark.close()
        return False
    _reservations.append(mark)
    return True


def forgotten_connections() -> int:
    """How many connections that had ended the kernel forgot at once, for want of room in TIME_WAIT.

    Since the machine's start. A client that still reads from one may be reset: that is how ab comes
    to "exceptions" with a long answer.
    """
    names, values = (
        line.split() for line in Path("/proc/net/netstat").read_text().splitlines()[:2]
    )
    return int(values[names.index("TCPTimeWaitOverflow")])


def free_port() -> int:
    """Return a TCP port on 127.0.0.1 that is free and outside the ephemeral range.

    Outside, because a port of that range may be given to any client while a server that
    should come back on it is down. No other test process is given it.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    top = low if low > 12000 else 65535
    for _ in range(200):
        port = 10000 + int.from_bytes(os.urandom(4), "big") % (top - 10000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            if _reserve(port):
                return port
    raise RuntimeError("no free port found")
