# SPDX-License-Identifier: MIT
"""The Universal Scalability Law, fitted by least squares. Pure functions, no library.

    X(N) = L N / (1 + S (N - 1) + K N (N - 1))

X is the rate at N connections, L (lambda) the rate of a single one. S (sigma) is the serial share
of the work (contention). K (kappa) is the cost that each pair of connections adds (coherence).
N divided by X is linear in three unknowns:

    N / X = a + b (N - 1) + c N (N - 1)       with L = 1/a, S = b/a, K = c/a

A fit is a system of three linear equations. Each point is weighted so that errors are relative
to the measured rate. No coefficient may be negative, and S is at most 1. If the best fit
is outside of these edges, the best fit on an edge is used. Some servers have no fit, but a reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from bench.records.conditions import Conditions
from bench.records.words import connections, figure, percent, plural
from bench.report.study.study import Study

LEAST_POINTS = 6
"""The fit of three unknowns needs at least this many levels."""
LARGEST_RESIDUAL = 0.15
"""If the mean error is above this share of the rate, the law does not describe the curve."""
TINY = 1e-12
UNFELT = 1e-9
"""A coefficient below this share of a request's time at the highest level is a rounding error of
0. A highest rate calculated from it would have no meaning."""


class Unfit(Exception):
    """Raised with the reason if there is no fit."""


@dataclass(frozen=True)
class Fit:
    """A fitted law with its residuals."""

    rate_of_one: float
    """λ, requests per second of a single connection; extrapolated if that was not measured."""
    contention: float
    """σ, the serial share of the work, from 0 to 1."""
    coherence: float
    """κ, the cost of each pair of connections."""
    levels: tuple[int, ...]
    residuals: tuple[float, ...]
    """(measured - fitted) / measured at each level."""

    def at(self, level: float) -> float:
        """Return the rate that the fitted law predicts at a level."""
        return law(level, self.rate_of_one, self.contention, self.coherence)

    @property
    def mean_error(self) -> float:
        """The mean of the residuals' absolute values."""
        return sum(map(abs, self.residuals)) / len(self.residuals)

    @property
    def peak_level(self) -> float | None:
        """The level of the highest rate; None if the curve never falls."""
        if self.coherence <= 0:
            return None
        return sqrt(max(1 - self.contention, 0.0) / self.coherence)

    @property
    def ceiling(self) -> float | None:
        """The rate that the curve never exceeds; None if there is no limit."""
        if self.peak_level is not None:
            return self.at(max(self.peak_level, 1.0))
        return self.rate_of_one / self.contention if self.contention > 0 else None


def law(level: float, rate_of_one: float, contention: float, coherence: float) -> float:
    """Return the rate X(N) of the law, with N = level."""
    below = 1 + contention * (level - 1) + coherence * level * (level - 1)
    return rate_of_one * level / below


def fit(points: Sequence[tuple[int, float]]) -> Fit:
    """Fit the law to (level, rate). Raise Unfit if there are too few points or it fits badly."""
    if len(points) < LEAST_POINTS:
        words = f"{plural(len(points), 'valid level')}, the fit needs {LEAST_POINTS}"
        raise Unfit(words)
    best = _best_coefficients(points)
    if best is None:
        raise Unfit("no curve of this law fits these points")
    a, b, c = best
    levels = tuple(level for level, _ in points)
    most = max(levels)
    b = b if b * (most - 1) > UNFELT * a else 0.0
    c = c if c * most * (most - 1) > UNFELT * a else 0.0
    shape = (1 / a, b / a, c / a)
    residuals = tuple((rate - law(level, *shape)) / rate for level, rate in points)
    found = Fit(*shape, levels, residuals)
    if found.mean_error > LARGEST_RESIDUAL:
        raise Unfit(f"the law differs from the rates by {100 * found.mean_error:.0f} % on average")
    return found


