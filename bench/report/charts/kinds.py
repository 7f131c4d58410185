# SPDX-License-Identifier: MIT
"""The kinds of charts: curves, and charts with a row for each server."""

import json
from collections.abc import Container, Sequence

import altair as alt

from bench.records.conditions import way_in_words
from bench.records.figures import Balancer
from bench.records.points import BY_KEY, PERCENTILES
from bench.report.charts import base
from bench.report.charts.rows import STATUS
from bench.report.study import WAYS, Row, StudySubject


def over_levels(
    subjects: Sequence[StudySubject],
    levels: Sequence[int],
    key: str,
    title: str,
    kind: base.ScaleKind = "linear",
) -> base.Spec:
    """Return a chart of one figure over the number of connections, with spread and lower bounds.
    The reader can add the curves of 2019 to the rates."""
    x, y = base.levels_axis(levels), base.value_axis(key, title, kind)
    cells = base.named("cells", base.OF_SCENARIO, base.SHOWN)
    layers = _curves(cells, subjects, key, x, y)
    if key != "rate":
        return base.finish(alt.layer(*layers))
    then = base.named("paper", "then2019", base.OF_SCENARIO, base.SHOWN)
    then = then.transform_calculate(value="scaled2019 ? datum.scaled : datum.then")
    then = then.mark_line(strokeDash=[3, 4], strokeWidth=1.5, opacity=0.65)
    then = then.encode(x=x, y=base.value_axis("value", title), color=base.colour(subjects))
    return base.finish(alt.layer(then, *layers), 430)


