# SPDX-License-Identifier: MIT
"""The page of where the microseconds go: the results of `make cost` as one HTML file that needs
nothing else, and no script."""

from dataclasses import dataclass

from bench.readers import cost as reader
from bench.records.conditions import Conditions
from bench.records.results import Results
from bench.records.words import connections
from bench.report.charts import flame
from bench.report.findings import cost as words
from bench.report.page.look import look
from bench.report.page.templates import template_of

COLOURS = {
    "f-server": ("#F5C58A", "#7A4A12"),
    "f-library": ("#D5DBE3", "#3C4654"),
    "f-kernel": ("#B9D3EC", "#2E5378"),
}
"""Of the boxes of a flame graph, light and dark; the ink on them is that of the page."""
LISTED = 0.01
"""The share from which on a function stands in the list beside a flame graph."""


def render(results: Results) -> str:
    """The whole page."""
    template = template_of(__file__, "cost.html.j2")
    return template.render(**_context(results)).lstrip()


def command(results: Results) -> str:
    """What to type to measure it again."""
    _, *rest = results.command or ["cost"]
    return f'make cost ARGS="{" ".join(rest)}"' if rest else "make cost"


def _context(results: Results) -> dict[str, object]:
    found = reader.lines(results)
    tricks, experiments = reader.tricks(results), reader.experiments(results)
    flames = reader.flames(results)
    return {
        "when": f"{results.started:%Y-%m-%d %H:%M}",
        "headline": words.headline(results),
        "measured": words.measured(results),
        "cautions": words.cautions(results),
        "words": words,
        "untold": any(line.cost and line.user is None for line in found),
        "groups": [_group(conditions, own) for conditions, own in words.by_conditions(found)],
        "tricks": words.difference_table(words.TRICK_HEAD, tricks),
        "brought": words.brought(tricks).replace("`", ""),
        "tricks_explained": words.explained(tricks),
        "experiments": words.difference_table(words.EXPERIMENT_HEAD, experiments),
        "experiments_explained": words.explained(experiments),
        "places": [
            (conditions, words.place_table(own)) for conditions, own in words.by_conditions(flames)
        ],
        "sampled": words.sampled_how(flames),
        "flames": [flame_shown(one) for one in flames],
        "command": command(results),
        **look([], COLOURS),
    }


@dataclass(frozen=True)
class CostGroup:
    """What requests cost under some conditions, as it is shown."""

    title: str
    costs: words.TextTable
    bars: list[dict[str, float] | None]
    calls: words.TextTable


def _group(conditions: Conditions, found: list[reader.ServerCost]) -> CostGroup:
    most = max((line.cost.total for line in found if line.cost), default=1.0)
    bars = [_bar(line, most) for line in found]
    costs, calls = words.cost_table(found), words.calls_table(found)
    return CostGroup(conditions.describe(), costs, bars, calls)


def _bar(line: reader.ServerCost, most: float) -> dict[str, float] | None:
    """Per cent of the dearest: all of it, the user's part if it is known, and where the floor
    is."""
    if line.cost is None:
        return None
    return {
        "all": round(100 * line.cost.total / most, 2),
        "user": -1 if line.user is None else round(100 * line.user / most, 2),
        "floor": round(100 * line.floor.total / most, 2) if line.floor else -1,
    }


@dataclass(frozen=True)
class ShownFlame:
    """A flame graph, as the template draws it."""

    title: str
    key: str
    count: str
    drawing: flame.FlameGraph
    items: list[flame.Item]


def flame_shown(one: reader.Flame) -> ShownFlame:
    """With its title, and as a list."""
    return ShownFlame(
        f"{one.subject}, {one.conditions.describe()}, {connections(one.concurrency)}",
        f"flame-{one.subject}-{one.conditions.slug()}-{one.concurrency}",
        f"{one.stacks.count:,} {one.stacks.unit} by {one.stacks.how}",
        flame.drawing(one.stacks),
        flame.listed(one.stacks, LISTED),
    )
