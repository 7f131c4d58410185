# SPDX-License-Identifier: MIT
"""The specification of each chart in Vega-Lite (https://vega.github.io/vega-lite/docs/).

A specification has layers of marks. The data, filters and channels of a specification apply to all
of its layers."""

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from bench.records.conditions import Balancer, way_in_words
from bench.records.points import BY_KEY, PERCENTILES
from bench.report.charts import style
from bench.report.charts.rows import STATUS
from bench.report.study import WAYS, Row, StudySubject

Spec: TypeAlias = dict[str, Any]
"""A specification, or a part of it."""

NARROW = "width < 480"
"""An expression: true if the plot is so narrow (in pixels) that it has the layout for a phone."""
SHOWN = "indexof(hidden, datum.subject) < 0"
OF_SCENARIO = "datum.s === scenario"
OF_FAMILY = "datum.family && indexof(datum.family, scenario) >= 0"
AT_LEVEL = "datum.level === level"
IN_VIEW = (OF_SCENARIO, SHOWN, AT_LEVEL)
"""The filters; the page's controls set the parameters `hidden`, `scenario` and `level`."""
LOGARITHMIC: Spec = {"type": "log", "nice": False, "padding": 14}


def field(name: str, **more: Any) -> Spec:
    """Return a channel for a field. `name`: the field, with ":Q" if it is a number."""
    name, _, number = name.partition(":")
    return {"field": name} | ({"type": "quantitative"} if number else {}) | more


def layer(marks: Spec | list[Spec], *transform: str | Spec, **channels: str | Spec) -> Spec:
    """Return a layer of marks, or a layer that consists of layers. A text in `transform` is a
    filter; a text in `channels` is the name of a field."""
    return {
        "mark" if isinstance(marks, dict) else "layer": marks,
        "transform": [{"filter": one} if isinstance(one, str) else one for one in transform],
        "encoding": {
            name: field(of) if isinstance(of, str) else of for name, of in channels.items()
        },
    }


def chart(whole: Spec, data: str = "", height: int | Spec = 380, top: int = 24) -> Spec:
    """Return a layer as a chart that is as wide as its HTML element, with `top` pixels of space
    above. `data`: the name of its data, unless its layers have different data."""
    padding = {"left": 2, "right": 8, "top": top, "bottom": 4}
    frame = {"height": height, "padding": padding, "background": "transparent"}
    return frame | ({"data": {"name": data}} if data else {}) | whole


def mark(kind: str, **style: Any) -> Spec:
    """Return a kind of mark with its style."""
    return {"type": kind} | style


def calculate(**columns: str) -> list[Spec]:
    """Return the steps that add calculated columns to the data."""
    return [{"calculate": expression, "as": name} for name, expression in columns.items()]


def looked_up(name: str, words: Mapping[str, str]) -> str:
    """Return an expression: the word for the value of a field."""
    return f"({json.dumps(words)})[datum.{name}]"


def number_axis(**more: Any) -> Spec:
    """Return an axis for numbers."""
    return {"format": ",~r"} | more


def count_axis(values: Sequence[int], **more: Any) -> Spec:
    """Return an axis with a line, and with a tick for each of the values."""
    ticks = {"domain": True, "ticks": True, "tickSize": 4, "grid": False}
    return ticks | {"values": values, "format": ",d"} | more


def narrow(small: int, large: int) -> Spec:
    """Return an expression: `small` on a phone, otherwise `large`."""
    return {"expr": f"{NARROW} ? {small} : {large}"}


