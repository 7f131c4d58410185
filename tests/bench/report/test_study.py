# SPDX-License-Identifier: MIT
"""Results are sorted into a study, from both versions of the file."""

from __future__ import annotations

import pytest

from bench.records.results import Conditions
from bench.report.findings.findings import in_its_slice, rates
from bench.report.findings.findings_across import floor_rows
from bench.report.study.across import delays, idles, loop_rows, workloads
from bench.report.study.study import Study, describe

from .conftest import recorded
from .made import everything, open_loop_run, plain_runs, results_of, run_of

GUESTBOOK = Conditions("guestbook")


def test_version_1_has_what_the_server_and_ab_said() -> None:
    study = Study(recorded("version1"))
    (scenario,) = study.scenarios
    assert scenario == GUESTBOOK
    point = study.find("epoll", scenario, 20)
    assert point is not None
    assert point.get("rate") == 5523.85
    assert point.get("p99") == 13.173
    assert point.get("cpu") == 72.8
    assert point.get("cpu_user") == pytest.approx(72.8 * 13 / 75)
    assert point.get("memory") == 2.1
    assert point.get("p999") is None
    assert point.get("switches_voluntary") is None
    assert not study.whole_memory()
    assert study.single_run


def test_version_2_has_what_was_measured() -> None:
    study = Study(recorded("version2"))
    assert study.whole_memory()
    assert {s.kind for s in study.subjects} == {"server", "floor"}
    point = study.find("epoll", GUESTBOOK, 100)
    assert point is not None
    run = point.typical
    assert run is not None
    assert run.process is not None
    assert point.get("cpu") == run.process.cpu_us_per_request
    assert point.get("p999") is not None


def test_a_failed_cell_has_a_reason_and_no_figure() -> None:
    study = Study(recorded("version1_failed"))
    point = study.find("forking", GUESTBOOK, 20)
    assert point is not None
    assert not point.held
    assert point.spread("rate") is None
    assert point.reason is not None
    assert point.reason.label == "timed out"


def test_a_figure_is_the_median_with_its_spread() -> None:
    study = Study(results_of(plain_runs(("epoll",), (100,))))
    rates = sorted(run.requests_per_second or 0 for run in study.results.runs)
    (point,) = study.points
    spread = point.spread("rate")
    assert (spread.low, spread.median, spread.high) == tuple(rates)


def test_the_reference_is_the_highest_level_that_most_hold() -> None:
    study = Study(results_of(plain_runs(("epoll", "forking"))))
    assert study.reference(GUESTBOOK) == 2000  # forking breaks at 5,000


def test_a_floor_counts_under_the_same_conditions_only() -> None:
    study = Study(everything())
    redirect, guestbook = (
        study.find("poll", Conditions("redirect"), 1000),
        study.find("poll", GUESTBOOK, 1000),
    )
    assert redirect is not None
    assert guestbook is not None
    assert study.floor_ratio(redirect) == pytest.approx(45 * 1.5 / (22 * 1.4), rel=0.05)
    assert study.floor_ratio(guestbook) is None


def test_the_guestbook_is_shown_first_and_the_open_loop_is_no_choice() -> None:
    study = Study(everything())
    assert study.scenarios[0] == GUESTBOOK
    assert all(s.mode == "closed" for s in study.scenarios)
    assert [s.kind for s in study.subjects][-1] == "floor"


def test_only_the_open_loop_is_a_choice_where_there_is_nothing_else() -> None:
    study = Study(results_of([open_loop_run("epoll", 2000.0)]))
    assert describe(study.scenarios[0]).endswith("open loop, 2,000 requests/s")


def test_comparisons_across_scenarios() -> None:
    study = Study(everything())
    work, delayed, idle = workloads(study), delays(study), idles(study)
    assert work is not None
    assert work.order == ["redirect", "link", "guestbook", "sorted"]
    assert delayed is not None
    assert delayed.order == ["0", "1", "5"]
    assert delayed.values["iterative"]["5"] < 0.05 * delayed.values["iterative"]["0"]
    assert idle is not None
    assert idle.metric == "cpu"
    assert idle.values["poll"]["5000"] > 2 * idle.values["poll"]["0"]
    assert idle.values["epoll"]["5000"] < 1.2 * idle.values["epoll"]["0"]


def test_nothing_is_compared_where_there_is_one_scenario() -> None:
    study = Study(recorded("version1"))
    assert workloads(study) is delays(study) is idles(study) is None
    assert loop_rows(study) == []


def test_both_loops_side_by_side() -> None:
    rows = loop_rows(Study(everything()))
    ways = [row.way for row in rows if row.subject == "epoll"]
    assert len(ways) == len(set(ways)) == 3


def test_what_was_measured_in_a_slice_of_a_core_is_compared_too() -> None:
    """Measurements with a CPU quota are compared too: the short ladder gives each server a
    quota."""
    sliced = [Conditions(name, quota=0.2) for name in ("redirect", "guestbook")]
    names = ("epoll", "floor-epoll")
    study = Study(results_of([run_of(name, s, 100) for s in sliced for name in names]))
    work = workloads(study)
    assert work is not None
    assert work.order == ["redirect", "guestbook"]
    assert [row.workload for row in floor_rows(study)] == ["redirect", "guestbook"]


def test_a_sentence_goes_on_in_small_letters() -> None:
    sliced = Conditions("guestbook", quota=0.2)
    runs = [run_of(name, sliced, 100) for name in ("epoll", "poll")]
    for run in runs:
        run.lower_bound = True
    told = in_its_slice(sliced.quota, rates(Study(results_of(runs)), sliced))
    assert told.startswith("In 20 % of a core each, the load generator was at its limit with each")
