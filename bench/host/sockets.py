# SPDX-License-Identifier: MIT
"""Lists the TCP sockets over IPv4 of this network namespace, enables its loopback interface, and
waits until the kernel can keep more connections in TIME_WAIT.

sock_diag(7) returns only the requested sockets. If it is not available (no module in the kernel, or
forbidden by a sandbox), all sockets are read from /proc/net/tcp. After a load test this file may
have 20 MB. The file does not give the size of a listener's accept queue.
"""

import fcntl
import re
import socket
import struct
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.host.kernel import text_of
from bench.host.process import SignalWatch

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def bring_up_loopback() -> None:
    """Enable the loopback interface of a new network namespace. May raise OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
STATES = (
    "?", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
    "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "SYN_RECV",
)  # fmt: skip
"""The names in <net/tcp_states.h>. The last is TCP_NEW_SYN_RECV: only the SYN has arrived."""
ALL = 0x1FFF
LISTEN, TIME_WAIT = 1 << STATES.index("LISTEN"), 1 << STATES.index("TIME_WAIT")

_SOCK_DIAG = 4  # <linux/netlink.h>
_BY_FAMILY = 20  # <linux/sock_diag.h>
_ONE, _ALL = 0x1, 0x301  # NLM_F_REQUEST; NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ASKED = struct.Struct("=BBBxI" + "HH16s16s4x8s")  # struct inet_diag_req_v2
_TOLD = struct.Struct("=BBBB" + "HH44x" + "IIIII")  # struct inet_diag_msg
_LOOPBACK = socket.inet_aton("127.0.0.1")
_WHICHEVER = b"\xff" * 8  # INET_DIAG_NOCOOKIE
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
_INFO = 2  # INET_DIAG_INFO of <linux/inet_diag.h>: struct tcp_info of <linux/tcp.h>
_AGO, _SEGMENTS_IN = (52, 44), 152  # offsets in struct tcp_info: last received, last sent; segments


class Traffic(NamedTuple):
    """The numbers of segments with data that a socket has received and sent, and their age."""

    received: int
    sent: int
    received_ago: float
    sent_ago: float
    """`received_ago`, `sent_ago`: seconds since the last segment, in steps of the kernel's timer (1
    to 10 ms)."""

    @property
    def peer_was_last(self) -> bool:
        """Return whether this side sent nothing, or the peer sent a timer step or more after it."""
        return not self.sent or self.received_ago < self.sent_ago


class Socket(NamedTuple):
    """A TCP socket."""

    state: str
    local: int
    remote: int  # `local` and `remote` are port numbers.
    received: int
    """Bytes that the program has not read. For a listener: the connections in its accept queue."""
    unsent: int
    """Bytes that the peer has not acknowledged. For a listener: the size of its accept queue; 0 if
    the size is unknown."""
    inode: int  # The socket's inode; 0: no process has the socket open.
    traffic: Traffic | None = None
    """The socket's traffic; None if it was not requested, or if sock_diag does not work."""


def tcp_sockets(
    local: int = 0, remote: int = 0, states: int = ALL, traffic: bool = False
) -> list[Socket]:
    """Return the sockets with these ports (0: any) in these states."""
    try:
        return list(_ask(_ALL, (local, remote), states, _INFO if traffic else 0))
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


def end(local: int, remote: int) -> Socket | None:
    """Return the local socket of a connection over 127.0.0.1; None if there is no such socket."""
    try:
        found = next(_ask(_ONE, (local, remote), ALL), None)
    except FileNotFoundError:
        return None
    except OSError:
        return next(read(local, remote), None)
    # If there is no such connection, the kernel returns the listener on the port `local`.
    return found if found is not None and found.remote == remote else None


