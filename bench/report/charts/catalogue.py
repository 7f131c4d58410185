# SPDX-License-Identifier: MIT
"""All charts of a report and the functions that write their titles. Their places on the page are in
`bench/report/page/template/page.html.j2`."""

from functools import partial

from bench.report.charts import bars, base, lines, peers, rows
from bench.report.charts.base import Catalogue
from bench.report.findings import findings, findings_across, instances, recommendation
from bench.report.study import across, hosts
from bench.report.study.study import Study


def add_comparisons(made: Catalogue) -> None:
    """Add the comparisons for which there are data."""
    study = made.study
    peers.add_standing(made)
    subjects = study.subjects
    names = [s.name for s in subjects if s.kind != "floor"]
    found_by = {
        "workloads": (across.workloads(study), "workload"),
        "delays": (across.delays(study), "delay of each reply of Redis"),
        "idles": (across.idles(study), "idle connections during the load"),
    }
    for key, (found, axis) in found_by.items():
        if found is None:
            continue
        title = findings_across.title(found, names, axis)
        labels = {name: found.labels.get(name, name) for name in found.order}
        spec = lines.over_conditions(subjects, key, labels, axis, found.metric)
        made.add_always(key, spec, title, found.last.quota)
        made.data[key] = found.rows
    made.add("loops", bars.loops(), findings_across.loops)


def catalogue(study: Study) -> Catalogue:
    """Return all charts for which there are data."""
    return _Maker(study).make()


class _Maker:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.levels = sorted({n for s in study.scenarios for n in study.levels(s)})
        self.made = Catalogue(study, rows.all_rows(study))

    def make(self) -> Catalogue:
        if self.made.data["order"]:
            chart = bars.order(self.study.subjects)
            self.made.add("order", chart, recommendation.ranking_title)
        self._rates_and_holding()
        self._hosts_and_instances()
        self._costs()
        self._floors()
        self._law()
        add_comparisons(self.made)
        first = self.study.scenarios[0]
        at = self.study.keys[first], self.study.reference(first)
        for exhibit in self.made.exhibits.values():
            exhibit.spec = base.chosen(exhibit.spec, *at)
        return self.made

    def _rates_and_holding(self) -> None:
        shared = (self.study.subjects, self.levels)
        self.made.add("rates", lines.rates(*shared), findings.rates)
        points = (p for scenario in self.study.scenarios for p in self.study.of(scenario))
        seen = {rows.status_of(point) for point in points}
        strip = bars.holding(*shared, sorted(seen))
        self.made.add("holding", strip, findings.holding)

    def _hosts_and_instances(self) -> None:
        subjects, study = self.study.subjects, self.study
        if self.made.data["hosts"]:
            chart = bars.hosts(subjects, hosts.names(study))
            self.made.add_at("hosts", chart, hosts.finding)
        found = instances.instance_rows(study)
        self.made.data["instances"] = [row._asdict() for row in found]
        counts = sorted({row.n for row in found})
        for way in ("keep", "close") if len(counts) > 1 else ():
            chart = lines.scaling(subjects, counts, way)
            say = partial(instances.scaling_finding, way=way)
            self.made.add_at(f"instances-{way}", chart, say)
        if found:
            chart = lines.through(subjects, {row.way for row in found})
            self.made.add_at("through", chart, instances.through_finding)

    def _floors(self) -> None:
        found = findings_across.floor_rows(self.study)
        if not found:
            return
        self.made.data["floors"] = [row._asdict() for row in found]
        labels = list(dict.fromkeys(row.workload for row in found))
        chart = bars.floors(self.study.subjects, labels)
        self.made.add_always(
            "floors", chart, findings_across.floors_title(self.study), self.study.usual.quota
        )

    def _costs(self) -> None:
        subjects, study = self.study.subjects, self.study
        line = partial(lines.over_levels, subjects, self.levels)
        if study.has("p99"):
            self.made.add_at("latency", bars.percentiles(subjects), findings.latency)
            title = "p99 in milliseconds, logarithmic"
            growth = findings.latency_growth
            self.made.add("latency-over", line(key="p99", title=title, kind="log"), growth)
        if study.has("cpu"):
            self.made.add_at("cpu", bars.cpu(subjects), findings.cpu)
            title = "CPU time per request, µs"
            self.made.add("cpu-over", line(key="cpu", title=title), findings.cpu_growth)
        if study.has("switches_voluntary"):
            chart = bars.switches(subjects)
            self.made.add_at("switches", chart, findings.switches)
        if study.has("memory"):
            self.made.add("memory", line(key="memory", title="megabytes, peak"), findings.memory)

    def _law(self) -> None:
        if not self.made.data["law"]:
            return
        shared = (self.study.subjects, self.levels)
        self.made.add("law", lines.law(*shared), findings.law)
        self.made.add("residuals", lines.residuals(*shared), findings.residuals)
