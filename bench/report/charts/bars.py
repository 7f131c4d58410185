# SPDX-License-Identifier: MIT
"""Charts with a row for each subject, at one level: bars in two parts, and percentiles."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from bench.report.charts import base
from bench.report.study.metrics import BY_KEY, PERCENTILES
from bench.report.study.study import Subject

ROOM_FOR_TEXT = 1.45
"""The axis goes so much further than the longest bar, for the words behind it."""


def _two_parts(
    parts: dict[str, str], colours: Sequence[str], title: str, whole: str
) -> tuple[alt.Chart, alt.Chart]:
    """Stacked bars of {column: name}, and the chart that they are made from.

    `whole`: the column at which a bar ends, for the medians of parts need not add up to it.
    """
    known = f"isValid(datum.{whole})"
    rows = base.named("cells", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL, known)
    total = " + ".join(f"datum.{column}" for column in parts)
    names = " ".join(f"datum.part === '{c}' ? '{n}' :" for c, n in parts.items())
    order = " ".join(f"datum.part === '{c}' ? {i} :" for i, c in enumerate(parts))
    bars = (
        rows.transform_fold(list(parts), as_=["part", "value"])
        .transform_calculate(
            named=f"{names} ''",
            rank=f"{order} 9",
            value=f"datum.value * datum.{whole} / max({total}, 1e-9)",
        )
        .mark_bar(height={"band": 0.62}, cornerRadius=1.5)
        .encode(
            x=alt.X("value:Q", stack="zero", title=title, axis=_axis()),
            color=alt.Color(
                "named:N",
                scale=alt.Scale(domain=list(parts.values()), range=list(colours)),
                legend=base.legend_above(2, 1, "square"),
            ),
            order=alt.Order("rank:Q"),
            tooltip="id:N",
        )
    )
    return bars, rows


def _axis() -> alt.Axis:
    return alt.Axis(domain=False, ticks=False, tickCount=5, format=",~r")


def cpu(subjects: Sequence[Subject], parameters: list[Any]) -> dict[str, Any]:
    """CPU per request, user and system, against the floor of the same architecture."""
    parts = {"cpu_user": "user: its own code", "cpu_system": "system: the kernel for it"}
    title = "CPU time per request, µs"
    bars, rows = _two_parts(parts, ("@user", "@system"), title, "cpu")
    servers = "datum.kind !== 'floor'"
    floor = (
        rows.transform_filter("isValid(datum.floor_cpu)")
        .mark_tick(color="@floor", thickness=3, height={"band": 0.9}, opacity=1)
        .encode(x="floor_cpu:Q", tooltip="id:N")
    )
    longer = "max(datum.cpu, isValid(datum.floor_cpu) ? datum.floor_cpu : 0)"
    said = rows.transform_filter(servers).transform_calculate(behind=longer)
    room = said.transform_calculate(end=f"datum.behind * {ROOM_FOR_TEXT}")
    return _rows(
        subjects,
        [
            bars.transform_filter(servers),
            floor,
            room.mark_point(opacity=0).encode(x="end:Q"),
            said.mark_text(align="left", dx=7).encode(x="behind:Q", text="cpu_said:N"),
        ],
        parameters,
    )


def order(subjects: Sequence[Subject], parameters: list[Any]) -> dict[str, Any]:
    """Who comes first: requests per second of each, and the range of the runs. What was worked out
    and not measured is drawn hollow."""
    rows = base.named("order", base.OF_SCENARIO, base.SHOWN)
    names = [s for s in subjects if s.kind != "floor"]
    axis = alt.Axis(domain=False, ticks=False, labelColor="@ink", labelLimit=130)
    best_first = alt.EncodingSortField("value", op="max", order="descending")
    y = alt.Y("subject:N", sort=best_first, title=None, axis=axis)
    title = "requests per second; hollow: worked out, not measured"
    x = alt.X("value:Q", title=title, axis=_axis())
    hollow = alt.condition("datum.by === 'cpu'", alt.value(0.12), alt.value(1))
    bars = rows.mark_bar(height={"band": 0.62}, cornerRadius=1.5, strokeWidth=1.5)
    colours = alt.Scale(domain=[s.name for s in subjects], range=base.tokens(subjects))
    colour = alt.Color("subject:N", scale=colours, legend=None)
    layers = (
        bars.encode(x=x, color=colour, stroke=colour, fillOpacity=hollow, tooltip="why:N"),
        rows.mark_rule(color="@ink", strokeWidth=1.5).encode(x="low:Q", x2="high:Q"),
        rows.transform_calculate(
            end=f"datum.high * (width < {base.NARROW} ? 2.3 : {ROOM_FOR_TEXT})"
        )
        .mark_point(opacity=0)
        .encode(x="end:Q"),
        rows.mark_text(align="left", dx=7).encode(x="high:Q", text="said:N"),
    )
    chart = alt.layer(*(layer.encode(y=y) for layer in layers)).add_params(*parameters)
    return base.finish(chart, height=base.ROW * len(names))


def switches(subjects: Sequence[Subject], parameters: list[Any]) -> dict[str, Any]:
    """Context switches per request, those it wanted and those it did not."""
    parts = {
        "switches_voluntary": "voluntary: it waits",
        "switches_involuntary": "involuntary: it must stop",
    }
    title = "context switches per request"
    bars, rows = _two_parts(parts, ("@user", "@system"), title, "switches")
    room = rows.transform_calculate(end=f"datum.switches * {ROOM_FOR_TEXT}")
    return _rows(
        subjects,
        [
            bars,
            room.mark_point(opacity=0).encode(x="end:Q"),
            rows.mark_text(align="left", dx=7).encode(x="switches:Q", text="switches_said:N"),
        ],
        parameters,
    )


def percentiles(subjects: Sequence[Subject], parameters: list[Any]) -> dict[str, Any]:
    """How long requests took: a row of percentiles for each subject, on a logarithmic axis."""
    rows = base.named("cells", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL, "isValid(datum.p50)")
    names = [BY_KEY[key].label for key in PERCENTILES]
    labels = " ".join(f"datum.part === '{k}' ? '{BY_KEY[k].label}' :" for k in PERCENTILES)
    x = base.times_axis("p50:Q", "milliseconds, logarithmic")
    span = rows.mark_rule(strokeWidth=5, color="@grid", strokeCap="round").encode(x=x, x2="max:Q")
    dots = (
        rows.transform_fold(list(PERCENTILES), as_=["part", "value"])
        .transform_filter("isValid(datum.value)")
        .transform_calculate(named=f"{labels} ''")
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=alt.X("value:Q"),
            color=alt.Color(
                "named:N",
                scale=alt.Scale(domain=names, range=[f"@{key}" for key in PERCENTILES]),
                legend=base.legend_above(5, 3, "circle"),
            ),
            tooltip="id:N",
        )
    )
    return _rows(subjects, [span, dots], parameters)


def _rows(
    subjects: Sequence[Subject], layers: Sequence[alt.Chart], parameters: list[Any]
) -> dict[str, Any]:
    y = base.subject_rows(subjects)
    chart = alt.layer(*(layer.encode(y=y) for layer in layers)).add_params(*parameters)
    return base.finish(chart, height=alt.Step(base.ROW))
