# SPDX-License-Identifier: MIT
"""From the answers of visitors to rates. Pure.

Times are seconds of the clock of the answers. A rate is the median over slices of SLICE seconds, so
that a single hiccup of the machine is none of the server's.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.records.torture import SLICE, Phase
from bench.torture.answers import Exchange

BACK_SLICES = 2
BACK_SHARE = 0.5
"""A server is back when in so many slices, one after another, every page came at least at this
share of its rate before the attack, and nothing else."""


def per_slice(answers: Iterable[Exchange], begin: float, end: float) -> list[int]:
    """How many answers ended in each whole slice of a time."""
    slices = [0] * max(0, int((end - begin) / SLICE + 1e-6))
    for answer in answers:
        at = int((answer.ended - begin) // SLICE)
        if 0 <= at < len(slices):
            slices[at] += 1
    return slices


def good(answers: Iterable[Exchange], pages: Iterable[str] | None = None) -> list[Exchange]:
    """Those that are whole and right; `pages`: of these pages."""
    wanted = None if pages is None else set(pages)
    return [a for a in answers if a.outcome == "good" and (wanted is None or a.page in wanted)]


def rate(slices: Sequence[int]) -> float:
    """Answers per second, median of the slices; 0 where there is none."""
    return statistics.median(slices) / SLICE if slices else 0.0


def phase(answers: Sequence[Exchange], begin: float, end: float, rated: Iterable[str]) -> Phase:
    """What ended in a time; the rate is that of the good answers of the pages `rated`."""
    ended = [a for a in answers if begin <= a.ended < end]
    return Phase(
        seconds=round(end - begin, 3),
        rate=round(rate(per_slice(good(ended, rated), begin, end)), 1),
        outcomes=dict(Counter(a.outcome for a in ended)),
        why=reasons(ended),
        longest_ms=round(1000 * max((a.ended - a.begun for a in ended), default=0.0), 1),
    )


def reasons(answers: Iterable[Exchange]) -> dict[str, dict[str, int]]:
    """Of what is not good: by outcome, how often for which reason."""
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
    """After how many seconds the server was back; None if it is not yet. `usual`: the rate of each
    page before the attack."""
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