def coloured(
    name: str, colours: Mapping[str, str], columns: int, small: int = 1, **more: str
) -> Spec:
    """Return the colour of each value of a field, with a legend above the chart that has `small`
    columns on a phone."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    short = f"{NARROW} ? replace(datum.label, regexp('\\\\(.*'), '') : datum.label"
    width = {"columns": narrow(small, columns), "labelFontSize": narrow(10, 12)}
    legend = {"title": None, "orient": "top", "symbolType": "circle", "labelExpr": short}
    return field(name, scale=scale, legend=legend | width | more)


class Servers(NamedTuple):
    """The channels of the servers in a chart: their rows and styles. An exported picture has a
    legend; on the page, buttons replace it."""

    rows: Spec
    colour: Spec
    shape: Spec
    dash: Spec  # Servers have solid lines, reference servers dashed lines, baselines dotted lines.


def servers(subjects: Sequence[StudySubject]) -> Servers:
    """Return the channels of these servers."""
    names = [subject.name for subject in subjects]
    legend = {"title": None, "orient": "right", "symbolType": "circle", "aria": False}

    def styled(values: Sequence[object]) -> Spec:
        return field("subject", scale={"domain": names, "range": values}, legend=legend)

    axis = {"labelColor": "@ink", "labelLimit": 130}
    return Servers(
        field("subject", sort=names, title=None, axis=axis),
        styled([f"@c{i}" for i, _ in enumerate(subjects)]),
        styled(style.subject_shapes(subjects)),
        styled([style.STYLE.dashes.get(subject.kind, [1, 0]) for subject in subjects]),
    )


BAR = mark("bar", height={"band": 0.62})
DOT = mark("point", size=110)
SPAN = mark("rule", strokeWidth=5, color="@grid", strokeCap="round")
TEXT = mark("text", align="left", dx=7)
ROOM = mark("point", opacity=0)
"""Invisible marks, which make the axis longer: space for the text next to a bar."""
TOUCH = mark("point", size=450, opacity=0)
"""Invisible marks that react to the pointer, larger than the points."""
ROW = 30
"""Height of a row in charts with one row for each server."""
BARS = number_axis(tickCount=5)
"""The horizontal axis of bars and dots."""
TIMES = field(
    "p50:Q",
    title="milliseconds, logarithmic",
    axis=number_axis(
        labelOverlap="greedy",
        values=[n * 10.0**e for e in range(-2, 6) for n in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)],
    ),
    scale=LOGARITHMIC | {"padding": 12},
)


def value_axis(key: str, title: str, kind: str = "linear") -> Spec:
    """Return a vertical axis with its title above it. `kind`: linear or log."""
    place = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "start"}
    axis = number_axis(tickCount=6, titleX=-34, titleY=-14, **place)
    return field(f"{key}:Q", title=title, scale={"type": kind, "nice": True}, axis=axis)


def dots(drawn: Servers, lower: str) -> Spec:
    """Return the measured points. Lower bounds are hollow, with ≥ above."""
    hollow = mark("point", filled=False, size=70, strokeWidth=2)
    sign = mark("text", dy=-13, fontSize=12)
    full = layer(DOT | {"size": 55}, f"!({lower})", shape=drawn.shape)
    bound = [layer(hollow, shape=drawn.shape), layer(sign, text={"value": "≥"})]
    return layer([full, layer(bound, lower)])


# ---- Curves ----


def curves(drawn: Servers, key: str, title: str, kind: str = "linear") -> list[Spec]:
    """Return the layers of curves: bars from the lowest to the highest run, lines, points, and the
    marks that react to the pointer."""
    y, known = value_axis(key, title, kind), f"isValid(datum.{key})"
    lower = "datum.bound" if key == "rate" else "false"  # only rates have lower bounds
    spread = mark("rule", strokeWidth=4, opacity=0.25, strokeCap="round")
    low = field(f"{key}_low:Q", title=title)
    line = mark("line", strokeWidth=2.2, strokeJoin="round")
    return [
        layer(spread, f"isValid(datum.{key}_low)", y=low, y2=f"{key}_high"),
        layer(line, y=y, strokeDash=drawn.dash),
        layer([dots(drawn, lower)], known, y=y),
        layer(TOUCH, known, y=y, tooltip="id"),
    ]


def over_levels(
    drawn: Servers, levels: Sequence[int], key: str, title: str, kind: str = "linear"
) -> Spec:
    """Return a chart of one figure over the number of connections, with spread and lower bounds.
    The axis is logarithmic, with a tick per measured level. The reader can add the curves of 2019
    to the rates."""
    axis = count_axis(levels, labelOverlap="greedy")
    x = field("level:Q", title="concurrent connections", scale=LOGARITHMIC, axis=axis)
    now = layer(curves(drawn, key, title, kind), OF_SCENARIO, SHOWN)
    if key != "rate":
        return chart(layer([now], x=x, color=drawn.colour), "cells")
    line = mark("line", strokeDash=[3, 4], strokeWidth=1.5, opacity=0.65)
    wanted = calculate(value="scaled2019 ? datum.scaled : datum.then")
    y = value_axis("value", title)
    then = layer(line, "then2019", OF_SCENARIO, SHOWN, *wanted, y=y)
    both = [one | {"data": {"name": name}} for name, one in (("paper", then), ("cells", now))]
    return chart(layer(both, x=x, color=drawn.colour), height=430)


def over_conditions(
    drawn: Servers, data: str, labels: dict[str, str], x_title: str, key: str
) -> Spec:
    """Return a chart of one figure over a condition: workload, Redis' delay, idle connections.

    `labels`: the label of each condition, in the order from left to right; | separates lines.
    """
    metric = BY_KEY[key]
    unit = f", {metric.unit}" if metric.unit.isalpha() else ""
    lines = json.dumps({condition: label.split("|") for condition, label in labels.items()})
    shown = {"labelAngle": 0, "labelExpr": f"({lines})[datum.value]"}
    axis = {"domain": True, "ticks": True, "grid": False} | shown
    scale = {"type": "point", "padding": 0.4}
    layers = [
        layer(mark("line", strokeWidth=2.2), strokeDash=drawn.dash),
        dots(drawn, "datum.bound"),
        layer(TOUCH, tooltip="said"),
    ]
    x = field("condition", sort=list(labels), title=x_title, axis=axis, scale=scale)
    y = value_axis("value", f"{metric.label}{unit}")
    return chart(layer(layers, SHOWN, x=x, y=y, color=drawn.colour), data)


def scaling(drawn: Servers, counts: Sequence[int], way: str) -> Spec:
    """Return a chart of rates over instances, with the ideal: n times the rate of one instance."""
    scale = {"nice": False, "padding": 18}
    x = field("n:Q", title="instances of the server", scale=scale, axis=count_axis(counts))
    line = mark("line", strokeDash=[2, 4], strokeWidth=1.4, opacity=0.6)
    ideal = layer(line, "isValid(datum.ideal)", y="ideal:Q")
    layers = [ideal, *curves(drawn, "rate", "requests per second")]
    filters = (OF_FAMILY, SHOWN, AT_LEVEL, f"datum.way === '{way}'")
    return chart(layer(layers, *filters, x=x, color=drawn.colour), "cells", 340)


# ---- A row for each server ----


def in_rows(drawn: Servers, layers: list[Spec], *filters: str | Spec) -> Spec:
    """Return a chart of data points with a row for each server."""
    return chart(layer(layers, *filters, y=drawn.rows), "cells", {"step": ROW})


def through(drawn: Servers, ways: Container[str]) -> Spec:
    """Return a chart of the rates of one instance: direct, and through nginx with or without
    persistent connections."""
    x = field("rate:Q", title="requests per second", axis=BARS, scale={"zero": True})
    looks: tuple[tuple[Balancer, str], ...] = (("keep", "@user"), ("close", "@baseline"))
    colours = {way_in_words(way): colour for way, colour in looks if way in ways}
    ends = (("min", "low"), ("max", "high"))
    range_of = [{"op": op, "field": "rate", "as": name} for op, name in ends]
    # The direct rate is a ring, so a dot with the same rate stays visible inside.
    ring = mark("point", filled=False, opacity=0.7, size=200, strokeWidth=2)
    span = SPAN | {"strokeWidth": 4}
    way = coloured("way_said", colours, 1)
    # Both legends above would be too wide for a phone.
    straight = coloured("way_said", {way_in_words("none"): "@ink"}, 1, orient="bottom")
    layers = [
        layer(span, {"aggregate": range_of, "groupby": ["subject"]}, x="low:Q", x2="high"),
        layer(DOT | {"size": 90}, "datum.way !== 'none'", x=x, color=way, tooltip="id"),
        layer(ring, "datum.way === 'none'", x=x, stroke=straight, tooltip="id"),
    ]
    return in_rows(drawn, layers, OF_FAMILY, SHOWN, AT_LEVEL, "datum.n === 1")


COLOURS = ("#2F6FB2", "#D55E00", "#009E73", "#C7609A", "#8C6BB1", "#C98A00", "#3A9BD9", "#777777")


def standing(rows: Sequence[Row]) -> Spec:
    """Return the chart of the CPU per request of the project's servers and of the reference
    servers: a dot for each load, on a logarithmic axis."""
    order = list(dict.fromkeys(str(row["subject"]) for row in rows))
    loads = sorted({str(row["load"]) for row in rows})
    seven = json.dumps([row["subject"] for row in rows if row["kind"] == "server"])
    bold = {"test": f"indexof({seven}, datum.value) >= 0", "value": "bold"}
    weight = {"condition": bold, "value": "normal"}
    names = {"grid": True, "labelLimit": 170, "labelColor": "@ink", "labelFontWeight": weight}
    ticks = [n * 10**e for e in range(6) for n in (1, 2, 5)]
    cost = number_axis(values=ticks, labelOverlap="greedy")
    title = ["CPU time per request, µs", "logarithmic; further left is better"]
    shapes = {"domain": ["server", "reference"], "range": ["diamond", "circle"]}
    colours = {load: COLOURS[i % len(COLOURS)] for i, load in enumerate(loads)}
    marks = layer(
        mark("point", size=95, opacity=0.9),
        SHOWN,
        x=field("cpu:Q", title=title, axis=cost, scale=LOGARITHMIC),
        y=field("subject", sort=order, title=None, axis=names),
        color=coloured("load", colours, 2),
        shape=field("kind", scale=shapes, legend=None),
        tooltip="said",
    )
    return chart(marks, "standing", {"step": 24})


def _two_parts(parts: dict[str, str], title: str, whole: str) -> Spec:
    """Return bars in two parts. `parts`: the name of each column in the legend.

    A bar ends at the column `whole`, because the sum of the parts' medians may differ from the
    median of the whole.
    """
    total = " + ".join(f"datum.{column}" for column in parts)
    columns = calculate(
        named=looked_up("part", parts),
        rank=f"indexof({json.dumps(list(parts))}, datum.part)",
        value=f"datum.value * datum.{whole} / max({total}, 1e-9)",
    )
    colours = dict(zip(parts.values(), ("@user", "@system"), strict=True))
    return layer(
        BAR,
        {"fold": list(parts), "as": ["part", "value"]},
        *columns,
        x=field("value:Q", stack="zero", title=title, axis=BARS),
        color=coloured("named", colours, 2, symbolType="square"),
        order="rank:Q",
        tooltip="id",
    )


def _behind(column: str, text: str, *transform: str | Spec) -> list[Spec]:
    """Return the text next to a bar that ends at `column`, and the space for it."""
    room = calculate(end=f"datum.{column} * ({NARROW} ? 2.8 : 1.5)")
    words = layer(TEXT, *transform, x=f"{column}:Q", text=text)
    return [layer(ROOM, *transform, *room, x="end:Q"), words]


def cpu(drawn: Servers) -> Spec:
    """Return the chart of user and system CPU per request, with each server's baseline."""
    parts = {"cpu_user": "user: code of the server", "cpu_system": "system: the kernel"}
    bars = _two_parts(parts, "CPU time per request, µs", "cpu")
    servers = "datum.kind !== 'baseline'"
    tick = mark("tick", color="@baseline", thickness=3, height={"band": 0.9})
    longest = "max(datum.cpu, isValid(datum.baseline_cpu) ? datum.baseline_cpu : 0)"
    layers = [
        layer([bars], servers),
        layer(tick, "isValid(datum.baseline_cpu)", x="baseline_cpu:Q", tooltip="id"),
        *_behind("behind", "cpu_said", servers, *calculate(behind=longest)),
    ]
    return in_rows(drawn, layers, *IN_VIEW, "isValid(datum.cpu)")


