# SPDX-License-Identifier: MIT
"""`report --targets` reads from results which targets are met."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from bench.readers import targets
from bench.readers.targets import Comparison
from bench.records.conditions import Conditions
from bench.records.figures import CallFigures, Run
from bench.records.results import Expect, Results
from bench.records.values import toml_of
from bench.studies.study import study

from ..report.made import made_run, of_memory, results_of
from .made import runs_of

CASES = toml_of(Path(__file__).with_name("targets.toml"))
EXPECTED = study("measure").expect
BYTES_TARGET = 1024


def comparisons(found: Results) -> list[Comparison]:
    return targets.comparisons(found, EXPECTED)


def results(text: str) -> Results:
    """Return a sweep from a text with the costs of a redirect (CPU time in us)."""
    return results_of(runs_of(text, "cpu", usual="workload=redirect"))


def said(found: Results) -> tuple[int, str]:
    out = Console(width=200)
    with out.capture() as capture:
        status = targets.show(found, EXPECTED, out)
    return status, capture.get()


@pytest.mark.parametrize(("runs", "expected"), CASES["targets"])
def test_each_target_is_met_or_missed(runs: str, expected: str) -> None:
    found = comparisons(results(runs))
    assert "; ".join(map(words_of, found)) == expected
    assert said(results(runs))[0] == int("met" not in expected or "missed" in expected)


def words_of(one: Comparison) -> str:
    assert one.against
    value, limit = ("-" if x is None else f"{x:.2f}" for x in (one.value, one.expect.limit))
    verdict = "met" if one.met else "missed"
    return f"{one.what.subject}/{one.against.subject} {value} of {limit} {verdict}"


FEW = "epoll 10; baseline-epoll 9; nginx 15"
CROWDED = f"{FEW}; epoll 13 level=15000; baseline-epoll 10.8 level=15000"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [  # the other server, the baseline's ratio, and whether the target is out of reach
        (f"{FEW}; epoll 13 level=15000", [("nginx", 0.6, True), ("epoll", None, False)]),
        (CROWDED, [("nginx", 0.6, True), ("epoll", 1.2, True)]),
        ("epoll 10; baseline-epoll 6; nginx 15", [("nginx", 0.4, False)]),
        ("epoll 7; baseline-epoll 9; nginx 15", [("nginx", 0.6, False)]),
    ],
)
def test_a_target_that_the_baseline_misses_is_out_of_reach(
    runs: str, expected: list[tuple[object, ...]]
) -> None:
    """A missed target is out of reach if the baseline misses it, too. The target of the ratio
    epoll/nginx is 0.48. At 15,000 connections a request may cost 1.11 times as much as at 100."""
    found = [
        (one.against.subject, one.least and round(one.least, 2), one.out_of_reach)
        for one in comparisons(results(runs))
        if one.against
    ]
    assert [one for one in found if not one[0].startswith("baseline-")] == expected
    assert {one[1:] for one in found if one[0].startswith("baseline-")} == {(None, False)}


TRACED = made_run("epoll", 10, under=Conditions("redirect", mode="traced"))
TRACED.calls = CallFigures(per_request={"send": 1.0, "rare": 0.001}, writes=1.0)


@pytest.mark.parametrize(
    ("runs", "status", "patterns"),
    [
        *CASES["printed"],
        ([of_memory(3_000_000)], 0, [r"3,000,000 +1,000 +met"]),
        ([of_memory(2_000_000 + 1000 * (BYTES_TARGET + 1))], 1, [r" 1,025 +missed"]),
        # two of three runs are above the target, in any order
        ([of_memory(pss) for pss in (5_000_000, 3_000_000, 5_100_000)], 1, [r" 3,000 +missed"]),
        ([TRACED], 0, [r" 1\.00 +1 +send 1\.00 *\n"]),
    ],
)
def test_targets_are_printed(runs: str | list[Run], status: int, patterns: list[str]) -> None:
    found = results(runs) if isinstance(runs, str) else results_of(runs)
    assert said(found)[0] == status
    assert [one for one in patterns if not re.search(one, said(found)[1])] == []
    found.state = "interrupted"
    assert said(found)[0] == 1


def test_a_study_may_limit_any_figure() -> None:
    slow = Expect(figure="core_rate", server="epoll", limit=60_000, sense="at least")
    found = results("epoll 20; poll 30")
    checked = targets.comparisons(found, [slow, Expect(limit=25)])
    assert [(one.what.subject, one.value, one.met) for one in checked] == [
        ("epoll", 50_000, False),
        ("epoll", 20, True),
        ("poll", 30, False),
    ]


def test_an_expectation_without_data_is_not_met() -> None:
    found, nowhere = results("epoll 20"), Expect(server="poll", limit=25)
    out = Console(width=200)
    with out.capture() as capture:
        assert targets.show(found, [Expect(limit=25), nowhere], out) == 0
        assert targets.show(found, [Expect(limit=25), nowhere], out, every=True) == 1
    assert "expect[2] applies to no measured configuration" in capture.get()
    assert "1 of 2 met" in capture.get()


def test_an_entry_for_a_server_replaces_the_one_for_all() -> None:
    found = results("epoll 20; poll 20")
    expected = [Expect(limit=10), Expect(server="poll", limit=30)]
    assert [one.expect.limit for one in targets.comparisons(found, expected)] == [10, 30]
