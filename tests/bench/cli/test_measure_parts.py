# SPDX-License-Identifier: MIT
"""`zerohttpd measure` and `zerohttpd cost` plan the right runs; these tests measure nothing."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, OPTIMISATIONS, Mode, Plan
from bench.records.errors import UserError
from bench.records.store import save
from bench.stations.sampling import how_stacks
from bench.studies.runs import Planned, plan_runs
from bench.subjects.subject import LeftOut, Reference, discover, select
from bench.sweep.options import SweepOptions
from bench.sweep.sweep import Done

from ..report.made import of_memory, results_of

EPOLL_ALONE = ("redirect", "small", "large", "guestbook")


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Return the list to which a mock sweep adds its parts. The sweep's results meet all targets.
    All servers and baselines exist, as empty files; the reference server h2o is missing."""

    def sweep(options: SweepOptions) -> Done:
        results = results_of([of_memory(3_000_000)])
        select(options.subjects, options.programs, results.left_out)
        parts.extend(options.parts)
        save(results, tmp_path)
        return Done(0, tmp_path)

    def prepare(reference: Reference) -> None:
        if reference.name == "h2o":
            raise LeftOut("h2o is left out: install it")

    parts: list[Plan] = []
    for name in discover():
        (tmp_path / name).touch(mode=0o755)
    for source in (ROOT / "baselines").glob("*.c"):
        (tmp_path / source.stem).touch(mode=0o755)
    monkeypatch.setattr("bench.subjects.subject.BASELINE_BUILD", tmp_path)
    monkeypatch.setattr("bench.sweep.sweep.sweep", sweep)
    monkeypatch.setattr(Reference, "prepare", prepare)
    return parts


def measure(programs: Path, *words: str) -> int:
    return main(["measure", "--programs", str(programs), *words])


def about(why: str, *parts: str) -> list[str]:
    end = f" is left out: it measures {why}, which --servers does not name"
    return [part + end for part in parts]


def test_each_part_measures_only_the_chosen_servers(
    swept: list[Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(tmp_path, "--servers", "poll") == 0
    assert {part.subjects for part in swept} == {("poll",)}
    modes = [part.values("mode") for part in swept]
    assert modes.count(("parked",)) == modes.count(("pending",)) == 1, "memory parts of poll"
    assert [part.values("idle") for part in swept].count((0, 10_000)) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "left out" in line] == about("epoll", *EPOLL_ALONE)


def test_a_requested_part_that_cannot_be_measured_fails(
    swept: list[Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--servers", "01_iterative", "--only")
    assert measure(tmp_path, *words, "baseline") == 0
    assert measure(tmp_path, *words, "baseline,idle") == 1
    assert [(part.subjects, part.baselines) for part in swept] == [(("iterative",), True)] * 2
    assert "idle is left out: it measures poll, epoll, which" in capsys.readouterr().out
    assert measure(tmp_path, *words, "memory") == 1
    assert len(swept) == 2, "a sweep began without a part"
    assert (
        "memory is left out: it measures poll, epoll, threading, which" in capsys.readouterr().out
    )


def test_reference_servers_are_measured_with_the_chosen_server(
    swept: list[Plan], tmp_path: Path
) -> None:
    assert measure(tmp_path, "--servers", "epoll", "--only", "guestbook") == 0
    assert measure(tmp_path, "--servers", "epoll", "--only", "small", "guestbook") == 1
    subjects = [part.subjects for part in swept[2:]]
    references = ("nginx", "h2o", "lighttpd")
    assert subjects == [("epoll", *references)] * 2 + [("epoll", "go", "fasthttp")] * 2
    assert all(part.baselines for part in swept), "a missed target would lack its baseline"


def test_a_baseline_that_is_not_built_is_left_out(swept: list[Plan], tmp_path: Path) -> None:
    words = ("--servers", "poll,epoll", "--only", "idle", "baseline")
    assert measure(tmp_path, *words) == 0
    (tmp_path / "07_epoll").unlink()
    assert measure(tmp_path, *words) == 1
    assert [part.subjects for part in swept] == [("poll", "epoll")] * 4


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planned]:
    """Return a function that returns the runs of `zerohttpd cost`; nothing is built or measured."""
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


def test_each_ablation_alternates_with_the_usual_server(planned: Callable[..., Planned]) -> None:
    runs = planned("sampled").runs
    assert {run.conditions.without for run in runs} == {"", *OPTIMISATIONS}
    assert {run.conditions.change for run in runs} == {"", *CHANGES}
    rated = [run for run in runs if run.conditions.rated]
    for run in rated:
        usual = run.conditions._replace(without="", change="")
        usual_run = (run.subject, usual, run.run, run.requests, run.concurrency)
        assert usual_run in {
            (one.subject, one.conditions, one.run, one.requests, one.concurrency) for one in rated
        }
    plain = [run.conditions._replace(without="", change="") for run in rated]
    rounds = [(key, run.run) for key, run in zip(plain, rated, strict=True)]
    assert len([key for key, _ in groupby(rounds)]) == len(set(rounds)), "runs in the wrong order"


def test_measured_servers_are_also_sampled(planned: Callable[..., Planned]) -> None:
    """`zerohttpd cost` also samples the servers under the load of the measurement, to split CPU
    time between user space and kernel."""
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


def test_instructions_are_counted_with_kept_connections(planned: Callable[..., Planned]) -> None:
    runs = planned("counted", "--servers", "iterative,forking,epoll").runs
    counted = {(x.subject, x.conditions.keep_alive) for x in runs if x.conditions.mode == "counted"}
    assert counted == {("iterative", False), ("forking", True), ("epoll", True)}
    assert not [run for run in runs if run.conditions.mode == "sampled"]


def test_another_server_without_its_optimisations(planned: Callable[..., Planned]) -> None:
    runs = planned("sampled", "--optimisations-of", "poll", "--no-experiments").runs
    assert {run.subject for run in runs if run.conditions.without} == {"poll"}


def test_stacks_are_sampled_or_counted_as_the_machine_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
