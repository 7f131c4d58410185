# SPDX-License-Identifier: MIT
"""Curves over the number of connections, and over other conditions."""

import json
from collections.abc import Container, Sequence
from typing import Any

import altair as alt

from bench.records.conditions import THROUGH
from bench.records.metrics import BY_KEY
from bench.report.charts import base
from bench.report.study import Row, StudySubject


def over_levels(
    subjects: Sequence[StudySubject],
    levels: Sequence[int],
    key: str,
    title: str,
    kind: base.ScaleKind = "linear",
) -> base.Spec:
    """Return one kind of figure over connections, with spread, lower bounds and gaps; rates also
    with the curves of 2019, if the reader chooses them."""
    place: dict[str, Any] = {"x": base.levels_axis(levels), "y": base.value_axis(key, title, kind)}
    colour = base.colour(subjects)
    cells = base.named("cells", base.OF_SCENARIO, base.SHOWN)
    known = cells.transform_filter(f"isValid(datum.{key})")
    lower = "datum.bound" if key == "rate" else "false"  # it concerns no other figure
    line = cells.mark_line(strokeWidth=2.2, strokeJoin="round")
    spread = base.range_of(cells, f"{key}_low", f"{key}_high", subjects, title=title)
    layers = [
        spread.encode(x=place["x"]),
        line.encode(**place, color=colour, strokeDash=base.dash(subjects)),
        *base.dots(known.encode(**place, color=colour), subjects, lower, 55),
        base.point_at(known, "id:N", **place),
    ]
    if key != "rate":
        return base.finish(alt.layer(*layers))
    then = base.named("paper", "then2019", base.OF_SCENARIO, base.SHOWN)
    then = then.transform_calculate(value="scaled2019 ? datum.scaled : datum.then")
    then = then.mark_line(strokeDash=[3, 4], strokeWidth=1.5, opacity=0.65)
    y = base.value_axis("value", title)
    return base.finish(alt.layer(then.encode(x=place["x"], y=y, color=colour), *layers), 430)


def over_conditions(
    subjects: Sequence[StudySubject], data: str, labels: dict[str, str], x_title: str, key: str
) -> base.Spec:
    """Return one kind of figure over a condition: the workload, Redis' delay, idle connections.

    `labels`: the conditions from left to right, each with the lines of its label.
    """
    metric = BY_KEY[key]
    unit = f", {metric.unit}" if metric.unit.isalpha() else ""
    lines = json.dumps({condition: label.split("|") for condition, label in labels.items()})
    chart = base.named(data, base.SHOWN).encode(
        x=alt.X(
            "condition:N",
            sort=list(labels),
            title=x_title,
            axis=alt.Axis(labelAngle=0, grid=False, labelExpr=f"({lines})[datum.value]"),
            scale=alt.Scale(type="point", padding=0.4),
        ),
        y=base.value_axis("value", f"{metric.label}{unit}"),
        color=base.colour(subjects),
    )
    line = chart.mark_line(strokeWidth=2.2).encode(strokeDash=base.dash(subjects))
    dots = base.dots(chart, subjects, "datum.bound", 55)
    return base.finish(alt.layer(line, *dots, base.point_at(chart, "said:N")))


# ---- Several instances behind nginx, and one instance with and without it ----

OF_FAMILY = "indexof(datum.s, scenario) >= 0"


