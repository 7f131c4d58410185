# SPDX-License-Identifier: MIT
"""How far several hosts carry: the arithmetic of docs/scaling.md, worked out from a sweep.

It is the utilisation law of operational analysis (Denning and Buzen, "The Operational Analysis of
Queueing Network Models", Computing Surveys 10(3), 1978): a host that spends D seconds of CPU on
each request cannot serve more than 1/D requests per second, whatever else happens, and at a rate X
it is busy for X * D of its time. The slowest host limits all of them.

Pure functions on results; `show` prints them.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.readers.console import plain_table
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo
from bench.records.errors import UserError
from bench.records.figures import OtherProcess, Role
from bench.records.results import Results
from bench.records.run import Run
from bench.records.store import load

HEADROOM = 0.7
"""Hosts are to be busy for so much of their time: the time in the queue of a host that is busy for
a share u grows as 1/(1-u)."""
LINK_BYTES = 1e9 / 8
"""Bytes per second of a host's network card: 1 Gbit/s."""
PACKET_BYTES = 640
"""Of a connection for each request beside the response: request, handshake and end, eight packets
of some 80 bytes with their Ethernet, IP and TCP heads. An estimate; it is not measured."""


@dataclass(frozen=True)
class RequestCost:
    """What one request costs, in CPU microseconds of each role, and on the wire."""

    subject: str
    server: float
    redis: float
    nginx: float = 0.0
    """0: no balancer was measured."""
    load: float = 0.0
    bytes: float = 0.0

    def of(self, role: Role) -> float:
        """By the name of a role."""
        return float(getattr(self, role))


@dataclass(frozen=True)
class Layout:
    """So many hosts of each role."""

    servers: int
    nginx: int
    redis: int

    @property
    def hosts(self) -> int:
        """All of them."""
        return self.servers + self.nginx + self.redis


@dataclass(frozen=True)
class Capacity:
    """What a layout carries."""

    layout: Layout
    rate: float
    """Requests per second."""
    limit: str
    """Who or what ends it."""


@dataclass(frozen=True)
class Prediction:
    """A cell that was measured, and what the demands of another one say about it."""

    subject: str
    conditions: Conditions
    concurrency: int
    predicted: float
    limit: str
    measured: float

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted


# ---- From results ----


def demands(results: Results, conditions: Conditions) -> list[RequestCost]:
    """What a request costs each subject under some conditions: medians of all runs that hold, over
    all levels. A subject without such runs is not in it."""
    found = []
    for subject in dict.fromkeys(run.subject for run in results.runs):
        runs = [
            run
            for run in results.runs
            if run.subject == subject and run.conditions == conditions and run.state == "held"
        ]
        found.append(_demand(subject, runs))
    return [cost for cost in found if cost.server]


def _demand(subject: str, runs: Sequence[Run]) -> RequestCost:
    def median(values: Iterator[float | None]) -> float:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else 0.0

    return RequestCost(
        subject=subject,
        server=median(run.process.cpu_us_per_request if run.process else None for run in runs),
        redis=median(_cost(run.redis_process, run) for run in runs),
        nginx=median(_cost(run.nginx_process, run) for run in runs),
        load=median(_cost(run.load_process, run) for run in runs),
        bytes=median(
            seen.transferred_bytes / seen.complete
            for run in runs
            if (seen := run.ab or run.wrk) and seen.complete
        ),
    )


def _cost(process: OtherProcess | None, run: Run) -> float | None:
    if process is None:
        return None
    return (process.cpu_user_s + process.cpu_system_s) * 1e6 / run.requests


# ---- The arithmetic ----


def capacity(demand: RequestCost, layout: Layout, headroom: float = HEADROOM) -> Capacity:
    """What one-core hosts carry, and who ends it."""
    ends = [(layout.servers * headroom * 1e6 / demand.server, "servers")]
    if layout.redis and demand.redis:
        ends.append((layout.redis * headroom * 1e6 / demand.redis, "Redis"))
    if layout.nginx and demand.nginx:
        ends.append((layout.nginx * headroom * 1e6 / demand.nginx, "nginx"))
    if layout.nginx and demand.bytes:
        # Each response comes in and goes out, in both directions of the card at once.
        network = layout.nginx * headroom * LINK_BYTES / (demand.bytes + PACKET_BYTES)
        ends.append((network, "network of nginx"))
    rate, limit = min(ends)
    return Capacity(layout, rate, limit)


def best_layout(demand: RequestCost, hosts: int, redis_at_most: int | None = 1) -> Capacity:
    """The best way to share out some hosts. `redis_at_most`: how many Redis hosts can share the
    work; 1 as long as every page increments the same key, None if the keys are spread."""
    most = hosts if redis_at_most is None else redis_at_most
    counts = range(1, most + 1) if demand.redis else (0,)
    layouts = (
        Layout(hosts - nginx - redis, nginx, redis)
        for nginx, redis in product(range(1, hosts), counts)
        if hosts - nginx - redis > 0
    )
    every = [capacity(demand, layout) for layout in layouts]
    if not every:
        raise UserError(f"{hosts} hosts are too few: nginx, a server and Redis need one each")
    # Of equal ones that with the fewest hosts beside the servers.
    return max(every, key=lambda found: (round(found.rate, 6), found.layout.servers))


def fewest(found: Capacity, demand: RequestCost) -> Capacity:
    """The same rate from as few hosts as it needs: where one Redis is the limit, more servers
    only stand and wait."""
    layout = found.layout
    for role in ("servers", "nginx"):
        while getattr(layout, role) > 1:
            smaller = replace(layout, **{role: getattr(layout, role) - 1})
            if capacity(demand, smaller).rate < found.rate * 0.9999:
                break
            layout = smaller
    return replace(found, layout=layout)


