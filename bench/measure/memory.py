"""User memory for each connection of the event servers."""

import time
from pathlib import Path

import redis
from pydantic import BaseModel

from bench.host.process import StartError
from bench.measure import load
from bench.measure.comparisons import Plan, server_named
from bench.measure.crowd import Crowd, possible, wait_until_calm
from bench.measure.load import GUESTBOOK, NoFigure
from bench.measure.running import Bench, Running

SERVERS = ("poll", "epoll")
CONNECTIONS = 15_000
TARGET = 16 * 1024
"""Bytes of user memory for each connection, at most."""

HELD_MS = 1_700
"""How long Redis is held: shorter than the servers' patience with it (2 s)."""


class Memory(BaseModel):
    """What many connections of one kind cost a server."""

    server: str
    state: str
    connections: int
    before: int = 0
    """Bytes: PSS of the server when it had answered a first request."""
    pss: int = 0
    anonymous: int = 0
    """Of these: memory that no file stands behind."""
    problem: str = ""

    @property
    def per_connection(self) -> float:
        """Bytes."""
        return (self.pss - self.before) / self.connections

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return not self.problem and self.per_connection <= TARGET


def measure(plan: Plan, bench: Bench) -> list[Memory]:
    """Idle connections and requests in flight, for each event server."""
    found = []
    for name in SERVERS:
        for state, fill in (("idle", _idle), ("in flight", _in_flight)):
            bench.say(f"memory: {name}, {CONNECTIONS:,} connections {state}")
            figure = Memory(server=name, state=state, connections=possible(CONNECTIONS))
            found.append(figure)
            bench.redis.prepare()
            try:
                with Running(server_named(name, plan), GUESTBOOK, bench) as running:
                    load.ask_once(running)
                    figure.before = rollup(running.server.pid)["Pss"]
                    fill(figure, running, bench)
            except (NoFigure, StartError) as problem:
                figure.problem = str(problem)
    return found


def rollup(pid: int) -> dict[str, int]:
    """/proc/PID/smaps_rollup in bytes, by name: Pss, Anonymous, ..."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def _note(figure: Memory, running: Running) -> None:
    now = rollup(running.server.pid)
    figure.pss, figure.anonymous = now["Pss"], now["Anonymous"]
    held = len(list(Path(f"/proc/{running.server.pid}/fd").iterdir()))
    if held < figure.connections:
        raise NoFigure(f"the server held only {held:,} descriptors when its memory was read")


def _idle(figure: Memory, running: Running, _bench: Bench) -> None:
    """Each connection has had one response and is kept. All within the idle time of 5 s."""
    with Crowd(running.server.url, figure.connections) as crowd:
        crowd.ask()
        crowd.listen()
        _note(figure, running)
        if (still_open := crowd.still_open()) < figure.connections:
            raise NoFigure(f"only {still_open:,} connections were still open")


def _in_flight(figure: Memory, running: Running, bench: Bench) -> None:
    """Each connection has sent a request, and none has been answered, because Redis is held.

    Redis' own CLIENT PAUSE holds it: unlike SIGSTOP it ends by itself, whatever becomes of us.
    """
    with Crowd(running.server.url, figure.connections) as crowd:
        client = redis.Redis.from_url(bench.redis.url)
        client.execute_command("CLIENT", "PAUSE", HELD_MS, "ALL")
        held_till = time.monotonic() + HELD_MS / 1000
        crowd.ask()
        wait_until_calm(running.server.pid, held_till - time.monotonic() - 0.2)
        _note(figure, running)
        if time.monotonic() > held_till:
            raise NoFigure("the machine was too slow: Redis answered before memory was read")
        crowd.listen()
        client.close()
