# SPDX-License-Identifier: MIT
"""`zerohttpd cost` measures what it should."""

from collections.abc import Callable
from itertools import groupby

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, TRICKS
from bench.records.errors import UserError
from bench.records.figures import Mode
from bench.stations.sampling import how_stacks
from bench.studies.runs import Planned, plan_runs
from bench.subjects.subject import discover, select
from bench.sweep.options import SweepOptions
from bench.sweep.sweep import Done


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planned]:
    """Return a function that plans what `zerohttpd cost` would measure; nothing is built."""
    found: list[SweepOptions] = []

    def sweep(options: SweepOptions) -> Done:
        found.append(options)
        return Done(0)

    def plan(how: Mode, *words: str) -> Planned:
        monkeypatch.setattr("bench.sweep.options.how_stacks", lambda wanted: (how, ""))
        assert main(["cost", *words]) == 0
        subjects = select(found[-1].subjects)
        return plan_runs(found[-1].parts, subjects)

    monkeypatch.setattr("bench.sweep.sweep.sweep", sweep)
    monkeypatch.setattr("bench.cli.study.built", lambda one: ROOT / one.name)
    return plan


def test_every_trick_takes_turns_with_the_server_as_it_is(planned: Callable[..., Planned]) -> None:
    runs = planned("sampled").runs
    assert {run.conditions.without for run in runs} == {"", *TRICKS}
    assert {run.conditions.change for run in runs} == {"", *CHANGES}
    rated = [run for run in runs if run.conditions.rated]
    for run in rated:
        usual = run.conditions._replace(without="", change="")
        beside = (run.subject, usual, run.run, run.requests, run.concurrency)
        assert beside in {
            (one.subject, one.conditions, one.run, one.requests, one.concurrency) for one in rated
        }
    plain = [run.conditions._replace(without="", change="") for run in rated]
    rounds = [(key, run.run) for key, run in zip(plain, rated, strict=True)]
    assert len([key for key, _ in groupby(rounds)]) == len(set(rounds)), "repetitions are together"


def test_what_is_measured_is_sampled_too_under_the_same_load(
    planned: Callable[..., Planned],
) -> None:
    """The servers are sampled under the same load, to split CPU time between user space and
    kernel."""
    names, runs = discover()[:7], planned("sampled", "--no-experiments").runs

    def cells(mode: str) -> set[tuple[str, bool, str, int, int]]:
        return {
            (one.subject, asked.keep_alive, asked.workload, one.requests, one.concurrency)
            for one in runs
            if (asked := one.conditions).mode == mode
            and one.subject in names
            and asked.workload in ("redirect", "guestbook")
            and not asked.without + asked.change
        }

    assert cells("sampled") == cells("closed")
    assert len(cells("sampled")) == 7 * 4 - 2, "iterative has no keep-alive"
    assert {run.run for run in runs if run.conditions.mode == "sampled"} == {1}


def test_counted_with_connections_that_are_kept(planned: Callable[..., Planned]) -> None:
    runs = planned("counted", "--servers", "iterative,forking,epoll").runs
    counted = {(x.subject, x.conditions.keep_alive) for x in runs if x.conditions.mode == "counted"}
    assert counted == {("iterative", False), ("forking", True), ("epoll", True)}
    assert not [run for run in runs if run.conditions.mode == "sampled"]


def test_another_server_without_its_optimisations(planned: Callable[..., Planned]) -> None:
    runs = planned("sampled", "--tricks-of", "poll", "--no-experiments").runs
    assert {run.subject for run in runs if run.conditions.without} == {"poll"}


def test_functions_are_looked_at_as_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_stacks("no") == (None, "")
    monkeypatch.setattr("bench.stations.sampling.why_no_perf", lambda: "")
    assert how_stacks("auto") == ("sampled", "")
    monkeypatch.setattr("bench.stations.sampling.why_no_perf", lambda: "perf is not allowed here")
    monkeypatch.setattr("bench.stations.sampling.find_program", lambda name: f"/usr/bin/{name}")
    assert how_stacks("auto") == ("counted", "perf is not allowed here")
    with pytest.raises(UserError, match="not allowed"):
        how_stacks("perf")
    monkeypatch.setattr("bench.stations.sampling.find_program", lambda name: None)
    found, reason = how_stacks("auto")
    assert found is None
    assert "valgrind" in reason
    with pytest.raises(UserError, match="valgrind is not installed"):
        how_stacks("callgrind")
