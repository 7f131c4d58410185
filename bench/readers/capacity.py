# SPDX-License-Identifier: MIT
"""Compute the capacity of several hosts from a sweep, as docs/explanation/capacity.md explains.

The method is the utilisation law (Denning and Buzen, "The Operational Analysis of Queueing Network
Models", Computing Surveys 10(3), 1978). A CPU that spends D seconds on each request cannot serve
more than 1/D requests per second. At a rate of X requests per second its utilisation is X * D. The
host that reaches its limit first limits the whole system.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bench.readers.console import Table
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo
from bench.records.errors import UserError
from bench.records.points import Point, data_points, spread_of
from bench.records.results import Results
from bench.records.store import load

HEADROOM = 0.7
"""The planned utilisation of hosts. At a utilisation u, waiting times are proportional to
1/(1-u)."""
LINK_BYTES = 1e9 / 8
"""Bytes per second of a host's network card: 1 Gbit/s."""
PACKET_BYTES = 640
"""The estimated bytes of a request with its own connection, without the response: eight packets of
about 80 bytes with Ethernet, IP and TCP headers."""
FIGURES = ("cpu_load", "redis_cpu", "nginx_cpu", "load_cpu", "bytes")
"""The keys of the figures of `RequestCost`, in the order of its fields."""


class RequestCost(NamedTuple):
    """The cost of one request: CPU microseconds of each role, and the bytes of the response."""

    subject: str
    server: float
    redis: float
    nginx: float = 0.0
    """0: no balancer was measured."""
    load: float = 0.0
    bytes: float = 0.0


class Layout(NamedTuple):
    """The number of hosts of each role."""

    servers: int
    nginx: int
    redis: int


class Capacity(NamedTuple):
    """The capacity of a layout."""

    layout: Layout
    rate: float
    """Requests per second."""
    limit: str
    """The role or the network that limits the rate."""


class Prediction(NamedTuple):
    """The rate of a data point, predicted from the costs of a request with one instance."""

    point: Point
    rate: float
    limit: str
    """The host that limits the predicted rate."""


# ---- From results ----


def demands(results: Results, conditions: Conditions) -> list[RequestCost]:
    """Return each server's cost of a request under these conditions: medians of all valid runs at
    all levels. Servers without a CPU cost are left out."""
    found = []
    for subject in dict.fromkeys(run.subject for run in results.runs):
        runs = [r for r in results.runs if (r.subject, r.conditions) == (subject, conditions)]
        spreads = [spread_of(runs, key) for key in FIGURES]
        found.append(RequestCost(subject, *(one.median if one else 0.0 for one in spreads)))
    return [cost for cost in found if cost.server]


# ---- The arithmetic ----


def capacity(demand: RequestCost, layout: Layout) -> Capacity:
    """Return the capacity of one-core hosts, with the role or network that limits it."""
    roles = (
        (layout.servers, demand.server, "servers"),
        (layout.redis, demand.redis, "Redis"),
        (layout.nginx, demand.nginx, "nginx"),
    )
    ends = [(n * HEADROOM * 1e6 / cost, name) for n, cost, name in roles if n and cost]
    if layout.nginx and demand.bytes:
        # nginx' network card sends and receives at the same time, so each response counts once.
        network = layout.nginx * HEADROOM * LINK_BYTES / (demand.bytes + PACKET_BYTES)
        ends.append((network, "network of nginx"))
    return Capacity(layout, *min(ends))


def best_layout(demand: RequestCost, hosts: int, redis_at_most: int | None = 1) -> Capacity:
    """Return the layout with the highest rate on at most `hosts` hosts; if rates are equal, the
    smallest layout. Each additional host gets the role that limits the rate. `redis_at_most`: the
    maximum number of Redis hosts. It is 1 if every page increments the same key, and None (no
    limit) if the keys are spread."""
    best = found = capacity(demand, Layout(1, 1, 1 if demand.redis else 0))
    if sum(found.layout) > hosts:
        raise UserError(f"{hosts} hosts are too few: nginx, a server and Redis need one host each")
    while sum(found.layout) < hosts:
        role = found.limit.split()[-1].lower()  # "network of nginx" counts for nginx
        count = getattr(found.layout, role)
        if role == "redis" and count == redis_at_most:
            return best._replace(limit=found.limit)
        found = capacity(demand, found.layout._replace(**{role: count + 1}))
        best = max(best, found, key=lambda one: round(one.rate, 6))
    return best


# ---- Comparison with measured rates ----


