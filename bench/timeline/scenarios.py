# SPDX-License-Identifier: MIT
"""The scenarios: actions of clients, and events in Redis or in the server meanwhile."""

import contextlib
import itertools
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bench.load.client import Client, request
from bench.records.values import one_of, tables_of
from bench.timeline.strace import Request

TIMEOUT_SECONDS = 8.0
"""A client's timeout."""
TAKE = 16384
MOST_PORTIONS = 40
"""The number of portions of TAKE bytes that a slow reader reads after the first."""
EVERY_MS = 20
"""The time between clients' starts. With strace, a new process's first call takes about as long."""


class Step(BaseModel):
    """A client: its start time and its behaviour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_ms: float
    path: str
    stalls_ms: float = 0  # The pause in the middle of the client's request head.
    reads_slowly: bool = False
    """Whether the client reads its response in small portions, with pauses. The requested file is
    larger than the socket buffers."""

    @property
    def what(self) -> str:
        """Return the description for the page."""
        how = (
            ", stops half-way" if self.stalls_ms else ", reads slowly" if self.reads_slowly else ""
        )
        return f"GET {self.path}{how}"


class Disturbance(BaseModel):
    """An event other than a client."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_ms: float
    act: Literal["stop_redis", "continue_redis", "kill_a_child"]

    def happen(self, server: int, redis: int) -> None:
        """Make the event happen. `server`, `redis`: the PIDs of the server and of Redis."""
        if self.act == "kill_a_child":
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(server).children()[:1]:  # some servers have none
                    child.kill()
        else:
            os.kill(redis, signal.SIGSTOP if self.act == "stop_redis" else signal.SIGCONT)


class Scenario(BaseModel):
    """Eight requests; `shows` is a question to the reader about them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    shows: str
    steps: tuple[Step, ...] = Field((), validate_default=True)
    """The eight clients; the file has only those that differ from the usual clients."""
    incidents: tuple[Disturbance, ...] = ()

    @field_validator("steps")
    @classmethod
    def _eight(cls, special: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return eight clients: the special clients, and others that request two pages in turn."""
        paths = ("/guestbook", "/files/small.txt")
        taken = {step.at_ms for step in special}
        free = [at for at in range(0, 8 * EVERY_MS, EVERY_MS) if at not in taken]
        usual = [Step(at_ms=at, path=path) for at, path in zip(free, itertools.cycle(paths))]
        return tuple(sorted([*special, *usual], key=lambda step: step.at_ms))


SCENARIOS = tables_of(Scenario, Path(__file__).with_name("scenarios.toml"))


def named(name: str) -> Scenario:
    """Return the scenario with this name. Raises UserError."""
    return SCENARIOS[one_of("scenario", name, SCENARIOS)]


def play(
    scenario: Scenario, address: tuple[str, int], server: int, redis: int
) -> tuple[float, list[Request]]:
    """Run a scenario against a server, until each client has its response or has timed out.

    Return the start (seconds since the epoch) and the results of the requests, with times in
    milliseconds since the start.
    """
    origin = time.time() + 0.05
    with ThreadPoolExecutor(len(scenario.steps)) as pool:
        asked = [
            pool.submit(_ask, number, step, address, origin)
            for number, step in enumerate(scenario.steps, 1)
        ]
        for incident in scenario.incidents:
            _sleep_until(origin + incident.at_ms / 1000)
            incident.happen(server, redis)
    return origin, [one.result() for one in asked]


def _sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.time()))


def _ask(number: int, step: Step, address: tuple[str, int], origin: float) -> Request:
    """Run one client and return the result of its request."""
    _sleep_until(origin + step.at_ms / 1000)
    begin = time.time()
    answer, port = "no connection", 0
    buffer = TAKE if step.reads_slowly else 0
    with contextlib.suppress(OSError), Client(address, TIMEOUT_SECONDS, buffer) as client:
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
    """Read the response; a slow reader closes the connection before the end. Return the code and
    reason of the status line; empty if no byte arrived."""
    portions = iter(lambda: client.recv(TAKE), b"")
    first = next(portions, b"")
    for _ in itertools.islice(portions, MOST_PORTIONS if step.reads_slowly else None):
        if step.reads_slowly:
            time.sleep(0.01)
    line = first.split(b"\r\n", 1)[0].decode("latin-1")
    return line.partition(" ")[2]
