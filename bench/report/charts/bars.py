# SPDX-License-Identifier: MIT
"""Charts with a row for each server, at one level: bars in two parts, and percentiles."""

import json
from collections.abc import Sequence

import altair as alt

from bench.records.metrics import BY_KEY, PERCENTILES
from bench.report.charts import base
from bench.report.study.study import WAYS, StudySubject

ROOM_FOR_TEXT = f"(width < {base.NARROW} ? 2.8 : 1.5)"
"""The length of the axis relative to the longest bar: there is text behind the bar."""


def _words(column: str) -> str:
    """Return the expression of a text that breaks at three spaces if the chart is narrow."""
    return f"width < {base.NARROW} ? split(datum.{column}, '   ') : datum.{column}"


def _two_parts(
    parts: dict[str, str], colours: Sequence[str], title: str, whole: str
) -> tuple[alt.Chart, alt.Chart]:
    """Return stacked bars of {column: name}, and the chart that they are made from.

    A bar ends at the column `whole`, because the sum of the parts' medians may differ from it.
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
            x=alt.X("value:Q", stack="zero", title=title, axis=base.bars_axis()),
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


def cpu(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return CPU per request, user and system, with the baseline of the same architecture."""
    parts = {"cpu_user": "user: its own code", "cpu_system": "system: the kernel"}
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
    )


