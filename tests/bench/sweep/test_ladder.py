# SPDX-License-Identifier: MIT
"""The runs of a sweep."""

import itertools
from collections import Counter

import pytest

from bench.records.conditions import ASPECTS, Conditions
from bench.records.errors import UserError
from bench.records.figures import Balancer
from bench.records.plan import Plan, RunSpec
from bench.studies.runs import (
    FULL_LEVELS,
    ORDER_LEVEL,
    ORDER_RUNS,
    SHORT_LEVELS,
    SLICE,
    conditions_of,
    levels_of,
    plan_runs,
    requests_of,
    runs_in_order,
    runs_of,
    timeout_of,
)
from bench.subjects.subject import Subject
from bench.sweep.options import chosen_options, sweep_parser


def test_a_condition_is_typed_as_it_is_read() -> None:
    asked = Conditions(
        "",
        keep_alive=True,
        redis_delay_ms=2.5,
        mode="traced",
        rate=1500.0,
        workers=7,
        quota=0.2,
        without="defer",
    )
    for aspect in ASPECTS:
        value = getattr(asked, aspect.name)
        if value not in (0, ""):
            assert aspect.parse(aspect.word(value)) == value


def test_the_full_ladder() -> None:
    full = Plan(full=True)
    assert levels_of(full) == FULL_LEVELS == tuple(sorted(FULL_LEVELS))
    assert runs_of(full) == 3
    of_epoll = [requests_of(full, "epoll", level) for level in (1000, 1500, 15_000)]
    assert of_epoll == [10_000, 30_000, 30_000]
    for server, level in itertools.product(("iterative", "forking"), FULL_LEVELS):
        requests = requests_of(full, server, level)
        assert level <= requests < requests_of(full, "epoll", level)
    assert levels_of(Plan(levels=(500, 20, 500))) == (20, 500)


def test_what_is_asked_for_beats_the_ladder() -> None:
    plan = Plan(full=True, levels=(10, 300), requests=200, runs=2, timeout=7, workloads=("sorted",))
    runs = runs_in_order(plan, ["iterative", "epoll"])
    assert [(r.concurrency, r.run, r.subject) for r in runs] == [
        *((10, 1, "iterative"), (10, 1, "epoll"), (10, 2, "iterative"), (10, 2, "epoll")),
        *((300, 1, "iterative"), (300, 1, "epoll"), (300, 2, "iterative"), (300, 2, "epoll")),
    ]
    assert {r.requests for r in runs if r.concurrency == 10} == {200}
    assert {r.requests for r in runs if r.concurrency == 300} == {300}, "ab wants n >= c"
    assert {(r.conditions, r.timeout) for r in runs} == {(Conditions("sorted"), 7)}


@pytest.mark.parametrize("can", [True, False])
def test_the_default_sweep_has_the_runs_that_an_order_takes(can: bool) -> None:
    options = chosen_options(sweep_parser().parse_args(["--servers", "epoll,poll"])).answering(can)
    subjects = [Subject(name, "server", lambda _: [], name) for name in ("epoll", "poll")]
    planned = plan_runs(options.parts, subjects)
    seen = Counter((r.subject, r.concurrency) for r in planned.runs)
    for name in ("epoll", "poll"):
        assert {level: n for (s, level), n in seen.items() if s == name} == {
            level: ORDER_RUNS if level == ORDER_LEVEL else 1 for level in SHORT_LEVELS
        }
    assert {r.conditions.quota for r in planned.runs} == {SLICE if can else 0.0}


@pytest.mark.parametrize(
    "words", [["--full"], ["--levels", "10"], ["--runs", "2"], ["--idle", "5"], ["--quota", "0"]]
)
def test_who_says_how_to_measure_gets_what_was_said(words: list[str]) -> None:
    options = chosen_options(sweep_parser().parse_args(words))
    assert options.answering(True) == options
    assert not options.values("quota") - {0.0}


