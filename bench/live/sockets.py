# SPDX-License-Identifier: MIT
"""A server's connections and its accept queue."""

from dataclasses import dataclass, field

from bench.host.sockets import ALL, TIME_WAIT, tcp_sockets


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
    """Those of a server that listens on a port, in our own network namespace."""
    found = Sockets()
    for one in tcp_sockets(local=port, states=ALL & ~TIME_WAIT):
        if one.state == "LISTEN":
            found.listener, found.queue, found.room = one.inode, one.received, one.unsent
            continue
        found.states[one.state] = found.states.get(one.state, 0) + 1
        if one.inode:
            found.clients[one.inode] = one.remote
    over = len(tcp_sockets(local=port, states=TIME_WAIT))
    found.states |= {"TIME_WAIT": over} if over else {}
    if redis_port:
        found.redis = {one.inode for one in tcp_sockets(remote=redis_port) if one.inode}
    return found
