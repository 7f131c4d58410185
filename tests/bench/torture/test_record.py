# SPDX-License-Identifier: MIT
"""The meaning of a record: verdicts, losses, promises. No process is started."""

import json
from pathlib import Path

import pytest

from bench.records.errors import UserError
from bench.records.torture import (
    CrowdTally,
    Ending,
    LeftOver,
    Phase,
    Remarks,
    TortureCell,
    broken,
    disturbed,
    excused,
    load,
    lost,
    save,
    share,
    verdict,
)
from bench.torture.attacks import ATTACKS

from .conftest import eventful, made_cell, phase

SILENT = ATTACKS["connect-only"].facts()
KILLED = ATTACKS["redis-killed"].facts()
SIGTERM = ATTACKS["sigterm"].facts()
FEW = ATTACKS["few-descriptors"].facts()


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        (900.0, "served"),
        (717.0, "served"),
        (715.0, "slower"),
        (400.0, "slower"),
        (395.0, "hard pressed"),
        (80.0, "hard pressed"),
        (75.0, "held up"),
        (0.0, "held up"),
    ],
)
def test_verdicts(rate: float, word: str) -> None:
    cell = made_cell(during=phase(rate))
    assert (verdict(cell, SILENT), share(cell)) == (word, rate / 800)
    assert not broken(cell, SILENT), "a delay is no broken promise"


def test_cells_without_figures() -> None:
    out = TortureCell(
        subject="nginx", kind="stranger", attack="redis-killed", reason="uses no Redis"
    )
    assert verdict(out, KILLED) == "left out"
    assert verdict(out.model_copy(update={"reached": False}), KILLED) == "not reached"
    assert (broken(out, KILLED), disturbed(out), share(out)) == ([], False, None)
    assert verdict(made_cell(before=phase(0.0, good=1)), SILENT) == "no figure"


@pytest.mark.parametrize(
    ("starved", "rate", "loud"),
    [(0.0, 700.0, False), (0.39, 700.0, False), (0.41, 700.0, True), (0.0, 699.0, True)],
)
def test_a_machine_that_was_not_quiet(starved: float, rate: float, loud: bool) -> None:
    """The record says that the machine was not quiet. Of the two seconds until the end of the
    attack the server waited a fifth, 0.4 s; or visitors, who wanted 1,000 pages a second, got less
    than 70 % of them before it."""
    cell = made_cell(before=phase(rate), wanted=1000.0, starved_s=starved, attack_to_s=2.0)
    assert disturbed(cell) == loud


def test_what_is_lost() -> None:
    cell = made_cell(
        before=phase(800.0, failed=1000),  # before the attack: not lost in it
        during=phase(700.0, good=9, failed=2, unavailable=5),
        settling=phase(700.0, refused=1),
        crowd=CrowdTally(opened=9, answers={"good": 3, "failed": 4}),
    )
    assert lost(cell, SILENT) == {"failed": 2, "unavailable": 5, "refused": 1}
    assert lost(cell, KILLED) == {"failed": 2, "refused": 1}, "503 is right without Redis"
    assert excused(cell, KILLED) == 5
    assert lost(cell, FEW) == {"failed": 6, "unavailable": 5, "refused": 1}, "and of the crowd"


def badly(words: str, obeyed: bool = True) -> Ending:
    return Ending(obeyed=obeyed, well=False, words=words)


def during(**outcomes: int) -> dict[str, Phase]:
    return {"during": phase(800.0, good=5, **outcomes)}


def kept(answered: int, **lost: int) -> dict[str, Remarks]:
    return {"remarks": Remarks(answered=answered, **lost)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"before": phase(0.0, failed=3)}, "served no client before the attack"),
        ({"died": badly("was ended by SIGSEGV")}, "was ended by SIGSEGV by itself"),
        ({"back_after_s": None}, "had not recovered 15 s after the attack"),
        (kept(1200, missing=2), '2 of 1,200 remarks answered "stored" are not in Redis'),
        (kept(9, missing=1), '1 of 9 remarks answered "stored" is not in Redis'),
        (kept(9, twice=1), "1 remark is in Redis more than once"),
        (during(wrong=2), "2 answers were complete but wrong"),
        (during(wrong=1), "1 answer was complete but wrong"),
        (
            {"after": phase(800.0, good=5, unavailable=1)},
            "1 request had no correct answer before or after the attack",
        ),
        (
            {"left_over": LeftOver(connections=7)},
            "7 connections left over after all clients had left",
        ),
        ({"left_over": LeftOver(processes=1)}, "1 process left over after all clients had left"),
        ({"left_over": LeftOver(threads=3)}, "3 threads left over after all clients had left"),
        ({"ended": [badly("", obeyed=False)]}, "did not end after SIGTERM and was killed"),
        ({"ended": [badly("ended with status 7")]}, "ended with status 7 after SIGTERM"),
    ],
)
def test_a_promise_is_broken(fields: dict[str, object], words: str) -> None:
    cell = made_cell(**fields)
    assert words in broken(cell, SILENT)
    assert verdict(cell, SILENT) == "broken"
    strange = cell.model_copy(update={"kind": "stranger"})
    assert not broken(strange, SILENT), "reference servers promise nothing"


def test_a_request_under_way_is_promised_its_answer() -> None:
    cell = made_cell(attack="sigterm", crowd=CrowdTally(opened=3, answers={"good": 2, "failed": 1}))
    assert broken(cell, SIGTERM) == ["1 of 3 requests in progress was dropped"]
    assert not broken(cell, FEW), "in other attacks it is lost, and no more"
    turned = cell.model_copy(update={"crowd": CrowdTally(answers={"good": 2, "unavailable": 1})})
    assert not broken(turned, SIGTERM), "503 is an answer"


def test_kept_and_read_again(tmp_path: Path) -> None:
    record = eventful()
    save(record, tmp_path)
    assert load(tmp_path) == record == load(tmp_path / "torture.json")
    assert [(cell.subject, cell.attack) for cell, _ in record.broken()] == [
        ("epoll", "redis-killed"),
        ("epoll", "sigterm"),
    ]


def test_an_earlier_record_can_be_read() -> None:
    """A record of an older version, without the common head, can be read."""
    record = load(Path(__file__).with_name("recorded") / "torture1.json")
    assert (record.subjects, record.state) == (["epoll", "iterative"], "complete")
    assert record.versions.git is not None
    assert record.versions.servers.keys() == {"epoll", "iterative"}
    assert record.command[:2] == ["--servers", "epoll,iterative"]
    assert {verdict(cell, record.facts(cell)) for cell in record.cells} == {"served"}
    assert not record.broken()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_name": "zerohttpd-seven/sweep"}, "is not a record of a robustness test"),
        ({"schema_version": 99}, "newer version"),
        ({"cells": [{"subject": 1}]}, "is not a record of a robustness test: cells.0"),
        ({"attacks": []}, "attacks without a description: "),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, change: dict, words: str) -> None:
    content = json.loads(eventful().model_dump_json())
    (tmp_path / "torture.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(UserError, match=words):
        load(tmp_path)