def order(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return the ranking: requests per second of each server, and the range of the runs. Rates that
    were calculated and not measured are hollow."""
    rows = base.named("order", base.OF_SCENARIO, base.SHOWN)
    names = [s for s in subjects if s.kind != "floor"]
    axis = alt.Axis(domain=False, ticks=False, labelColor="@ink", labelLimit=130)
    best_first = alt.EncodingSortField("value", op="max", order="descending")
    y = alt.Y("subject:N", sort=best_first, title=None, axis=axis)
    title = ["requests per second", "hollow: calculated, not measured"]
    x = alt.X("value:Q", title=title, axis=base.bars_axis())
    hollow = alt.condition("datum.by === 'cpu'", alt.value(0.12), alt.value(1))
    bars = rows.mark_bar(height={"band": 0.62}, cornerRadius=1.5, strokeWidth=1.5)
    colours = alt.Scale(domain=[s.name for s in subjects], range=base.tokens(subjects))
    colour = alt.Color("subject:N", scale=colours, legend=None)
    layers = (
        bars.encode(x=x, color=colour, stroke=colour, fillOpacity=hollow, tooltip="why:N"),
        rows.mark_rule(color="@ink", strokeWidth=1.5).encode(x="low:Q", x2="high:Q"),
        rows.transform_calculate(end=f"datum.high * {ROOM_FOR_TEXT}")
        .mark_point(opacity=0)
        .encode(x="end:Q"),
        rows.transform_calculate(words=_words("said"))
        .mark_text(align="left", dx=7)
        .encode(x="high:Q", text="words:N"),
    )
    chart = alt.layer(*(layer.encode(y=y) for layer in layers))
    return base.finish(chart, height=base.ROW * len(names))


def switches(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return context switches per request, voluntary and involuntary."""
    parts = {
        "switches_voluntary": "voluntary: it blocks",
        "switches_involuntary": "involuntary: preempted",
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
    )


def percentiles(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return latency: a row of percentiles for each server, on a logarithmic axis."""
    rows = base.named("cells", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL, "isValid(datum.p50)")
    names = [BY_KEY[key].label for key in PERCENTILES]
    labels = " ".join(f"datum.part === '{k}' ? '{BY_KEY[k].label}' :" for k in PERCENTILES)
    x = base.times_axis()
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
    return _rows(subjects, [span, dots])


def _rows(subjects: Sequence[StudySubject], layers: Sequence[alt.Chart]) -> base.Spec:
    y = base.subject_rows(subjects)
    chart = alt.layer(*(layer.encode(y=y) for layer in layers))
    return base.finish(chart, height=alt.Step(base.ROW))


# ---- The levels that each server passes, with the process at its limit: a tile for each ----

STATUS = {
    "server": ("@server", ""),
    "held": ("@held", ""),
    "load generator": ("@load", "≥"),
    "Redis": ("@redis", "R"),
    "nginx": ("@nginx", "N"),
    "failed": ("@failed", "×"),
    "skipped": ("@skipped", "–"),
}
"""Status of a configuration -> colour and sign. The sign makes it readable without colour."""
LEGEND = {
    "server": "held, server at its limit",
    "held": "held",
    "load generator": "≥ held, load generator at its limit",
    "Redis": "R held, Redis at its limit",
    "nginx": "N held, nginx at its limit",
    "failed": "× failed",
    "skipped": "– not tried",
}


def holding(
    subjects: Sequence[StudySubject], levels: Sequence[int], seen: Sequence[str]
) -> base.Spec:
    """Return the strip. `seen` are the states in the results; the legend has no others."""
    kinds = [status for status in STATUS if status in seen]
    named = " ".join(f"datum.status === '{s}' ? '{LEGEND[s]}' :" for s in kinds)
    signs = " ".join(f"datum.status === '{s}' ? '{STATUS[s][1]}' :" for s in kinds)
    cells = (
        base.named("cells", base.OF_SCENARIO, base.SHOWN)
        .transform_calculate(named=f"{named} ''", sign=f"{signs} ''")
        .encode(
            x=alt.X(
                "level:O",
                sort=list(levels),
                title="concurrent connections",
                axis=alt.Axis(
                    labelExpr="format(datum.value, ',')",
                    labelAngle=-45 if len(levels) > 8 else 0,
                    labelOverlap="greedy",
                    domain=False,
                    ticks=False,
                ),
            ),
            y=base.subject_rows(subjects),
            tooltip="id:N",
        )
    )
    tiles = cells.mark_rect(stroke="@paper", strokeWidth=2, cornerRadius=3).encode(
        color=alt.Color(
            "named:N",
            scale=alt.Scale(domain=[LEGEND[s] for s in kinds], range=[STATUS[s][0] for s in kinds]),
            legend=base.legend_above(3, 1, "square"),
        )
    )
    signed = cells.mark_text(fontWeight="bold").encode(text="sign:N")
    return base.finish(alt.layer(tiles, signed), height=alt.Step(base.ROW))


# ---- Latencies of the closed and the open loop side by side ----


def loops() -> base.Spec:
    """Return a group of rows for each server, one per loop, from the median to p99."""
    rows = base.named("loops", base.OF_SCENARIO, base.SHOWN)
    rows = rows.transform_calculate(who="datum.subject + '|' + datum.asked")
    colour = alt.Color(
        "way:N",
        scale=alt.Scale(domain=list(WAYS), range=["@soft", "@p90", "@floor"]),
        legend=base.legend_above(3, 1, "circle"),
    )
    broken = "split(datum.label, '|')"
    axis = alt.Axis(domain=False, ticks=False, labelLimit=150, labelExpr=broken)
    y = alt.Y("who:N", title=None, axis=axis)
    offset = alt.YOffset("way:N", sort=list(WAYS))
    x = base.times_axis()
    chart = rows.encode(y=y, yOffset=offset, color=colour, tooltip="said:N")
    return base.finish(
        alt.layer(
            chart.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="p99:Q"),
            chart.mark_point(filled=True, size=35, opacity=1).encode(x=x),
            chart.mark_point(filled=True, size=110, opacity=1).encode(x="p99:Q"),
        ),
        height=alt.Step(20),
    )


# ---- The cost of each server relative to its baseline, by workload ----


def floors(subjects: Sequence[StudySubject], labels: Sequence[str]) -> base.Spec:
    """Return a table of ratios with a column for each workload and a row for each server."""
    rows = base.named("floors", base.SHOWN)
    axis = alt.Axis(
        domain=False,
        ticks=False,
        labelAngle=0,
        labelColor="@ink",
        labelExpr="split(datum.label, ' ')",
        labelOverlap=False,
        labelFontSize=alt.ExprRef(f"width < {base.NARROW} ? 10 : 12"),
    )
    cells = rows.encode(
        x=alt.X("workload:N", sort=list(labels), title=None, axis=axis),
        y=base.subject_rows([s for s in subjects if s.kind != "floor"]),
    )
    tiles = cells.mark_rect(color="@floor", cornerRadius=3, stroke="@paper", strokeWidth=2)
    shade = alt.Opacity(
        "ratio:Q",
        scale=alt.Scale(type="log", domain=[1, 8], range=[0.06, 0.6], clamp=True),
        legend=None,
    )
    return base.finish(
        alt.layer(
            tiles.encode(opacity=shade, tooltip="said:N"),
            cells.mark_text(fontSize=13).encode(text="ratio_said:N", tooltip="said:N"),
        ),
        height=alt.Step(base.ROW),
    )


# ---- What each host did: a column for each, a row for each server, at one level ----

ROOM = f"(width < {base.NARROW} ? 0.45 : 0.62)"
"""Width of a bar for all of a host's CPU; 1 is the whole column."""
NAMES = ("CPU used, share of its limit", "throttled, share of periods")
ROOM_FOR_NAMES = 70
"""Names of hosts are rotated if a column has fewer pixels."""


def hosts(subjects: Sequence[StudySubject], names: Sequence[str]) -> base.Spec:
    """Return the CPU use of the hosts `names`, from left to right."""
    rows = base.named("hosts", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL).transform_calculate(
        end=f"datum.place + {ROOM} * min(datum.share, 1.1)",
        stopped=f"datum.place + {ROOM} * datum.throttled",
        whole=f"datum.place + {ROOM}",
        used=f"'{NAMES[0]}'",
        held_up=f"'{NAMES[1]}'",
        percent=f"format(100 * datum.share, '.0f') + (width < {base.NARROW} ? '' : ' %')",
    )
    axis = alt.Axis(
        values=[index + 0.02 for index in range(len(names))],
        labelExpr=f"{json.dumps(list(names))}[floor(datum.value)]",
        labelAlign="left",
        labelColor="@ink",
        labelOverlap=False,
        labelAngle=alt.ExprRef(f"width < {ROOM_FOR_NAMES * len(names)} ? -35 : 0"),
        labelBaseline="bottom",
        labelFontSize=alt.ExprRef(f"width < {base.NARROW} ? 11 : 12"),
        orient="top",
        grid=False,
        domain=False,
        ticks=False,
    )
    scale = alt.Scale(domain=[0, len(names)], nice=False, zero=True)
    x = alt.X("place:Q", title=None, scale=scale, axis=axis)
    colour = alt.Scale(domain=list(NAMES), range=["@user", "@floor"])
    legend = base.legend_above(2, 1, "square")
    full = rows.mark_bar(color="@grid", height=16, yOffset=-4, cornerRadius=1.5)
    used = rows.mark_bar(height=16, yOffset=-4, cornerRadius=1.5)
    stopped = rows.mark_bar(height=5, yOffset=9, cornerRadius=1.5)
    end = alt.X("whole:Q")  # behind the longest bar, so that figures are aligned
    plain, bold = (rows.transform_filter(who) for who in ("!datum.limit", "datum.limit"))
    return base.finish(
        alt.layer(
            full.encode(x=x, x2="whole:Q", tooltip="id:N"),
            used.encode(
                x=x,
                x2="end:Q",
                color=alt.Color("used:N", scale=colour, legend=legend),
                tooltip="id:N",
            ),
            stopped.encode(x=x, x2="stopped:Q", color=alt.Color("held_up:N", scale=colour)),
            plain.mark_text(align="left", dx=5, dy=-4).encode(end, text="percent:N"),
            bold.mark_text(align="left", dx=5, dy=-4, fontWeight="bold").encode(
                end, text="percent:N"
            ),
            rows.mark_text(align="left", dx=5, dy=9, color="@floor", fontWeight="bold").encode(
                end, text="sign:N", tooltip="id:N"
            ),
        ).encode(y=base.subject_rows(subjects)),
        height=alt.Step(40),
        top=44,  # also enough for rotated names
    )
