# SPDX-License-Identifier: MIT
"""Which targets are met, read from results."""

import re
from datetime import datetime, timezone

import pytest
from rich.console import Console

from bench.readers.targets import BYTES_TARGET, comparisons, show
from bench.records.conditions import Conditions
from bench.records.figures import CallFigures, Kind, ProcessFigures, ServerStatistics
from bench.records.points import Point, Spread
from bench.records.results import Results
from bench.records.run import Reason, Run

from ..report.made import of_memory

REDIRECT = Conditions("redirect")


def cost(subject: str, *totals: float, conditions: Conditions = REDIRECT) -> list[Run]:
    kind: Kind = "floor" if subject.startswith("floor-") else "server"
    return [
        Run(
            subject=subject,
            kind=kind,
            conditions=conditions,
            concurrency=100,
            run=number,
            state="held",
            requests=1000,
            process=ProcessFigures(
                cpu_user_s=total / 4,
                cpu_system_s=total * 3 / 4,
                cpu_us_per_request=total,
                cpu_user_us_per_request=total / 4,
                cpu_system_us_per_request=total * 3 / 4,
            ),
        )
        for number, total in enumerate(totals, 1)
    ]


def failed(subject: str) -> list[Run]:
    (run,) = cost(subject, 50)
    run.state, run.reason = "failed", Reason(label="died", text="the server died")
    return [run]


def results(*runs: Run) -> Results:
    return Results(
        started=datetime(2030, 1, 2, tzinfo=timezone.utc), state="complete", runs=list(runs)
    )


def said(found: Results) -> tuple[int, str]:
    out = Console(width=200)
    with out.capture() as capture:
        status = show(found, out)
    return status, capture.get()


def test_a_cost_is_the_median_of_runs_that_hold() -> None:
    runs = cost("epoll", 40, 20, 100)
    assert Point(runs).of_all("cpu_load") == Spread(40, 20, 100, 3)
    assert Point(runs).of_all("cpu_own") is None
    for run in runs:
        run.server_statistics = ServerStatistics(cpu_us_per_request=run.run * 10.0)
    assert Point(runs).of_all("cpu_own") == Spread(20, 10, 30, 3)
    assert Point(cost("epoll", 40) + failed("epoll")).of_all("cpu_load") is None


@pytest.mark.parametrize(
    ("server", "floor", "ratio", "met"),
    [
        (cost("poll", 25), cost("floor-poll", 20), 1.25, True),
        (cost("poll", 26), cost("floor-poll", 20), 1.3, False),
        (cost("poll", 25), failed("floor-poll"), None, False),
        (failed("poll"), cost("floor-poll", 20), None, False),
    ],
)
def test_a_server_over_its_floor(
    server: list[Run], floor: list[Run], ratio: float | None, met: bool
) -> None:
    found = results(*server, *floor)
    (one,) = comparisons(found)
    assert (one.ratio, one.met) == (ratio, met)
    assert said(found)[0] == int(not met)


def test_only_what_was_measured_under_the_same_conditions_is_compared() -> None:
    kept = REDIRECT._replace(keep_alive=True)
    found = results(*cost("epoll", 10), *cost("nginx", 20, conditions=kept))
    assert comparisons(found) == []
    assert said(found) == (1, "These results have no targets.\n")


def test_a_server_that_was_changed_has_no_target() -> None:
    for change in ({"change": "edge"}, {"without": "more"}):
        asked = REDIRECT._replace(**change)
        runs = [cost(name, 20, conditions=asked) for name in ("epoll", "nginx", "floor-epoll")]
        assert comparisons(results(*(run for its in runs for run in its))) == []


def test_servers_are_compared_at_the_same_level() -> None:
    poll, floor = cost("poll", 25), cost("floor-poll", 20)
    for run in (*poll, *floor):
        run.concurrency = 500
    (one,) = comparisons(results(*poll, *floor, *cost("floor-poll", 10)))
    assert (one.against.level, one.ratio) == (500, 1.25)


def test_kept_connections_have_targets_of_their_own() -> None:
    kept = REDIRECT._replace(keep_alive=True)
    runs = [*cost("epoll", 10, conditions=kept), *cost("nginx", 11, conditions=kept)]
    runs += [*cost("floor-epoll", 9, conditions=kept), *cost("poll", 50, conditions=kept)]
    nginx, floor = comparisons(results(*runs))
    assert (nginx.at_most, nginx.met) == (1.0, True)
    assert (floor.what.subject, floor.at_most, floor.met) == ("epoll", 1.15, True)


def test_nginx_and_go_have_targets_of_their_own() -> None:
    guestbook = Conditions("guestbook")
    runs = [*cost("epoll", 10), *cost("nginx", 9)]
    runs += [*cost("epoll", 30, conditions=guestbook), *cost("go", 100, conditions=guestbook)]
    nginx, go = comparisons(results(*runs))
    assert (round(nginx.ratio or 0, 2), nginx.met) == (1.11, False)
    assert (go.ratio, go.met) == (0.3, True)
    status, text = said(results(*runs))
    assert status == 1
    assert "missed (at most 0.48)" in text
    assert "met (at most 0.33)" in text
    assert "1 of 2 met" in text


