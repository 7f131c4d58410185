"""The parts that compare CPU time per request: what against what, and which target."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from bench.measure import load, subjects
from bench.measure.cost import Cell, Order, interleaved
from bench.measure.load import GUESTBOOK, REDIRECT, Load, NoFigure
from bench.measure.running import Bench, Running
from bench.measure.subjects import LeftOut, Subject
from bench.server_process import StartError

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

    def load(self, path: str, keep_alive: bool) -> Load:
        """The load of one run."""
        requests = self.requests * (2 if keep_alive else 1)
        return Load(path, keep_alive, requests, min(self.concurrency, requests))


class Comparison(BaseModel):
    """Two cells, and what one is of the other."""

    what: Cell
    against: Cell
    target: float
    """The ratio of the medians must not be above it."""

    @property
    def ratio(self) -> float | None:
        """Median by median; None if there is no figure."""
        if not (self.what.holds and self.against.holds):
            return None
        return self.what.median() / self.against.median()

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.ratio is not None and self.ratio <= self.target


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
    part = Part(title="Each server against its floor, redirect, a connection for each request")
    for server in subjects.servers(plan.programs):
        try:
            floor_subject = subjects.floor_of(server, _answer_bytes(server, bench))
            pair = (server, floor_subject)
            part.comparisons.append(_compare(pair, REDIRECT, False, FLOOR_TARGET, plan, bench))
        except (LeftOut, NoFigure, StartError) as reason:
            part.left_out.append(str(reason))
    return part


def _against(title: str, stranger: str, path: str, target: float, plan: Plan, bench: Bench) -> Part:
    part = Part(title=title)
    try:
        pair = (subjects.server("epoll", plan.programs), subjects.stranger(stranger))
    except LeftOut as reason:
        part.left_out.append(str(reason))
        return part
    for keep_alive in (False, True):
        part.comparisons.append(_compare(pair, path, keep_alive, target, plan, bench))
    return part


def _compare(
    pair: Sequence[Subject],
    path: str,
    keep_alive: bool,
    target: float,
    plan: Plan,
    bench: Bench,
) -> Comparison:
    orders = [Order(subject, plan.load(path, keep_alive)) for subject in pair]
    what, against = interleaved(orders, plan.runs, bench)
    return Comparison(what=what, against=against, target=target)


def _answer_bytes(server: Subject, bench: Bench) -> int:
    with Running(server, bench) as running:
        return load.probe(running, REDIRECT)
