# SPDX-License-Identifier: MIT
"""Curves over the number of connections, and over other conditions."""

import json
from collections.abc import Container, Sequence

import altair as alt

from bench.records.conditions import THROUGH
from bench.records.metrics import BY_KEY
from bench.report.charts import base
from bench.report.study.study import StudySubject


def over_levels(
    subjects: Sequence[StudySubject],
    levels: Sequence[int],
    key: str,
    title: str,
    kind: base.ScaleKind = "linear",
) -> base.Spec:
    """Return one kind of figure over connections, with spread, lower bounds and gaps."""
    return base.finish(alt.layer(*_layers(subjects, levels, key, title, kind)))


def rates(subjects: Sequence[StudySubject], levels: Sequence[int]) -> base.Spec:
    """Return requests per second over connections, optionally with the curves of 2019."""
    then = (
        base.named("paper", "then2019", base.OF_SCENARIO, base.SHOWN)
        .transform_calculate(value="scaled2019 ? datum.scaled : datum.then")
        .mark_line(strokeDash=[3, 4], strokeWidth=1.5, opacity=0.65)
        .encode(
            x=base.levels_axis(levels),
            y=base.value_axis("value", "requests per second"),
            color=base.colour(subjects),
        )
    )
    now = _layers(subjects, levels, "rate", "requests per second", "linear")
    return base.finish(alt.layer(then, *now), 430)


def _layers(
    subjects: Sequence[StudySubject],
    levels: Sequence[int],
    key: str,
    title: str,
    kind: base.ScaleKind,
) -> list[alt.Chart]:
    cells = base.named("cells", base.OF_SCENARIO, base.SHOWN)
    x = base.levels_axis(levels)
    y = base.value_axis(key, title, kind)
    known = f"isValid(datum.{key})"
    line = cells.mark_line(strokeWidth=2.2, strokeJoin="round").encode(
        x=x, y=y, color=base.colour(subjects), strokeDash=base.dash(subjects)
    )
    spread = (
        cells.transform_filter(f"isValid(datum.{key}_low)")
        .mark_rule(strokeWidth=4, opacity=0.25, strokeCap="round")
        .encode(x=x, y=alt.Y(f"{key}_low:Q", title=title), y2=f"{key}_high:Q")
        .encode(color=base.colour(subjects))
    )
    points = cells.transform_filter(known).encode(x=x, y=y, color=base.colour(subjects))
    lower = "datum.bound" if key == "rate" else "false"  # it concerns no other figure
    feel = (
        cells.transform_filter(known)
        .mark_point(size=base.HIT, opacity=0, filled=True)
        .encode(x=x, y=y, tooltip="id:N")
    )
    return [spread, line, *_dots(points, subjects, lower), feel]


def _dots(points: alt.Chart, subjects: Sequence[StudySubject], lower: str) -> list[alt.Chart]:
    """Return the measured points. Lower bounds are hollow, with ≥ above."""
    shaped, bounds = points.encode(shape=base.shape(subjects)), points.transform_filter(lower)
    return [
        shaped.transform_filter(f"!({lower})").mark_point(filled=True, size=55, opacity=1),
        shaped.transform_filter(lower).mark_point(size=70, strokeWidth=2, opacity=1),
        bounds.mark_text(dy=-13, fontSize=12).encode(text=alt.value("≥")),
    ]


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
    dots = _dots(chart, subjects, "datum.bound")
    feel = chart.mark_point(size=base.HIT, opacity=0, filled=True).encode(tooltip="said:N")
    return base.finish(alt.layer(line, *dots, feel))


def law(subjects: Sequence[StudySubject], levels: Sequence[int]) -> base.Spec:
    """Return the curves of the fitted law with the measured points."""
    x = base.levels_axis(levels)
    y = base.value_axis("rate", "requests per second")
    curve = base.named("law", base.OF_SCENARIO, base.SHOWN).mark_line(strokeWidth=1.8)
    point = base.named("law_points", base.OF_SCENARIO, base.SHOWN)
    return base.finish(
        alt.layer(
            curve.encode(x=x, y=y, color=base.colour(subjects)),
            point.mark_point(filled=True, size=50, opacity=1).encode(
                x=x, y=y, color=base.colour(subjects), shape=base.shape(subjects)
            ),
        ),
        height=300,
    )


def residuals(subjects: Sequence[StudySubject], levels: Sequence[int]) -> base.Spec:
    """Return the residual of each point, relative to its measured rate."""
    x = base.levels_axis(levels)
    rows = base.named("law_points", base.OF_SCENARIO, base.SHOWN)
    title = "residual: (measured - fitted) / measured"
    y = base.value_axis("residual", title, number="+.0%")
    zero = base.one_row().mark_rule(color="@soft").encode(y=alt.datum(0))
    return base.finish(
        alt.layer(
            zero,
            rows.mark_line(strokeWidth=1, opacity=0.5).encode(x, y, base.colour(subjects)),
            rows.mark_point(filled=True, size=45, opacity=1).encode(
                x, y, base.colour(subjects), base.shape(subjects)
            ),
        ),
        height=170,
    )


# ---- Several instances behind nginx, and one instance with and without it ----

OF_FAMILY = "indexof(datum.s, scenario) >= 0"


def scaling(subjects: Sequence[StudySubject], counts: Sequence[int], way: str) -> base.Spec:
    """Return rates over instances, with the ideal: n times the rate of one instance."""
    filters = (OF_FAMILY, base.SHOWN, base.AT_LEVEL, f"datum.way === '{way}'")
    rows = base.named("instances", *filters)
    axis = alt.Axis(values=list(counts), format="d", grid=False, tickSize=4)
    scale = alt.Scale(nice=False, padding=18)
    x = alt.X("n:Q", title="instances of the server", scale=scale, axis=axis)
    y = base.value_axis("rate", "requests per second")
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
    colours = {THROUGH[w]: c for w, c in (("keep", "@user"), ("close", "@floor")) if w in ways}
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
    layers = alt.layer(span, *marks).encode(y=base.subject_rows(subjects))
    return base.finish(layers, height=alt.Step(base.ROW))
