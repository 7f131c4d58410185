"""15,000 connections at once, by ab: does any request fail?"""

import shlex

from pydantic import BaseModel

from bench.host.process import StartError
from bench.measure import load
from bench.measure.comparisons import Plan, server_named
from bench.measure.crowd import possible
from bench.measure.load import GUESTBOOK, Load, NoFigure
from bench.measure.running import Bench, Running

SERVERS = ("epoll", "prethreading")
CONNECTIONS = 15_000
REQUESTS = 30_000


class Many(BaseModel):
    """One run."""

    server: str
    connections: int
    command: str = ""
    requests_per_second: float = 0
    longest_ms: float = 0
    cpu_us: float | None = None
    """CPU time per request, microseconds; None where it cannot be read while the server runs."""
    problem: str = ""


def measure(plan: Plan, bench: Bench) -> list[Many]:
    """One run for each of the servers."""
    found = []
    for name in SERVERS:
        bench.say(f"{CONNECTIONS:,} connections at once: {name}")
        figure = Many(server=name, connections=possible(CONNECTIONS))
        found.append(figure)
        bench.redis.prepare()
        try:
            with Running(server_named(name, plan), GUESTBOOK, bench) as running:
                _run(figure, running, bench)
        except (NoFigure, StartError) as problem:
            figure.problem = str(problem)
    return found


def _run(figure: Many, running: Running, bench: Bench) -> None:
    wanted = Load(GUESTBOOK, False, REQUESTS, figure.connections)
    before = running.server.cpu()
    done = load.run(wanted, running, bench)
    after = running.server.cpu()
    figure.command = shlex.join(done.command)
    if before and after:
        figure.cpu_us = (after - before).total / REQUESTS
    if done.figures:
        figure.requests_per_second = done.figures.requests_per_second
        figure.longest_ms = done.figures.percentiles_ms.get("100", 0)
