# SPDX-License-Identifier: MIT
"""A sweep ranks servers by rate if each server was the limit of its runs, otherwise by cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.readers import order
from bench.records.results import Results
from bench.records.values import toml_of

from ..report.made import results_of
from .made import runs_of

CASES = toml_of(Path(__file__).with_name("order.toml"))


def sweep(text: str, slicing: str | None = "cgroup v2") -> Results:
    """Return a sweep from a text. The CPU time follows from the rate and the CPU quota."""
    runs = runs_of(text, usual="quota=20")
    for run in runs:
        assert run.process
        assert run.open_loop
        share = run.conditions.quota or 1.0
        run.process.cpu_us_per_request = share / run.open_loop.rate_done * 1e6
    return results_of(runs, slicing=slicing)


def ranking(text: str, slicing: str | None = "cgroup v2") -> order.Order:
    (found,) = order.orders(sweep(text, slicing))
    return found


@pytest.mark.parametrize(("runs", "by", "ranks", "why"), CASES["ways"])
def test_servers_are_ranked_by_rate_or_by_cost(runs: str, by: str, ranks: str, why: str) -> None:
    """The ranking is by cost if a server was not the limit of most of its runs, or if other
    programs used the server's core, which lowers its rate."""
    found = ranking(runs)
    shown = [f"{one.place} {one.subject} {one.spread.median:g}" for one in found.ranked]
    assert (found.by, "; ".join(shown)) == (by, ranks)
    assert re.search(why, found.why)
    assert ("the capacity of a full core" in found.title) == (by == "cpu")


@pytest.mark.parametrize(("runs", "expected"), CASES["ranks"])
def test_a_rank_is_shared_only_without_significant_differences(
    runs: str, expected: list[Any]
) -> None:
    found = ranking(runs)
    assert [[one.place, one.subject, [*one.close_to]] for one in found.ranked] == expected
    title, first, last, _ = order.lines(found, {expected[1][1]: "one"})
    assert title == (
        "Ranking by requests per second: guestbook, 20 % of a core each, 100 connections"
    )
    assert first.startswith(f"  1. {expected[0][1]}, {expected[1][1]}  ")
    assert first.endswith(f"(no significant difference; {expected[1][1]}: {order.STALLS['one']})")
    close = [f"not significantly different from {name}" for name in expected[2][2]]
    assert all(words in last for words in close)
    assert ("different" in last) == bool(close)


@pytest.mark.parametrize(
    ("slicing", "said"),
    [("", True), (None, False)],  # None: it was not recorded
)
def test_a_missing_quota_is_reported(slicing: str | None, said: bool) -> None:
    found = ranking("a 100 quota=0; b 200/load quota=0", slicing)
    assert found.by == "cpu"
    assert found.why.endswith("does not support CPU quotas for servers (--quota).") == said


def test_quotas_and_whole_cores_have_their_own_rankings() -> None:
    found = order.orders(sweep("a 100; b 200; a 500 quota=0; b 900 quota=0"))
    assert [one.conditions.quota for one in found] == [0.2, 0.0]
    assert [one.ranked[0].spread.median for one in found] == [200, 900]


def test_the_level_is_the_one_that_was_measured_most_often() -> None:
    found = ranking("a 100 101 102; b 100 101 102; a 100 level=1000; b 100 level=1000")
    assert found.level == 100


def test_a_server_without_a_figure_is_named_and_ranks_are_aligned() -> None:
    ten = "; ".join(f"{name} {100 * 2**i}" for i, name in enumerate("abcdefghij"))
    found = ranking(f"{ten}; z 1 2/failed 3")
    assert found.without == ["z"]
    _, *said, last, _ = order.lines(found, {})
    assert [line[:7] for line in (said[0], said[-1])] == ["   1. j", "  10. a"]
    assert last == "   -  z: no valid result"


@pytest.mark.parametrize("runs", ["alone 100 101", "a 100 mode=parked; b 100 mode=parked"])
def test_a_single_server_or_a_probe_has_no_ranking(runs: str) -> None:
    assert order.orders(sweep(runs)) == []
