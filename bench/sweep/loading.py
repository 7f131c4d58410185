# SPDX-License-Identifier: MIT
"""Make the load of a run: the warm-up, then the requests of a load generator, with idle connections
if needed. To measure the memory of connections, this process opens the connections itself."""

import contextlib
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from bench.load.client import Client, NoAnswer
from bench.load.generators import AB, OHA, WRK, WRK_PIPELINED
from bench.load.running import IdleConnections, Load, Outcome, request_for
from bench.records.conditions import RunSpec
from bench.records.errors import NoFigure
from bench.records.workloads import workload_for
from bench.stations.footprint import Weight
from bench.stations.site import Site

WARM_UP_CONNECTIONS = 100
"""The largest number of connections in a warm-up, which has at least twice as many requests."""
IDLE_PATH = "/redirect"
"""The path that idle connections request: the cheapest path."""
GENERATORS = {"ab": AB, "wrk": WRK, "wrk-pipelined": WRK_PIPELINED}
"""The load generators of the closed loop, by the value of the condition `generator`."""


def warm_up(url: str, requests: int, spec: RunSpec, site: Site) -> int:
    """Fill caches and open connections to Redis by warm-up requests: at least `requests`, or fewer
    if they are expensive. Return the number of requests; 0 if the run measures the memory of
    connections. Raises NoFigure."""
    if spec.conditions.asks_once:
        return 0
    connections = min(spec.concurrency, WARM_UP_CONNECTIONS)
    # A traced run has few requests, so each worker must make its first calls in the warm-up.
    twice = WARM_UP_CONNECTIONS if spec.conditions.mode == "traced" else connections
    share = workload_for(spec.conditions.workload).share
    many = max(2 * twice, round(requests * share))
    # If the warm-up has more requests than the run, its timeout is longer.
    timeout = spec.timeout * max(1.0, many / spec.requests)
    load = replace(_load(url, spec, many, connections), any_length=True, timeout=timeout)
    done = GENERATORS[spec.conditions.generator].run(load, site.placement.load, site.watch)
    if done.timed_out or done.status != 0:
        said = done.message or f"not done after {timeout:g} s"
        raise NoFigure(f"the warm-up failed: {said}", "warm-up")
    return many


@contextlib.contextmanager
def idling(url: str, spec: RunSpec, site: Site) -> Iterator[IdleConnections | None]:
    """Hold the run's idle connections open during the `with` block; None if the run has none."""
    if not spec.conditions.idle:
        yield None
        return
    to, count = urljoin(url, IDLE_PATH), spec.conditions.idle
    with IdleConnections(to, count, site.placement.load, site.watch) as connections:
        yield connections


def make_load(url: str, spec: RunSpec, site: Site) -> Outcome:
    """Make the measured load. During the load of a generator, sample the servers of this machine.
    Raises NoFigure if the memory of connections cannot be measured."""
    conditions = spec.conditions
    if conditions.asks_once:
        return _memory(url, spec, site)
    load = _load(url, spec, spec.requests, spec.concurrency)
    grows = not site.redis.private and gains_a_digit(site.redis.counts()[0], load.requests)
    load = replace(load, any_length=grows or workload_for(conditions.workload).may_grow)
    generator = OHA if conditions.mode == "open" else GENERATORS[conditions.generator]
    return generator.run(load, site.placement.load, site.watch, site.look)


def _load(url: str, spec: RunSpec, requests: int, connections: int) -> Load:
    conditions = spec.conditions
    size, rate = (requests, connections, spec.timeout), conditions.rate or 0.0
    form = workload_for(conditions.workload).form
    return Load(url, *size, conditions.keep_alive, form, rate=rate)


def gains_a_digit(count: int, visits: int) -> bool:
    """Return whether `visits` more visits add a digit to the visitor count, so the page grows."""
    return len(str(count + 1)) != len(str(count + visits))


# ---- The memory of connections ----

TIMEOUT = 10.0
PER_ADDRESS = 5_000
"""The most connections from one local address. Most of its 28,000 ports stay free, so the kernel
finds a free port fast."""
HELD_MS = 1_700
"""The pause of Redis: shorter than the servers' timeout for Redis (2 s)."""
SPARE_SECONDS = 0.2
"""The part of the pause that is reserved for reading the memory."""
TIDY_SECONDS = 0.8
"""The time for a server to release the memory of its answers: longer than TRIM_INTERVAL in
ops/limits.h."""
CALM_SECONDS = 0.1
"""A server that uses no CPU for this time is assumed to have read all requests."""


def _memory(url: str, spec: RunSpec, site: Site) -> Outcome:
    begin, before, count = time.monotonic(), site.weigh(), spec.concurrency
    workload = workload_for(spec.conditions.workload)
    wanted = request_for(url, workload, "HTTP/1.1", ["Connection: keep-alive"])
    with connected(url, count) as clients:
        held = (parked if spec.conditions.mode == "parked" else pending)(clients, wanted, site)
    if held.descriptors < count:
        had = f"only {held.descriptors:,} descriptors"
        raise NoFigure(f"the server held {had} when its memory was read")
    memory = held.figures(count, before)
    return Outcome(memory=memory, wall_seconds=time.monotonic() - begin)


@contextlib.contextmanager
def connected(url: str, count: int) -> Iterator[list[Client]]:
    """Yield `count` connections to a server. If the server is on this machine, at most PER_ADDRESS
    of them use the same local address. Raises NoFigure."""
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


def ask(clients: Sequence[Client], wanted: bytes) -> None:
    """Send a request on every connection. Raises NoFigure."""
    try:
        for client in clients:
            client.send(wanted)
    except OSError as error:
        raise NoFigure(f"a request could not be sent: {error}") from error


def listen(clients: Sequence[Client]) -> None:
    """Read a response on each connection. Raises NoFigure if one is missing or not valid."""
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


def parked(clients: Sequence[Client], wanted: bytes, site: Site) -> Weight:
    """Return the servers' usage while connections stay open after one answer. Raises NoFigure, e.g.
    if a server has closed a connection (its idle timeout is 5 s)."""
    ask(clients, wanted)
    listen(clients)
    site.watch.sleep(TIDY_SECONDS)
    held = site.weigh()
    if closed := ready(clients, select.POLLRDHUP):
        raise NoFigure(f"only {len(clients) - closed:,} connections were still open")
    return held


def pending(clients: Sequence[Client], wanted: bytes, site: Site) -> Weight:
    """Return the servers' usage while connections wait for a paused Redis. Raises NoFigure."""
    site.redis.hold(HELD_MS)
    held_till = time.monotonic() + HELD_MS / 1000
    ask(clients, wanted)
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
    return held