def _curves(
    rows: alt.Chart, subjects: Sequence[StudySubject], key: str, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """Return the layers of curves: bars from the lowest to the highest run, lines, points, and the
    marks that react to the pointer."""
    known, colour = rows.transform_filter(f"isValid(datum.{key})"), base.colour(subjects)
    lower = "datum.bound" if key == "rate" else "false"  # only rates have lower bounds
    spread = rows.transform_filter(f"isValid(datum.{key}_low)")
    spread = spread.mark_rule(strokeWidth=4, opacity=0.25, strokeCap="round")
    low, high = alt.Y(f"{key}_low:Q", title=y["title"]), f"{key}_high:Q"
    line = rows.mark_line(strokeWidth=2.2, strokeJoin="round")
    return [
        spread.encode(x=x, y=low, y2=high, color=colour),
        line.encode(x=x, y=y, color=colour, strokeDash=base.dash(subjects)),
        *base.dots(known.encode(x=x, y=y, color=colour), subjects, lower),
        base.point_at(known, "id:N", x=x, y=y),
    ]


def over_conditions(
    subjects: Sequence[StudySubject], data: str, labels: dict[str, str], x_title: str, key: str
) -> base.Spec:
    """Return a chart of one figure over a condition: workload, Redis' delay, idle connections.

    `labels`: the label of each condition, in the order from left to right; | separates lines.
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
    dots = base.dots(chart, subjects, "datum.bound")
    return base.finish(alt.layer(line, *dots, base.point_at(chart, "said:N")))


# ---- nginx with several instances, and one instance with and without nginx ----

OF_FAMILY = "datum.family && indexof(datum.family, scenario) >= 0"


def scaling(subjects: Sequence[StudySubject], counts: Sequence[int], way: str) -> base.Spec:
    """Return a chart of rates over instances, with the ideal: n times the rate of one instance."""
    of_way = f"datum.way === '{way}'"
    rows = base.named("cells", OF_FAMILY, base.SHOWN, base.AT_LEVEL, of_way)
    axis = alt.Axis(values=list(counts), format="d", grid=False, tickSize=4)
    scale = alt.Scale(nice=False, padding=18)
    x = alt.X("n:Q", title="instances of the server", scale=scale, axis=axis)
    ideal = rows.transform_filter("isValid(datum.ideal)")
    ideal = ideal.mark_line(strokeDash=[2, 4], strokeWidth=1.4, opacity=0.6)
    ideal = ideal.encode(x=x, y=alt.Y("ideal:Q"), color=base.colour(subjects))
    layers = _curves(rows, subjects, "rate", x, base.value_axis("rate", "requests per second"))
    return base.finish(alt.layer(ideal, *layers), height=340)


def through(subjects: Sequence[StudySubject], ways: Container[str]) -> base.Spec:
    """Return a chart of the rates of one instance: direct, and through nginx with or without
    persistent connections."""
    rows = base.named("cells", OF_FAMILY, base.SHOWN, base.AT_LEVEL, "datum.n === 1")
    scale = alt.Scale(zero=True)
    x = alt.X("rate:Q", title="requests per second", axis=base.bars_axis(), scale=scale)
    legend = base.legend_above(1, 1, "circle")
    looks: tuple[tuple[Balancer, str], ...] = (("keep", "@user"), ("close", "@baseline"))
    colours = {way_in_words(way): colour for way, colour in looks if way in ways}
    colour = base.coloured("way_said", colours, legend)
    below = legend.copy()
    below.orient = "bottom"  # both legends above would be too wide for a phone
    scale_of_ring = alt.Scale(domain=[way_in_words("none")], range=["@ink"])
    straight = alt.Stroke("way_said:N", scale=scale_of_ring, legend=below)
    span = (
        rows.transform_aggregate(low="min(rate)", high="max(rate)", groupby=["subject"])
        .mark_rule(strokeWidth=4, color="@grid", strokeCap="round")
        .encode(x=alt.X("low:Q"), x2="high:Q")
    )
    rates = rows.encode(x=x, tooltip="id:N")
    # The direct rate is a ring, so a dot with the same rate stays visible inside.
    ring = rates.transform_filter("datum.way === 'none'").mark_point(size=200, strokeWidth=2)
    dots = rates.transform_filter("datum.way !== 'none'")
    dots = dots.mark_point(filled=True, size=90, opacity=1)
    return base.with_rows(subjects, span, dots.encode(colour), ring.encode(straight))


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


# ---- A row for each server, at one level: bars in two parts, and percentiles ----

ROOM_FOR_TEXT = f"(width < {base.NARROW} ? 2.8 : 1.5)"
"""The axis is longer than the longest bar by this factor: space for the text next to the bar."""


def _two_parts(parts: dict[str, str], title: str, whole: str) -> tuple[alt.Chart, alt.Chart]:
    """Return the filtered data as a chart without marks, and its bars. `parts`: each column's name.

    A bar ends at the column `whole`, because the sum of the parts' medians may differ from the
    median of the whole.
    """
    known = f"isValid(datum.{whole})"
    rows = base.named("cells", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL, known)
    total = " + ".join(f"datum.{column}" for column in parts)
    bars = rows.transform_fold(list(parts), as_=["part", "value"]).transform_calculate(
        named=base.chosen_by("part", {c: f"'{n}'" for c, n in parts.items()}),
        rank=base.chosen_by("part", {c: str(i) for i, c in enumerate(parts)}, "9"),
        value=f"datum.value * datum.{whole} / max({total}, 1e-9)",
    )
    colours = dict(zip(parts.values(), ("@user", "@system"), strict=True))
    return rows, bars.mark_bar(height={"band": 0.62}, cornerRadius=1.5).encode(
        x=alt.X("value:Q", stack="zero", title=title, axis=base.bars_axis()),
        color=base.coloured("named", colours, base.legend_above(2, 1, "square")),
        order=alt.Order("rank:Q"),
        tooltip="id:N",
    )


def _behind(rows: alt.Chart, column: str, text: str) -> tuple[alt.Chart, alt.Chart]:
    """Return the space to the right of a bar that ends at `column`, and the text in it."""
    room = rows.transform_calculate(end=f"datum.{column} * {ROOM_FOR_TEXT}")
    words = rows.mark_text(align="left", dx=7).encode(x=f"{column}:Q", text=text)
    return room.mark_point(opacity=0).encode(x="end:Q"), words


def cpu(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return the chart of user and system CPU per request, with each server's baseline."""
    parts = {"cpu_user": "user: code of the server", "cpu_system": "system: the kernel"}
    servers = "datum.kind !== 'baseline'"
    rows, bars = _two_parts(parts, "CPU time per request, µs", "cpu")
    baseline = (
        rows.transform_filter("isValid(datum.baseline_cpu)")
        .mark_tick(color="@baseline", thickness=3, height={"band": 0.9}, opacity=1)
        .encode(x="baseline_cpu:Q", tooltip="id:N")
    )
    longer = "max(datum.cpu, isValid(datum.baseline_cpu) ? datum.baseline_cpu : 0)"
    said = rows.transform_filter(servers).transform_calculate(behind=longer)
    bars = bars.transform_filter(servers)
    return base.with_rows(subjects, bars, baseline, *_behind(said, "behind", "cpu_said:N"))


def switches(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return the chart of voluntary and involuntary context switches per request."""
    parts = {
        "switches_voluntary": "voluntary: the server blocks",
        "switches_involuntary": "involuntary: preempted",
    }
    rows, bars = _two_parts(parts, "context switches per request", "switches")
    return base.with_rows(subjects, bars, *_behind(rows, "switches", "switches_said:N"))


def order(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return the chart of the ranking: requests per second of each server, and the range of the
    runs. Calculated rates are hollow."""
    rows = base.named("order", base.OF_SCENARIO, base.SHOWN)
    best_first = alt.EncodingSortField("value", op="max", order="descending")
    y = alt.Y("subject:N", sort=best_first, title=None, axis=base.bare_axis(**base.NAMES))
    title = ["requests per second", "hollow: calculated, not measured"]
    x = alt.X("value:Q", title=title, axis=base.bars_axis())
    hollow = alt.condition("datum.by === 'cpu'", alt.value(0.12), alt.value(1))
    bars = rows.mark_bar(height={"band": 0.62}, cornerRadius=1.5, strokeWidth=1.5)
    colour = base.colour(subjects, legend=False)
    broken = f"width < {base.NARROW} ? split(datum.said, '   ') : datum.said"
    room, _ = _behind(rows, "high", "")
    words = rows.transform_calculate(words=broken).mark_text(align="left", dx=7)
    chart = alt.layer(
        bars.encode(x=x, color=colour, stroke=colour, fillOpacity=hollow, tooltip="why:N"),
        rows.mark_rule(color="@ink", strokeWidth=1.5).encode(x="low:Q", x2="high:Q"),
        room,
        words.encode(x="high:Q", text="words:N"),
    ).encode(y=y)
    return base.finish(chart, height=base.ROW * sum(s.kind != "baseline" for s in subjects))


def percentiles(subjects: Sequence[StudySubject]) -> base.Spec:
    """Return the chart of latency: a row of percentiles for each server."""
    rows = base.named("cells", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL, "isValid(datum.p50)")
    names = {key: BY_KEY[key].label for key in PERCENTILES}
    colours = {name: f"@{key}" for key, name in names.items()}
    span = rows.mark_rule(strokeWidth=5, color="@grid", strokeCap="round")
    dots = (
        rows.transform_fold(list(PERCENTILES), as_=["part", "value"])
        .transform_filter("isValid(datum.value)")
        .transform_calculate(named=base.chosen_by("part", {k: f"'{n}'" for k, n in names.items()}))
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=alt.X("value:Q"),
            color=base.coloured("named", colours, base.legend_above(5, 3, "circle")),
            tooltip="id:N",
        )
    )
    return base.with_rows(subjects, span.encode(x=base.times_axis(), x2="max:Q"), dots)


# ---- Tiles: the status of each server at each level ----


def holding(
    subjects: Sequence[StudySubject], levels: Sequence[int], seen: Sequence[str]
) -> base.Spec:
    """Return the chart of the levels that each server passes. `seen`: the statuses for the
    legend."""
    looks = {status: look for status, look in STATUS.items() if status in seen}
    legend = {status: f"{sign} {words}".strip() for status, (_, sign, words) in looks.items()}
    axis = base.bare_axis(
        labelExpr="format(datum.value, ',')",
        labelAngle=-45 if len(levels) > 8 else 0,
        labelOverlap="greedy",
    )
    cells = (
        base.named("cells", base.OF_SCENARIO, base.SHOWN)
        .transform_calculate(
            named=base.chosen_by("status", {s: f"'{words}'" for s, words in legend.items()}),
            sign=base.chosen_by("status", {s: f"'{sign}'" for s, (_, sign, _) in looks.items()}),
        )
        .encode(
            x=alt.X("level:O", sort=list(levels), title="concurrent connections", axis=axis),
            tooltip="id:N",
        )
    )
    colours = {legend[status]: colour for status, (colour, _, _) in looks.items()}
    colour = base.coloured("named", colours, base.legend_above(3, 1, "square"))
    tiles = cells.mark_rect(stroke="@paper", strokeWidth=2, cornerRadius=3).encode(color=colour)
    signs = cells.mark_text(fontWeight="bold").encode(text="sign:N")
    return base.with_rows(subjects, tiles, signs)


# ---- Latencies of the closed and the open loop side by side ----


def loops() -> base.Spec:
    """Return the chart of the loops: for each server a row per loop, from the median to p99."""
    rows = base.named("loops", base.OF_SCENARIO, base.SHOWN)
    axis = base.bare_axis(labelLimit=150, labelExpr="split(datum.label, '|')")
    colours = dict(zip(WAYS, ("@soft", "@p90", "@baseline"), strict=True))
    x = base.times_axis()
    chart = rows.transform_calculate(who="datum.subject + '|' + datum.asked").encode(
        y=alt.Y("who:N", title=None, axis=axis),
        yOffset=alt.YOffset("way:N", sort=list(WAYS)),
        color=base.coloured("way", colours, base.legend_above(3, 1, "circle")),
        tooltip="said:N",
    )
    layers = (
        chart.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="p99:Q"),
        chart.mark_point(filled=True, size=35, opacity=1).encode(x=x),
        chart.mark_point(filled=True, size=110, opacity=1).encode(x="p99:Q"),
    )
    return base.finish(alt.layer(*layers), height=alt.Step(20))


