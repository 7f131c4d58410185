# SPDX-License-Identifier: MIT
"""The parts that charts share, and the charts of a page with their titles and data."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import altair as alt
from altair.utils.schemapi import disable_debug_mode

from bench.records.conditions import Conditions
from bench.records.points import METRICS
from bench.records.store import Json
from bench.report.charts import style
from bench.report.findings import with_quota
from bench.report.study import Row, Study, StudySubject, describe

# Altair checks each part of a chart against a schema, which takes most of the time. The parts do
# not depend on the results, so only the tests check them (tests/bench/report/test_exports.py).
disable_debug_mode()

Spec: TypeAlias = dict[str, Json]
"""A chart as a Vega-Lite specification."""

HEIGHT = 380
ROW = 30
"""Height of a row in charts with one row for each server."""
HIT = 450
"""The area in which a point reacts to the pointer, in square pixels; larger than the point."""

ROUND_MS = [n * 10.0**e for e in range(-2, 6) for n in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)]
"""Ticks of a logarithmic time axis."""

NARROW = 480
"""Plots with a smaller width, in pixels, have the layout for a phone."""

PARAMETERS: Spec = {"hidden": [], "then2019": False, "scaled2019": False}
"""The parameters of pictures, without scenario and level. On the page, the controls set them."""
SHOWN = "indexof(hidden, datum.subject) < 0"
OF_SCENARIO = "datum.s === scenario"
AT_LEVEL = "datum.level === level"


def named(data: str, *filters: str) -> alt.Chart:
    """Return a chart of the data with the name `data`, filtered."""
    chart = alt.Chart(alt.NamedData(data))
    for expression in filters:
        chart = chart.transform_filter(expression)
    return chart


def chosen_by(field: str, words: Mapping[str, str], other: str = "''") -> str:
    """Return a Vega expression that maps the value of a field to its word."""
    return (
        " ".join(f"datum.{field} === '{key}' ? {word} :" for key, word in words.items())
        + f" {other}"
    )


def bare_axis(**more: Any) -> alt.Axis:
    """Return an axis without its line and ticks."""
    return alt.Axis(domain=False, ticks=False, **more)


def narrow(small: int, large: int) -> alt.ExprRef:
    """Return an expression: `small` on a phone, otherwise `large`."""
    return alt.ExprRef(f"width < {NARROW} ? {small} : {large}")


def coloured(field: str, colours: Mapping[str, str], legend: alt.Legend | None) -> alt.Color:
    """Return the colour of each value of a field."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def colour(subjects: Sequence[StudySubject], legend: bool = True) -> alt.Color:
    """Return the colour of each server."""
    colours = {subject.name: f"@c{i}" for i, subject in enumerate(subjects)}
    return coloured("subject", colours, _legend() if legend else None)


def shape(subjects: Sequence[StudySubject]) -> alt.Shape:
    """Return the shape of each server."""
    scale = _scale(subjects, style.subject_shapes(subjects))
    return alt.Shape("subject:N", scale=scale, legend=_legend())


def dash(subjects: Sequence[StudySubject]) -> alt.StrokeDash:
    """Return the line style: servers solid, reference servers dashed, baselines dotted."""
    dashes = [style.STYLE.dashes.get(s.kind, [1, 0]) for s in subjects]
    return alt.StrokeDash("subject:N", scale=_scale(subjects, dashes), legend=_legend())


ScaleKind = Literal["linear", "log"]


def levels_axis(levels: Sequence[int]) -> alt.X:
    """Return the axis of concurrent connections, logarithmic, with a tick per measured level."""
    axis = alt.Axis(values=list(levels), format=",d", labelOverlap="greedy", grid=False, tickSize=4)
    return alt.X(
        "level:Q",
        title="concurrent connections",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=axis,
    )


def value_axis(key: str, title: str, kind: ScaleKind = "linear") -> alt.Y:
    """Return a vertical axis with its title above it."""
    axis = bare_axis(
        format=",~r",
        tickCount=6,
        titleAngle=0,
        titleAlign="left",
        titleAnchor="start",
        titleX=-34,
        titleY=-14,
    )
    return alt.Y(f"{key}:Q", title=title, scale=alt.Scale(type=kind, nice=True), axis=axis)


