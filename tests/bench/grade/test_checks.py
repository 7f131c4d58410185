# SPDX-License-Identifier: MIT
"""The catalogue of faults, and how checks are run: at the same time, again, and not too late."""

import contextlib
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.grade import trying
from bench.grade.faults import FAULTS, TEXTS, FaultFile
from bench.grade.scene import PATIENCE
from bench.grade.stage import OVER, Failed
from bench.grade.stages import STAGES
from bench.grade.stages.mixing import require_saved
from bench.grade.stages.racing import MORE_PATIENCE
from bench.grade.trying import Stage, Trial, World
from bench.host.project import ROOT, declaration
from bench.records.errors import UserError
from tests.e2e.redisbox import PrivateRedis


def test_each_fault_is_named_in_the_code() -> None:
    """mypy proves the reverse: each name in the code is a FaultName, and so in faults.toml."""
    files = set((ROOT / "bench" / "grade").rglob("*.py")) - {TEXTS.with_suffix(".py")}
    code = "".join(file.read_text() for file in files)
    assert [name for name in FAULTS if f'"{name}"' not in code] == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[fault.crash]", "[fault.crash", r"line \d+"),
        ("[fault.crash]", "[fault.crahs]", r"fault\.crahs"),
        ("[fault.crash]\ntitle", "[fault.crash]\nheading", r"fault\.crash\.(title|heading)"),
        ('brings = ["descriptor-leak"', 'brings = ["descriptor-leek"', r"never-closes\.brings"),
        ("clone|EAGAIN", "clone(", r"dies-at-limit\.trace"),
        ('"no-answer", "wrong-answer", "wrong-length"', '"no-anwser"', r"broken-service"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    text = TEXTS.read_text()
    assert before in text
    (tmp_path / "faults.toml").write_text(text.replace(before, after, 1))
    with pytest.raises(UserError, match=rf"faults\.toml: .*{words}"):
        declaration(FaultFile, tmp_path / "faults.toml")


def test_a_fault_without_texts_is_named(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(re.sub(r"(?ms)^\[fault\.crash\].*?(?=^\[)", "", TEXTS.read_text()))
    with pytest.raises(UserError, match="there is no entry for crash"):
        declaration(FaultFile, file)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_to_be_read_is_there(fault: object) -> None:
    read = str(fault.read)
    for name in re.findall(r"(?:lib|ops|course|docs|0\d_\w+)/[\w./-]+\w", read):
        assert (ROOT / name).is_file(), name
    for word, file in re.findall(r"`(\w+)` in ((?:lib|ops|0\d_)[\w./-]+\w)", read):
        assert word in (ROOT / file).read_text(), f"{file} has no {word}"


def test_a_remark_that_is_not_utf_8_is_a_finding() -> None:
    """0.3 s."""
    with PrivateRedis() as redis:
        with contextlib.closing(redis.client()) as client:
            client.do("RPUSH", "guestbook_remarks", b"\xff")
        scene: Any = SimpleNamespace(redis=SimpleNamespace(url=redis.url()))
        with pytest.raises(Failed, match="is in Redis 0 times"):
            require_saved(scene, {"mine": 303})


def test_no_client_waits_as_long_as_the_server_may() -> None:
    """A check would take a server's answer 408 to a silent client for progress, and a server that
    answers nothing else would use up the time of all checks."""
    found = re.search(r"#define REQUEST_TIMEOUT +(\d+)", (ROOT / "lib/config.h").read_text())
    assert found
    assert int(found[1]) / 1000 > PATIENCE * MORE_PATIENCE


@pytest.mark.parametrize(
    ("busy", "earlier", "came", "fault"),
    [
        (0.9, [], "not tried", None),
        (0.1, ["no-redis"], "not tried", None),
        (0.1, [], "failed", "too-slow"),
    ],
)
def test_no_points_are_lost_without_a_reason(
    monkeypatch: pytest.MonkeyPatch, busy: float, earlier: list[str], came: str, fault: str | None
) -> None:
    """A failure after the time limit is not reported, because the grader itself ended the server.
    If nothing else explains why the time is over, this is a finding of its own."""

    def fails(*_: object) -> None:
        raise Failed("no-answer", "nothing came")

    monkeypatch.setattr(World, "_once", fails)
    seconds = iter((10.0, 0.0))
    scene = SimpleNamespace(left=lambda: next(seconds))
    world = World(scene, 1, can_trace=False, others_busy=lambda: busy, _found=earlier)  # type: ignore[arg-type]
    outcome = world.check(STAGES[0], STAGES[0].checks[0])
    assert (outcome.came, outcome.note, outcome.points) == (came, OVER, 0)
    assert (outcome.finding and outcome.finding.fault) == fault


def waiting(monkeypatch: pytest.MonkeyPatch, ways: dict[str, list[object]], apart: bool) -> World:
    """Return a world with a check for each of these names. Each attempt returns or raises the next
    of its values; the first attempts end only when all of them run."""
    trials = [Trial(name, 2, lambda scene: None, waits=True) for name in ways]
    stage = Stage("waits", "They wait", trials)
    together = threading.Barrier(len(ways) if apart else 1)

    def once(_: World, __: Stage, check: Trial, *___: object) -> str | None:
        if check.name not in tried:
            together.wait(5)
        tried.append(check.name)
        result = ways[check.name].pop(0)
        if isinstance(result, Exception):
            raise result
        return str(result)

    tried: list[str] = []
    monkeypatch.setattr(World, "_once", once)
    monkeypatch.setattr(trying, "apart", lambda: apart)
    monkeypatch.setattr(trying, "AT_ONCE", len(ways))
    scene = SimpleNamespace(left=lambda: 50.0)
    return World(scene, 1, False, [(stage, one) for one in trials])  # type: ignore[arg-type]


@pytest.mark.parametrize("apart", [True, False])
def test_checks_that_wait_run_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """Each has its own result. A failure is tried again alone; a sure failure stays one, although
    the second attempt succeeds; a known fault and its consequences are not tried again."""
    deaf = [Failed("deaf", "1"), Failed("deaf", "2")]
    ways: dict[str, list[object]] = {
        "right": ["a note"],
        "busy": [Failed("no-answer", "late", sure=False), ""],
        "sure": [Failed("no-timeout", "held"), ""],
        "twice": list(deaf),
        "follows": [Failed("restarted-timeout", "held")],
        "known": [Failed("deaf", "3", sure=False)],
    }
    world = waiting(monkeypatch, ways, apart)
    came = [world.check(stage, check) for stage, check in world.waiting]
    assert [(one.came, one.points) for one in came] == [
        ("right", 2),
        ("right", 2),
        ("failed", 0),
        ("failed", 0),
        ("follows", 2),
        ("failed", 0),
    ]
    assert came[0].note == "a note"
    assert came[1].note == "at the second attempt; first attempt: late"
    assert came[4].finding.follows == "no-timeout"
    assert all(not left for left in ways.values())


def test_only_checks_that_leave_redis_alone_run_at_the_same_time() -> None:
    """They share one Redis, and a trace or another Redis is for one check alone."""
    several = [check for stage in STAGES for check in stage.checks if check.waits]
    assert len(several) > 8
    for check in several:
        assert check.starts_server
        assert not any((check.gate, check.traced, check.redis_delay_ms, check.also_closed))
