# SPDX-License-Identifier: MIT
"""Where each subject holds, and who was at the limit: a cell for each level."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from bench.report.charts import base
from bench.report.study.study import Subject

STATUS = {
    "server": ("@server", ""),
    "held": ("@held", ""),
    "load generator": ("@load", "≥"),
    "Redis": ("@redis", "R"),
    "nginx": ("@nginx", "N"),
    "failed": ("@failed", "×"),
    "skipped": ("@skipped", "–"),
}
"""What became of a cell -> its colour and its sign, so that colour is not needed to read it."""
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
    subjects: Sequence[Subject],
    levels: Sequence[int],
    seen: Sequence[str],
    parameters: list[Any],
) -> dict[str, Any]:
    """The strip. `seen`: which of the states there are; the legend has no others."""
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
    return base.finish(alt.layer(tiles, signed).add_params(*parameters), height=alt.Step(base.ROW))
