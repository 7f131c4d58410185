# SPDX-License-Identifier: MIT
"""Compute rates from the visitors' exchanges. These functions have no side effects.

Times are seconds of the clock of the exchanges. A rate is the median over short intervals, so that
one short delay of the machine does not change it.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.records.torture import SLICE, Phase
from bench.torture.answers import Exchange

BACK_SLICES = 2
BACK_SHARE = 0.5
"""A server is back when in BACK_SLICES consecutive intervals every page had at least BACK_SHARE of
its rate before the attack, and no request failed."""


def per_slice(answers: Iterable[Exchange], begin: float, end: float) -> list[int]:
    """Return the number of exchanges that ended in each whole interval between two times."""
    slices = [0] * max(0, int((end - begin) / SLICE + 1e-6))
    for answer in answers:
        at = int((answer.ended - begin) // SLICE)
        if 0 <= at < len(slices):
            slices[at] += 1
    return slices


def good(answers: Iterable[Exchange], pages: Iterable[str] | None = None) -> list[Exchange]:
    """Return the good exchanges, of all pages or only of `pages`."""
    wanted = None if pages is None else set(pages)
    return [a for a in answers if a.outcome == "good" and (wanted is None or a.page in wanted)]


def rate(slices: Sequence[int]) -> float:
    """Return responses per second, the median of the intervals; 0 if there is none."""
    return statistics.median(slices) / SLICE if slices else 0.0


def phase(answers: Sequence[Exchange], begin: float, end: float, rated: Iterable[str]) -> Phase:
    """Return the results between two times; the rate is that of good exchanges of `rated` pages."""
    ended = [a for a in answers if begin <= a.ended < end]
    return Phase(
        seconds=round(end - begin, 3),
        rate=round(rate(per_slice(good(ended, rated), begin, end)), 1),
        outcomes=dict(Counter(a.outcome for a in ended)),
        why=reasons(ended),
        longest_ms=round(1000 * max((a.ended - a.begun for a in ended), default=0.0), 1),
    )


def reasons(answers: Iterable[Exchange]) -> dict[str, dict[str, int]]:
    """Return the number of failed exchanges by outcome and reason."""
    found: dict[str, dict[str, int]] = {}
    for answer in answers:
        if answer.outcome != "good":
            counted = found.setdefault(answer.outcome, {})
            text = f"{answer.page}: {answer.detail}"
            counted[text] = counted.get(text, 0) + 1
    return found


def back_after(
    answers: Sequence[Exchange], usual: dict[str, float], since: float, now: float
) -> float | None:
    """Return the seconds after which the server was back, or None if it is not. `usual`: the rate
    of each page before the attack."""
    by_page = {page: per_slice(good(answers, [page]), since, now) for page in usual}
    bad = per_slice([a for a in answers if a.outcome != "good"], since, now)
    for first in range(len(bad) - BACK_SLICES + 1):
        window = slice(first, first + BACK_SLICES)
        if not any(bad[window]) and all(
            sum(by_page[page][window]) >= BACK_SHARE * usual[page] * SLICE * BACK_SLICES
            for page in usual
        ):
            return round(first * SLICE, 3)
    return None
