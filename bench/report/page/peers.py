# SPDX-License-Identifier: MIT
"""Beside the seven: a table of each load of each study, then and now."""

from typing import Any

from bench.readers.cost import Flame, flames
from bench.records.peers import PeerStudy
from bench.records.words import connections, figure
from bench.report.charts.exhibits import Catalogue
from bench.report.findings import peers
from bench.report.findings.cost import sampled_how
from bench.report.page.cost import flame_shown
from bench.report.study.study import Study, describe

MOST_LIKE = {
    "server": "itself",
    "load": "load generator",
    "redis": "Redis",
    "nginx": "nginx",
    "none": "nobody",
    None: "–",
}
"""Who was at the limit, in a cell of a table; None: that is not known."""


def part(study: Study, charts: Catalogue) -> dict[str, Any]:
    """A section for each study; none where the sweep was made for none."""
    del charts
    return {
        "peer_studies": [_study(study, asked) for asked in study.results.studies],
        "peer_facts": study.results.peers,
        "peers_left_out": study.results.left_out,
    }


def _study(study: Study, asked: PeerStudy) -> dict[str, Any]:
    drawn = [one for one in flames(study.results) if _is_of(one, asked)]
    return {
        "said": asked,
        "tables": [_table(table) for table in peers.tables(study, asked)],
        "flames": [flame_shown(one) for one in drawn],
        "sampled": sampled_how(drawn),
        "memory": [
            (name, figure(bytes_each / 1024, "KB"), f"{connections:,}")
            for name, connections, bytes_each in peers.memory(study.results, asked)
        ],
    }


def _table(table: peers.PeersTable) -> dict[str, Any]:
    return {
        "title": f"{describe(table.scenario)}, {connections(table.level)}",
        "reference": table.reference,
        "then": any(row.then for row in table.rows),
        "then_level": None if table.then_level in (None, table.level) else f"{table.then_level:,}",
        "rows": [_row(row) for row in table.rows],
        "notes": [one for row in table.rows for one in row.then],
    }


def _row(row: peers.Row) -> dict[str, Any]:
    now, point = row.now, row.now.point
    bound, limit = (point.lower_bound, point.bottleneck) if point else (False, None)
    return {
        "subject": row.subject,
        "then": [
            {
                "system": one.system,
                "rate": figure(one.rate),
                "ratio": _times(one.ratio),
                "note": one.note,
            }
            for one in row.then
        ],
        "differs": row.differs,
        "why_not": now.why_not,
        "rate": ("\N{GREATER-THAN OR EQUAL TO} " if bound else "") + figure(now.get("rate")),
        "ratio": _times(now.ratio),
        "carries": _times(now.carries),
        "limit": MOST_LIKE[limit],
        **{key: figure(now.get(key)) for key in ("cpu", "p50", "p99", "memory")},
    }


def _is_of(one: Flame, asked: PeerStudy) -> bool:
    return any(
        one.subject in some.subjects
        and one.conditions in [c._replace(mode="closed") for c in some.conditions if not c.rated]
        for some in asked.measured
    )


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
