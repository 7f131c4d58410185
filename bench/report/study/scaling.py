# SPDX-License-Identifier: MIT
"""The fit of the Universal Scalability Law for each server, or the reason why there is none."""

from dataclasses import dataclass

from bench.records.conditions import Conditions
from bench.records.words import connections, figure, percent, plural
from bench.report.study import usl
from bench.report.study.study import Study

SATURATED = 0.9
"""With a contention above this, the lowest level already reaches the highest rate."""

FELT = 0.02
"""A coherence that costs less than this share of the rate is called negligible."""


@dataclass(frozen=True)
class Scaling:
    """The fit for one server in one scenario."""

    subject: str
    fit: usl.Fit | None
    words: str
    """The meaning of the coefficients, or why there is no fit."""


def scalings(study: Study, scenario: Conditions) -> list[Scaling]:
    """Return the fits of all servers and reference servers of a scenario."""
    names = [s.name for s in study.subjects if s.kind != "floor"]
    return [_scaling(study, scenario, n) for n in names if study.series(n, scenario)]


def _scaling(study: Study, scenario: Conditions, name: str) -> Scaling:
    points = study.series(name, scenario)
    failed = [p for p in points if p.state == "failed"]
    bounded = [p for p in points if p.lower_bound]
    try:
        if failed:
            word = plural(len(failed), "level")
            raise usl.Unfit(f"errors at {word}, which the law does not describe")
        if bounded:
            word = plural(len(bounded), "level")
            raise usl.Unfit(f"at {word} the load generator was the limit, not this server")
        measured = [(p.level, rate) for p in points if (rate := p.get("rate")) and p.held]
        fit = usl.fit(measured)
    except usl.Unfit as reason:
        return Scaling(name, None, f"Not fitted: {reason}.")
    return Scaling(name, fit, f"{_contention(fit)} {_coherence(fit)}")


def _contention(fit: usl.Fit) -> str:
    lowest = min(fit.levels)
    if fit.contention <= 0:
        return "No contention (σ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0) within these levels."
    share = f"σ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{figure(fit.contention)}"
    full = 1 - usl.law(lowest, 1, fit.contention, 0) * fit.contention
    if fit.contention >= SATURATED or full < 1 - SATURATED:
        rate = figure(fit.at(lowest))
        return (
            f"{share}: at {connections(lowest)} it reaches its highest rate, about {rate} "
            "requests/s, one after another; more connections only wait longer."
        )
    which = "together with κ" if fit.coherence > 0 else "which"
    return (
        f"{share}: {percent(fit.contention)} of a request's work is serial, {which} "
        f"caps the rate at about {figure(fit.ceiling)} requests/s."
    )


def _coherence(fit: usl.Fit) -> str:
    highest = max(fit.levels)
    value = f"κ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{figure(fit.coherence)}"
    if fit.coherence <= 0:
        return f"{value}: connections do not slow each other down."
    lost = 1 - fit.at(highest) / usl.law(highest, fit.rate_of_one, fit.contention, 0)
    if lost < FELT:
        return f"{value}: negligible up to {connections(highest)}."
    return (
        f"{value}: connections slow each other down, and at {highest:,} that has cost "
        f"{percent(lost)} of the rate without κ."
    )