def scaling(subjects: Sequence[StudySubject], counts: Sequence[int], way: str) -> base.Spec:
    """Return rates over instances, with the ideal: n times the rate of one instance."""
    filters = (OF_FAMILY, base.SHOWN, base.AT_LEVEL, f"datum.way === '{way}'")
    rows = base.named("instances", *filters)
    axis = alt.Axis(values=list(counts), format="d", grid=False, tickSize=4)
    scale = alt.Scale(nice=False, padding=18)
    x = alt.X("n:Q", title="instances of the server", scale=scale, axis=axis)
    place: dict[str, Any] = {"x": x, "y": base.value_axis("rate", "requests per second")}
    ideal = rows.transform_filter("isValid(datum.ideal)")
    ideal = ideal.mark_line(strokeDash=[2, 4], strokeWidth=1.4, opacity=0.6)
    coloured = rows.encode(**place, color=base.colour(subjects))
    return base.finish(
        alt.layer(
            ideal.encode(x=x, y=alt.Y("ideal:Q"), color=base.colour(subjects)),
            base.range_of(rows, "low", "high", subjects).encode(x=x),
            coloured.mark_line(strokeWidth=2.2),
            *base.dots(coloured, subjects, "datum.bound", 60),
            base.point_at(rows, "id:N", **place),
        ),
        height=340,
    )


def through(subjects: Sequence[StudySubject], ways: Container[str]) -> base.Spec:
    """Return the rate of one instance, direct and through nginx with connections kept or not."""
    filters = (OF_FAMILY, base.SHOWN, base.AT_LEVEL, "datum.n === 1")
    rows = base.named("instances", *filters)
    scale = alt.Scale(zero=True)
    x = alt.X("rate:Q", title="requests per second", axis=base.bars_axis(), scale=scale)
    said, legend = "way_said:N", base.legend_above(1, 1, "circle")
    colours = {THROUGH[w]: c for w, c in (("keep", "@user"), ("close", "@baseline")) if w in ways}
    colour = alt.Color(
        said, scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=legend
    )
    below = legend.copy()
    below.orient = "bottom"  # both above would be too wide for a phone
    straight = alt.Stroke(
        said, scale=alt.Scale(domain=[THROUGH["none"]], range=["@ink"]), legend=below
    )
    span = (
        rows.transform_aggregate(low="min(rate)", high="max(rate)", groupby=["subject"])
        .mark_rule(strokeWidth=4, color="@grid", strokeCap="round")
        .encode(x=alt.X("low:Q"), x2="high:Q")
    )
    # A ring does not hide a dot inside of it, which means that nginx cost nothing.
    ring = rows.transform_filter("datum.way === 'none'").mark_point(size=200, strokeWidth=2)
    dots = rows.transform_filter("datum.way !== 'none'").mark_point(filled=True, size=90, opacity=1)
    both = (dots.encode(colour), ring.encode(straight))
    marks = [mark.encode(x=x, tooltip="id:N") for mark in both]
    return base.with_rows(subjects, span, *marks)


# ---- CPU per request of the seven servers and of the reference servers ----

COLOURS = ("#2F6FB2", "#D55E00", "#009E73", "#C7609A", "#8C6BB1", "#C98A00", "#3A9BD9", "#777777")
TICKS = [n * 10**e for e in range(6) for n in (1, 2, 5)]


def standing(rows: Sequence[Row]) -> base.Spec:
    """Return the chart: a row for each server, a dot for each load, on a logarithmic axis."""
    order = list(dict.fromkeys(str(row["subject"]) for row in rows))
    loads = sorted({str(row["load"]) for row in rows})
    seven = json.dumps([row["subject"] for row in rows if row["kind"] == "server"])
    bold = f"indexof({seven}, datum.value) >= 0"
    axis = base.bare_axis(
        grid=True,
        labelLimit=170,
        labelColor="@ink",
        labelFontWeight={"condition": {"test": bold, "value": "bold"}, "value": "normal"},
    )
    cost = base.bare_axis(values=TICKS, format=",~r", labelOverlap="greedy")
    colours = alt.Scale(domain=loads, range=[COLOURS[i % 8] for i in range(len(loads))])
    shapes = alt.Scale(domain=["server", "reference"], range=["diamond", "circle"])
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
            color=alt.Color("load:N", scale=colours, legend=base.legend_above(2, 1, "circle")),
            shape=alt.Shape("kind:N", scale=shapes, legend=None),
            tooltip="said:N",
        )
    )
    return base.finish(alt.layer(marks), alt.Step(24))
