# SPDX-License-Identifier: MIT
"""Measure the memory that servers need for many connections, which this process opens."""

import contextlib
import select
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from bench.load.client import Client, NoAnswer
from bench.load.running import Outcome, request_for
from bench.records.errors import NoFigure
from bench.records.figures import MemoryFigures
from bench.records.workloads import Workload
from bench.stations.footprint import Weight
from bench.stations.site import Site

TIMEOUT = 10.0
PER_ADDRESS = 5_000
"""The number of connections from one local address. Most of its 28,000 ports stay free, so the
kernel finds a free port fast."""
HELD_MS = 1_700
"""The pause of Redis: shorter than the servers' timeout for Redis (2 s)."""
SPARE_SECONDS = 0.2
"""The part of the pause that is reserved for reading the memory."""
TIDY_SECONDS = 0.8
"""The time for a server to release the memory of its answers: longer than TRIM_INTERVAL in
ops/limits.h."""
CALM_SECONDS = 0.1
"""A server that uses no CPU for this time has read all requests."""


@contextlib.contextmanager
def connected(url: str, count: int) -> Iterator[list[Client]]:
    """Yield `count` connections to a server. If the server is on this machine, PER_ADDRESS
    connections use the same local address. Raises NoFigure."""
    to, clients = urlsplit(url), list[Client]()
    address = (to.hostname or "", to.port or 80)
    here = address[0].startswith("127.")
    with contextlib.ExitStack() as stack:
        try:
            for number in range(count):
                source = f"127.0.0.{2 + number // PER_ADDRESS}" if here else ""
                clients.append(stack.enter_context(Client(address, TIMEOUT, source=source)))
        except OSError as error:
            raise NoFigure(f"connection {len(clients) + 1:,}: {error}") from error
        yield clients


def ask(clients: Sequence[Client], url: str, workload: Workload) -> None:
    """Send a request on every connection. Raises NoFigure."""
    wanted = request_for(url, workload, "HTTP/1.1", ["Connection: keep-alive"])
    try:
        for client in clients:
            client.send(wanted)
    except OSError as error:
        raise NoFigure(f"a request could not be sent: {error}") from error


def listen(clients: Sequence[Client]) -> None:
    """Read the response on all connections. Raises NoFigure if one is missing or not valid."""
    for number, client in enumerate(clients, 1):
        try:
            answer = client.answer()
        except NoAnswer as error:
            raise NoFigure(f"answer {number:,}: {error}") from error
        if not 200 <= answer.status < 400 or answer.field("Content-Length") is None:
            first = answer.head.splitlines()[0].decode(errors="replace")
            raise NoFigure(f"answer {number:,}: {first}")


def ready(clients: Sequence[Client], event: int) -> int:
    """Return how many connections have received data (POLLIN) or were closed (POLLRDHUP)."""
    watched = select.poll()
    for client in clients:
        watched.register(client.socket, event)
    return len(watched.poll(0))


def parked(url: str, workload: Workload, connections: int, site: Site) -> Outcome:
    """Measure the memory of connections that stay open after one answer. Raises NoFigure, e.g. if
    a server has closed a connection (its idle timeout is 5 s)."""
    begin, before = time.monotonic(), site.weigh()
    with connected(url, connections) as clients:
        ask(clients, url, workload)
        listen(clients)
        site.watch.sleep(TIDY_SECONDS)
        held = site.weigh()
        if closed := ready(clients, select.POLLRDHUP):
            raise NoFigure(f"only {connections - closed:,} connections were still open")
    return _outcome(before, held, connections, begin)


def pending(url: str, workload: Workload, connections: int, site: Site) -> Outcome:
    """Measure the memory of connections that wait for a paused Redis. Raises NoFigure."""
    begin, before = time.monotonic(), site.weigh()
    with connected(url, connections) as clients:
        site.redis.hold(HELD_MS)
        held_till = time.monotonic() + HELD_MS / 1000
        ask(clients, url, workload)
        held, ran_us = site.weigh(), -1.0
        while held.ran_us != ran_us and time.monotonic() < held_till - SPARE_SECONDS:
            site.watch.sleep(CALM_SECONDS)
            ran_us, held = held.ran_us, site.weigh()
        answered = ready(clients, select.POLLIN)
        if time.monotonic() > held_till:
            raise NoFigure("the machine was too slow: Redis answered before the memory was read")
        if answered:
            said = f"{answered:,} requests were answered while Redis was paused"
            raise NoFigure(f"{said}: they need no Redis")
        listen(clients)
    return _outcome(before, held, connections, begin)


def _outcome(before: Weight, held: Weight, connections: int, begin: float) -> Outcome:
    if held.descriptors < connections:
        had = f"only {held.descriptors:,} descriptors"
        raise NoFigure(f"the server held {had} when its memory was read")
    figures = {"before": before.pss, "pss": held.pss, "anonymous": held.anonymous}
    memory = MemoryFigures(connections=connections, **figures)
    return Outcome(memory=memory, wall_seconds=time.monotonic() - begin)
