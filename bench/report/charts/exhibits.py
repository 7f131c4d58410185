# SPDX-License-Identifier: MIT
"""Charts with their titles, and the data that they refer to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.records.conditions import Conditions
from bench.report.charts.base import Spec
from bench.report.findings.findings import in_its_slice
from bench.report.study.study import Row, Study

Finding = Callable[[Study, Conditions], str]
FindingAt = Callable[[Study, Conditions, int], str]


@dataclass
class Exhibit:
    """A chart with its titles."""

    key: str
    spec: Spec
    titles: Mapping[str, str | dict[str, str]] = field(default_factory=dict)
    """Scenario -> title; or, for a chart at one level, scenario -> {level: title}. A missing
    scenario has nothing to show. "*": one title for all scenarios and levels."""

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
        """Return the title of each chart when the page opens."""
        first = self.study.scenarios[0]
        key, level = self.study.keys[first], self.study.reference(first)
        return {name: chart.title(key, level) for name, chart in self.exhibits.items()}

    def add(self, key: str, spec: Spec, say: Finding) -> None:
        """Add a chart with the titles that `say` returns, unless all of them are empty."""
        told = ((k, in_its_slice(s.quota, say(self.study, s))) for s, k in self._chosen())
        said = {key: words for key, words in told if words}
        if said:
            self.exhibits[key] = Exhibit(key, spec, said)

    def add_at(self, key: str, spec: Spec, say: FindingAt) -> None:
        """Add a chart for each level with the titles of `say`, unless all of them are empty."""
        said: dict[str, dict[str, str]] = {}
        for scenario, name in self._chosen():
            levels = self.study.levels(scenario)
            told = ((n, in_its_slice(scenario.quota, say(self.study, scenario, n))) for n in levels)
            said[name] = {str(n): text for n, text in told if text}
        if any(said.values()):
            self.exhibits[key] = Exhibit(key, spec, said)

    def add_always(self, key: str, spec: Spec, title: str, quota: float) -> None:
        """Add a chart that does not depend on the controls. `quota`: the servers' CPU quota."""
        self.exhibits[key] = Exhibit(key, spec, {"*": in_its_slice(quota, title)})

    def _chosen(self) -> list[tuple[Conditions, str]]:
        return [(s, self.study.keys[s]) for s in self.study.scenarios]
