# SPDX-License-Identifier: MIT
"""The chart of CPU per request of the seven servers and of the reference servers."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from bench.records.words import connections
from bench.report.charts import base
from bench.report.charts.base import Catalogue
from bench.report.findings import peers as found_peers
from bench.report.findings.peers import Dot
from bench.report.study.study import describe

COLOURS = ("#2F6FB2", "#D55E00", "#009E73", "#C7609A", "#8C6BB1", "#C98A00", "#3A9BD9", "#777777")
TICKS = [n * 10**e for e in range(6) for n in (1, 2, 5)]


class StandingRow(NamedTuple):
    """A dot in the data of the chart."""

    subject: str
    kind: str
    load: str
    cpu: float
    said: str


def rows(dots: Sequence[Dot]) -> list[StandingRow]:
    """Return the data of the chart in the order of the dots: the least CPU first."""
    one_level = len({dot.level for dot in dots}) == 1
    loads = [f"{describe(dot.scenario)}, {connections(dot.level)}" for dot in dots]
    return [
        StandingRow(
            dot.subject,
            dot.kind,
            describe(dot.scenario) if one_level else load,
            float(f"{dot.cpu:.4g}"),
            f"{dot.subject}, {load}: {dot.cpu:.3g} µs",
        )
        for dot, load in zip(dots, loads, strict=True)
    ]


def standing(data: Sequence[StandingRow]) -> base.Spec:
    """Return the chart: a row for each server, a dot for each load, on a logarithmic axis."""
    order = list(dict.fromkeys(row.subject for row in data))
    loads = sorted({row.load for row in data})
    seven = json.dumps([row.subject for row in data if row.kind == "server"])
    bold = f"indexof({seven}, datum.value) >= 0"
    axis = alt.Axis(
        domain=False,
        ticks=False,
        grid=True,
        labelLimit=170,
        labelColor="@ink",
        labelFontWeight={"condition": {"test": bold, "value": "bold"}, "value": "normal"},
    )
    cost = alt.Axis(domain=False, ticks=False, values=TICKS, format=",~r", labelOverlap="greedy")
    marks = (
        base.named("standing", base.SHOWN)
        .mark_point(filled=True, size=95, opacity=0.9)
        .encode(
            x=alt.X(
                "cpu:Q",
                title=["CPU time per request, µs", "logarithmic; further left is better"],
                axis=cost,
                scale=alt.Scale(type="log", nice=False, padding=14),
            ),
            y=alt.Y("subject:N", sort=order, title=None, axis=axis),
            color=alt.Color(
                "load:N",
                scale=alt.Scale(domain=loads, range=[COLOURS[i % 8] for i in range(len(loads))]),
                legend=base.legend_above(2, 1, "circle"),
            ),
            shape=alt.Shape(
                "kind:N",
                scale=alt.Scale(domain=["server", "stranger"], range=["diamond", "circle"]),
                legend=None,
            ),
            tooltip="said:N",
        )
    )
    chart = alt.layer(marks)
    return base.finish(chart, alt.Step(24))


def add_standing(made: Catalogue) -> None:
    """Add the comparison with reference servers if the sweep was made for studies."""
    dots = found_peers.dots(made.study)
    title = found_peers.standing(dots)
    if title:
        data = rows(dots)
        made.data["standing"] = [row._asdict() for row in data]
        quotas = {dot.scenario.quota for dot in dots}
        quota = quotas.pop() if len(quotas) == 1 else 0.0
        made.add_always("standing", standing(data), title, quota)
