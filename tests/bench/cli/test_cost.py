# SPDX-License-Identifier: MIT
"""`zerohttpd cost` measures what it should."""

import argparse
from itertools import groupby

import pytest

from bench.cli.cost_parts import WORKLOADS, how_stacks, parts_of
from bench.faults.copying import experiment
from bench.records.conditions import CHANGES, TRICKS
from bench.records.errors import UserError
from bench.subjects.subject import discover, select
from bench.sweep.runs import plan_runs

CHOSEN = argparse.Namespace(
    requests=4000, concurrency=50, runs=3, tricks_of="epoll", no_experiments=False
)


def test_every_trick_takes_turns_with_the_server_as_it_is() -> None:
    names = tuple(discover()[:7])
    planned = plan_runs(parts_of(CHOSEN, names, "sampled"), select(names, floors=True))
    assert {run.conditions.without for run in planned.runs} == {"", *TRICKS}
    of_these = {name for name in CHANGES if set(experiment(name).servers) & set(names)}
    assert {run.conditions.change for run in planned.runs} == {"", *of_these}
    rated = [run for run in planned.runs if run.conditions.rated]
    for run in rated:
        usual = run.conditions._replace(without="", change="")
        beside = (run.subject, usual, run.run, run.requests, run.concurrency)
        assert beside in {
            (one.subject, one.conditions, one.run, one.requests, one.concurrency) for one in rated
        }
    plain = [run.conditions._replace(without="", change="") for run in rated]
    rounds = [(key, run.run) for key, run in zip(plain, rated, strict=True)]
    assert len([key for key, _ in groupby(rounds)]) == len(set(rounds)), "repetitions are together"


def test_what_is_measured_is_sampled_too_under_the_same_load() -> None:
    """The servers are sampled under the same load, to split CPU time between user space and
    kernel."""
    names = tuple(discover()[:7])
    planned = plan_runs(parts_of(CHOSEN, names, "sampled"), select(names, floors=True))

    def cells(mode: str) -> set[tuple[str, bool, str, int, int]]:
        return {
            (one.subject, asked.keep_alive, asked.workload, one.requests, one.concurrency)
            for one in planned.runs
            if (asked := one.conditions).mode == mode
            and one.subject in names
            and asked.workload in WORKLOADS
            and not asked.without + asked.change
        }

    assert cells("sampled") == cells("closed")
    assert len(cells("sampled")) == 7 * 4 - 2, "iterative has no keep-alive"
    assert {run.run for run in planned.runs if run.conditions.mode == "sampled"} == {1}


def test_counted_with_connections_that_are_kept() -> None:
    parts = parts_of(CHOSEN, ("iterative", "forking", "epoll"), "counted")
    counted = [part for part in parts if part.plan.values("mode") == ("counted",)]
    assert [(part.subjects, part.plan.values("keep_alive")) for part in counted] == [
        (("forking", "epoll"), (True,)),
        (("iterative",), (False,)),
    ]


def test_functions_are_looked_at_as_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_stacks("no") == (None, "")
    monkeypatch.setattr("bench.cli.cost_parts.why_no_perf", lambda: "")
    assert how_stacks("auto") == ("sampled", "")
    monkeypatch.setattr("bench.cli.cost_parts.why_no_perf", lambda: "perf is not allowed here")
    monkeypatch.setattr("bench.cli.cost_parts.find_program", lambda name: f"/usr/bin/{name}")
    assert how_stacks("auto") == ("counted", "perf is not allowed here")
    with pytest.raises(UserError, match="not allowed"):
        how_stacks("perf")
    monkeypatch.setattr("bench.cli.cost_parts.find_program", lambda name: None)
    found, reason = how_stacks("auto")
    assert found is None
    assert "valgrind" in reason
    with pytest.raises(UserError, match="valgrind is not installed"):
        how_stacks("callgrind")