# ---- Held against what was measured ----


def predictions(results: Results) -> list[Prediction]:
    """For each subject the demands of one instance through nginx (the reference) say at which rate
    the hosts of this sweep must end with 1, 2, 4 instances; beside it the best that was measured.

    The rate of the reference itself is not in the prediction: only what each host may use, and what
    one request costs there.
    """
    found = []
    best = _best(results)
    for conditions in results.conditions():
        if conditions.balancer == "none" or conditions.mode == "open":
            continue
        reference = conditions._replace(instances=1)
        for demand in demands(results, reference):
            if cell := best.get((demand.subject, conditions)):
                rate, limit = limit_of(
                    demand, conditions.instances, results.hosts, conditions.quota
                )
                found.append(Prediction(demand.subject, conditions, cell[1], rate, limit, cell[0]))
    return found


def limit_of(
    demand: RequestCost, instances: int, hosts: Sequence[HostInfo], quota: float = 0.0
) -> tuple[float, str]:
    """The rate at which the first host is at what it may use, and that host's name. Instances are
    started on the server hosts in turn, each on a CPU of its own, and nginx, which has a worker for
    each CPU, gives each of them the same share of the work. Redis and ab use one CPU. `quota`: of
    a core, for each instance; 0: a whole one.
    """
    ends = [
        (_may_use(host, tasks) * 1e6 / demand.of(host.role), host.name)
        for host in hosts
        if host.role != "server" and demand.of(host.role)
        for tasks in [host.cpus if host.role == "nginx" else 1]
    ]
    servers = [host for host in hosts if host.role == "server"]
    for number, host in enumerate(servers[:instances]):
        here = len(range(number, instances, len(servers)))
        share = demand.server * here / instances
        most = min(_may_use(host, here), here * (quota or 1.0))
        ends.append((most * 1e6 / share, host.name))
    if not ends:
        raise UserError("these results are of one machine: there are no hosts to tell apart")
    return min(ends)


def _may_use(host: HostInfo, tasks: int) -> float:
    """How many CPUs' time so many tasks may use."""
    most = min(host.cpus, tasks)
    return float(most) if host.cpu_limit is None else min(host.cpu_limit, most)


def _best(results: Results) -> dict[tuple[str, Conditions], tuple[float, int]]:
    """The highest rate of each subject under each conditions, and at how many connections."""
    found: dict[tuple[str, Conditions], tuple[float, int]] = {}
    for cell in results.cells():
        if cell.median:
            key = (cell.subject, cell.conditions)
            found[key] = max(found.get(key, (0.0, 0)), (cell.median, cell.concurrency))
    return found


# ---- Saying it ----


def show(path: Path, fleets: Sequence[int], out: Console) -> int:
    """Print it for a results.json or its folder. Raises UserError where it says nothing of it."""
    results = load(path)
    balanced = [
        c
        for c in results.conditions()
        if c.balancer != "none" and c.instances == 1 and c.mode == "closed"
    ]
    if not balanced:
        raise UserError(
            "no cell here was measured through nginx: it takes a sweep with "
            "--balancer close (or keep), on several hosts for the comparison"
        )
    if results.state != "complete":
        out.print(f"This sweep is {results.state}: what is missing is not below.", style="yellow")
    for conditions in balanced:
        costs = demands(results, conditions)
        out.print(f"[bold]{conditions.describe()}[/]: what a request costs", highlight=False)
        out.print(demand_table(costs))
        out.print(
            f"What one-core hosts carry, each busy for at most {HEADROOM:.0%} of its time, "
            "nginx, servers and Redis counted:",
            highlight=False,
        )
        out.print(fleet_table(costs, fleets))
    if results.hosts:
        out.print("What the demands of one instance predict, and what was measured:")
        out.print(prediction_table(predictions(results)))
    return 0


def demand_table(costs: Sequence[RequestCost]) -> Table:
    """CPU microseconds per request, by subject and role."""
    table = plain_table("<server", "CPU us: server", "nginx", "Redis", "load", "bytes")
    for cost in costs:
        figures = (cost.server, cost.nginx, cost.redis, cost.load)
        table.add_row(cost.subject, *(f"{figure:.1f}" for figure in figures), f"{cost.bytes:,.0f}")
    return table


def fleet_table(costs: Sequence[RequestCost], fleets: Sequence[int]) -> Table:
    """What fleets carry with one Redis, and with the work spread over many."""
    heads = ("<server", "hosts", "<the keys", "nginx", "servers", "Redis", "requests/s")
    table = plain_table(*heads, "<the limit")
    for cost in costs:
        for hosts in fleets:
            for redis_at_most, keys in ((1, "on one Redis"), (None, "spread")):
                best = fewest(best_layout(cost, hosts, redis_at_most), cost)
                layout = best.layout
                idle = hosts - layout.hosts
                table.add_row(
                    cost.subject,
                    f"{hosts:,}",
                    keys,
                    *(f"{count:,}" for count in (layout.nginx, layout.servers, layout.redis)),
                    f"{best.rate:,.0f}",
                    best.limit + (f" ({idle:,} hosts not needed)" if idle else ""),
                )
    return table


def prediction_table(found: Sequence[Prediction]) -> Table:
    """Predicted and measured, side by side."""
    table = plain_table("<server", "<conditions", "predicted", "<limit", "measured", "ratio")
    for one in found:
        table.add_row(
            one.subject,
            one.conditions.describe(),
            f"{one.predicted:,.0f}",
            one.limit,
            f"{one.measured:,.0f} at {one.concurrency:,}",
            f"{one.ratio:.2f}",
        )
    return table