EDGES: tuple[Callable[[int], tuple[float, ...]], ...] = (
    lambda n: (1.0, n - 1.0, n * (n - 1.0)),  # all three free
    lambda n: (1.0, n - 1.0),  # no coherence
    lambda n: (1.0, 0.0, n * (n - 1.0)),  # no contention
    lambda n: (1.0,),  # neither
    lambda n: (n, 0.0, n * (n - 1.0)),  # contention of 1: strictly serial
    lambda n: (n,),  # contention of 1, no coherence
)
"""The terms of N/X inside of the allowed range (0 <= b <= a, 0 <= c) and on its edges. The best of
their solutions is the fit. A term that is always 0 is omitted from the equations."""
ALL_SERIAL = 4
"""From this index on, the first term is the sum of those of a and b, which are equal."""


def _best_coefficients(points: Sequence[tuple[int, float]]) -> tuple[float, float, float] | None:
    """Return the allowed a, b and c with the least squares of errors relative to the rate."""
    best, least = None, float("inf")
    for number, terms in enumerate(EDGES):
        rows = [[rate / n * term for term in terms(n)] for n, rate in points]
        used = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
        solved = _least_squares([[row[i] for i in used] for row in rows])
        if solved is None:
            continue
        full = [0.0, 0.0, 0.0]
        for index, value in zip(used, solved, strict=True):
            full[index] = value
        if number >= ALL_SERIAL:
            full[1] = full[0]
        a, b, c = full
        if a <= TINY or not 0 <= b <= a or c < 0:
            continue
        error = sum((1 - x * (a + b * (n - 1) + c * n * (n - 1)) / n) ** 2 for n, x in points)
        if error < least:
            best, least = (a, b, c), error
    return best


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the x for which rows · x is nearest to 1; None if the rows do not determine it.

    The columns differ by many orders of magnitude (1, N, N²), so each is first scaled to length 1.
    """
    width = len(rows[0])
    scale = [sqrt(sum(row[i] ** 2 for row in rows)) or 1.0 for i in range(width)]
    scaled = [[value / s for value, s in zip(row, scale, strict=True)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled) for j in range(width)]
        + [sum(row[i] for row in scaled)]
        for i in range(width)
    ]
    solved = _solve(matrix)
    return [value / s for value, s in zip(solved, scale, strict=True)] if solved else None


def _solve(matrix: list[list[float]]) -> list[float] | None:
    """Solve by Gaussian elimination; the last column is the right-hand side."""
    size = len(matrix)
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(matrix[r][column]))
        if abs(matrix[pivot][column]) < TINY:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in range(size):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [
                    x - factor * y for x, y in zip(matrix[row], matrix[column], strict=True)
                ]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]


# ---- The fit for each server, or the reason why there is none ----

SATURATED = 0.9
"""With a contention above this, the lowest level already reaches the highest rate."""

FELT = 0.02
"""A coherence that costs less than this share of the rate is called negligible."""


@dataclass(frozen=True)
class Scaling:
    """The fit for one server in one scenario."""

    subject: str
    fit: Fit | None
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
            raise Unfit(f"errors at {word}, which the law does not describe")
        if bounded:
            word = plural(len(bounded), "level")
            raise Unfit(f"at {word} the load generator was the limit, not this server")
        measured = [(p.level, rate) for p in points if (rate := p.get("rate")) and p.held]
        found = fit(measured)
    except Unfit as reason:
        return Scaling(name, None, f"Not fitted: {reason}.")
    return Scaling(name, found, f"{_contention(found)} {_coherence(found)}")


def _contention(fit: Fit) -> str:
    lowest = min(fit.levels)
    if fit.contention <= 0:
        return "No contention (σ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0) within these levels."
    share = f"σ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{figure(fit.contention)}"
    full = 1 - law(lowest, 1, fit.contention, 0) * fit.contention
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


def _coherence(fit: Fit) -> str:
    highest = max(fit.levels)
    value = f"κ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{figure(fit.coherence)}"
    if fit.coherence <= 0:
        return f"{value}: connections do not slow each other down."
    lost = 1 - fit.at(highest) / law(highest, fit.rate_of_one, fit.contention, 0)
    if lost < FELT:
        return f"{value}: negligible up to {connections(highest)}."
    return (
        f"{value}: connections slow each other down, and at {highest:,} that has cost "
        f"{percent(lost)} of the rate without κ."
    )
