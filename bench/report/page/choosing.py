# SPDX-License-Identifier: MIT
"""The scenarios and servers that the page's controls offer, with the texts about them."""

from dataclasses import dataclass

from bench.records.conditions import Conditions
from bench.records.words import figure
from bench.report.charts import style
from bench.report.charts.base import Catalogue
from bench.report.findings import choice
from bench.report.findings.recommendation import Advice
from bench.report.study.holding import Holding, holdings
from bench.report.study.study import Study, describe
from bench.report.study.usl import Scaling, scalings


def part(study: Study, _: Catalogue) -> dict[str, object]:
    """Return the scenarios with their texts, and the servers with their symbols."""
    shapes = style.subject_shapes(study.subjects)
    return {
        "scenarios": [_scenario(study, scenario) for scenario in study.scenarios],
        "subjects": [
            {"name": s.name, "kind": s.kind, "path": style.SHAPES[shape]}
            for s, shape in zip(study.subjects, shapes, strict=True)
        ],
    }


@dataclass(frozen=True)
class ShownScenario:
    """A set of conditions with the texts about each server under them."""

    key: str
    name: str
    answers: list[Advice]
    holdings: list[Holding]
    laws: list[dict[str, str]]


def _scenario(study: Study, scenario: Conditions) -> ShownScenario:
    return ShownScenario(
        study.keys[scenario],
        describe(scenario),
        choice.answers(study, scenario),
        holdings(study, scenario),
        [_law(found) for found in scalings(study, scenario)],
    )


def _law(found: Scaling) -> dict[str, str]:
    error = ""
    if found.fit:
        error = (
            f"λ = {figure(found.fit.rate_of_one)}/s; the curve differs from the points by "
            f"{100 * found.fit.mean_error:.1f} % on average."
        )
    return {"subject": found.subject, "words": found.words, "error": error}