def switches(drawn: Servers) -> Spec:
    """Return the chart of voluntary and involuntary context switches per request."""
    parts = {
        "switches_voluntary": "voluntary: the server blocks",
        "switches_involuntary": "involuntary: preempted",
    }
    bars = _two_parts(parts, "context switches per request", "switches")
    layers, known = [bars, *_behind("switches", "switches_said")], "isValid(datum.switches)"
    return in_rows(drawn, layers, *IN_VIEW, known)


def order(drawn: Servers, count: int) -> Spec:
    """Return the chart of the ranking: requests per second of each of `count` servers, and the
    range of the runs. Calculated rates are hollow."""
    best_first = {"field": "value", "op": "max", "order": "descending"}
    title = ["requests per second", "hollow: calculated, not measured"]
    calculated = {"test": "datum.by === 'cpu'", "value": 0.12}
    bars = layer(
        BAR | {"strokeWidth": 1.5},
        x=field("value:Q", title=title, axis=BARS),
        color=drawn.colour | {"legend": None},
        stroke=drawn.colour | {"legend": None},
        fillOpacity={"condition": calculated, "value": 1},
        tooltip="why",
    )
    span = layer(mark("rule", color="@ink", strokeWidth=1.5), x="low:Q", x2="high")
    broken = calculate(words=f"{NARROW} ? split(datum.said, '   ') : datum.said")
    layers = [bars, span, *_behind("high", "words", *broken)]
    whole = layer(layers, OF_SCENARIO, SHOWN, y=drawn.rows | {"sort": best_first})
    return chart(whole, "order", ROW * count)


