# SPDX-License-Identifier: MIT
"""Several instances behind nginx, and one instance with and without it."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from bench.records.conditions import THROUGH
from bench.report.charts import base
from bench.report.study.study import Subject

OF_FAMILY = "indexof(datum.s, scenario) >= 0"


def scaling(
    subjects: Sequence[Subject], counts: Sequence[int], way: str, parameters: list[Any]
) -> dict[str, Any]:
    """Rates over instances, with the ideal of each subject: so many times the rate of one."""
    filters = (OF_FAMILY, base.SHOWN, base.AT_LEVEL, f"datum.way === '{way}'")
    rows = base.named("instances", *filters)
    axis = alt.Axis(values=list(counts), format="d", grid=False, tickSize=4)
    scale = alt.Scale(nice=False, padding=18)
    x = alt.X("n:Q", title="instances of the server", scale=scale, axis=axis)
    y = alt.Y("rate:Q", **base.value_axis("requests per second"))
    ideal = (
        rows.transform_filter("isValid(datum.ideal)")
        .mark_line(strokeDash=[2, 4], strokeWidth=1.4, opacity=0.6)
        .encode(x=x, y=alt.Y("ideal:Q"), color=base.colour(subjects))
    )
    spread = (
        rows.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=4, opacity=0.25, strokeCap="round")
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=base.colour(subjects))
    )
    line = rows.mark_line(strokeWidth=2.2).encode(x=x, y=y, color=base.colour(subjects))
    points = rows.encode(x=x, y=y, color=base.colour(subjects), shape=base.shape(subjects))
    bound = rows.transform_filter("datum.bound").encode(x=x, y=y, color=base.colour(subjects))
    feel = rows.mark_point(size=base.HIT, opacity=0, filled=True)
    return base.finish(
        alt.layer(
            ideal,
            spread,
            line,
            points.transform_filter("!datum.bound").mark_point(filled=True, size=60, opacity=1),
            points.transform_filter("datum.bound").mark_point(size=70, strokeWidth=2, opacity=1),
            bound.mark_text(dy=-13, fontSize=12).encode(text=alt.value("≥")),
            feel.encode(x=x, y=y, tooltip="id:N"),
        ).add_params(*parameters),
        height=340,
    )


def through(subjects: Sequence[Subject], parameters: list[Any]) -> dict[str, Any]:
    """One instance: straight, and through nginx with connections to it kept or not."""
    filters = (OF_FAMILY, base.SHOWN, base.AT_LEVEL, "datum.n === 1")
    rows = base.named("instances", *filters)
    axis = alt.Axis(domain=False, ticks=False, tickCount=5, format=",~r")
    x = alt.X("rate:Q", title="requests per second", axis=axis, scale=alt.Scale(zero=True))
    ways = ("none", "keep", "close")
    colour = alt.Color(
        "way_said:N",
        scale=alt.Scale(domain=[THROUGH[w] for w in ways], range=["@ink", "@user", "@floor"]),
        legend=base.legend_above(1, 1, "circle"),
    )
    span = (
        rows.transform_aggregate(low="min(rate)", high="max(rate)", groupby=["subject"])
        .mark_rule(strokeWidth=4, color="@grid", strokeCap="round")
        .encode(x=alt.X("low:Q"), x2="high:Q")
    )
    # A ring, so that a dot in it is seen: there nginx cost nothing.
    ring = rows.transform_filter("datum.way === 'none'").mark_point(size=200, strokeWidth=2)
    dots = rows.transform_filter("datum.way !== 'none'").mark_point(filled=True, size=90, opacity=1)
    marks = [mark.encode(x=x, color=colour, tooltip="id:N") for mark in (dots, ring)]
    layers = alt.layer(span, *marks).encode(y=base.subject_rows(subjects))
    return base.finish(layers.add_params(*parameters), height=alt.Step(base.ROW))
