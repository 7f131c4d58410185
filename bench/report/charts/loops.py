# SPDX-License-Identifier: MIT
"""Latencies of the closed and the open loop side by side."""

from typing import Any

import altair as alt

from bench.report.charts import base
from bench.report.study.study import WAYS


def loops(parameters: list[Any]) -> dict[str, Any]:
    """A group of rows for each subject: half of the requests, 99 % and 99.9 % of them."""
    rows = base.named("loops", base.OF_SCENARIO, base.SHOWN)
    colour = alt.Color(
        "way:N",
        scale=alt.Scale(domain=list(WAYS), range=["@soft", "@p90", "@floor"]),
        legend=base.legend_above(3, 1, "circle"),
    )
    broken = "split(datum.label, '|')"
    axis = alt.Axis(domain=False, ticks=False, labelLimit=150, labelExpr=broken)
    y = alt.Y("who:N", title=None, axis=axis)
    offset = alt.YOffset("way:N", sort=list(WAYS))
    x = base.times_axis("p50:Q", "milliseconds, logarithmic")
    chart = rows.encode(y=y, yOffset=offset, color=colour, tooltip="said:N")
    return base.finish(
        alt.layer(
            chart.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="p99:Q"),
            chart.mark_point(filled=True, size=35, opacity=1).encode(x=x),
            chart.mark_point(filled=True, size=110, opacity=1).encode(x="p99:Q"),
        ).add_params(*parameters),
        height=alt.Step(20),
    )