def _ask(flags: int, between: tuple[int, int], states: int, attribute: int = 0) -> Iterator[Socket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        ports = map(socket.htons, between)
        wanted = 1 << attribute >> 1
        question = _ASKED.pack(
            *(socket.AF_INET, socket.IPPROTO_TCP, wanted, states),
            *(*ports, _LOOPBACK, _LOOPBACK, _WHICHEVER),
        )
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _BY_FAMILY, flags, 0, 0) + question)
        while True:
            for kind, message in _parts(kernel.recv(1 << 17), _HEADER):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", message)[0], "sock_diag")
                yield _row(message)
            if flags == _ONE:
                return


def _parts(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each message or attribute. Its header begins with its
    length and its kind, and each begins at a multiple of 4 bytes."""
    place = 0
    while place < len(data):
        length, kind, *_ = header.unpack_from(data, place)
        yield kind, data[place + header.size : place + length]
        place += (length + 3) & ~3


def _row(message: bytes) -> Socket:
    _, state, _, _, local, remote, _, received, unsent, _, inode = _TOLD.unpack_from(message)
    ports = socket.ntohs(local), socket.ntohs(remote)
    traffic = None
    for kind, info in _parts(message[_TOLD.size :], _ATTRIBUTE):
        if kind == _INFO and len(info) >= _SEGMENTS_IN + 8:
            ago = (struct.unpack_from("=I", info, at)[0] / 1000 for at in _AGO)
            traffic = Traffic(*struct.unpack_from("=II", info, _SEGMENTS_IN), *ago)
    return Socket(STATES[state], *ports, received, unsent, inode, traffic)


def accept_queue(port: int) -> int:
    """Return the number of connections in the accept queues of a local port."""
    return sum(one.received for one in tcp_sockets(port, states=LISTEN))


def own_backlog(ports: Container[int]) -> int | None:
    """Return the smallest backlog on these ports; None if it is the kernel's limit or unknown."""
    allowed = int(text_of(SOMAXCONN) or 0)
    free = [one.unsent for one in tcp_sockets(states=LISTEN) if one.local in ports]
    return min((one for one in free if 0 < one < allowed), default=None)


# ---- The kernel's memory of connections that have ended ----
#
# The side that closes a connection first keeps it in TIME_WAIT (RFC 9293 section 3.6.1), so that it
# can answer segments that the other side repeats. Linux keeps a connection for 60 s, and at most
# `tcp_max_tw_buckets` connections (ip-sysctl.rst); it drops further connections at once. A client
# that still reads then gets a reset when its kernel sends another acknowledgement. ab counts
# a reset as an "exception", discards the response, and waits until its timeout. On a busy machine
# with a limit of 1,000, 13 of 40 runs for an 80 KB file failed for this reason (500 connections,
# 5,000 requests). None of 40 runs for the redirect failed, because its response is one segment.

REST_SECONDS = 60
"""The time of TIME_WAIT on Linux: the constant TCP_TIMEWAIT_LEN."""
LOOK_SECONDS = 0.5


class Memory(NamedTuple):
    """The current and the maximum number of connections in TIME_WAIT."""

    now: int
    at_most: int


def memory(proc: Path = Path("/proc")) -> Memory | None:
    """Return the `Memory` of this network namespace; None if one of its numbers is unknown."""
    now = re.search(r"^TCP:.* tw (\d+)", text_of(proc / "net/sockstat"), re.MULTILINE)
    at_most = text_of(proc / "sys/net/ipv4/tcp_max_tw_buckets").strip()
    return Memory(int(now[1]), int(at_most)) if now and at_most.isdigit() else None


def wait_for_room(connections: int, watch: SignalWatch, proc: Path = Path("/proc")) -> None:
    """Wait, at most 60 s, until the kernel can keep `connections` more connections in TIME_WAIT. Do
    not wait if `connections` exceeds the kernel's limit or the limit is unknown. May raise
    Interrupted."""
    for _ in range(int(REST_SECONDS / LOOK_SECONDS)):
        found = memory(proc)
        if not found or connections > found.at_most or found.now + connections <= found.at_most:
            return
        watch.sleep(LOOK_SECONDS)