# ---- The CPU use of the hosts: a column for each host, a row for each server, at one level ----

ROOM = f"(width < {base.NARROW} ? 0.45 : 0.62)"
"""Width of a bar that shows full CPU use; 1 is the width of a column."""
NAMES = ("CPU used, share of its limit", "throttled, share of periods")
ROOM_FOR_NAMES = 70
"""Names of hosts are rotated if a column has fewer pixels."""


def hosts(subjects: Sequence[StudySubject], names: Sequence[str]) -> base.Spec:
    """Return the chart of the CPU use of the hosts `names`, from left to right."""
    rows = base.named("hosts", base.OF_SCENARIO, base.SHOWN, base.AT_LEVEL).transform_calculate(
        end=f"datum.place + {ROOM} * min(datum.share, 1.1)",
        stopped=f"datum.place + {ROOM} * datum.throttled",
        whole=f"datum.place + {ROOM}",
        used=f"'{NAMES[0]}'",
        held_up=f"'{NAMES[1]}'",
        percent=f"format(100 * datum.share, '.0f') + (width < {base.NARROW} ? '' : ' %')",
    )
    axis = base.bare_axis(
        values=[index + 0.02 for index in range(len(names))],
        labelExpr=f"{json.dumps(list(names))}[floor(datum.value)]",
        labelAlign="left",
        labelColor="@ink",
        labelOverlap=False,
        labelAngle=alt.ExprRef(f"width < {ROOM_FOR_NAMES * len(names)} ? -35 : 0"),
        labelBaseline="bottom",
        labelFontSize=base.narrow(11, 12),
        orient="top",
        grid=False,
    )
    scale = alt.Scale(domain=[0, len(names)], nice=False, zero=True)
    x = alt.X("place:Q", title=None, scale=scale, axis=axis)
    colour = alt.Scale(domain=list(NAMES), range=["@user", "@baseline"])
    legend = base.legend_above(2, 1, "square")
    used = rows.mark_bar(height=16, yOffset=-4, cornerRadius=1.5)
    stopped = rows.mark_bar(height=5, yOffset=9, cornerRadius=1.5)
    end = alt.X("whole:Q")  # the end of a full bar: all percentages are written there
    plain = rows.transform_filter("!datum.limit").mark_text(align="left", dx=5, dy=-4)
    bold = rows.transform_filter("datum.limit")
    bold = bold.mark_text(align="left", dx=5, dy=-4, fontWeight="bold")
    sign = rows.mark_text(align="left", dx=5, dy=9, color="@baseline", fontWeight="bold")
    full = rows.mark_bar(color="@grid", height=16, yOffset=-4, cornerRadius=1.5)
    share = alt.Color("used:N", scale=colour, legend=legend)
    return base.with_rows(
        subjects,
        full.encode(x=x, x2="whole:Q", tooltip="id:N"),
        used.encode(x=x, x2="end:Q", color=share, tooltip="id:N"),
        stopped.encode(x=x, x2="stopped:Q", color=alt.Color("held_up:N", scale=colour)),
        plain.encode(end, text="percent:N"),
        bold.encode(end, text="percent:N"),
        sign.encode(end, text="sign:N", tooltip="id:N"),
        step=40,
        top=44,  # also enough for rotated names
    )
