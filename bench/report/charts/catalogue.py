# SPDX-License-Identifier: MIT
"""All charts of a report: which there are, their titles, where they stand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.records.conditions import Conditions
from bench.report.charts import bars, base, lines, peers, rows
from bench.report.findings import findings, findings_across, floors, instances, ordering
from bench.report.findings import peers as found_peers
from bench.report.study import across, hosts
from bench.report.study.study import Study

Finding = Callable[[Study, Conditions], str]
FindingAt = Callable[[Study, Conditions, int], str]


@dataclass
class Exhibit:
    """A chart with its titles."""

    key: str
    spec: dict[str, Any]
    titles: dict[str, Any] = field(default_factory=dict)
    """Scenario -> title; or, for a chart at one level, scenario -> {level: title}. A scenario that
    is missing has nothing to show here. "*": the same title whatever is chosen."""
    at_level: bool = False

    def title(self, scenario: str, level: int) -> str:
        """Its title where a scenario and a level are chosen; empty if there is nothing to show."""
        said = self.titles.get("*") or self.titles.get(scenario, "")
        return str(said.get(str(level), "")) if isinstance(said, dict) else said


@dataclass
class Catalogue:
    """All charts and the data that they refer to by name."""

    exhibits: dict[str, Exhibit]
    data: dict[str, list[dict[str, Any]]]

    def titles(self, study: Study) -> dict[str, str]:
        """The title of each chart as it is when the page opens."""
        first = study.scenarios[0]
        key, level = study.keys[first], study.reference(first)
        return {name: chart.title(key, level) for name, chart in self.exhibits.items()}


def catalogue(study: Study) -> Catalogue:
    """Make all charts for which there are data."""
    return _Maker(study).make()


class _Maker:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.keys = study.keys
        self.first = study.scenarios[0]
        level = study.reference(self.first)
        self.parameters = base.parameters(self.keys[self.first], level)
        self.levels = sorted({n for s in study.scenarios for n in study.levels(s)})
        self.exhibits: dict[str, Exhibit] = {}

    def make(self) -> Catalogue:
        data = rows.all_rows(self.study)
        if data["order"]:
            chart = bars.order(self.study.subjects, self.parameters)
            self._add("order", chart, ordering.finding)
        self._rates_and_holding(data["cells"])
        self._hosts_and_instances(data)
        self._costs()
        self._floors(data["floors"])
        self._law(bool(data["law"]))
        self._peers(data)
        self._across(data)
        return Catalogue(self.exhibits, data)

    def _rates_and_holding(self, cells: list[dict[str, Any]]) -> None:
        shared = (self.study.subjects, self.levels)
        self._add("rates", lines.rates(*shared, self.parameters), findings.rates)
        seen = {row["status"] for row in cells}
        strip = bars.holding(*shared, sorted(seen), self.parameters)
        self._add("holding", strip, findings.holding)

    def _hosts_and_instances(self, data: dict[str, list[dict[str, Any]]]) -> None:
        subjects, study = self.study.subjects, self.study
        if data["hosts"]:
            chart = bars.hosts(subjects, hosts.names(study), self.parameters)
            self._add_at("hosts", chart, hosts.finding)
        counts = sorted({row["n"] for row in data["instances"]})
        for way in ("keep", "close") if len(counts) > 1 else ():
            chart = lines.scaling(subjects, counts, way, self.parameters)
            say = partial(instances.scaling_finding, way=way)
            self._add_at(f"instances-{way}", chart, say)
        if data["instances"]:
            chart = lines.through(subjects, self.parameters)
            self._add_at("through", chart, instances.through_finding)

    def _floors(self, found: list[dict[str, Any]]) -> None:
        if not found:
            return
        labels = list(dict.fromkeys(row["workload"] for row in found))
        chart = bars.floors(self.study.subjects, labels, self.parameters)
        self.exhibits["floors"] = Exhibit("floors", chart, {"*": floors.finding(self.study)})

    def _costs(self) -> None:
        subjects, study = self.study.subjects, self.study
        line = partial(lines.over_levels, subjects, self.levels, parameters=self.parameters)
        if study.has("p99"):
            self._add_at("latency", bars.percentiles(subjects, self.parameters), findings.latency)
            title = "milliseconds within which 99 % came, logarithmic"
            growth = findings.latency_growth
            self._add("latency-over", line(key="p99", title=title, kind="log"), growth)
        if study.has("cpu"):
            self._add_at("cpu", bars.cpu(subjects, self.parameters), findings.cpu)
            title = "microseconds of CPU per request"
            self._add("cpu-over", line(key="cpu", title=title), findings.cpu_growth)
        if study.has("switches_voluntary"):
            chart = bars.switches(subjects, self.parameters)
            self._add_at("switches", chart, findings.switches)
        if study.has("memory"):
            self._add("memory", line(key="memory", title="megabytes, peak"), findings.memory)

    def _law(self, fitted: bool) -> None:
        if not fitted:
            return
        shared = (self.study.subjects, self.levels, self.parameters)
        self._add("law", lines.law(*shared), findings.law)
        self._add("residuals", lines.residuals(*shared), findings.residuals)

    def _peers(self, data: dict[str, list[dict[str, Any]]]) -> None:
        """Where the seven stand, in a sweep that was made for studies beside them."""
        dots = found_peers.dots(self.study)
        title = found_peers.standing(dots)
        if title:
            data["standing"] = peers.rows(dots)
            spec = peers.standing(dots, self.parameters)
            self.exhibits["standing"] = Exhibit("standing", spec, {"*": title})

    def _across(self, data: dict[str, list[dict[str, Any]]]) -> None:
        names = [s.name for s in self.study.subjects if s.kind != "floor"]
        made = {
            "workloads": (across.workloads(self.study), "workload"),
            "delays": (across.delays(self.study), "delay of each reply of Redis"),
            "idles": (across.idles(self.study), "idle connections beside the load"),
        }
        for key, (found, axis) in made.items():
            if found is None:
                continue
            title = findings_across.title(found, names, axis)
            subjects, parameters = self.study.subjects, self.parameters
            labels = {name: found.labels.get(name, name) for name in found.order}
            spec = lines.over_conditions(subjects, key, labels, axis, found.metric, parameters)
            self.exhibits[key] = Exhibit(key, spec, {"*": title})
            data[key] = found.rows
        if data["loops"]:
            by: dict[str, list[dict[str, Any]]] = {}
            for row in data["loops"]:
                by.setdefault(row["s"], []).append(row)
            titles = {key: findings_across.loops(found) for key, found in by.items()}
            self.exhibits["loops"] = Exhibit("loops", bars.loops(self.parameters), titles)

    def _add(self, key: str, spec: dict[str, Any], say: Finding) -> None:
        said = {k: say(self.study, s) for s, k in self._chosen()}
        self.exhibits[key] = Exhibit(key, spec, {k: words for k, words in said.items() if words})

    def _add_at(self, key: str, spec: dict[str, Any], say: FindingAt) -> None:
        said: dict[str, dict[str, str]] = {}
        for scenario, name in self._chosen():
            levels = self.study.levels(scenario)
            words = {str(level): say(self.study, scenario, level) for level in levels}
            said[name] = {level: text for level, text in words.items() if text}
        if any(said.values()):
            self.exhibits[key] = Exhibit(key, spec, said, at_level=True)

    def _chosen(self) -> list[tuple[Conditions, str]]:
        return [(s, self.keys[s]) for s in self.study.scenarios]
