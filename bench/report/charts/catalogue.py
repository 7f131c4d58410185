# SPDX-License-Identifier: MIT
"""All charts of a report with their titles and data, and the files of pictures.

The template `bench/report/page/template/page.html.j2` places the charts on the page."""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import vl_convert

from bench.records.conditions import Conditions
from bench.records.points import METRICS
from bench.records.store import load, replace
from bench.report import across, findings, limits, peers
from bench.report.charts import rows, specs, style
from bench.report.charts.specs import Spec
from bench.report.findings import with_quota
from bench.report.study import Row, Study, describe

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
PARAMETERS: Spec = {"hidden": [], "then2019": False, "scaled2019": False}
"""The parameters of pictures, without scenario and level. On the page, the controls set them."""
WIDTH = 820
"""The width of a picture in a file."""
LINE = 92
"""Characters in a line of a title."""


@dataclass
class Exhibit:
    """A chart with its titles."""

    spec: Spec
    titles: Mapping[str, str | dict[str, str]]
    """Scenario -> title; or, for a chart at one level, scenario -> {level: title}. For a missing
    scenario or level, the chart is empty. "*": one title for all scenarios and levels."""

    def title(self, scenario: str, level: int) -> str:
        """Return the title for a scenario and a level; empty if there is nothing to show."""
        said = self.titles.get("*") or self.titles.get(scenario, "")
        return said.get(str(level), "") if isinstance(said, dict) else said


class Catalogue:
    """All charts that have data, and the data that they refer to by name."""

    def __init__(self, study: Study) -> None:
        self.study, self.data = study, rows.all_rows(study)
        self.exhibits: dict[str, Exhibit] = {}
        first = study.scenarios[0]
        self._start = study.keys[first], study.reference(first)
        """The scenario and the level of the page's initial state."""

    def titles(self) -> dict[str, str]:
        """Return the title of each chart in the page's initial state."""
        return {name: chart.title(*self._start) for name, chart in self.exhibits.items()}

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
            self.exhibits[key] = Exhibit(_chosen(spec, *self._start), titles)

    def add_always(self, key: str, spec: Spec, title: str, data: list[Row], quota: float) -> None:
        """Add a chart with its own data and one title for all choices on the page. `quota`: the
        servers' quota."""
        self.data[key] = data
        titles = {"*": with_quota(quota, title)}
        self.exhibits[key] = Exhibit(_chosen(spec, *self._start), titles)

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
        return _chosen(style.substitute(exhibit.spec, colours), *at) | {
            "$schema": SCHEMA,
            "width": WIDTH,
            "padding": 18,
            "background": colours["paper"],
            "title": lines | ({} if "*" in exhibit.titles else {"subtitle": describe(scenario)}),
            "config": style.substitute(style.config(), colours),
            "datasets": {name: self.data[name] for name in data_names(exhibit.spec)},
        }


def _chosen(spec: Spec, scenario: str, level: int) -> Spec:
    """Return a specification with the parameters that the page's controls set."""
    values = {"scenario": scenario, "level": level, **PARAMETERS}
    return spec | {"params": [{"name": name, "value": value} for name, value in values.items()]}


def data_names(spec: Spec) -> set[str]:
    """Return the names of the data that a specification and its layers refer to."""
    own = {spec["data"]["name"]} if "data" in spec else set[str]()
    return own.union(*map(data_names, spec.get("layer", ())))


def catalogue(study: Study) -> Catalogue:
    """Return all charts that have data."""
    made, drawn = Catalogue(study), specs.servers(study.subjects)
    levels = sorted({n for s in study.scenarios for n in study.levels(s)})
    points = [point for scenario in study.scenarios for point in study.of(scenario)]
    line = partial(specs.over_levels, drawn, levels)
    ranked = sum(s.kind != "baseline" for s in study.subjects)
    made.add("order", specs.order(drawn, ranked), findings.ranking_title)
    made.add("rates", line("rate", "requests per second"), findings.rates)
    seen = {rows.status_of(point) for point in points}
    made.add("holding", specs.holding(drawn, levels, seen), findings.holding)
    made.add("hosts", specs.hosts(drawn, limits.names(study)), limits.finding, by_level=True)
    family = [s for scenarios in across.families(study).values() for s in scenarios]
    counts = sorted({s.instances for s in family if study.contenders(s)})
    for way in across.WITH:
        say = partial(across.scaling_finding, way=way)
        made.add(f"instances-{way}", specs.scaling(drawn, counts, way), say, by_level=True)
    ways = {s.balancer for s in family if study.contenders(s)}
    made.add("through", specs.through(drawn, ways), across.through_finding, by_level=True)
    made.add("latency", specs.percentiles(drawn), findings.latency, by_level=True)
    chart = line("p99", "p99 in milliseconds, logarithmic", "log")
    made.add("latency-over", chart, findings.latency_growth)
    made.add("cpu", specs.cpu(drawn), findings.cpu, by_level=True)
    made.add("cpu-over", line("cpu", "CPU time per request, µs"), findings.cpu_growth)
    made.add("switches", specs.switches(drawn), findings.switches, by_level=True)
    made.add("memory", line("memory", "megabytes, peak"), findings.memory)
    dots = peers.dots(study)
    if title := peers.standing(dots):
        data, quotas = [*peers.dot_rows(dots)], {dot.conditions.quota for dot in dots}
        quota = quotas.pop() if len(quotas) == 1 else 0.0
        made.add_always("standing", specs.standing(data), title, data, quota)
    for one in across.contrasts(study):
        kind, quota = one.kind, one.scenarios[-1].quota
        spec = specs.over_conditions(drawn, kind.key, one.labels, kind.axis, one.metric)
        made.add_always(kind.key, spec, across.title(one), one.rows, quota)
    made.add("loops", specs.loops(), across.loops)
    return made


# ---- SVG and PNG of each chart, from the same specification as on the page ----


def write_charts(made: Catalogue, folder: Path) -> list[Path]:
    """Write all charts in their initial state, and the rates of every scenario. Return the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, spec in pictures(made) for path in _write(spec, folder / name)]


def write_rates(folder: Path) -> list[Path]:
    """Write the charts of rates and rankings into a sweep's folder, and return their paths. The
    files of the first conditions are `chart` and `order`; other names end in `_CONDITIONS`.
    Conditions without a valid result have no file."""
    study = Study(load(folder))
    there = [s for s in study.scenarios if any(point.held for point in study.of(s))]
    if not there:
        return []
    made, written = catalogue(study), []
    for scenario in there:
        more = "" if scenario == study.scenarios[0] else f"_{scenario.slug()}"
        for name, key in (("chart", "rates"), ("order", "order")):
            if spec := made.picture(key, scenario):
                written += _write(spec, folder / f"{name}{more}")
    return written


def _write(spec: Spec, path: Path) -> list[Path]:
    """Write a picture as SVG and PNG."""
    svg = vl_convert.vegalite_to_svg(spec)
    vector, pixels = path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")
    replace(vector, svg)
    replace(pixels, vl_convert.svg_to_png(svg, scale=2))
    return [vector, pixels]


def pictures(made: Catalogue) -> Iterator[tuple[str, Spec]]:
    """Yield the file name, without suffix, and the whole specification of each picture."""
    study = made.study
    for key in made.exhibits:
        for scenario in study.scenarios if key == "rates" else study.scenarios[:1]:
            if spec := made.picture(key, scenario):
                more = "" if scenario == study.scenarios[0] else f"-{study.keys[scenario]}"
                yield f"{key}{more}", spec
