# SPDX-License-Identifier: MIT
"""The scenarios: the actions of the clients, and the events at Redis or the server meanwhile."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from bench.load.client import Connection, request
from bench.records.values import one_of
from bench.timeline.recording import Request

BIG = "/big.bin"
"""The path of a file that is larger than the socket buffers."""
BIG_BYTES = 12_000_000
PATIENCE_SECONDS = 8.0
"""A client's timeout."""
TAKE = 16384
EVERY_MS = 20
"""The time between two clients: about what strace needs for the first call of a new process."""


@dataclass(frozen=True)
class Step:
    """A client: its start time and its behaviour."""

    at_ms: float
    path: str
    stalls_ms: float = 0
    """The pause in the middle of its request head."""
    reads_slowly: bool = False
    """It reads its response in small portions, with pauses."""

    @property
    def what(self) -> str:
        """Return the description for the page."""
        how = (
            ", stops half-way" if self.stalls_ms else ", reads slowly" if self.reads_slowly else ""
        )
        return f"GET {self.path}{how}"


@dataclass(frozen=True)
class Disturbance:
    """An event other than a client."""

    at_ms: float
    what: str
    act: Callable[[int, int], None]
    """Its arguments are the PIDs of the server and of Redis."""


@dataclass(frozen=True)
class Scenario:
    """Eight requests; `shows` tells the reader what to look for."""

    name: str
    title: str
    shows: str
    steps: Sequence[Step]
    incidents: Sequence[Disturbance] = field(default=())


def _kill_a_child(server: int, _redis: int) -> None:
    """Kill the first child that the server has, if it has any."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(server).children()[:1]:
            child.kill()


def _steps(*special: Step, every_ms: float = EVERY_MS) -> tuple[Step, ...]:
    """Return eight clients: the special ones, and others that request two pages in turn."""
    paths = ("/guestbook", "/files/small.txt")
    times = [position * every_ms for position in range(8)]
    taken = {step.at_ms for step in special}
    free = [at for at in times if at not in taken][: 8 - len(special)]
    usual = [Step(at, paths[position % 2]) for position, at in enumerate(free)]
    return tuple(sorted([*special, *usual], key=lambda step: step.at_ms))


SCENARIOS = {
    one.name: one
    for one in (
        Scenario(
            "eight",
            "Eight requests, one of them slow",
            "Client 2 pauses for 250 ms in the middle of its request. Which clients must wait?",
            _steps(Step(EVERY_MS, "/guestbook", stalls_ms=250)),
        ),
        Scenario(
            "silent",
            "Three clients that send half a request",
            "Clients 1 to 3 send half a request and pause for 400 ms. Which workers are left?",
            _steps(*(Step(at, "/guestbook", stalls_ms=400) for at in (0, EVERY_MS, 2 * EVERY_MS))),
        ),
        Scenario(
            "slow-reader",
            "One client reads its response slowly",
            "Client 2 requests a file of 12 MB and reads small portions. Which tasks wait to send?",
            _steps(Step(EVERY_MS, BIG, reads_slowly=True)),
        ),
        Scenario(
            "redis-stopped",
            "Redis stops for a moment",
            "Redis is stopped from 50 to 250 ms. Which servers send small files meanwhile?",
            _steps(),
            (
                Disturbance(50, "Redis stops", lambda _, redis: os.kill(redis, signal.SIGSTOP)),
                Disturbance(250, "Redis continues", lambda _, pid: os.kill(pid, signal.SIGCONT)),
            ),
        ),
        Scenario(
            "child-killed",
            "A child process is killed",
            "At 120 ms a child process, if there is one, gets kill -9. Which client is cut off?",
            _steps(Step(EVERY_MS, "/guestbook", stalls_ms=250)),
            (Disturbance(120, "a child is killed", _kill_a_child),),
        ),
    )
}


def named(name: str) -> Scenario:
    """Return the scenario with this name. Raises UserError."""
    return SCENARIOS[one_of("scenario", name, SCENARIOS)]


def play(
    scenario: Scenario, address: tuple[str, int], server: int, redis: int
) -> tuple[float, list[Request]]:
    """Run a scenario against a server until every client has its response or its timeout is over.

    Returns the start (seconds since the epoch) and the results of the requests, with times in
    milliseconds since the start.
    """
    origin = time.time() + 0.05
    found: list[Request | None] = [None] * len(scenario.steps)

    def client(position: int, step: Step) -> None:
        found[position] = _ask(position + 1, step, address, origin)

    actors = [
        threading.Thread(target=client, args=(position, step))
        for position, step in enumerate(scenario.steps)
    ]
    for actor in actors:
        actor.start()
    try:
        for incident in scenario.incidents:
            _sleep_until(origin + incident.at_ms / 1000)
            incident.act(server, redis)
    finally:
        for actor in actors:
            actor.join()
    return origin, [request for request in found if request is not None]


def _sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.time()))


def _ask(number: int, step: Step, address: tuple[str, int], origin: float) -> Request:
    """Run one client and return the result of its request."""
    _sleep_until(origin + step.at_ms / 1000)
    begin = time.time()
    answer, port = "no connection", 0
    buffer = TAKE if step.reads_slowly else 0
    with contextlib.suppress(OSError), Connection(address, PATIENCE_SECONDS, buffer) as client:
        port, answer = client.port, "closed without an answer"
        head = request("GET", step.path, "Connection: close")
        half = len(head) // 2 if step.stalls_ms else 0
        if half:
            client.send(head[:half])
            time.sleep(step.stalls_ms / 1000)
        client.send(head[half:])
        answer = _read(client.socket, step) or answer
    return Request(
        number=number,
        port=port,
        what=step.what,
        begin=(begin - origin) * 1000,
        end=(time.time() - origin) * 1000,
        answer=answer,
    )


def _read(client: socket.socket, step: Step) -> str:
    """Read the whole response (a slow reader leaves in the middle), and return the code and reason
    of its status line, or an empty string if nothing came."""
    first = b""
    portions = 0
    while chunk := client.recv(TAKE):
        first = first or chunk
        portions += 1
        if step.reads_slowly:
            time.sleep(0.01)
            if portions > 40:
                break
    line = first.split(b"\r\n", 1)[0].decode("latin-1")
    return line.partition(" ")[2]