def percentiles(drawn: Servers) -> Spec:
    """Return the chart of latency: a row of percentiles for each server."""
    names = {key: BY_KEY[key].label for key in PERCENTILES}
    colours = {name: f"@{key}" for key, name in names.items()}
    values = layer(
        DOT,
        {"fold": list(PERCENTILES), "as": ["part", "value"]},
        "isValid(datum.value)",
        *calculate(named=looked_up("part", names)),
        x="value:Q",
        color=coloured("named", colours, 5, 3),
        tooltip="id",
    )
    layers, known = [layer(SPAN, x=TIMES, x2="max"), values], "isValid(datum.p50)"
    return in_rows(drawn, layers, *IN_VIEW, known)


def holding(drawn: Servers, levels: Sequence[int], seen: Container[str]) -> Spec:
    """Return the chart of the levels that each server passes: a tile for each data point. `seen`:
    the statuses for the legend."""
    looks = {status: look for status, look in STATUS.items() if status in seen}
    words = {status: f"{sign} {words}".strip() for status, (_, sign, words) in looks.items()}
    signs = {status: sign for status, (_, sign, _) in looks.items()}
    columns = calculate(named=looked_up("status", words), sign=looked_up("status", signs))
    colours = {words[status]: colour for status, (colour, _, _) in looks.items()}
    angle = -45 if len(levels) > 8 else 0
    axis = {"format": ",d", "labelAngle": angle, "labelOverlap": "greedy"}
    x = field("level", type="ordinal", sort=levels, title="concurrent connections", axis=axis)
    colour = coloured("named", colours, 3, symbolType="square")
    tile = mark("rect", stroke="@paper", strokeWidth=2, cornerRadius=3)
    layers = [
        layer(tile, x=x, color=colour, tooltip="id"),
        layer(mark("text", fontWeight="bold"), x=x, text="sign", tooltip="id"),
    ]
    return in_rows(drawn, layers, OF_SCENARIO, SHOWN, *columns)


