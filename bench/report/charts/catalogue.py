# SPDX-License-Identifier: MIT
"""All charts of a report, with the functions that make their titles. The template
`bench/report/page/template/page.html.j2` places the charts on the page."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import vl_convert

from bench.records.store import load, replace
from bench.report import across, findings, limits, peers
from bench.report.charts import base, kinds, rows
from bench.report.charts.base import Catalogue
from bench.report.study import Study


def catalogue(study: Study) -> Catalogue:
    """Return all charts that have data."""
    made = Catalogue(study, rows.all_rows(study))
    if made.data["order"]:
        made.add("order", kinds.order(study.subjects), findings.ranking_title)
    levels = sorted({n for s in study.scenarios for n in study.levels(s)})
    chart = kinds.over_levels(study.subjects, levels, "rate", "requests per second")
    made.add("rates", chart, findings.rates)
    seen = {rows.status_of(point) for scenario in study.scenarios for point in study.of(scenario)}
    strip = kinds.holding(study.subjects, levels, sorted(seen))
    made.add("holding", strip, findings.holding)
    _add_hosts(made)
    _add_costs(made, levels)
    _add_comparisons(made)
    first = study.scenarios[0]
    for exhibit in made.exhibits.values():
        exhibit.spec = base.chosen(exhibit.spec, study.keys[first], study.reference(first))
    return made


def _add_hosts(made: Catalogue) -> None:
    """Add the charts of the hosts, and of nginx with one or several instances."""
    subjects, study = made.study.subjects, made.study
    if made.data["hosts"]:
        chart = kinds.hosts(subjects, limits.names(study))
        made.add("hosts", chart, limits.finding, by_level=True)
    family = [s for scenarios in across.families(study).values() for s in scenarios]
    found = {s for s in family if study.contenders(s)}
    counts = sorted({s.instances for s in found})
    for way in ("keep", "close") if len(counts) > 1 else ():
        chart = kinds.scaling(subjects, counts, way)
        finding = partial(across.scaling_finding, way=way)
        made.add(f"instances-{way}", chart, finding, by_level=True)
    if found:
        chart = kinds.through(subjects, {s.balancer for s in found})
        made.add("through", chart, across.through_finding, by_level=True)


def _add_costs(made: Catalogue, levels: Sequence[int]) -> None:
    """Add the charts of latency, CPU time, context switches and memory."""
    subjects, study = made.study.subjects, made.study
    line = partial(kinds.over_levels, subjects, levels)
    if study.has("p99"):
        made.add("latency", kinds.percentiles(subjects), findings.latency, by_level=True)
        chart = line(key="p99", title="p99 in milliseconds, logarithmic", kind="log")
        made.add("latency-over", chart, findings.latency_growth)
    if study.has("cpu"):
        made.add("cpu", kinds.cpu(subjects), findings.cpu, by_level=True)
        chart = line(key="cpu", title="CPU time per request, µs")
        made.add("cpu-over", chart, findings.cpu_growth)
    if study.has("switches_voluntary"):
        made.add("switches", kinds.switches(subjects), findings.switches, by_level=True)
    if study.has("memory"):
        made.add("memory", line(key="memory", title="megabytes, peak"), findings.memory)


def _add_comparisons(made: Catalogue) -> None:
    """Add the charts of reference servers, of changed conditions, and of the two loops."""
    study, subjects = made.study, made.study.subjects
    dots = peers.dots(study)
    if title := peers.standing(dots):
        made.data["standing"] = standing = [*peers.dot_rows(dots)]
        quotas = {dot.conditions.quota for dot in dots}
        quota = quotas.pop() if len(quotas) == 1 else 0.0
        made.add_always("standing", kinds.standing(standing), title, quota)
    for found in across.contrasts(study):
        kind, quota = found.kind, found.scenarios[-1].quota
        spec = kinds.over_conditions(subjects, kind.key, found.labels, kind.axis, found.metric)
        made.add_always(kind.key, spec, across.title(found), quota)
        made.data[kind.key] = found.rows
    made.add("loops", kinds.loops(), across.loops)


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


def _write(spec: base.Spec, path: Path) -> list[Path]:
    """Write a picture as SVG and PNG."""
    svg = vl_convert.vegalite_to_svg(spec)
    vector, pixels = path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")
    replace(vector, svg)
    replace(pixels, vl_convert.svg_to_png(svg, scale=2))
    return [vector, pixels]


def pictures(made: Catalogue) -> Iterator[tuple[str, base.Spec]]:
    """Yield the file name, without suffix, and the whole specification of each picture."""
    study = made.study
    for key in made.exhibits:
        for scenario in study.scenarios if key == "rates" else study.scenarios[:1]:
            if spec := made.picture(key, scenario):
                more = "" if scenario == study.scenarios[0] else f"-{study.keys[scenario]}"
                yield f"{key}{more}", spec
