# SPDX-License-Identifier: MIT
"""The chart: requests per second over concurrent connections, a line for each server.

One for each set of conditions: chart.svg for the first, chart_CONDITIONS.svg for the others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from bench.records.results import Cell, Results, runs_in_words

COLOURS = ("#D55E00", "#E69F00", "#8C6BB1", "#009E73", "#56B4E9", "#CC79A7", "#0B3C8C", "#555555")
"""Told apart by colour-blind people too; the first seven are the seven's."""
SHAPES = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-right",
    "wedge",
)

WIDTH, HEIGHT = 820, 440


def write_charts(results: Results, folder: Path) -> list[Path]:
    """Write them as SVG and PNG. Where there is not a single figure there is no chart."""
    paths = []
    for number, conditions in enumerate(results.conditions()):
        cells = [cell for cell in results.cells() if cell.conditions == conditions]
        if all(cell.median is None for cell in cells):
            continue
        chart = make_chart(results, cells)
        name = f"chart_{conditions.slug()}" if number else "chart"
        both = [folder / f"{name}.svg", folder / f"{name}.png"]
        chart.save(both[0])
        chart.save(both[1], scale_factor=2)
        paths += both
    return paths


def make_chart(results: Results, cells: Sequence[Cell]) -> alt.LayerChart:
    """The chart of some cells as an object."""
    names = {cell.subject for cell in cells}
    subjects = [name for name in results.servers if name in names]
    base = alt.Chart(alt.InlineData(values=chart_rows(cells))).encode(
        x=alt.X(
            "connections:O",
            sort=results.levels,
            title="concurrent connections (steps of the ladder, not to scale)",
            axis=alt.Axis(
                labelAngle=-45 if len(results.levels) > 12 else 0,
                labelOverlap=False,
                labelExpr="format(datum.value, ',')",
            ),
        ),
        color=alt.Color("server:N", sort=subjects, scale=_scale(subjects, COLOURS)),
        shape=alt.Shape("server:N", sort=subjects, scale=_scale(subjects, SHAPES)),
    )
    rate = alt.Y("rate:Q", title="requests per second", axis=alt.Axis(format=",d"))
    lines = base.mark_line(strokeWidth=2).encode(y=rate)
    points = base.transform_filter("datum.rate !== null").mark_point(
        filled=True, size=60, opacity=1
    )
    title = alt.TitleParams(
        headline(cells), subtitle=subtitle(results, cells), anchor="start", offset=14, fontSize=17
    )
    chart: alt.LayerChart = (
        alt.layer(lines, points.encode(y=rate))
        .properties(width=WIDTH, height=HEIGHT, title=title, padding=18, background="white")
        .configure_axis(labelFontSize=12, titleFontSize=12, gridColor="#E4E4E4")
        .configure_legend(labelFontSize=13, title=None, symbolSize=90)
        .configure_view(stroke=None)
    )
    return chart


def chart_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """A row for each cell; no rate for one without a figure, so that its line has a gap there."""
    return [{"server": c.subject, "connections": c.concurrency, "rate": c.median} for c in cells]


def headline(cells: Sequence[Cell]) -> str:
    """What the chart shows, in a sentence with its figure."""
    best = max((cell for cell in cells if cell.median is not None), key=lambda c: c.median or 0)
    least = "at least " if best.lower_bound else ""
    quota = best.conditions.quota
    slice_of = f", with {quota:.0%} of a core" if quota else ""
    return (
        f"{best.subject} served most: {least}{best.median:,.0f} requests per second "
        f"at {best.concurrency:,} connections{slice_of}"
    )


def subtitle(results: Results, cells: Sequence[Cell]) -> list[str]:
    """What was measured, where and when; and how many cells have no figure."""
    machine, conditions = results.machine, cells[0].conditions
    without = sum(cell.state != "held" for cell in cells)
    bounds = sum(cell.lower_bound for cell in cells)
    each = "" if conditions.keep_alive else ", a connection for each request"
    lines = [
        f"{conditions.describe()}{each}, {runs_in_words(cells)}; {results.started:%Y-%m-%d %H:%M}",
        f"{machine.get('cpu_model')}, {machine.get('cpus')} CPUs, Linux {machine.get('kernel')}",
    ]
    if without:
        lines.append(f"No point where a cell has no figure ({without}): see results.csv for why")
    if bounds:
        points = "1 point is a lower bound" if bounds == 1 else f"{bounds} points are lower bounds"
        lines.append(f"{points}: the load generator was at its limit there")
    return lines


def _scale(subjects: Sequence[str], values: tuple[str, ...]) -> alt.Scale:
    return alt.Scale(domain=subjects, range=[values[i % len(values)] for i in range(len(subjects))])