def predictions(results: Results) -> Iterator[Prediction]:
    """Yield each server's predicted and best measured rate for each set of conditions with nginx.

    The prediction uses the CPU cost of a request with nginx and one instance, and the CPU limit of
    each host. The measured rate of one instance is not used.
    """
    rated = [point for point in data_points(results).values() if point.held]
    for conditions in results.conditions():
        if conditions.balancer == "none" or conditions.mode == "open":
            continue
        for demand in demands(results, conditions._replace(instances=1)):
            same = [p for p in rated if (p.subject, p.conditions) == (demand.subject, conditions)]
            if same:
                best = max(same, key=lambda point: (point["rate"], point.level))
                ends = limit_of(demand, conditions.instances, results.hosts, conditions.quota)
                yield Prediction(best, *ends)


def limit_of(
    demand: RequestCost, instances: int, hosts: Sequence[HostInfo], quota: float = 0.0
) -> tuple[float, str]:
    """Return the rate at which the first host reaches its limit, and the name of this host.

    Instances are started on the server hosts in turn, each on its own CPU. nginx has a worker for
    each CPU and distributes the requests equally. Redis and ab can each use only one CPU. `quota`:
    each instance's share of a core; 0: a whole core.
    """
    costs = demand._asdict()
    ends = [
        (_may_use(h, h.cpus if h.role == "nginx" else 1) * 1e6 / costs[h.role], h.name)
        for h in hosts
        if h.role != "server" and costs[h.role]
    ]
    servers = [host for host in hosts if host.role == "server"]
    for number, host in enumerate(servers[:instances]):
        here = len(range(number, instances, len(servers)))
        share = demand.server * here / instances
        most = min(_may_use(host, here), here * (quota or 1.0))
        ends.append((most * 1e6 / share, host.name))
    if not ends:
        raise UserError("these results are from one machine; a prediction needs several hosts")
    return min(ends)


def _may_use(host: HostInfo, tasks: int) -> float:
    """Return how many CPUs `tasks` tasks may use on a host; 0.5 is half a CPU (a quota)."""
    most = min(host.cpus, tasks)
    return float(most) if host.cpu_limit is None else min(host.cpu_limit, most)


# ---- Output ----


def show(path: Path, fleets: Sequence[int], out: Console) -> int:
    """Print the capacity from a results.json or its folder. Raises UserError."""
    results = load(path)
    balanced = [
        c
        for c in results.conditions()
        if c.balancer != "none" and c.instances == 1 and c.mode == "closed"
    ]
    if not balanced:
        raise UserError(
            "these results have no runs through nginx; run a sweep with --balancer close (or keep)"
        )
    if results.state != "complete":
        out.print(f"This sweep is {results.state}: some results are missing.", style="yellow")
    for conditions in balanced:
        costs = demands(results, conditions)
        out.print(f"[bold]{conditions.describe()}[/]: cost of a request", highlight=False)
        out.print(demand_table(costs))
        out.print(
            "Capacity of one-core hosts (nginx, servers and Redis together) at a utilisation of at "
            f"most {HEADROOM:.0%}:",
            highlight=False,
        )
        out.print(fleet_table(costs, fleets))
    if results.hosts:
        out.print("Rates predicted from the costs with one instance, and measured rates:")
        out.print(prediction_table(predictions(results)))
    return 0


def demand_table(costs: Sequence[RequestCost]) -> Table:
    """Return a table of CPU microseconds per request, by server and role."""
    table = Table("<server", "CPU us: server", "nginx", "Redis", "load", "bytes")
    for cost in costs:
        times = (f"{time:.1f}" for time in (cost.server, cost.nginx, cost.redis, cost.load))
        table.add_row(cost.subject, *times, f"{cost.bytes:,.0f}")
    return table


def fleet_table(costs: Sequence[RequestCost], fleets: Sequence[int]) -> Table:
    """Return a table of fleets' capacities, with all keys on one Redis host or on several hosts."""
    heads = ("<server", "hosts", "<keys", "nginx", "servers", "Redis", "requests/s", "<limit")
    table = Table(*heads)
    shared = ((1, "on one Redis"), (None, "spread"))
    for cost, hosts, (redis_at_most, keys) in product(costs, fleets, shared):
        layout, rate, limit = best_layout(cost, hosts, redis_at_most)
        counts = (hosts, layout.nginx, layout.servers, layout.redis, round(rate))
        many, *others = (f"{count:,}" for count in counts)
        idle = hosts - sum(layout)
        limit += f" ({idle:,} hosts not needed)" if idle else ""
        table.add_row(cost.subject, many, keys, *others, limit)
    return table


def prediction_table(found: Iterable[Prediction]) -> Table:
    """Return a table of predicted and measured rates."""
    table = Table("<server", "<conditions", "predicted", "<limit", "measured", "ratio")
    for point, rate, limit in found:
        measured = f"{point['rate']:,.0f} at {point.level:,}"
        start = (point.subject, point.conditions.describe(), f"{rate:,.0f}", limit)
        table.add_row(*start, measured, f"{point['rate'] / rate:.2f}")
    return table