def times_axis() -> alt.X:
    """Return a horizontal, logarithmic axis of milliseconds for the field p50."""
    axis = bare_axis(format=",~r", labelOverlap="greedy", values=ROUND_MS)
    scale = alt.Scale(type="log", nice=False, padding=12)
    return alt.X("p50:Q", title="milliseconds, logarithmic", axis=axis, scale=scale)


def bars_axis() -> alt.Axis:
    """Return the horizontal axis for bars and dots."""
    return bare_axis(tickCount=5, format=",~r")


NAMES = {"labelColor": "@ink", "labelLimit": 130}
"""The style of the labels of an axis with a row for each server."""


def with_rows(
    subjects: Sequence[StudySubject], *layers: alt.Chart, step: int = ROW, top: int = 24
) -> Spec:
    """Return a chart of these layers with a row for each server."""
    names = [s.name for s in subjects]
    y = alt.Y("subject:N", sort=names, title=None, axis=bare_axis(**NAMES))
    return finish(alt.layer(*layers).encode(y=y), alt.Step(step), top)


def point_at(chart: alt.Chart, tooltip: str, **channels: Any) -> alt.Chart:
    """Return the invisible marks that react to the pointer, larger than the points."""
    feel = chart.mark_point(size=HIT, opacity=0, filled=True)
    made: alt.Chart = feel.encode(tooltip=tooltip, **channels)
    return made


def dots(points: alt.Chart, subjects: Sequence[StudySubject], lower: str) -> list[alt.Chart]:
    """Return the measured points. Lower bounds are hollow, with ≥ above."""
    shaped, bounds = points.encode(shape=shape(subjects)), points.transform_filter(lower)
    return [
        shaped.transform_filter(f"!({lower})").mark_point(filled=True, size=55, opacity=1),
        shaped.transform_filter(lower).mark_point(size=70, strokeWidth=2, opacity=1),
        bounds.mark_text(dy=-13, fontSize=12).encode(text=alt.value("≥")),
    ]


def finish(
    chart: alt.LayerChart | alt.FacetChart, height: int | alt.Step = HEIGHT, top: int = 24
) -> Spec:
    """Return the chart as a specification with `top` pixels of space above. The chart is as wide as
    its HTML element."""
    whole = chart.properties(
        height=height,
        padding={"left": 2, "right": 8, "top": top, "bottom": 4},
        background="transparent",
    )
    spec: Spec = whole.to_dict(validate=False)
    return {k: v for k, v in spec.items() if k not in ("$schema", "config", "datasets")}


def chosen(spec: Spec, scenario: str, level: int) -> Spec:
    """Return a specification with the parameters that the page's controls set."""
    values = {"scenario": scenario, "level": level, **PARAMETERS}
    return spec | {"params": [{"name": name, "value": value} for name, value in values.items()]}


def legend_above(columns: int, small: int, symbol: str) -> alt.Legend:
    """Return a legend above the chart, with `small` columns on a phone."""
    return alt.Legend(
        title=None,
        orient="top",
        symbolType=symbol,
        columns=narrow(small, columns),
        labelFontSize=narrow(10, 12),
        labelLimit=340,
        labelExpr=f"width < {NARROW} ? replace(datum.label, regexp('\\\\(.*'), '') : datum.label",
    )


def _scale(subjects: Sequence[StudySubject], values: Sequence[str | list[int]]) -> alt.Scale:
    return alt.Scale(domain=[s.name for s in subjects], range=list(values))


def _legend() -> alt.Legend:
    """Return the legend of exported pictures. On the page, buttons replace it."""
    return alt.Legend(title=None, orient="right", symbolType="circle", aria=False)


# ---- Charts with their titles, and the data that they refer to ----

WIDTH = 820
"""The width of a picture in a file."""
LINE = 92
"""Characters in a line of a title."""


