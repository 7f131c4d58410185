# SPDX-License-Identifier: MIT
"""The document of where the microseconds go, read from results."""

from datetime import datetime, timezone

from bench.readers.cost import document
from bench.records.conditions import Conditions
from bench.records.figures import CallFigures, Kind, ProcessFigures
from bench.records.results import Results
from bench.records.run import Run

REDIRECT = Conditions("redirect")


def run(subject: str, total: float, conditions: Conditions = REDIRECT, state: str = "held") -> Run:
    kind: Kind = "floor" if subject.startswith("floor-") else "server"
    return Run.model_validate(
        {
            "subject": subject,
            "kind": kind,
            "conditions": conditions,
            "concurrency": 50,
            "run": 1,
            "state": state,
            "requests": 1000,
            "process": ProcessFigures(
                cpu_user_s=1,
                cpu_system_s=1,
                cpu_us_per_request=total,
                cpu_user_us_per_request=total / 4,
                cpu_system_us_per_request=total * 3 / 4,
                voluntary_switches_per_request=0.5,
                involuntary_switches_per_request=0.25,
                page_faults_per_request=63,
            ),
        }
    )


def rows(*runs: Run) -> list[list[str]]:
    now = datetime(2030, 1, 2, tzinfo=timezone.utc)
    text = document(Results(started=now, state="complete", runs=list(runs)))
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def row(found: list[list[str]], *words: str) -> list[str]:
    (one,) = (line for line in found if line[: len(words)] == list(words))
    return one


def test_a_server_beside_its_floor() -> None:
    found = rows(run("forking", 80), run("floor-forking", 60))
    expected = ["80.0", "20.0", "60.0", "60.0", "75%", "0.75", "63.00"]
    assert row(found, "forking", "redirect")[2:] == expected
    assert not any(line[0].startswith("floor-") for line in found)


def test_what_does_not_hold_has_no_figure() -> None:
    found = rows(run("epoll", 20), run("floor-epoll", 15, state="failed"))
    assert row(found, "epoll", "redirect")[5:7] == ["-", "-"]
    trick = REDIRECT._replace(without="more")
    found = rows(run("epoll", 20, state="failed"), run("epoll", 25, trick))
    assert row(found, "epoll", "redirect", "more")[3:] == ["-", "-", "-"]


def test_a_trick_brings_something_where_runs_do_not_overlap() -> None:
    more, nodelay = (REDIRECT._replace(without=name) for name in ("more", "nodelay"))
    usual = [run("epoll", total) for total in (18, 20, 22)]
    found = rows(*usual, run("epoll", 25, more), run("epoll", 21, nodelay))
    assert row(found, "epoll", "redirect", "more")[3:] == ["20.0", "25.0", "+25%"]
    assert row(found, "epoll", "redirect", "nodelay")[5] == "nothing to be told (+5%)"


def test_calls_of_a_request() -> None:
    traced = run("epoll", 20, REDIRECT._replace(mode="traced"))
    traced.calls = CallFigures(per_request={"sendmsg": 1.0, "rare": 0.001}, writes=1.0)
    found = rows(traced)
    assert row(found, "epoll", "redirect, traced")[2:] == ["1.00", "sendmsg 1.00"]