def test_conditions_multiply_and_redis_is_slowed_only_where_it_is_asked() -> None:
    plan = Plan(
        workloads=("redirect", "link"),
        varied={"keep_alive": (False, True), "redis_delay_ms": (0.0, 5.0), "rate": (500.0,)},
    )
    found = conditions_of(plan)
    assert {c.redis_delay_ms for c in found if c.workload == "redirect"} == {0}
    assert {c.redis_delay_ms for c in found if c.workload == "link"} == {0, 5}
    assert len(found) == (1 + 2) * 2 * 2
    assert Conditions("link", True, 0, 5.0, "open", 500.0) in found
    assert len({c.slug() for c in found}) == len({c.describe() for c in found}) == len(found)


@pytest.mark.parametrize("word", ["guestbook", "//other.host/", "/a b", "/a\tb", "/a#b", ""])
def test_what_would_ask_for_something_else_is_no_path(word: str) -> None:
    with pytest.raises(UserError, match="is not a path"):
        sweep_parser().parse_args(["--path", word])


def test_a_path_however_long_has_a_name_of_a_file() -> None:
    long = "/redirect?" + 1000 * "a"
    (options,) = chosen_options(sweep_parser().parse_args(["--path", long])).parts
    assert options.plan.workloads == (long,)
    assert len(Conditions(long, keep_alive=True).slug()) < 100


def test_who_cannot_is_not_asked() -> None:
    plan = Plan(workloads=("redirect", "guestbook"), levels=(10,))
    runs = runs_in_order(plan, ["epoll", "nginx"], lambda s, c: s == "epoll" or c[0] == "redirect")
    assert [(r.subject, r.conditions.workload) for r in runs] == [
        ("epoll", "redirect"),
        ("nginx", "redirect"),
        ("epoll", "guestbook"),
    ]


def test_the_open_loop_sends_what_is_due_in_its_time() -> None:
    runs = runs_in_order(Plan(levels=(10,), varied={"rate": (500.0,)}), ["epoll"])
    assert [(r.conditions.mode, r.requests) for r in runs] == [("closed", 10_000), ("open", 1500)]


def test_instances_have_something_before_them() -> None:
    plan = Plan(varied={"instances": (1, 2, 4), "balancer": ("none", "close", "keep")})
    found = conditions_of(plan)
    assert [(c.instances, c.balancer) for c in found] == [
        *((1, "none"), (1, "close"), (1, "keep"), (2, "close"), (2, "keep")),
        *((4, "close"), (4, "keep")),
    ]
    assert len({c.slug() for c in found}) == len({c.describe() for c in found}) == len(found)
    kept = [c._replace(keep_alive=True).server_keeps for c in found[:3]]
    assert kept == [True, False, True], "nginx does not hand on the behaviour of its clients"
    assert [c.server_keeps for c in found[:3]] == [False, False, True]


@pytest.mark.parametrize(
    ("keep_alive", "balancer", "servers", "nginx"),
    [
        (False, "none", 5010, 0),
        (True, "none", 110, 0),
        (False, "close", 5000, 5010),
        (True, "close", 5000, 110),
        (False, "keep", 110, 5010),
        (True, "keep", 110, 110),
    ],
)
def test_connections_end_where_they_are_not_kept(
    keep_alive: bool, balancer: Balancer, servers: int, nginx: int
) -> None:
    conditions = Conditions("redirect", keep_alive=keep_alive, idle=10, balancer=balancer)
    run = RunSpec("epoll", conditions, 100, 1, 5000, 20.0)
    assert run.ended_connections("server") == servers
    assert run.ended_connections("nginx") == nginx
    assert run.ended_connections() == servers + nginx


def test_who_waits_for_a_slowed_redis_one_by_one_is_given_the_time() -> None:
    delays = (0.0, 5.0)
    runs = runs_in_order(
        Plan(levels=(20,), requests=2000, varied={"redis_delay_ms": delays}), ["iterative"]
    )
    usual = timeout_of(Plan(levels=(20,)), runs[0].conditions, 2000)
    assert [run.timeout for run in runs] == [usual, usual + 2000 * 3 * 0.005]
    plan = Plan(levels=(20,), timeout=7, varied={"redis_delay_ms": delays})
    assert {run.timeout for run in runs_in_order(plan, ["iterative"])} == {7}
