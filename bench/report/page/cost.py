# SPDX-License-Identifier: MIT
"""The page of the CPU cost of a request: the results of `make cost` as one self-contained HTML file
without a script."""

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
"""Colours of the boxes of a flame graph, light and dark."""
LISTED = 0.01
"""The list next to a flame graph contains functions with at least this share."""


def render(results: Results) -> str:
    """Return the page as HTML."""
    template = template_of(__file__, "cost.html.j2")
    return template.render(**_context(results)).lstrip()


def command(results: Results) -> str:
    """Return the command that repeats the measurement."""
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
    """The tables and bars of one set of conditions."""

    title: str
    costs: words.TextTable
    bars: list[dict[str, float] | None]
    calls: words.TextTable


def _group(conditions: Conditions, found: list[reader.ServerCost]) -> CostGroup:
    most = max((line.cost.median for line in found if line.cost), default=1.0)
    bars = [_bar(line, most) for line in found]
    costs, calls = words.cost_table(found), words.calls_table(found)
    return CostGroup(conditions.describe(), costs, bars, calls)


def _bar(line: reader.ServerCost, most: float) -> dict[str, float] | None:
    """Return the server's cost, its user part and its baseline in per cent of the highest cost; -1
    if a value is unknown."""
    if line.cost is None:
        return None
    return {
        "all": round(100 * line.cost.median / most, 2),
        "user": -1 if line.user is None else round(100 * line.user / most, 2),
        "floor": round(100 * line.floor.median / most, 2) if line.floor else -1,
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
    """Return a flame graph with its title, its drawing and its list."""
    return ShownFlame(
        f"{one.subject}, {one.conditions.describe()}, {connections(one.concurrency)}",
        f"flame-{one.subject}-{one.conditions.slug()}-{one.concurrency}",
        f"{one.stacks.count:,} {one.stacks.unit} by {one.stacks.how}",
        flame.drawing(one.stacks),
        flame.listed(one.stacks, LISTED),
    )
