# SPDX-License-Identifier: MIT
"""Rates are calculated from answers. No process is started."""

from typing import cast

import pytest

from bench.load.crowd import Exchange, Outcome
from bench.records.torture import TortureCell
from bench.torture import cell
from bench.torture.cell import CellTimes, Visitors, fill


def every(
    step: float, begin: float, end: float, page: str = "small", outcome: Outcome = "good"
) -> list[Exchange]:
    """Return an answer every so many seconds."""
    count = round((end - begin) / step)
    at = [begin + (i + 0.5) * step for i in range(count)]
    return [Exchange(t - 0.001, t, page, outcome, "why" if outcome != "good" else "") for t in at]


def test_a_hiccup_is_not_in_the_median() -> None:
    answers = every(0.01, 5.0, 5.2) + every(0.01, 5.3, 5.5)  # nothing for 0.1 s
    slices = cell.per_slice(answers, 5.0, 5.5)
    assert slices == [10, 10, 0, 10, 10]
    assert cell.rate(slices) == 100.0
    assert cell.rate([]) == 0.0
    assert cell.per_slice(answers, 5.0, 5.19) == [10], "half an interval counts as none"


def test_a_phase_has_its_own_answers_only() -> None:
    answers = every(0.01, 0.0, 1.0) + every(0.02, 0.0, 1.0, "guestbook", "unavailable")
    answers.append(Exchange(0.1, 0.95, "redirect", "failed", "reset"))
    found = cell.phase(answers, 0.5, 1.0, ["small", "redirect"])
    assert found.rate == 100.0
    assert found.outcomes == {"good": 50, "unavailable": 25, "failed": 1}
    assert found.why == {"unavailable": {"guestbook: why": 25}, "failed": {"redirect: reset": 1}}
    assert found.longest_ms == 850.0
    assert cell.phase(answers, 0.5, 1.0, ["guestbook"]).rate == 0.0


def test_back_when_all_pages_come_and_nothing_else() -> None:
    usual = {"small": 100.0, "guestbook": 100.0}
    small = every(0.01, 0.0, 2.0)
    assert cell.back_after(small, usual, 0.0, 2.0) is None, "one page does not come"
    late = every(0.01, 0.6, 2.0, "guestbook")
    assert cell.back_after(small + late, usual, 0.0, 2.0) == 0.5, (
        "half of two intervals is half of its rate"
    )
    failing = every(0.1, 0.6, 1.2, "guestbook", "unavailable")
    assert cell.back_after(small + late + failing, usual, 0.0, 2.0) == 1.2
    assert cell.back_after(small + late, usual, 0.0, 0.6) is None
    slow = every(0.03, 0.0, 2.0) + every(0.03, 0.0, 2.0, "guestbook")
    assert cell.back_after(slow, usual, 0.0, 2.0) is None, "a third of its rate is not back"


class Told:
    """Visitors that have reported everything, and always had the CPU."""

    def __init__(self, answers: list[Exchange]) -> None:
        self._answers = answers

    def answers(self) -> list[Exchange]:
        return self._answers

    def late(self, begin: float, end: float) -> float:
        assert begin < end
        return 0.0

    def usual(self, begin: float, end: float) -> dict[str, float]:
        slices = cell.per_slice(cell.good(self._answers), begin, end)
        return {"small": cell.rate(slices)}


@pytest.mark.parametrize(("comes", "back"), [(3.5, 0.4), (17.8, 14.7), (18.1, None)])
def test_back_within_fifteen_seconds_or_not_in_time(comes: float, back: float | None) -> None:
    """The recovery time is at most 15 s: 0.5 s of calm, the attack from 0.5 to 3 s, and nothing
    until `comes`. At 18.05 s the test stops waiting; a return while the last answers are awaited is
    too late."""
    answers = every(0.01, 0.0, 0.5) + every(0.01, comes, 19.0)
    cell = TortureCell(subject="epoll", kind="server", attack="connect-only")
    since = 18.05 if back is None else 3.0 + back
    times = CellTimes(0.0, 0.5, 2.9, 3.0, since, since + 0.5, starved=0.25)
    fill(cell, cast(Visitors, Told(answers)), times, ["small"])
    assert cell.back_after_s == back
    assert (cell.attack_from_s, cell.attack_to_s, cell.starved_s) == (0.5, 2.9, 0.25)
    assert (cell.before.rate, cell.during.rate) == (100.0, 0.0)
