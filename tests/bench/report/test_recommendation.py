# SPDX-License-Identifier: MIT
"""The recommendation: on recorded sweeps of several conditions, and on generated ones with a clear
answer.

An implausible server is never recommended.
"""

import pytest

from bench.readers import order
from bench.records.conditions import Conditions
from bench.records.results import Results
from bench.report.findings.recommendation import recommended
from bench.report.study import Study

from .conftest import recorded
from .made import plain_runs, results_of
from .test_titles import advice

RECORDED = ("quota", "onecore", "redirect", "delay", "idle")
"""With 0.2 of a core; all on one core; without Redis; with a slower one; with idle clients."""
GUESTBOOK = Conditions("guestbook")
SEVEN = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")


def sweep(name: str) -> Study:
    return Study(recorded(f"orders/{name}"))


@pytest.mark.parametrize("name", RECORDED)
def test_an_event_loop_is_recommended_of_the_seven(name: str) -> None:
    """Of the seven servers an event loop is recommended, as textbooks say and the CPU times show.
    The page and the terminal compare at the same level."""
    study = sweep(name)
    for scenario in study.scenarios:
        assert set(advice(study, scenario).answer.split(" or ")) <= {"epoll", "poll"}
        found = order.order(study.results, scenario)
        assert found
        assert found.level == study.reference(scenario)


def test_who_is_out_is_shown_in_his_place_with_the_reason() -> None:
    said = advice(sweep("redirect"), Conditions("redirect", quota=0.2))
    assert "In order: iterative, epoll and poll; preforking" in said.because
    assert said.because.endswith("Excluded: iterative (one silent client stops it).")


def test_beside_idle_connections_poll_is_not_as_good_as_epoll() -> None:
    study = sweep("idle")
    assert {advice(study, scenario).answer for scenario in study.scenarios} == {"epoll"}
    beside = next(s for s in study.scenarios if s.idle)
    words = advice(study, beside).because
    assert "Excluded: forking, preforking, threading and prethreading (fails at 50 conn" in words


def test_with_a_slower_redis_waiting_counts_and_not_cpu() -> None:
    results = sweep("delay").results
    slow = next(c for c in results.conditions() if c.redis_delay_ms)
    found = order.order(results, slow)
    assert found
    assert found.by == "rate"
    assert found.ranked[-1].subject == "iterative", "it waits for one reply at a time"
    runs = plain_runs(("epoll", "poll"), (100,), redis_delay_ms=5.0)
    for run in runs:
        run.bottleneck = "load"
    assert recommended(Study(results_of(runs)), runs[0].conditions, 100) is None, "no rates"


def with_memory(of: Results, mb: int) -> Results:
    of.machine.memory_bytes = mb * 1_000_000
    return of


@pytest.mark.parametrize(
    ("results", "answer", "because"),
    [
        (with_memory(results_of(plain_runs(SEVEN, (20, 100))), 0), "epoll", "In order: "),
        (
            with_memory(results_of(plain_runs(SEVEN, (20, 100))), 100),
            "epoll",
            "preforking (needs 60.0 MB, 60 % of its machine's memory)",
        ),
        (recorded("version2"), "Not said", "do not say which servers a single silent client"),
        (
            results_of(plain_runs(("iterative", "epoll"), (20,)), stalled_by={"iterative": "one"}),
            "None of them",
            "epoll (the effect of a silent client is unknown)",
        ),
    ],
)
def test_who_is_recommended(results: Results, answer: str, because: str) -> None:
    study = Study(results)
    found = advice(study, study.scenarios[0])
    assert found.answer == answer
    assert because in found.because.replace("\N{NO-BREAK SPACE}", " ")
