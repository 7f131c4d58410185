# SPDX-License-Identifier: MIT
"""A sweep ranks servers by rate if each server was the limit of its runs, otherwise by cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.readers import order
from bench.records.conditions import Conditions
from bench.records.figures import Bottleneck, Run
from bench.records.results import Results
from bench.records.values import toml_of

from ..report.made import made_run, results_of

CASES = toml_of(Path(__file__).with_name("order.toml"))
SLICED, WHOLE = Conditions("guestbook", quota=0.2), Conditions("guestbook")


def runs(
    subject: str,
    rates: Sequence[float],
    bottleneck: Bottleneck = "server",
    conditions: Conditions = SLICED,
    level: int = 100,
) -> list[Run]:
    """Return the runs of a configuration, with the CPU time that its rates and CPU quota imply."""
    share = conditions.quota or 1.0
    made = [
        made_run(subject, level, number, rate=rate, cpu=share / rate * 1e6, under=conditions)
        for number, rate in enumerate(rates, 1)
    ]
    for run in made:
        run.bottleneck, run.lower_bound = bottleneck, bottleneck == "load"
    return made


def sweep(*cells: list[Run], slicing: str | None = "cgroup v2") -> Results:
    return results_of([run for cell in cells for run in cell], slicing=slicing)


def ranking(*cells: list[Run], slicing: str | None = "cgroup v2") -> order.Order:
    (found,) = order.orders(sweep(*cells, slicing=slicing))
    return found


def places(found: order.Order) -> list[tuple[int, str]]:
    return [(one.place, one.subject) for one in found.ranked]


def test_rates_where_each_server_was_the_limit() -> None:
    found = ranking(runs("a", (100, 101, 102)), runs("b", (200, 201, 202)))
    assert found.by == "rate"
    assert places(found) == [(1, "b"), (2, "a")]
    assert found.ranked[0].spread.median == 201
    assert found.why.startswith("Servers had 20 % of a core each (by cgroup v2) and used it up: ")


@pytest.mark.parametrize(("rates", "expected"), CASES["ranks"])
def test_a_rank_is_shared_only_without_significant_differences(
    rates: dict[str, Sequence[float]], expected: list[Any]
) -> None:
    found = ranking(*(runs(name, of) for name, of in rates.items()))
    ranked = [[one.place, one.subject, [*one.close_to]] for one in found.ranked]
    assert ranked == expected
    title, first, last, _ = order.lines(found, {expected[1][1]: "one"})
    assert title == (
        "Ranking by requests per second: guestbook, 20 % of a core each, 100 connections"
    )
    assert first.startswith(f"  1. {expected[0][1]}, {expected[1][1]}  ")
    assert first.endswith(f"(no significant difference; {expected[1][1]}: {order.STALLS['one']})")
    close = [f"not significantly different from {name}" for name in expected[2][2]]
    assert all(words in last for words in close)
    assert ("different" in last) == bool(close)


def test_a_load_generator_at_its_limit_makes_it_a_ranking_by_cost() -> None:
    found = ranking(runs("a", (100, 101, 102)), runs("b", (90, 91, 92), "load"))
    assert found.by == "cpu"
    assert "the capacity of a full core" in found.title
    assert [round(one.spread.median) for one in found.ranked] == [505, 455]
    assert found.why == (
        "Not by measured rates, because not all servers were at their limit even with 20 % of a "
        "core each: the load generator was at its limit with b."
    )


def test_other_programs_on_the_cpu_make_it_a_ranking_by_cost() -> None:
    """The ranking is by cost if other programs used the server's core, which lowers its rate."""
    made = runs("a", (100, 101, 102), conditions=WHOLE)
    undisturbed = runs("b", (200, 201, 202), conditions=WHOLE)
    for share, by in ((0.4, "cpu"), (0.05, "rate")):
        for run in made:
            assert run.process
            run.process.foreign_share = share
        found = ranking(made, undisturbed)
        assert found.by == by
        assert ("other programs used the CPU of a" in found.why) == (by == "cpu")


@pytest.mark.parametrize(
    ("slicing", "said"),
    [("", True), (None, False)],  # None: it was not recorded
)
def test_a_missing_quota_is_reported(slicing: str | None, said: bool) -> None:
    cells = [runs("a", (100,), conditions=WHOLE), runs("b", (200,), "load", WHOLE)]
    found = ranking(*cells, slicing=slicing)
    assert found.by == "cpu"
    assert found.why.endswith("does not support CPU quotas for servers (--quota).") == said


def test_a_run_in_which_the_server_was_not_the_limit_does_not_count() -> None:
    disturbed = runs("a", (100, 101, 30))
    disturbed[2].bottleneck = "none"
    found = ranking(disturbed, runs("b", (50, 51, 52)))
    assert found.by == "rate"
    assert found.ranked[0].spread.low == 100
    assert found.why.endswith(" 1 of 6 runs with another limit are not counted.")
    disturbed[1].bottleneck = "none"
    assert ranking(disturbed, runs("b", (50, 51, 52))).by == "cpu", "a is the limit of one run only"
    half = runs("a", (100, 101))
    half[1].bottleneck = "none"
    assert ranking(half, runs("b", (50, 51))).by == "cpu", "half of the runs is no majority"


def test_quotas_and_whole_cores_have_their_own_rankings() -> None:
    cells = [runs(name, (rate,)) for name, rate in (("a", 100), ("b", 200))]
    cells += [runs(name, (rate,), conditions=WHOLE) for name, rate in (("a", 500), ("b", 900))]
    found = order.orders(sweep(*cells))
    assert [one.conditions for one in found] == [SLICED, WHOLE]
    assert [one.ranked[0].spread.median for one in found] == [200, 900]


def test_the_level_is_the_one_that_was_measured_most_often() -> None:
    found = ranking(
        *(runs(name, (100, 101, 102)) for name in "ab"),
        *(runs(name, (100,), level=1000) for name in "ab"),
    )
    assert found.level == 100


def test_a_server_without_a_figure_is_named_and_ranks_are_aligned() -> None:
    failed = runs("z", (1, 2, 3))
    failed[1].state = "failed"
    cells = [runs(name, (100 * 2**i,)) for i, name in enumerate("abcdefghij")]
    found = ranking(*cells, failed)
    assert found.without == ["z"]
    _, *said, last, _ = order.lines(found, {})
    assert [line[:7] for line in (said[0], said[-1])] == ["   1. j", "  10. a"]
    assert last == "   -  z: no valid result"


def test_a_single_server_has_no_ranking() -> None:
    assert order.orders(sweep(runs("alone", (100, 101)))) == []
    parked = Conditions("guestbook", mode="parked")
    assert order.orders(sweep(*(runs(name, (100,), conditions=parked) for name in "ab"))) == []
