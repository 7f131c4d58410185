# SPDX-License-Identifier: MIT
"""Compare reference servers with their published results, and with the seven servers. All functions
are pure.

Rates of other machines and years cannot be compared, but ratios can. A ratio is a server's figure
divided by the figure of the study's base (`PeerStudy.reference`) under the same load. A ratio of
today's rates is valid only if the load generator was the bottleneck for neither server. A ratio of
core capacities (1 / CPU per request) is always valid.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

from bench.records.conditions import Conditions
from bench.records.figures import grouped
from bench.records.points import Point, data_points, ratio
from bench.records.results import PeerStudy, Published, Results
from bench.records.words import connections
from bench.report.study import Row, Study, describe

MANY = 2.0
"""Today's ratio differs from the published ratio if it is larger or smaller by this factor."""

CLOSE = 1.1
"""A smaller ratio of two costs is not significant, because there are few runs."""

CLOSES = {"iterative": "it closes a connection after one response, because all other clients wait"}
"""The project's servers without persistent connections, and the reasons. A reference server's
reason is in bench/references/."""


Then: TypeAlias = tuple[tuple[Published, float | None], ...]


class PeerRow(NamedTuple):
    """A server's published results and today's result."""

    subject: str
    then: Then
    """The published results, each with its rate divided by the base's published rate. Several
    published programs may correspond to one server of today."""
    point: Point | None = None  # Today's figures; None if this server has no valid data point.
    ratio: float | None = None
    """The ratio of rates; None if the load generator limited one of them."""
    carries: float | None = None
    """The capacity of a core with this server, divided by the capacity with the base."""
    why_not: str = ""  # The reason why there is no figure.

    def get(self, key: str) -> float | None:
        """Return today's figure with this key; None if it was not measured."""
        return self.point.get(key) if self.point else None

    @property
    def differs(self) -> bool:
        """Return whether the capacity of a core differs from the published ratio."""
        then = next((ratio for _, ratio in self.then if ratio), None)
        if then is None or self.carries is None:
            return False
        return not 1 / MANY < self.carries / then < MANY


class PeersTable(NamedTuple):
    """All servers of a study under one load."""

    scenario: Conditions
    level: int
    reference: str
    then_level: int | None
    """Connections of the published figures; None if nothing was published for this load."""
    rows: tuple[PeerRow, ...]

    @property
    def published(self) -> bool:
        """Return whether a row has a published result."""
        return any(row.then for row in self.rows)


def tables(study: Study, asked: PeerStudy) -> list[PeersTable]:
    """Return the tables of one study of the sweep, in the order of its plan."""
    names: dict[tuple[Conditions, int], dict[str, None]] = {}
    for some in asked.measured:
        for load in product((s for s in some.conditions if s.rated), some.levels):
            names.setdefault(load, {}).update(dict.fromkeys(some.subjects))
    found = [_table(study, asked, *load, its) for load, its in names.items()]
    return [
        table
        for table in found
        if any(row.then or study.find(row.subject, *table[:2]) for row in table.rows)
    ]


def _table(
    study: Study, asked: PeerStudy, scenario: Conditions, level: int, names: Iterable[str]
) -> PeersTable:
    load = (scenario.workload, scenario.keep_alive, scenario.cores, level)
    published = [
        row for row in asked.published if (row.workload, row.keep_alive, row.cores, row.at) == load
    ]
    refers_to = asked.reference_of(scenario.workload)
    base = next((row.requests_per_second for row in published if row.subject == refers_to), None)
    reference = study.find(refers_to, scenario, level)
    then: dict[str, Then] = dict.fromkeys([*names, *(row.subject for row in published)], ())
    for row in published:
        rate = row.requests_per_second
        then[row.subject] += ((row, rate / base if rate and base else None),)
    rows = [_row(study, *one, scenario, level, reference) for one in then.items()]
    return PeersTable(
        scenario,
        level,
        refers_to,
        published[0].concurrency if published else None,
        tuple(sorted(rows, key=lambda row: row.get("cpu") or math.inf)),
    )


