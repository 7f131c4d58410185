# SPDX-License-Identifier: MIT
"""The servers that `zerohttpd measure` selects; nothing is measured here."""

from pathlib import Path

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.records.plan import Part
from bench.records.store import save
from bench.subjects.declared import LeftOut, Stranger
from bench.subjects.subject import available, discover
from bench.sweep.options import SweepOptions
from bench.sweep.sweep import Done

from ..report.made import of_memory, results_of

EPOLL_ALONE = ("redirect", "small", "large", "guestbook")


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """Return the parts of a sweep that would be run, with results in which all targets are met. All
    servers and baselines are built; only the reference server h2o is missing."""

    def sweep(options: SweepOptions) -> Done:
        _, left_out = available(options.subjects or (), options.floors, options.programs)
        parts.extend(options.parts)
        results = results_of([of_memory(3_000_000)])
        results.left_out = left_out
        save(results, tmp_path)
        return Done(0, tmp_path)

    def prepare(stranger: Stranger) -> None:
        if stranger.name == "h2o":
            raise LeftOut("h2o is left out: install it")

    parts: list[Part] = []
    for name in discover():
        (tmp_path / name).touch(mode=0o755)
    for source in (ROOT / "floors").glob("*.c"):
        (tmp_path / source.stem).touch(mode=0o755)
    monkeypatch.setattr("bench.subjects.subject.FLOOR_BUILD", tmp_path)
    monkeypatch.setattr("bench.sweep.sweep.sweep", sweep)
    monkeypatch.setattr(Stranger, "prepare", prepare)
    return parts


def measure(programs: Path, *words: str) -> int:
    return main(["measure", "--programs", str(programs), *words])


def about(why: str, *parts: str) -> list[str]:
    end = f" is left out: it is about {why}, which --servers does not name"
    return [part + end for part in parts]


def test_each_part_is_about_those_of_its_servers_that_are_chosen(
    swept: list[Part], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part has only the chosen servers; the others are no failure, and their reference servers
    are not missed."""
    assert measure(tmp_path, "--servers", "poll") == 0
    assert {part.subjects for part in swept} == {("poll",)}
    modes = [part.plan.values("mode") for part in swept]
    assert modes.count(("parked",)) == modes.count(("pending",)) == 1, "not those with threads"
    assert [part.plan.values("idle") for part in swept].count((0, 10_000)) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "left out" in line] == about("epoll", *EPOLL_ALONE)


def test_a_part_that_was_asked_for_by_its_name_and_cannot_be_is_no_success(
    swept: list[Part], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--servers", "01_iterative", "--only")
    assert measure(tmp_path, *words, "floor") == 0
    assert measure(tmp_path, *words, "floor,idle") == 1
    assert [(part.subjects, part.floors) for part in swept] == [(("iterative",), True)] * 2
    assert "idle is left out: it is about poll, epoll, which" in capsys.readouterr().out
    assert measure(tmp_path, *words, "memory") == 1
    assert len(swept) == 2, "there is nothing to measure"
    assert (
        "memory is left out: it is about poll, epoll, threading, which" in capsys.readouterr().out
    )


def test_strangers_stand_beside_the_chosen_server(swept: list[Part], tmp_path: Path) -> None:
    """Reference servers are measured with the chosen server. The sweep leaves a missing one out,
    and the exit status says so."""
    assert measure(tmp_path, "--servers", "epoll", "--only", "guestbook") == 0
    assert measure(tmp_path, "--servers", "epoll", "--only", "small", "guestbook") == 1
    subjects = [part.subjects for part in swept[2:]]
    strangers = ("nginx", "h2o", "lighttpd")
    assert subjects == [("epoll", *strangers)] * 2 + [("epoll", "go", "fasthttp")] * 2
    assert all(part.floors for part in swept), "the comparison of a missed target"


def test_a_floor_that_is_not_built_is_left_out(swept: list[Part], tmp_path: Path) -> None:
    words = ("--servers", "poll,epoll", "--only", "idle", "floor")
    assert measure(tmp_path, *words) == 0
    (tmp_path / "07_epoll").unlink()
    assert measure(tmp_path, *words) == 1
    assert [part.subjects for part in swept] == [("poll", "epoll")] * 4


def test_strangers_and_floors_are_not_chosen_but_stand_beside(
    swept: list[Part], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nginx", "floor-epoll"):
        assert measure(tmp_path, "--servers", f"epoll,{name}") == 2
        assert f"unknown server: {name}. Known: iterative, " in capsys.readouterr().err
    assert swept == []
