# SPDX-License-Identifier: MIT
"""The recommendation: on recorded sweeps of several conditions, and on generated ones with a clear
answer.

An implausible server is never recommended.
"""

from __future__ import annotations

import pytest

from bench.readers import order
from bench.records.conditions import Conditions
from bench.records.results import Results
from bench.report.findings.choice import answers
from bench.report.findings.recommendation import Advice
from bench.report.study.study import Study

from .conftest import recorded
from .made import plain_runs, results_of, run_of

RECORDED = ("quota", "onecore", "redirect", "delay", "idle")
"""With 0.2 of a core; all on one core; without Redis; with a slower one; with idle clients."""
GUESTBOOK = Conditions("guestbook")
SEVEN = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")


def sweep(name: str) -> Results:
    return recorded(f"orders/{name}")


def everything(study: Study, scenario: Conditions) -> Advice:
    return next(a for a in answers(study, scenario) if a.question.startswith("One for everything"))


@pytest.mark.parametrize("name", RECORDED)
def test_whom_one_silent_client_stops_is_the_answer_to_nothing(name: str) -> None:
    study = Study(sweep(name))
    for scenario in study.scenarios:
        said = answers(study, scenario)
        assert said
        assert all("iterative" not in a.answer for a in said)


@pytest.mark.parametrize("name", RECORDED)
def test_an_event_loop_is_recommended_of_the_seven(name: str) -> None:
    """Of the seven servers an event loop is recommended, as textbooks say and the CPU times
    show."""
    study = Study(sweep(name))
    for scenario in study.scenarios:
        said = everything(study, scenario)
        assert set(said.answer.split(" or ")) <= {"epoll", "poll"}, said


def test_who_is_out_is_shown_in_his_place_with_the_reason() -> None:
    said = everything(Study(sweep("redirect")), Conditions("redirect", quota=0.2))
    assert "In order: iterative, epoll and poll; preforking" in said.because
    assert said.because.endswith("Excluded: iterative (one silent client stops it).")


def test_beside_idle_connections_poll_is_not_as_good_as_epoll() -> None:
    study = Study(sweep("idle"))
    assert {everything(study, scenario).answer for scenario in study.scenarios} == {"epoll"}
    beside = next(s for s in study.scenarios if s.idle)
    words = everything(study, beside).because
    assert "Excluded: forking, preforking, threading and prethreading (fails at 50 conn" in words


def test_with_a_slower_redis_waiting_counts_and_not_cpu() -> None:
    results = sweep("delay")
    slow = next(c for c in results.conditions() if c.redis_delay_ms)
    found = order.order(results, slow)
    assert found
    assert found.by == "rate"
    assert found.ranked[-1].subject == "iterative", "it waits for one reply at a time"


def test_with_a_slower_redis_only_and_no_rates_nobody_is_recommended() -> None:
    runs = plain_runs(("epoll", "poll"), (100,), redis_delay_ms=5.0)
    for run in runs:
        run.bottleneck = "load"
    found = answers(Study(results_of(runs)), runs[0].conditions)
    assert found
    assert all("One for everything" not in one.question for one in found)


@pytest.mark.parametrize("name", RECORDED)
def test_the_page_and_the_terminal_compare_at_the_same_level(name: str) -> None:
    study = Study(sweep(name))
    for scenario in study.scenarios:
        found = order.order(study.results, scenario)
        assert found
        assert found.level == study.reference(scenario)


def test_a_machine_too_poor_for_it_rules_a_server_out() -> None:
    results = results_of(plain_runs(SEVEN, (20, 100), runs=3))
    plenty = everything(Study(results), GUESTBOOK)
    assert "memory" not in plenty.because
    results.machine.memory_bytes = 100_000_000
    poor = everything(Study(results), GUESTBOOK)
    assert "preforking (needs 60.0\xa0MB, 60 % of its machine's memory)" in poor.because


def test_memory_does_not_outweigh_serving() -> None:
    results = results_of(plain_runs(("epoll", "threading", "prethreading"), (20, 100), runs=3))
    for run in results.runs:
        if run.process and run.subject != "epoll":
            run.process.pss_peak_mb = 0.001
    assert everything(Study(results), GUESTBOOK).answer == "epoll"


