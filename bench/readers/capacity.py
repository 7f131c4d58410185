# SPDX-License-Identifier: MIT
"""Compute the capacity of several hosts from a sweep, as docs/explanation/capacity.md explains.

The method is the utilisation law (Denning and Buzen, "The Operational Analysis of Queueing Network
Models", Computing Surveys 10(3), 1978). A CPU that spends D seconds on each request cannot serve
more than 1/D requests per second. At a rate of X requests per second its utilisation is X * D. The
host that reaches its limit first limits the whole system.
"""

import math
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
    nginx: float = 0.0  # 0: no balancer was measured.
    load: float = 0.0
    bytes: float = 0.0


class Layout(NamedTuple):
    """The number of hosts of each role."""

    servers: int
    nginx: int
    redis: int


Bound = tuple[float, str]
"""A rate in requests per second, and the role, network or host that limits it."""


def demands(results: Results, conditions: Conditions) -> list[RequestCost]:
    """Return each server's cost of a request under these conditions: medians of all valid runs at
    all levels. Servers without a CPU cost are left out."""
    found = []
    for subject in dict.fromkeys(run.subject for run in results.runs):
        runs = [r for r in results.runs if (r.subject, r.conditions) == (subject, conditions)]
        spreads = [spread_of(runs, key) for key in FIGURES]
        found.append(RequestCost(subject, *(one.median if one else 0.0 for one in spreads)))
    return [cost for cost in found if cost.server]


def capacity(demand: RequestCost, layout: Layout) -> Bound:
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
    return min(ends)


def best_layout(
    demand: RequestCost, hosts: int, redis_at_most: int | None = 1
) -> tuple[Layout, float, str]:
    """Return the layout with the highest rate on at most `hosts` hosts, its rate, and the limit of
    the rate; if rates are equal, the smallest layout. Each additional host gets the role that
    limits the rate. `redis_at_most`: the maximum number of Redis hosts. It is 1 if every page
    increments the same key, and None (no limit) if the keys are spread."""
    layout = best = Layout(1, 1, 1 if demand.redis else 0)
    rate, limit = most = capacity(demand, layout)
    if sum(layout) > hosts:
        raise UserError(f"{hosts} hosts are too few: nginx, a server and Redis need one host each")
    while sum(layout) < hosts:
        role = limit.split()[-1].lower()  # "network of nginx" counts for nginx
        count = getattr(layout, role)
        if role == "redis" and count == redis_at_most:
            return best, most[0], limit
        layout = layout._replace(**{role: count + 1})
        rate, limit = capacity(demand, layout)
        if round(rate, 6) > round(most[0], 6):
            best, most = layout, (rate, limit)
    return best, *most


def predictions(results: Results) -> Iterator[tuple[Point, float, str]]:
    """Yield each server's best measured data point for each set of conditions with nginx, the
    predicted rate, and the host that limits the predicted rate.

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
                yield (best, *ends)


def limit_of(
    demand: RequestCost, instances: int, hosts: Sequence[HostInfo], quota: float = 0.0
) -> Bound:
    """Return the rate at which the first host reaches its limit, and the name of this host.

    Instances are started on the server hosts in turn, each on its own CPU. nginx has a worker for
    each CPU and distributes the requests equally. Redis and ab can each use only one CPU. `quota`:
    each instance's share of a core; 0: a whole core.
    """
    servers, costs, ends = [h for h in hosts if h.role == "server"], demand._asdict(), []
    for host in hosts:
        cost, tasks, most = costs[host.role], host.cpus if host.role == "nginx" else 1, math.inf
        if host.role == "server":
            tasks = len(range(servers.index(host), instances, len(servers)))
            cost, most = cost * tasks / instances, tasks * (quota or 1.0)
        if cost:
            # A `cpu_limit` of 0.5 is half a CPU.
            cpus = min(host.cpus, host.cpu_limit or host.cpus, tasks, most)
            ends.append((cpus * 1e6 / cost, host.name))
    if not ends:
        raise UserError("these results are from one machine; a prediction needs several hosts")
    return min(ends)


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
    for subject, server, redis, nginx, ab, size in costs:
        times = (f"{time:.1f}" for time in (server, nginx, redis, ab))
        table.add_row(subject, *times, f"{size:,.0f}")
    return table


def fleet_table(costs: Sequence[RequestCost], fleets: Sequence[int]) -> Table:
    """Return a table of fleets' capacities, with all keys on one Redis host or on several hosts."""
    heads = ("<server", "hosts", "<keys", "nginx", "servers", "Redis", "requests/s", "<limit")
    table = Table(*heads)
    shared = ((1, "on one Redis"), (None, "spread"))
    for cost, hosts, (redis_at_most, keys) in product(costs, fleets, shared):
        layout, rate, limit = best_layout(cost, hosts, redis_at_most)
        counts = (layout.nginx, layout.servers, layout.redis, round(rate))
        if idle := hosts - sum(layout):
            limit += f" ({idle:,} hosts not needed)"
        table.add_row(cost.subject, f"{hosts:,}", keys, *(f"{n:,}" for n in counts), limit)
    return table


def prediction_table(found: Iterable[tuple[Point, float, str]]) -> Table:
    """Return a table of predicted and measured rates."""
    table = Table("<server", "<conditions", "predicted", "<limit", "measured", "ratio")
    for point, predicted, limit in found:
        rate, where = point["rate"], point.conditions.describe()
        measured = (f"{rate:,.0f} at {point.level:,}", f"{rate / predicted:.2f}")
        table.add_row(point.subject, where, f"{predicted:,.0f}", limit, *measured)
    return table