@dataclass
class Exhibit:
    """A chart with its titles."""

    spec: Spec
    titles: Mapping[str, str | dict[str, str]] = field(default_factory=dict)
    """Scenario -> title; or, for a chart at one level, scenario -> {level: title}. For a missing
    scenario or level, the chart is empty. "*": one title for all scenarios and levels."""

    def title(self, scenario: str, level: int) -> str:
        """Return the title for a scenario and a level; empty if there is nothing to show."""
        said = self.titles.get("*") or self.titles.get(scenario, "")
        return said.get(str(level), "") if isinstance(said, dict) else said


@dataclass
class Catalogue:
    """All charts and the data that they refer to by name."""

    study: Study
    data: dict[str, list[Row]]
    exhibits: dict[str, Exhibit] = field(default_factory=dict)

    def titles(self) -> dict[str, str]:
        """Return the title of each chart in the page's initial state."""
        first = self.study.scenarios[0]
        key, level = self.study.keys[first], self.study.reference(first)
        return {name: chart.title(key, level) for name, chart in self.exhibits.items()}

    def add(self, key: str, spec: Spec, say: Callable[..., str], *, by_level: bool = False) -> None:
        """Add a chart, unless all of its titles are empty. `say` returns the title for a study, a
        scenario and, with `by_level`, a level."""
        study, titles = self.study, dict[str, str | dict[str, str]]()
        for scenario in study.scenarios:
            title = partial(say, study, scenario)
            levels = study.levels(scenario)
            texts = {str(n): title(n) for n in levels} if by_level else {"": title()}
            said = {n: with_quota(scenario.quota, text) for n, text in texts.items() if text}
            if said:
                titles[study.keys[scenario]] = said if by_level else said[""]
        if titles:
            self.exhibits[key] = Exhibit(spec, titles)

    def add_always(self, key: str, spec: Spec, title: str, quota: float) -> None:
        """Add a chart with one title for all choices on the page. `quota`: the servers' quota."""
        self.exhibits[key] = Exhibit(spec, {"*": with_quota(quota, title)})

    def for_script(self) -> str:
        """Return all charts and their data as JSON, escaped for a script element of the page."""
        study = self.study
        chosen = {study.keys[s]: s for s in study.scenarios}
        content = {
            "scenario": study.keys[study.scenarios[0]],
            "levels": {key: study.levels(s) for key, s in chosen.items()},
            "reference": {key: study.reference(s) for key, s in chosen.items()},
            "subjects": [{"name": s.name, "kind": s.kind} for s in study.subjects],
            "metrics": [{"key": m.key, "label": m.label, "unit": m.unit} for m in METRICS],
            "light": style.tokens(study.subjects, 0),
            "config": style.config(),
            "data": self.data,
            "exhibits": {key: vars(exhibit) for key, exhibit in self.exhibits.items()},
        }
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")

    def picture(self, key: str, scenario: Conditions, theme: int = 0) -> Spec | None:
        """Return a chart's complete specification with data, title and width; None if the chart has
        nothing to show. Theme 0 is light, 1 is dark."""
        study, exhibit = self.study, self.exhibits.get(key)
        at = (study.keys[scenario], study.reference(scenario))
        if exhibit is None or not (title := exhibit.title(*at)):
            return None
        colours = style.tokens(study.subjects, theme)
        lines: Spec = {"text": textwrap.wrap(title, LINE, break_on_hyphens=False)}
        return chosen(style.substitute(exhibit.spec, colours), *at) | {
            "$schema": alt.SCHEMA_URL,
            "width": WIDTH,
            "padding": 18,
            "background": colours["paper"],
            "title": lines | ({} if "*" in exhibit.titles else {"subtitle": describe(scenario)}),
            "config": style.substitute(style.config(), colours),
            "datasets": {name: self.data[name] for name in data_names(exhibit.spec)},
        }


def data_names(spec: Json) -> set[str]:
    """Return the names of the data that a specification refers to."""
    if isinstance(spec, list):
        return set[str]().union(*map(data_names, spec))
    if not isinstance(spec, dict):
        return set()
    own = spec.get("data")
    found = {str(own["name"])} if isinstance(own, dict) and own.keys() == {"name"} else set[str]()
    return found.union(*map(data_names, spec.values()))
