# SPDX-License-Identifier: MIT
"""How far each server is from its floor, by workload."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from bench.report.charts import base
from bench.report.study.study import Subject


def floors(
    subjects: Sequence[Subject], labels: Sequence[str], parameters: list[Any]
) -> dict[str, Any]:
    """A column for each workload, a row for each server; the ratio in each cell."""
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
        ).add_params(*parameters),
        height=alt.Step(base.ROW),
    )
