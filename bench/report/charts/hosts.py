# SPDX-License-Identifier: MIT
"""What each host did: a column for each, a row for each subject, at one level."""

import json
from collections.abc import Sequence
from typing import Any

import altair as alt

from bench.report.charts import base
from bench.report.study.study import Subject

ROOM = f"(width < {base.NARROW} ? 0.45 : 0.62)"
"""Width of a bar that stands for all of a host's CPU; 1 is the whole column."""
NAMES = ("CPU used, of what it may use", "throttled, of all periods")
ROOM_FOR_NAMES = 70
"""Pixels of a column in which the host's name has room; where there are less it is turned."""


def hosts(subjects: Sequence[Subject], names: Sequence[str], parameters: list[Any]) -> Any:
    """`names`: of the hosts, from left to right."""
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
    said: dict[str, Any] = {"align": "left", "dx": 5, "dy": -4}
    bold = rows.transform_filter("datum.limit").mark_text(fontWeight="bold", **said)
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
            rows.transform_filter("!datum.limit")
            .mark_text(**said)
            .encode(_end(), text="percent:N"),
            bold.encode(_end(), text="percent:N"),
            rows.mark_text(align="left", dx=5, dy=9, color="@floor", fontWeight="bold").encode(
                _end(), text="sign:N", tooltip="id:N"
            ),
        )
        .encode(y=base.subject_rows(subjects))
        .add_params(*parameters),
        height=alt.Step(40),
    )


def _end() -> alt.X:
    """Behind the longest bar that a column has room for, so that figures stand in line."""
    return alt.X("whole:Q")