def _row(
    study: Study,
    name: str,
    then: Then,
    scenario: Conditions,
    level: int,
    reference: Point | None,
) -> PeerRow:
    point = study.find(name, scenario, level)
    if point is None or not point.held:
        reason = point.reason if point else None
        why_not = reason.text if reason else _absence(study.results, name, scenario)
        return PeerRow(name, then, why_not=why_not)
    bound = reference and (point.lower_bound or reference.lower_bound)
    rates = None if bound else ratio(point, reference, "rate")
    return PeerRow(name, then, point, rates, ratio(reference, point, "cpu"))


def _absence(results: Results, name: str, scenario: Conditions) -> str:
    """Return the reason why a server has no data point."""
    if name in results.left_out:
        return results.left_out[name]
    peer = results.peers.get(name)
    closes = peer.closes if peer else CLOSES.get(name)
    if closes and scenario.server_keeps:
        return f"it does not keep connections as requested: {closes}"
    return "not measured under this load"


# ---- CPU per request of all servers under all loads ----


def dots(study: Study) -> list[Point]:
    """Return a data point for each server and load of the sweep's studies, at the lowest level of
    the load. The server with the least CPU per request comes first."""
    lowest: dict[Conditions, float] = {}
    for some in (some for one in study.results.studies for some in one.measured):
        for scenario in some.conditions:
            lowest[scenario] = min([*some.levels, lowest.get(scenario, math.inf)])
    found = [
        p for p in study.points if p.held and lowest.get(p.conditions) == p.level and p.get("cpu")
    ]
    places = _places(found)
    return sorted(found, key=lambda dot: (places[dot.subject], dot.subject))


def _places(found: Sequence[Point]) -> dict[str, float]:
    """Return each server's mean logarithm of its cost, relative to the common server under the same
    load. The common server was measured under the most loads. Under a load without this server,
    costs are relative to their median."""
    served = Counter(dot.subject for dot in found)
    common = max(served, key=lambda name: (served[name], name == "epoll"), default="")
    logs: list[tuple[str, float]] = []
    for load in grouped((dot.conditions, dot) for dot in found).values():
        costs = {dot.subject: dot["cpu"] for dot in load}
        against = costs.get(common) or statistics.median(costs.values())
        logs += [(name, math.log(cost / against)) for name, cost in costs.items()]
    return {name: statistics.fmean(values) for name, values in grouped(logs).items()}


def standing(found: Sequence[Point]) -> str:
    """Return a sentence that compares the seven servers with the reference servers; an empty text
    if one group is missing."""
    seven = [*dict.fromkeys(dot.subject for dot in found if dot.kind == "server")]
    others = [*dict.fromkeys(dot.subject for dot in found if dot.kind == "reference")]
    if not seven or not others:
        return ""
    places = _places(found)
    best, first = seven[0], others[0]
    if abs(places[best] - places[first]) < math.log(CLOSE):
        return (
            f"On average the cheapest of the seven servers, {best}, and the cheapest reference "
            f"server, {first}, need about the same CPU time for a request"
        )
    leaner = [name for name in others if places[name] < places[best] - math.log(CLOSE)]
    if not leaner:
        return f"On average {best} needs the least CPU; of the reference servers, {first} does"
    need = "needs" if len(leaner) == 1 else "need"
    return (
        f"On average {len(leaner)} of {len(others)} reference servers {need} less CPU than the "
        f"cheapest of the seven servers, {best}: {', '.join(leaner)}"
    )


def dot_rows(found: Sequence[Point]) -> Iterator[Row]:
    """Yield the rows of the chart, in the order of `found`."""
    one_level = len({dot.level for dot in found}) == 1
    for dot in found:
        load = f"{describe(dot.conditions)}, {connections(dot.level)}"
        yield {
            "subject": dot.subject,
            "kind": dot.kind,
            "load": describe(dot.conditions) if one_level else load,
            "cpu": float(f"{dot['cpu']:.4g}"),
            "said": f"{dot.subject}, {load}: {dot['cpu']:.3g} µs",
        }


# ---- Memory of connections ----


def memory(results: Results, asked: PeerStudy) -> list[tuple[str, int, float]]:
    """Return (server, connections, bytes per connection) of a study, the least bytes first."""
    found = [
        (point.subject, point.level, size)
        for key, point in data_points(results).items()
        if asked.has(key) and (size := point.get("memory_each")) is not None
    ]
    return sorted(found, key=lambda row: row[2])
