# SPDX-License-Identifier: MIT
"""All charts of a report: which there are, and what says their titles. Where each of them stands is
for `bench/report/page/template/page.html.j2` to say."""

from functools import partial
from typing import Any

from bench.report.charts import bars, base, lines, rows
from bench.report.charts.comparisons import add_comparisons
from bench.report.charts.exhibits import Catalogue, Exhibit
from bench.report.findings import findings, floors, instances, ordering
from bench.report.study import hosts
from bench.report.study.study import Study


def catalogue(study: Study) -> Catalogue:
    """Make all charts for which there are data."""
    return _Maker(study).make()


class _Maker:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.levels = sorted({n for s in study.scenarios for n in study.levels(s)})
        self.made = Catalogue(study, rows.all_rows(study))

    def make(self) -> Catalogue:
        data = self.made.data
        if data["order"]:
            chart = bars.order(self.study.subjects)
            self.made.add("order", chart, ordering.finding)
        self._rates_and_holding(data["cells"])
        self._hosts_and_instances(data)
        self._costs()
        self._floors(data["floors"])
        self._law(bool(data["law"]))
        add_comparisons(self.made)
        first = self.study.scenarios[0]
        for exhibit in self.made.exhibits.values():
            base.choose(exhibit.spec, self.study.keys[first], self.study.reference(first))
        return self.made

    def _rates_and_holding(self, cells: list[dict[str, Any]]) -> None:
        shared = (self.study.subjects, self.levels)
        self.made.add("rates", lines.rates(*shared), findings.rates)
        seen = {row["status"] for row in cells}
        strip = bars.holding(*shared, sorted(seen))
        self.made.add("holding", strip, findings.holding)

    def _hosts_and_instances(self, data: dict[str, list[dict[str, Any]]]) -> None:
        subjects, study = self.study.subjects, self.study
        if data["hosts"]:
            chart = bars.hosts(subjects, hosts.names(study))
            self.made.add_at("hosts", chart, hosts.finding)
        counts = sorted({row["n"] for row in data["instances"]})
        for way in ("keep", "close") if len(counts) > 1 else ():
            chart = lines.scaling(subjects, counts, way)
            say = partial(instances.scaling_finding, way=way)
            self.made.add_at(f"instances-{way}", chart, say)
        if data["instances"]:
            chart = lines.through(subjects, {row["way"] for row in data["instances"]})
            self.made.add_at("through", chart, instances.through_finding)

    def _floors(self, found: list[dict[str, Any]]) -> None:
        if not found:
            return
        labels = list(dict.fromkeys(row["workload"] for row in found))
        chart = bars.floors(self.study.subjects, labels)
        self.made.exhibits["floors"] = Exhibit("floors", chart, {"*": floors.finding(self.study)})

    def _costs(self) -> None:
        subjects, study = self.study.subjects, self.study
        line = partial(lines.over_levels, subjects, self.levels)
        if study.has("p99"):
            self.made.add_at("latency", bars.percentiles(subjects), findings.latency)
            title = "milliseconds within which 99 % came, logarithmic"
            growth = findings.latency_growth
            self.made.add("latency-over", line(key="p99", title=title, kind="log"), growth)
        if study.has("cpu"):
            self.made.add_at("cpu", bars.cpu(subjects), findings.cpu)
            title = "microseconds of CPU per request"
            self.made.add("cpu-over", line(key="cpu", title=title), findings.cpu_growth)
        if study.has("switches_voluntary"):
            chart = bars.switches(subjects)
            self.made.add_at("switches", chart, findings.switches)
        if study.has("memory"):
            self.made.add("memory", line(key="memory", title="megabytes, peak"), findings.memory)

    def _law(self, fitted: bool) -> None:
        if not fitted:
            return
        shared = (self.study.subjects, self.levels)
        self.made.add("law", lines.law(*shared), findings.law)
        self.made.add("residuals", lines.residuals(*shared), findings.residuals)
