"""The parts that compare CPU time per request: what against what, and which target."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import StartError
from bench.measure import load
from bench.measure.cost import Cell, Order, interleaved
from bench.measure.load import GUESTBOOK, REDIRECT, Load, NoFigure
from bench.measure.running import Bench, Running
from bench.records.errors import UserError
from bench.records.workloads import Workload
from bench.subjects.declared import LeftOut
from bench.subjects.subject import Subject, floor_subject, server_subjects, stranger_subject

NGINX_TARGET = 1.0
GO_TARGET = 1 / 3
FLOOR_TARGET = 1.5


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    runs: int
    requests: int
    """Of a run with a connection for each request; with keep-alive twice as many."""
    concurrency: int
    programs: Path
    """The folder of the servers' executables."""
    only: tuple[str, ...] = ()
    """Names of servers, where not all of them are compared with something; none: all."""

    def servers(self) -> list[Subject]:
        """Those that are compared. Raises UserError for a name that is not known."""
        found = server_subjects(self.programs)
        known = [server.name for server in found]
        unknown = [name for name in self.only if name not in known]
        if unknown:
            names = f"{', '.join(unknown)}. Known: {', '.join(known)}"
            raise UserError(f"unknown server{'s' if len(unknown) > 1 else ''}: {names}")
        return [server for server in found if not self.only or server.name in self.only]

    def load(self, workload: Workload, keep_alive: bool) -> Load:
        """The load of one run."""
        requests = self.requests * (2 if keep_alive else 1)
        return Load(workload, keep_alive, requests, min(self.concurrency, requests))


class Comparison(BaseModel):
    """Two cells, and what one is of the other."""

    what: Cell
    against: Cell
    target: float | None = None
    """The ratio of the medians must not be above it; None: there is no target."""

    @property
    def ratio(self) -> float | None:
        """Median by median; None if there is no figure."""
        if not (self.what.holds and self.against.holds):
            return None
        return self.what.median() / self.against.median()

    @property
    def met(self) -> bool:
        """Whether there is a figure, and the target is met."""
        return self.ratio is not None and (self.target is None or self.ratio <= self.target)


class Part(BaseModel):
    """A part of the measurement that consists of comparisons."""

    title: str
    comparisons: list[Comparison] = []
    left_out: list[str] = []

    @property
    def holds(self) -> bool:
        """Whether nothing was left out and all targets are met."""
        return not self.left_out and all(c.met for c in self.comparisons)


def redirect(plan: Plan, bench: Bench) -> Part:
    """epoll against nginx: no waits, so what counts is the loop, the parser and the response."""
    title = "Redirect: epoll against nginx with one worker"
    return _against(title, "nginx", REDIRECT, NGINX_TARGET, plan, bench)


def guestbook(plan: Plan, bench: Bench) -> Part:
    """epoll against Go: three waits for Redis and a page from a template."""
    title = "Guestbook: epoll against Go net/http with go-redis"
    return _against(title, "go", GUESTBOOK, GO_TARGET, plan, bench)


def floor(plan: Plan, bench: Bench) -> Part:
    """Every server against the barest program of its own architecture."""
    title = "Each server against its floor, redirect, a connection for each request"
    return _floors(title, REDIRECT, FLOOR_TARGET, plan, bench)


def floor_guestbook(plan: Plan, bench: Bench) -> Part:
    """The same where both wait three times for Redis: the rest is parsing, and making the page."""
    title = "Each server against its floor, guestbook, a connection for each request"
    return _floors(title, GUESTBOOK, None, plan, bench)


def server_named(name: str, plan: Plan) -> Subject:
    """One of the project's servers. Raises LeftOut."""
    for server in server_subjects(plan.programs):
        if server.name == name:
            return server
    raise LeftOut(f"{name} is left out: there is no such server")


def _floors(title: str, workload: Workload, target: float | None, plan: Plan, bench: Bench) -> Part:
    part = Part(title=title)
    wanted = plan.load(workload, keep_alive=False)
    for server in plan.servers():
        try:
            below = floor_subject(server.name)
            size = _answer_bytes(server, workload, bench)
        except (LeftOut, NoFigure, StartError) as reason:
            part.left_out.append(str(reason))
            continue
        orders = [Order(server, wanted), Order(below, wanted, size)]
        part.comparisons.append(_compare(orders, target, plan, bench))
    return part


def _against(
    title: str, stranger: str, workload: Workload, target: float, plan: Plan, bench: Bench
) -> Part:
    part = Part(title=title)
    try:
        pair = (server_named("epoll", plan), stranger_subject(stranger))
    except LeftOut as reason:
        part.left_out.append(str(reason))
        return part
    for keep_alive in (False, True):
        orders = [Order(subject, plan.load(workload, keep_alive)) for subject in pair]
        part.comparisons.append(_compare(orders, target, plan, bench))
    return part


def _compare(orders: Sequence[Order], target: float | None, plan: Plan, bench: Bench) -> Comparison:
    what, against = interleaved(orders, plan.runs, bench)
    return Comparison(what=what, against=against, target=target)


def _answer_bytes(server: Subject, workload: Workload, bench: Bench) -> int:
    bench.redis.prepare()
    with Running(server, workload, bench) as running:
        return load.ask_once(running)
