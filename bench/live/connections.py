# SPDX-License-Identifier: MIT
"""The connections of a server, and what each of them waits for, from the kernel's table of sockets.

The server need not cooperate. The kernel knows for each connection which side has sent last, and
what is not read yet. It does not know whether a request is complete. The helper knows this for its
own clients only; for others the page says that they have no response yet.
"""

from dataclasses import dataclass, field
from enum import Enum

from bench.host.sockets import ALL, TIME_WAIT, Socket, tcp_sockets
from bench.live.clients import GUESTBOOK, OwnClient, Who

CLIENTS_SHOWN = 2000
"""The largest number of connections that are put into groups."""


class ConnectionWait(Enum):
    """A reason why connections wait: its style on the page, and texts for one and for several."""

    QUEUED = ("queue", "to be accepted", "to be accepted")
    UNREAD = ("unread", "to be read (it is accepted)", "to be read (they are accepted)")
    REQUEST = ("client", "the rest of its request", "the rest of their requests")
    REDIS = ("redis", "Redis", "Redis")
    RESPONSE = ("response", "its response", "their responses")
    READER = ("client", "its client to read on", "their clients to read on")
    IDLE = ("idle", "its next request", "their next requests")
    NOTHING = ("idle", "its first byte", "their first bytes")


@dataclass
class Sockets:
    """The state of a server's port at one time."""

    states: dict[str, int] = field(default_factory=dict)
    """The number of connections in each state, without the listener."""
    queue: int = 0
    """Made by the kernel, and not accepted yet."""
    room: int = 0
    """The largest length of the accept queue."""
    listener: int = 0
    """The inode of the listening socket."""
    clients: dict[int, int] = field(default_factory=dict)
    """The client's port by inode."""
    redis: set[int] = field(default_factory=set)
    """The inodes of the connections to Redis."""
    asks_redis: bool = False
    """A command has been sent to Redis, and no reply has come since; or both in one step of the
    kernel's timer, as when the next command follows a reply."""
    open: list[Socket] = field(default_factory=list)
    """The connections whose clients have not left."""

    @property
    def unread(self) -> int:
        """Return how many connections are accepted, but their first bytes are not read yet. In 05
        they wait in its own queue."""
        return sum(_phase(one) is ConnectionWait.UNREAD for one in self.open)


def look_at_sockets(port: int, redis_port: int) -> Sockets:
    """Return the connections of the server that listens on a port in our own network namespace."""
    found = Sockets()
    for one in tcp_sockets(local=port, states=ALL & ~TIME_WAIT, traffic=True):
        if one.state == "LISTEN":
            found.listener, found.room = one.inode, one.unsent
            found.queue += one.received
            continue
        found.states[one.state] = found.states.get(one.state, 0) + 1
        if one.inode:
            found.clients[one.inode] = one.remote
        if one.state == "ESTABLISHED":
            found.open.append(one)
    over = len(tcp_sockets(local=port, states=TIME_WAIT))
    found.states |= {"TIME_WAIT": over} if over else {}
    for one in tcp_sockets(remote=redis_port, traffic=True) if redis_port else ():
        if one.inode:
            found.redis.add(one.inode)
            found.asks_redis |= one.traffic is not None and not one.traffic.peer_was_last
    return found


@dataclass
class ConnectionGroup:
    """Connections of the same kind of client that wait for the same event."""

    kind: str
    who: str
    whom: str
    label: str
    """`whom` in words that do not depend on the count, for metrics."""
    count: int = 0
    seconds: float = 0.0
    """The seconds that the first connection has waited."""


def groups_of(seen: Sockets, names: dict[int, OwnClient], now: float) -> list[ConnectionGroup]:
    """Return groups that wait for the same event; `names`: the helper's own clients by their
    port."""
    groups: dict[tuple[Who, ConnectionWait], ConnectionGroup] = {}
    for one in seen.open[:CLIENTS_SHOWN]:
        known = names.get(one.remote)
        who = known.who if known else Who.OTHER
        phase = _phase(one)
        if phase is ConnectionWait.RESPONSE and known:
            phase = _phase_of(known, seen)
        kind, whom, of_many = phase.value
        group = groups.setdefault((who, phase), ConnectionGroup(kind, who.value[0], whom, whom))
        group.count += 1
        if group.count > 1:
            group.who, group.whom = f"{group.count} {who.value[1]}", of_many
        group.seconds = max(group.seconds, round(_waited(one, known, phase, now), 1))
    return list(groups.values())


def _phase(one: Socket) -> ConnectionWait:
    if not one.inode:
        return ConnectionWait.QUEUED
    if one.received:
        return (
            ConnectionWait.UNREAD
            if one.traffic is None or not one.traffic.sent
            else ConnectionWait.RESPONSE
        )
    if one.unsent:
        return ConnectionWait.READER
    if one.traffic is None:
        return ConnectionWait.RESPONSE
    if not one.traffic.received:
        return ConnectionWait.NOTHING
    return ConnectionWait.RESPONSE if one.traffic.peer_was_last else ConnectionWait.IDLE


def _phase_of(known: OwnClient, seen: Sockets) -> ConnectionWait:
    """Return the wait of one of our own clients, whose bytes were read and not answered."""
    if known.who is Who.SILENT:
        return ConnectionWait.REQUEST
    return (
        ConnectionWait.REDIS
        if known.path == GUESTBOOK and seen.asks_redis
        else ConnectionWait.RESPONSE
    )


def _waited(one: Socket, known: OwnClient | None, phase: ConnectionWait, now: float) -> float:
    if known and phase is not ConnectionWait.IDLE:
        return now - known.begin
    if one.traffic is None:
        return 0.0
    return one.traffic.sent_ago if phase is ConnectionWait.IDLE else one.traffic.received_ago
