# SPDX-License-Identifier: MIT
"""The comparison with reference servers: published and measured results, a table for each load."""

from dataclasses import dataclass

from bench.readers.cost import Flame, flames
from bench.records.results import PeerStudy
from bench.records.words import connections, figure
from bench.report.charts.base import Catalogue
from bench.report.findings import peers
from bench.report.findings.cost import sampled_how
from bench.report.page.cost import ShownFlame, flame_shown
from bench.report.study import hosts
from bench.report.study.study import Study, describe


@dataclass(frozen=True)
class ShownStudy:
    """A study with its tables, flame graphs and memory figures."""

    said: PeerStudy
    tables: list[peers.PeersTable]
    flames: list[ShownFlame]
    sampled: str
    memory: list[tuple[str, str, str]]
    """(server, memory of a connection, number of connections) of each server."""


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return each study of the sweep, and the template's functions that format figures."""
    del charts
    return {
        "peer_studies": [_study(study, asked) for asked in study.results.studies],
        "peer_facts": study.results.peers,
        "peers_left_out": study.results.left_out,
        "load_of": lambda table: f"{describe(table.scenario)}, {connections(table.level)}",
        "limit_of": limit_of,
        "ratio": lambda ratio: "–" if ratio is None else f"{ratio:.2f}",
        "figure": figure,
    }


def _study(study: Study, asked: PeerStudy) -> ShownStudy:
    drawn = [one for one in flames(study.results) if _is_of(one, asked)]
    memory = [
        (name, figure(bytes_each / 1024, "KB"), f"{connections:,}")
        for name, connections, bytes_each in peers.memory(study.results, asked)
    ]
    shown = [flame_shown(one) for one in drawn]
    return ShownStudy(asked, peers.tables(study, asked), shown, sampled_how(drawn), memory)


def limit_of(now: peers.Now) -> str:
    """Return the bottleneck as a word for the table."""
    found = now.point.bottleneck if now.point else None
    return hosts.NAMES.get(found, found) if found else "–"


def _is_of(one: Flame, asked: PeerStudy) -> bool:
    return any(
        one.subject in some.subjects
        and one.conditions in [c._replace(mode="closed") for c in some.conditions if not c.rated]
        for some in asked.measured
    )
