# SPDX-License-Identifier: MIT
"""Charts with their titles, and the data that they refer to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.records.conditions import Conditions
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

    def title(self, scenario: str, level: int) -> str:
        """Its title where a scenario and a level are chosen; empty if there is nothing to show."""
        said = self.titles.get("*") or self.titles.get(scenario, "")
        return str(said.get(str(level), "")) if isinstance(said, dict) else said


@dataclass
class Catalogue:
    """All charts and the data that they refer to by name."""

    study: Study
    data: dict[str, list[dict[str, Any]]]
    exhibits: dict[str, Exhibit] = field(default_factory=dict)

    def titles(self) -> dict[str, str]:
        """The title of each chart as it is when the page opens."""
        first = self.study.scenarios[0]
        key, level = self.study.keys[first], self.study.reference(first)
        return {name: chart.title(key, level) for name, chart in self.exhibits.items()}

    def add(self, key: str, spec: dict[str, Any], say: Finding) -> None:
        """A chart; `say`: its title under some conditions. None where nothing is said of any."""
        said = {k: words for s, k in self._chosen() if (words := say(self.study, s))}
        if said:
            self.exhibits[key] = Exhibit(key, spec, said)

    def add_at(self, key: str, spec: dict[str, Any], say: FindingAt) -> None:
        """A chart at one level; `say`: its title there. None where nothing is said of any."""
        said: dict[str, dict[str, str]] = {}
        for scenario, name in self._chosen():
            levels = self.study.levels(scenario)
            words = {str(level): say(self.study, scenario, level) for level in levels}
            said[name] = {level: text for level, text in words.items() if text}
        if any(said.values()):
            self.exhibits[key] = Exhibit(key, spec, said)

    def _chosen(self) -> list[tuple[Conditions, str]]:
        return [(s, self.study.keys[s]) for s in self.study.scenarios]
