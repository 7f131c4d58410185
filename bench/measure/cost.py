"""What a request costs in CPU time: interleaved runs of several subjects."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from bench.host.accounting import CpuTime
from bench.host.process import StartError
from bench.measure import load
from bench.measure.load import Load, NoFigure
from bench.measure.running import Bench, Running
from bench.records.workloads import Workload
from bench.subjects.subject import Subject
from bench.sweep.loading import SETTLE_SECONDS

WARM_UP = 300
"""Requests before the measured ones: connections to Redis, caches, pages of memory."""


class Sample(BaseModel):
    """One run. Microseconds of CPU time of the server per request."""

    user: float
    system: float
    requests_per_second: float
    bytes_per_response: float

    @property
    def total(self) -> float:
        return self.user + self.system


class Cell(BaseModel):
    """All runs of one subject under one load."""

    subject: str
    path: str
    keep_alive: bool
    requests: int
    concurrency: int
    samples: list[Sample] = []
    problems: list[str] = []
    """Runs that are no figure: why."""

    @property
    def holds(self) -> bool:
        """Whether every run is a figure, and there is one."""
        return bool(self.samples) and not self.problems

    def median(self, part: str = "total") -> float:
        """Median over the runs; part: total, user, system, bytes_per_response, ..."""
        return statistics.median(getattr(sample, part) for sample in self.samples)

    def range(self) -> tuple[float, float]:
        """Lowest and highest total."""
        totals = [sample.total for sample in self.samples]
        return min(totals), max(totals)


@dataclass(frozen=True)
class Order:
    """A subject and the load that it is to be put under."""

    subject: Subject
    load: Load
    answer_bytes: int = 0
    """For floors."""


def interleaved(orders: Sequence[Order], runs: int, bench: Bench) -> list[Cell]:
    """A cell for each order. They take turns, so that a drift of the machine favours none."""
    cells = [
        Cell(
            subject=order.subject.name,
            path=order.load.workload.path,
            keep_alive=order.load.keep_alive,
            requests=order.load.requests,
            concurrency=order.load.concurrency,
        )
        for order in orders
    ]
    for number in range(1, runs + 1):
        for order, cell in zip(orders, cells, strict=True):
            mode = "keep-alive" if order.load.keep_alive else "a connection per request"
            bench.say(
                f"{order.load.workload.path}, {mode}: {order.subject.name}, run {number} of {runs}"
            )
            try:
                cell.samples.append(_run(order, bench))
            except (NoFigure, StartError) as problem:
                cell.problems.append(f"run {number}: {problem}")
    return cells


def _run(order: Order, bench: Bench) -> Sample:
    """One run with a server started for it. Raises NoFigure, StartError or Interrupted."""
    wanted = order.load
    warm_up = replace(wanted, requests=WARM_UP, concurrency=min(wanted.concurrency, WARM_UP))
    bench.redis.prepare()
    with Running(
        order.subject, wanted.workload, bench, wanted.keep_alive, order.answer_bytes
    ) as running:
        load.run(warm_up, running, bench)
        bench.watch.sleep(SETTLE_SECONDS)
        before = running.server.cpu()
        done = load.run(wanted, running, bench)
        bench.watch.sleep(SETTLE_SECONDS)
        after = running.server.cpu()
    if before and after:
        cost, requests = after - before, wanted.requests
    else:
        cost = _lifetime(running, wanted.workload, bench)
        requests = wanted.requests + WARM_UP
    figures = done.figures
    assert figures is not None  # or it would not have held
    return Sample(
        user=cost.user / requests,
        system=cost.system / requests,
        requests_per_second=figures.requests_per_second,
        bytes_per_response=figures.transferred_bytes / figures.complete,
    )


def _lifetime(running: Running, workload: Workload, bench: Bench) -> CpuTime:
    assert running.lifetime is not None
    return running.lifetime - bench.idle_cost(running.subject, workload)
