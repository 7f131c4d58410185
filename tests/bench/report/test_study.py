# SPDX-License-Identifier: MIT
"""Results are sorted into a study, from both versions of the file."""

import pytest

from bench.records.points import Point
from bench.records.results import Conditions
from bench.report.findings.across import contrasts, floor_rows
from bench.report.study import Study

from .conftest import recorded
from .made import everything, plain_runs, results_of, run_of

GUESTBOOK = Conditions("guestbook")


def point_of(study: Study, subject: str, level: int, scenario: Conditions = GUESTBOOK) -> Point:
    found = study.find(subject, scenario, level)
    assert found
    return found


def test_version_1_has_what_the_server_and_ab_said() -> None:
    study = Study(recorded("version1"))
    assert study.scenarios == [GUESTBOOK]
    point = point_of(study, "epoll", 20)
    known = {"rate": 5523.85, "p99": 13.173, "cpu": 72.8, "memory": 2.1}
    known |= {"cpu_user": pytest.approx(72.8 * 13 / 75)}
    assert {key: point.get(key) for key in known} == known
    assert {point.get(key) for key in ("p999", "switches_voluntary")} == {None}
    assert not study.whole_memory()
    assert study.single_run
    assert (point.bottleneck, point.hosts, study.results.hosts) == (None, (), [])


def test_version_2_has_what_was_measured() -> None:
    study = Study(recorded("version2"))
    assert study.whole_memory()
    assert {s.kind for s in study.subjects} == {"server", "floor"}
    point = point_of(study, "epoll", 100)
    assert point.typical
    assert point.typical.process
    assert point.get("cpu") == point.typical.process.cpu_us_per_request
    assert point.get("p999") is not None


def test_a_failed_cell_has_a_reason_and_no_figure() -> None:
    point = point_of(Study(recorded("version1_failed")), "forking", 20)
    assert not point.held
    assert point.spread("rate") is None
    assert point.reason
    assert point.reason.label == "timed out"


def test_the_reference_is_the_highest_level_that_most_hold() -> None:
    study = Study(results_of(plain_runs(("epoll", "forking"))))
    assert study.reference(GUESTBOOK) == 2000  # forking breaks at 5,000


def test_a_floor_counts_under_the_same_conditions_only() -> None:
    study = Study(everything())
    redirect = point_of(study, "poll", 1000, Conditions("redirect"))
    assert study.floor_ratio(redirect) == pytest.approx(45 * 1.5 / (22 * 1.4), rel=0.05)
    assert study.floor_ratio(point_of(study, "poll", 1000)) is None


def test_the_guestbook_is_shown_first_and_the_open_loop_is_no_choice() -> None:
    study = Study(everything())
    assert study.scenarios[0] == GUESTBOOK
    assert all(s.mode == "closed" for s in study.scenarios)
    assert [s.kind for s in study.subjects][-1] == "floor"


def test_what_was_measured_in_a_slice_of_a_core_is_compared_too() -> None:
    """The short ladder gives each server a quota."""
    sliced = [Conditions(name, quota=0.2) for name in ("redirect", "guestbook")]
    names = ("epoll", "floor-epoll")
    study = Study(results_of([run_of(name, s, 100) for s in sliced for name in names]))
    (work,) = contrasts(study)
    assert [*work.labels] == ["redirect", "guestbook"]
    assert [row["workload"] for row in floor_rows(study)] == ["redirect", "guestbook"]
