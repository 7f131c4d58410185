# SPDX-License-Identifier: MIT
"""The state of TCP connections in the kernel, e.g. whether a server has read a client's bytes. So a
test can wait for a state of the server, instead of sleeping."""

import contextlib
import socket
from pathlib import Path

from bench.host import process
from bench.host.kernel import parse_table
from bench.host.sockets import ALL, LISTEN, STATES, TIME_WAIT, end, tcp_sockets

ESTABLISHED = 1 << STATES.index("ESTABLISHED")


def listens(port: int) -> bool:
    return bool(tcp_sockets(port, states=LISTEN))


def longest_backlog(port: int) -> int:
    """Return the highest backlog of the sockets that listen on a port."""
    return max((one.unsent for one in tcp_sockets(port, states=LISTEN)), default=0)


def is_read(port: int, client: socket.socket) -> bool:
    """Return whether the server on `port` has read all that a client has sent, or has closed."""
    number = client.getsockname()[1]
    own, other = end(number, port), end(port, number)
    if own is not None and own.unsent > 0:
        return False
    if other is None or other.state not in ("ESTABLISHED", "SYN_RECV"):
        return True
    return other.inode != 0 and other.received == 0


def any_unread(port: int) -> bool:
    """Return whether the server on `port` has unread bytes of any client."""
    return any(own.received > 0 for own in tcp_sockets(port, states=ESTABLISHED))


def any_open(port: int) -> bool:
    """Return whether the server on `port` has a connection in any state except TIME_WAIT."""
    return bool(tcp_sockets(port, states=ALL & ~(LISTEN | TIME_WAIT)))


def is_given_up(port: int, client: socket.socket) -> bool:
    """Return whether the server on `port` has closed its end of a client's connection."""
    own = end(port, client.getsockname()[1])
    return own is None or own.state != "ESTABLISHED"


def can_listen(address: str) -> bool:
    """Return whether this machine has the address; many containers have no IPv6."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as probe:
        probe.bind((address, 0))
        return True
    return False


# Sockets that reserve ports until this process ends.
_reservations: list[socket.socket] = []


def _reserve(port: int) -> bool:
    """Reserve a port among the test processes of this machine, which run in parallel."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0zerohttpd-tests-port-{port}")
    except OSError:
        mark.close()
        return False
    _reservations.append(mark)
    return True


def forgotten_connections() -> int:
    """Return how many connections, since the machine's start, the kernel dropped because TIME_WAIT
    was full. A client may then get a reset while it still reads, and ab reports "exceptions" for
    a long response."""
    counters = parse_table(Path("/proc/net/netstat").read_text(encoding="ascii"))
    return counters["TcpExt"]["TCPTimeWaitOverflow"]


def free_port() -> int:
    """Return a free TCP port on 127.0.0.1 that no other test process gets."""
    return next(port for port in iter(process.free_port, 0) if _reserve(port))