def test_a_guestbook_that_is_kept_is_held_against_the_redirect_of_the_same_server() -> None:
    kept, page = (Conditions(name, keep_alive=True) for name in ("redirect", "guestbook"))
    runs = [*cost("epoll", 10, conditions=kept), *cost("epoll", 17, conditions=page)]
    fasthttp, own = comparisons(results(*runs, *cost("fasthttp", 60, conditions=page)))
    assert own.against.key == own.what.key._replace(conditions=kept)
    assert (own.ratio, own.at_most, own.met) == (1.7, 1.6, False)
    assert (fasthttp.at_most, fasthttp.met) == (0.33, True)
    assert comparisons(results(*runs[len(runs) // 2 :])) == [], "there is no redirect"


def test_idle_connections_and_most_at_once_are_held_against_the_server_itself() -> None:
    kept = REDIRECT._replace(keep_alive=True)
    runs = []
    for name, many in (("epoll", 11.0), ("poll", 90.0)):
        runs += cost(name, 10, conditions=kept)
        runs += cost(name, many, conditions=kept._replace(idle=10_000))
    epoll, poll = comparisons(results(*runs))
    assert (epoll.ratio, epoll.met) == (1.1, False)
    assert (poll.ratio, poll.at_most, poll.met) == (9.0, None, True)
    status, text = said(results(*runs))
    assert status == 1
    assert "no target" in text
    assert "0 of 1 met" in text, "what has no target is not counted"

    crowd = [run.model_copy(update={"concurrency": 15_000}) for run in cost("forking", 110)]
    (one,) = comparisons(results(*cost("forking", 100), *crowd))
    assert (one.what.level, one.against.level) == (15_000, 100)
    assert (one.ratio, one.met) == (1.1, True)
    assert "redirect, 15,000 at once" in said(results(*cost("forking", 100), *crowd))[1]


def test_a_target_that_the_floor_misses_is_out_of_reach() -> None:
    """A target that the baseline misses is out of reach. epoll over nginx should be at most 0.48,
    and 15,000 connections over 100 at most 1.11."""

    def crowd(name: str, total: float) -> list[Run]:
        return [run.model_copy(update={"concurrency": 15_000}) for run in cost(name, total)]

    few = [*cost("epoll", 10), *cost("floor-epoll", 9), *cost("nginx", 15)]
    (nginx, own), (_, crowded) = (
        [
            one
            for one in comparisons(results(*few, *more))
            if not one.against.subject.startswith("floor-")
        ]
        for more in (crowd("epoll", 13), [*crowd("epoll", 13), *crowd("floor-epoll", 10.8)])
    )
    assert (nginx.least, nginx.out_of_reach) == (0.6, True)
    assert (own.least, own.out_of_reach) == (None, False), "the baseline was not measured there"
    assert (round(crowded.least or 0, 2), crowded.out_of_reach) == (1.2, True)
    text = said(results(*few, *crowd("epoll", 13), *crowd("floor-epoll", 10.8)))[1]
    assert re.search(r"15,000 at once +epoll .* 1\.20 +met \(at most 1\.25\)", text), "baseline"
    assert re.search(r"0\.67 +0\.60 +missed \(at most 0\.48\), out of reach", text)
    assert "2 missed targets are out of reach: " in text

    (near,) = comparisons(results(*cost("epoll", 10), *cost("floor-epoll", 7), *cost("nginx", 15)))[
        :1
    ]
    assert (near.met, near.out_of_reach) == (False, False), "the baseline reaches it"
    (nginx, floor) = comparisons(
        results(*cost("epoll", 7), *cost("floor-epoll", 9), *cost("nginx", 15))
    )
    assert nginx.met
    assert not nginx.out_of_reach, "a met target is in reach"
    assert floor.least is None


def test_memory_of_a_connection() -> None:
    assert said(results(of_memory(3_000_000)))[0] == 0
    assert "1,000 bytes" in said(results(of_memory(3_000_000)))[1]
    assert said(results(of_memory(2_000_000 + 1000 * (BYTES_TARGET + 1))))[0] == 1


def test_memory_is_that_of_the_median_run() -> None:
    runs = [of_memory(pss) for pss in (5_000_000, 3_000_000, 5_100_000)]
    status, text = said(results(*runs))
    assert status == 1, "two of three are above the target, in any order"
    assert "3,000 bytes" in text


def test_system_calls_are_shown_and_an_interrupted_measurement_is_no_success() -> None:
    run = Run(
        subject="epoll",
        conditions=Conditions("redirect", mode="traced"),
        concurrency=10,
        run=1,
        state="held",
        requests=300,
        calls=CallFigures(per_request={"send": 1.0, "rare": 0.001}, writes=1.0),
    )
    found = results(run)
    status, text = said(found)
    assert status == 0
    assert "send 1.00" in text
    assert "rare" not in text
    found.state = "interrupted"
    assert said(found)[0] == 1
