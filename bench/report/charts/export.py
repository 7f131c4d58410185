# SPDX-License-Identifier: MIT
"""SVG and PNG of each chart, from the same specification as on the page."""

from collections.abc import Iterator
from pathlib import Path

import altair as alt
import vl_convert

from bench.records.store import Json, load, replace
from bench.report.charts import base, style
from bench.report.charts.base import Catalogue, Exhibit
from bench.report.charts.catalogue import catalogue
from bench.report.study.study import Study, describe

WIDTH = 820
LINE = 92
"""Characters in a line of a title."""


def write_charts(study: Study, made: Catalogue, folder: Path) -> list[Path]:
    """Write all charts as they are when the page opens, and the rates of every scenario. Return the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(name, vl_convert.vegalite_to_svg(spec)) for name, spec in pictures(study, made)]
    return [path for name, svg in drawn for path in _write(svg, folder / name)]


def write_rates(folder: Path) -> list[Path]:
    """Write only the rates and the ranking of a sweep's folder: `chart` and `order` for the first
    conditions, `chart_CONDITIONS` and so on for others. Conditions without a figure have no file.
    Return the paths."""
    study = Study(load(folder))
    there = [s for s in study.scenarios if any(point.held for point in study.of(s))]
    if not there:
        return []
    made, written = catalogue(study), []
    for scenario in there:
        level, key = study.reference(scenario), study.keys[scenario]
        for name, exhibit in (("chart", "rates"), ("order", "order")):
            found = made.exhibits.get(exhibit)
            title = found.title(key, level) if found else ""
            if found and title:
                spec = whole(study, made, found, (title, describe(scenario)), (key, level))
                more = "" if scenario == study.scenarios[0] else f"_{scenario.slug()}"
                written += _write(vl_convert.vegalite_to_svg(spec), folder / f"{name}{more}")
    return written


def _write(svg: str, path: Path) -> list[Path]:
    """Write a picture as SVG and PNG."""
    vector, pixels = path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")
    replace(vector, svg)
    replace(pixels, vl_convert.svg_to_png(svg, scale=2))
    return [vector, pixels]


def pictures(study: Study, made: Catalogue) -> Iterator[tuple[str, base.Spec]]:
    """Yield each chart's file name and its whole specification."""
    keys = study.keys
    for exhibit in made.exhibits.values():
        scenarios = study.scenarios if exhibit.key == "rates" else study.scenarios[:1]
        for number, scenario in enumerate(scenarios):
            level, key = study.reference(scenario), keys[scenario]
            title = exhibit.title(key, level)
            if not title:
                continue
            subtitle = "" if "*" in exhibit.titles else describe(scenario)
            name = exhibit.key if number == 0 else f"{exhibit.key}-{key}"
            yield name, whole(study, made, exhibit, (title, subtitle), (key, level))


def whole(
    study: Study,
    made: Catalogue,
    exhibit: Exhibit,
    title: tuple[str, str],
    at: tuple[str, int],
    theme: int = 0,
) -> base.Spec:
    """Return a complete specification with data, title and width. `at`: the key of the scenario,
    and the level; theme 0 is light, 1 is dark."""
    colours = style.tokens(study.subjects, theme)
    lines: base.Spec = {"text": wrapped(title[0])}
    return base.chosen(style.substitute(exhibit.spec, colours), *at) | {
        "$schema": alt.SCHEMA_URL,
        "width": WIDTH,
        "padding": 18,
        "background": colours["paper"],
        "title": lines | ({"subtitle": title[1]} if title[1] else {}),
        "config": style.substitute(style.config(), colours),
        "datasets": {name: made.data[name] for name in data_names(exhibit.spec)},
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


def wrapped(text: str) -> list[str]:
    """Return a title split into lines."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
