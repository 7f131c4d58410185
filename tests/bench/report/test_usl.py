# SPDX-License-Identifier: MIT
"""The scalability law: the fit returns the parameters of its data, and unsuitable data is
refused."""

from __future__ import annotations

import pytest

from bench.records.results import Conditions
from bench.report.study import usl
from bench.report.study.study import Study
from bench.report.study.usl import scalings

from .made import plain_runs, results_of

LEVELS = (1, 5, 20, 50, 100, 300, 1000, 3000)


def points_of(rate: float, contention: float, coherence: float) -> list[tuple[int, float]]:
    return [(n, usl.law(n, rate, contention, coherence)) for n in LEVELS]


@pytest.mark.parametrize(
    ("rate", "contention", "coherence"),
    [(100, 0.05, 1e-6), (2500, 0.9, 1e-5), (10, 0.01, 0), (50, 0, 0), (800, 1, 0), (70, 1, 4e-4)],
)
def test_exact_curves_are_found_again(rate: float, contention: float, coherence: float) -> None:
    fit = usl.fit(points_of(rate, contention, coherence))
    assert fit.rate_of_one == pytest.approx(rate, rel=1e-4)
    assert fit.contention == pytest.approx(contention, rel=1e-3, abs=1e-6)
    assert fit.coherence == pytest.approx(coherence, rel=1e-3, abs=1e-9)
    assert fit.mean_error < 1e-6


def test_noise_moves_the_coefficients_little() -> None:
    noisy = [(n, x * (1.03 if i % 2 else 0.97)) for i, (n, x) in enumerate(points_of(100, 0.1, 0))]
    fit = usl.fit(noisy)
    assert fit.contention == pytest.approx(0.1, rel=0.15)
    assert 0.02 < fit.mean_error < 0.04
    assert len(fit.residuals) == len(LEVELS)


def test_no_coefficient_leaves_what_is_possible() -> None:
    rising = [(n, 10 * n**1.05) for n in LEVELS]
    fit = usl.fit(rising)
    assert fit.contention == 0
    assert fit.coherence == 0
    falling = [(n, 1000 - 0.1 * n) for n in LEVELS]
    assert usl.fit(falling).contention <= 1


def test_the_peak_and_the_ceiling() -> None:
    fit = usl.fit(points_of(100, 0.05, 1e-5))
    assert fit.peak_level == pytest.approx((0.95 / 1e-5) ** 0.5, rel=1e-3)
    assert fit.ceiling == pytest.approx(usl.law(308, 100, 0.05, 1e-5), rel=1e-3)
    without_coherence = usl.fit(points_of(100, 0.05, 0))
    assert without_coherence.peak_level is None
    assert without_coherence.ceiling == pytest.approx(2000, rel=1e-3)
    assert usl.fit(points_of(50, 0, 0)).ceiling is None


@pytest.mark.parametrize("sign", [1, -1])
def test_what_rounding_leaves_is_no_contention(sign: int) -> None:
    """Rounding gives no contention: versions of Python sum differently, so a 0 may be slightly
    above or below."""
    points = points_of(100, 0, 0)
    traced = [(n, rate * (1 - sign * 1e-14 * n)) for n, rate in points]
    assert usl.fit(traced).ceiling is None


def test_too_few_points_are_refused() -> None:
    with pytest.raises(usl.Unfit, match="5 valid levels"):
        usl.fit(points_of(100, 0.1, 0)[:5])


def test_a_curve_unlike_the_law_is_refused() -> None:
    zigzag = [(n, 100.0 if i % 2 else 1000.0) for i, n in enumerate(LEVELS)]
    with pytest.raises(usl.Unfit, match="differs from the rates"):
        usl.fit(zigzag)


def test_errors_and_lower_bounds_are_refused() -> None:
    study = Study(results_of(plain_runs(("poll", "forking", "epoll"))))
    words = {s.subject: s for s in scalings(study, Conditions("guestbook"))}
    assert words["forking"].fit is None
    assert "errors at 1 level" in words["forking"].words
    assert words["poll"].fit is not None
    assert "has cost" in words["poll"].words

    study = Study(results_of(plain_runs(("epoll",), workload="redirect")))
    (found,) = scalings(study, Conditions("redirect"))
    assert found.fit is None
    assert "load generator was the limit" in found.words