def loops() -> Spec:
    """Return the chart of the closed and the open loop: for each server a row per kind of latency,
    from the median to p99."""
    colours = dict(zip(WAYS, ("@soft", "@p90", "@baseline"), strict=True))
    axis = {"labelLimit": 150, "labelExpr": "split(datum.label, '|')"}
    layers = [
        layer(mark("rule", strokeWidth=3, opacity=0.5), x=TIMES, x2="p99"),
        layer(DOT | {"size": 35}, x=TIMES),
        layer(DOT, x="p99:Q"),
    ]
    whole = layer(
        layers,
        OF_SCENARIO,
        SHOWN,
        *calculate(who="datum.subject + '|' + datum.asked"),
        y=field("who", title=None, axis=axis),
        yOffset=field("way", sort=list(WAYS)),
        color=coloured("way", colours, 3),
        tooltip="said",
    )
    return chart(whole, "loops", {"step": 20})


def hosts(drawn: Servers, names: Sequence[str]) -> Spec:
    """Return the chart of the CPU use of the hosts `names`, from left to right: a column for each
    host. A bar of 100 % is shorter than its column, and the percentage is written next to it."""
    colours = {"CPU used, share of its limit": "@user", "throttled, share of periods": "@baseline"}
    used, throttled = colours
    full = f"({NARROW} ? 0.45 : 0.62)"
    columns = calculate(
        end=f"datum.place + {full} * min(datum.share, 1.1)",
        stopped=f"datum.place + {full} * datum.throttled",
        whole=f"datum.place + {full}",
        used=f"'{used}'",
        held_up=f"'{throttled}'",
        percent=f"format(100 * datum.share, '.0f') + ({NARROW} ? '' : ' %')",
    )
    axis = {"orient": "top", "grid": False, "values": [i + 0.02 for i, _ in enumerate(names)]}
    axis |= {"labelAlign": "left", "labelBaseline": "bottom", "labelOverlap": False}
    axis |= {"labelColor": "@ink", "labelFontSize": narrow(11, 12)}
    axis["labelExpr"] = f"{json.dumps(names)}[floor(datum.value)]"
    axis["labelAngle"] = {"expr": f"width < {70 * len(names)} ? -35 : 0"}
    scale = {"domain": [0, len(names)], "nice": False, "zero": True}
    x = field("place:Q", title=None, scale=scale, axis=axis)
    share = coloured("used", colours, 2, symbolType="square")
    thick = mark("bar", height=16, yOffset=-4)
    thin = mark("bar", height=5, yOffset=9)
    above, bold = TEXT | {"dx": 5, "dy": -4}, {"fontWeight": "bold"}
    below = TEXT | {"dx": 5, "dy": 9, "color": "@baseline"} | bold
    layers = [
        layer(thick | {"color": "@grid"}, x=x, x2="whole", tooltip="id"),
        layer(thick, x=x, x2="end", color=share, tooltip="id"),
        layer(thin, x=x, x2="stopped", color={**share, "field": "held_up"}),
        layer(above, "!datum.limit", x="whole:Q", text="percent"),
        layer(above | bold, "datum.limit", x="whole:Q", text="percent"),
        layer(below, x="whole:Q", text="sign", tooltip="id"),
    ]
    whole = layer(layers, *IN_VIEW, *columns, y=drawn.rows)
    return chart(whole, "hosts", {"step": 40}, top=44)  # also enough for rotated names