def test_who_does_not_hold_where_others_do_is_out() -> None:
    runs = plain_runs(("epoll", "threading"), (100, 1000), runs=3)
    for run in runs:
        if run.subject == "epoll" and run.concurrency == 1000:
            run.state = "failed"
    said = everything(Study(results_of(runs)), GUESTBOOK)
    assert said.answer == "threading"
    assert "Excluded: epoll (fails at 1,000 connections)." in said.because


def test_a_pool_is_recommended_with_a_warning() -> None:
    said = everything(Study(results_of(plain_runs(("prethreading", "forking")))), GUESTBOOK)
    assert said.answer == "prethreading"
    assert said.because.endswith("Note that as many silent clients as it has workers stop it.")


def test_an_older_sweep_that_does_not_say_whom_a_client_stops_recommends_nobody() -> None:
    study = Study(recorded("version2"))
    said = everything(study, study.scenarios[0])
    assert said.answer == "Not said"


def test_if_each_is_out_nobody_is_recommended() -> None:
    runs = plain_runs(("iterative", "epoll"), (20, 100))
    results = results_of(runs)
    results.stalled_by = {"iterative": "one"}
    said = everything(Study(results), GUESTBOOK)
    assert said.answer == "None of them"
    assert "epoll (the effect of a silent client is unknown)" in said.because


def of_two(*costs: float) -> Study:
    """Return three runs of epoll, then three of poll, that cost so many microseconds for each
    request."""
    runs = [run_of(name, GUESTBOOK, 100, n) for name in ("epoll", "poll") for n in (1, 2, 3)]
    for run, cost in zip(runs, costs, strict=True):
        assert run.process
        run.process.cpu_us_per_request, run.lower_bound = cost, True
    return Study(results_of(runs))


def places(study: Study) -> list[int]:
    found = order.order(study.results, GUESTBOOK)
    assert found
    return [one.place for one in found.ranked]


def test_who_shares_a_place_in_the_order_shares_the_answer() -> None:
    study = of_two(12.8, 12.9, 12.95, 13.1, 13.2, 13.3)
    assert places(study) == [1, 1]
    said = {a.question: a.answer for a in answers(study, GUESTBOOK)}
    assert said["The least CPU for each request?"] == "Both of them"


def test_who_is_told_apart_in_the_order_is_not_called_too_close_to_tell_apart() -> None:
    """A server with a rank of its own is not called too close: a tenth is too little for a
    recommendation, but may be enough for a rank."""
    study = of_two(12.0, 12.1, 12.2, 13.0, 13.1, 13.2)
    assert places(study) == [1, 2]
    said = everything(study, GUESTBOOK).because
    assert "epoll and poll serve most, without a significant difference" in said
    assert "In order: epoll; poll" in said


def test_nothing_is_chosen_by_less_than_noise() -> None:
    """A difference in memory, waiting or idle clients of less than a tenth, between single runs,
    decides nothing."""
    names = ("epoll", "poll", "threading")
    slowed, idle = GUESTBOOK._replace(redis_delay_ms=5.0), GUESTBOOK._replace(idle=1000)
    runs = [run_of(name, of, 100) for of in (GUESTBOOK, slowed, idle) for name in names]
    for run, nth in zip(runs, (0, 1, 5) * 3, strict=True):
        assert run.process
        assert run.open_loop
        run.process.pss_peak_mb = 0.5 + 0.01 * nth
        run.process.cpu_us_per_request = 10 + 0.1 * nth * bool(run.conditions.idle)
        run.open_loop.rate_done = 1000 + 100 * (4 - nth) * bool(run.conditions.redis_delay_ms)
    said = {a.question: a.answer for a in answers(Study(results_of(runs)), GUESTBOOK)}
    assert said["Little memory?"] == "epoll or poll"
    assert said["A slow database behind it?"] == "epoll or poll"
    assert said["Many silent clients?"] == "All of them"
