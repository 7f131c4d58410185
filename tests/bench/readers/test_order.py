# SPDX-License-Identifier: MIT
"""The ranking at the end of a sweep: by rates only if each server was its own limit."""

from __future__ import annotations

from datetime import datetime, timezone

from bench.readers import order
from bench.records.conditions import Conditions
from bench.records.figures import Bottleneck, OpenLoopFigures, ProcessFigures
from bench.records.results import Results
from bench.records.run import Run

SLICED = Conditions("guestbook", quota=0.2)


def runs(
    subject: str,
    rates: tuple[float, ...],
    bottleneck: Bottleneck = "server",
    conditions: Conditions = SLICED,
    level: int = 100,
) -> list[Run]:
    """Return a configuration whose CPU time per request follows from its rates and its CPU
    quota."""
    share = conditions.quota or 1.0
    return [
        Run(
            subject=subject,
            conditions=conditions,
            concurrency=level,
            run=number,
            state="held",
            requests=2000,
            bottleneck=bottleneck,
            lower_bound=bottleneck == "load",
            open_loop=OpenLoopFigures(
                tool="made", rate_asked=1, rate_done=rate, seconds=1, sent=1, succeeded=1
            ),
            process=ProcessFigures(
                cpu_user_s=1,
                cpu_system_s=1,
                cpu_us_per_request=share / rate * 1e6,
                cpu_user_us_per_request=1,
                cpu_system_us_per_request=1,
            ),
        )
        for number, rate in enumerate(rates, 1)
    ]


def results_of(*cells: list[Run], slicing: str | None = "cgroup v2") -> Results:
    all_runs = [run for cell in cells for run in cell]
    started = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Results(started=started, runs=all_runs, slicing=slicing)


def places(found: order.Order) -> list[tuple[int, str]]:
    return [(one.place, one.subject) for one in found.ranked]


def test_rates_where_each_server_was_the_limit() -> None:
    results = results_of(runs("a", (100, 101, 102)), runs("b", (200, 201, 202)))
    (found,) = order.orders(results)
    assert found.by == "rate"
    assert places(found) == [(1, "b"), (2, "a")]
    assert found.ranked[0].spread.median == 201
    assert found.why.startswith("Servers had 20 % of a core each (by cgroup v2) and used it up: ")


def test_who_cannot_be_told_apart_shares_a_place() -> None:
    results = results_of(
        runs("slow", (50, 51, 52)),
        runs("first", (200, 205, 210)),
        runs("close", (198, 203, 206)),
    )
    (found,) = order.orders(results)
    assert places(found) == [(1, "first"), (1, "close"), (3, "slow")]
    said = list(order.lines(found, {"close": "one"}))
    assert said[0] == (
        "Ranking by requests per second: guestbook, 20 % of a core each, 100 connections"
    )
    assert said[1].startswith("  1. first, close  205, 203 requests/s   (no significant difference")
    assert "close: one silent client stops it" in said[1]
    assert said[2].startswith("  3. slow ")


CHAIN = {"best": (190, 200, 205), "middle": (178, 190, 198), "last": (165, 172, 179)}
"""Each overlaps with its neighbour, but the first does not overlap with the last."""


def test_a_place_is_shared_only_by_those_of_whom_no_two_can_be_told_apart() -> None:
    (found,) = order.orders(results_of(*(runs(name, rates) for name, rates in CHAIN.items())))
    assert places(found) == [(1, "best"), (1, "middle"), (3, "last")]
    assert [one.close_to for one in found.ranked] == [(), (), ("middle",)]
    _, first, last, _ = order.lines(found, {})
    assert first.endswith("(no significant difference)")
    assert last.endswith("(last: not significantly different from middle)")


def test_who_is_as_good_as_the_first_and_not_as_the_second_is_said_to_be() -> None:
    cells = [
        runs("wide", (170, 200, 205)),
        runs("sure", (196, 197, 198)),
        runs("c", (181, 182, 183)),
    ]
    (found,) = order.orders(results_of(*cells))
    assert places(found) == [(1, "wide"), (1, "sure"), (3, "c")]
    assert found.ranked[-1].close_to == ("wide",)


def test_one_whose_load_was_the_limit_makes_it_an_order_by_cost_for_all() -> None:
    results = results_of(runs("a", (100, 101, 102)), runs("b", (90, 91, 92), "load"))
    (found,) = order.orders(results)
    assert found.by == "cpu"
    assert "what a full core could serve" in found.title
    assert [round(one.spread.median) for one in found.ranked] == [505, 455]
    assert found.why == (
        "Not by measured rates, because not all were at their limit even with 20 % of a core each: "
        "the load generator was at its limit with b."
    )


def test_where_no_slice_could_be_given_it_says_so() -> None:
    plain = Conditions("guestbook")
    cells = [runs("a", (100,), conditions=plain), runs("b", (200,), "load", plain)]
    (found,) = order.orders(results_of(*cells, slicing=""))
    assert found.by == "cpu"
    assert found.why.endswith("could not give servers a CPU quota (--quota).")
    (unknown,) = order.orders(results_of(*cells, slicing=None))
    assert "--quota" not in unknown.why, "an older sweep did not record whether it could"


def test_a_run_in_which_the_server_was_not_the_limit_does_not_count() -> None:
    disturbed = runs("a", (100, 101, 30))
    disturbed[2].bottleneck = "none"
    (found,) = order.orders(results_of(disturbed, runs("b", (50, 51, 52))))
    assert found.by == "rate"
    assert found.ranked[0].spread.low == 100
    assert found.why.endswith(" 1 of 6 runs with another limit are not counted.")
    disturbed[1].bottleneck = "none"
    (found,) = order.orders(results_of(disturbed, runs("b", (50, 51, 52))))
    assert found.by == "cpu", "it was the limit of most runs"


def test_sliced_and_whole_cores_are_two_orders() -> None:
    whole = Conditions("guestbook")
    results = results_of(
        runs("a", (100,)),
        runs("b", (200,)),
        runs("a", (500,), conditions=whole),
        runs("b", (900,), conditions=whole),
    )
    found = order.orders(results)
    assert [one.conditions for one in found] == [SLICED, whole]
    assert [one.ranked[0].spread.median for one in found] == [200, 900]


def test_the_level_is_the_one_that_was_measured_most_often() -> None:
    results = results_of(
        *(runs(name, (100, 101, 102)) for name in "ab"),
        *(runs(name, (100,), level=1000) for name in "ab"),
    )
    (found,) = order.orders(results)
    assert found.level == 100


def test_who_has_no_figure_is_named() -> None:
    failed = runs("c", (1, 2, 3))
    failed[1].state = "failed"
    (found,) = order.orders(results_of(runs("a", (9,)), runs("b", (5,)), failed))
    assert found.without == ["c"]
    assert "  -  c: no valid result" in list(order.lines(found, {}))


def test_the_tenth_place_is_in_line_with_the_first() -> None:
    cells = [runs(name, (100 * 2**i,)) for i, name in enumerate("abcdefghij")]
    (found,) = order.orders(results_of(*cells))
    _, *said, _ = order.lines(found, {})
    assert [line[:7] for line in (said[0], said[-1])] == ["   1. j", "  10. a"]


def test_nothing_to_order_is_no_order() -> None:
    assert order.orders(results_of(runs("alone", (100, 101)))) == []
    memory = Conditions("guestbook", mode="parked")
    cells = [runs(name, (100,), conditions=memory) for name in "ab"]
    assert order.orders(results_of(*cells)) == []
