# SPDX-License-Identifier: MIT
"""What all charts are made of."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import altair as alt

from bench.records.json_file import Json
from bench.report.charts import style
from bench.report.study.study import StudySubject

Spec: TypeAlias = dict[str, Json]
"""A chart as Vega-Lite reads it."""

HEIGHT = 380
ROW = 30
"""Height of a row in charts with one row for each subject."""
HIT = 450
"""Area in which a point feels the pointer, many times that of the point."""

ROUND_MS = [n * 10.0**e for e in range(-2, 6) for n in (1, 1.5, 2, 3, 5, 7)]
"""Ticks of a logarithmic axis of times."""

NARROW = 480
"""A plot that is no wider, in pixels, is one on a phone."""

PARAMETERS: Spec = {"hidden": [], "then2019": False, "scaled2019": False}
"""What the page's controls set, beside scenario and level; as it is at first."""
SHOWN = "indexof(hidden, datum.subject) < 0"
OF_SCENARIO = "datum.s === scenario"
AT_LEVEL = "datum.level === level"


def named(data: str, *filters: str) -> alt.Chart:
    """A chart on one of the named data, filtered."""
    chart = alt.Chart(alt.NamedData(data))
    for expression in filters:
        chart = chart.transform_filter(expression)
    return chart


def colour(subjects: Sequence[StudySubject]) -> alt.Color:
    """By subject."""
    return alt.Color("subject:N", scale=_scale(subjects, tokens(subjects)), legend=_legend())


def shape(subjects: Sequence[StudySubject]) -> alt.Shape:
    """By subject."""
    scale = _scale(subjects, style.subject_shapes(subjects))
    return alt.Shape("subject:N", scale=scale, legend=_legend())


def dash(subjects: Sequence[StudySubject]) -> alt.StrokeDash:
    """By subject: servers solid, strangers dashed, floors dotted."""
    dashes = [style.DASHES.get(s.kind, [1, 0]) for s in subjects]
    return alt.StrokeDash("subject:N", scale=_scale(subjects, dashes), legend=_legend())


ScaleKind = Literal["linear", "log"]


def levels_axis(levels: Sequence[int]) -> alt.X:
    """Concurrent connections, logarithmic; a tick for each level that was measured."""
    axis = alt.Axis(values=list(levels), format=",d", labelOverlap="greedy", grid=False, tickSize=4)
    return alt.X(
        "level:Q",
        title="concurrent connections",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=axis,
    )


def value_axis(key: str, title: str, kind: ScaleKind = "linear", number: str = ",~r") -> alt.Y:
    """A vertical axis whose title lies above it, where it is read first."""
    axis = alt.Axis(
        format=number,
        tickCount=6,
        domain=False,
        ticks=False,
        titleAngle=0,
        titleAlign="left",
        titleAnchor="start",
        titleX=-34,
        titleY=-14,
    )
    return alt.Y(f"{key}:Q", title=title, scale=alt.Scale(type=kind, nice=True), axis=axis)


def times_axis() -> alt.X:
    """Milliseconds from left to right, logarithmic, from half of the requests on."""
    axis = alt.Axis(domain=False, ticks=False, format=",~r", labelOverlap="greedy", values=ROUND_MS)
    scale = alt.Scale(type="log", nice=False, padding=12)
    return alt.X("p50:Q", title="milliseconds, logarithmic", axis=axis, scale=scale)


def bars_axis() -> alt.Axis:
    """Of bars and dots from left to right."""
    return alt.Axis(domain=False, ticks=False, tickCount=5, format=",~r")


def subject_rows(subjects: Sequence[StudySubject]) -> alt.Y:
    """A row for each subject."""
    axis = alt.Axis(domain=False, ticks=False, labelColor="@ink", labelLimit=130)
    return alt.Y("subject:N", sort=[s.name for s in subjects], title=None, axis=axis)


def finish(
    chart: alt.LayerChart | alt.FacetChart, height: int | alt.Step = HEIGHT, top: int = 24
) -> Spec:
    """The chart as a specification, with so many pixels above. How wide it is says the place where
    it is put."""
    whole = chart.properties(
        height=height,
        padding={"left": 2, "right": 8, "top": top, "bottom": 4},
        background="transparent",
    )
    spec: Spec = whole.to_dict()
    return {k: v for k, v in spec.items() if k not in ("$schema", "config", "datasets")}


def one_row() -> alt.Chart:
    """A chart on no data: for a single rule."""
    return alt.Chart(alt.SequenceGenerator(alt.SequenceParams(start=0, stop=1)))


def chosen(spec: Spec, scenario: str, level: int) -> Spec:
    """A specification with its parameters, as the page's controls set them."""
    values = {"scenario": scenario, "level": level, **PARAMETERS}
    return spec | {"params": [{"name": name, "value": value} for name, value in values.items()]}


def legend_above(columns: int, narrow: int, symbol: str) -> alt.Legend:
    """A legend above the chart, in so many columns; in fewer of them on a phone."""
    return alt.Legend(
        title=None,
        orient="top",
        symbolType=symbol,
        columns=alt.ExprRef(f"width < {NARROW} ? {narrow} : {columns}"),
        labelFontSize=alt.ExprRef(f"width < {NARROW} ? 10 : 12"),
        labelLimit=340,
        labelExpr=f"width < {NARROW} ? replace(datum.label, regexp('\\\\(.*'), '') : datum.label",
    )


def tokens(subjects: Sequence[StudySubject]) -> list[str]:
    """The names of the subjects' colours."""
    return [f"@c{i}" for i in range(len(subjects))]


def _scale(subjects: Sequence[StudySubject], values: Sequence[str | list[int]]) -> alt.Scale:
    return alt.Scale(domain=[s.name for s in subjects], range=list(values))


def _legend() -> alt.Legend:
    """Shown in exported pictures. The page has its own, of buttons, for all charts at once."""
    return alt.Legend(title=None, orient="right", symbolType="circle", aria=False)
