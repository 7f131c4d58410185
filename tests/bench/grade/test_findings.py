# SPDX-License-Identifier: MIT
"""Findings say what was seen: the received bytes, the connections of a trace, the true cause."""

import contextlib
import random
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.grade import trying
from bench.grade.attempts import Attempt, CheckRunner, Trial, cause_of
from bench.grade.differences import BROKEN, OPEN, difference
from bench.grade.findings import Failed, FaultName, excerpt
from bench.grade.scene import Scene
from bench.grade.stages import situations
from bench.grade.stages.answering import files
from bench.grade.stages.comparing import Requests
from bench.grade.stages.leaving import FEW_TASKS
from bench.grade.stages.racing import THREADS
from bench.grade.stages.situations import Situation, act
from bench.grade.trying import Stage, World
from bench.host.process import SignalWatch
from bench.load.client import Response

from .test_checks import answered_scene
from .test_naming import GOOD


@pytest.mark.parametrize(
    ("mine", "its", "words"),
    [
        (GOOD + OPEN, GOOD, f"with the same {len(GOOD)} bytes as by the reference server"),
        (GOOD + BROKEN, GOOD, "(epoll), but the connection was reset"),
        (OPEN, GOOD, "with no byte, and the connection stayed open; the reference server"),
        (b"", GOOD, f"with no byte; the reference server (epoll) answers {GOOD[:15]!r} (bytes"),
        (OPEN, b"", "with no byte, as by the reference server (epoll), but the connection stayed"),
        (b"ab" + OPEN, b"ac", "b'ab', and the connection stayed open; the reference server"),
        (b"ab" + OPEN, b"acd", "(bytes that the client read, without the date: 2 and 3)"),
    ],
)
def test_the_end_of_a_connection_is_no_part_of_the_received_bytes(
    mine: bytes, its: bytes, words: str
) -> None:
    seen = difference("the request", "no-answer", mine, its).seen
    assert words in seen
    assert "connection" not in "".join(re.findall("b'.*?'", seen))


@pytest.mark.parametrize(
    ("steps", "usual"),
    [
        ("ask a {page}\nredis-dies\nask a {page}", {b"redis-dies": True, b"ask": True}),
        ("ask a {page}\nredis GET a", {b"ask": True, b"redis": True}),
        ("ask a {page}\nredis GET a\nredis-stops", {b"ask": False, b"redis": False}),
    ],
)
def test_redis_is_not_blamed_before_it_goes_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: str, usual: dict[bytes, bool]
) -> None:
    """If a situation stops Redis, the grader reports the situation's fault only after this step."""
    came: dict[bytes, bool] = {}
    monkeypatch.setattr(situations, "data_in_redis", lambda _: {})
    monkeypatch.setattr(
        situations,
        "take",
        lambda _, __, line, usual: came.update({line.split(b" ")[0]: bool(usual)}),
    )
    scene = answered_scene(tmp_path)
    scene.redis.go_on = lambda: None
    pair: Any = SimpleNamespace(
        mine=scene, its=scene, requests=Requests(scene), prepare=lambda: None
    )
    act(pair, Situation(name="a", fault="redis-stops-all", steps=steps))
    assert came.items() >= usual.items()


@pytest.mark.parametrize("also_lost", [True, False])
def test_a_situation_is_no_cause_if_the_same_requests_fail_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, also_lost: bool
) -> None:
    """After a failure, the same requests are sent to a new server without the situation and
    without limits. If they fail, too, their failure is reported."""
    monkeypatch.setattr(Scene, "started", contextlib.nullcontext)
    redis: Any = SimpleNamespace(prepare=lambda: None)
    scene = Scene(None, None, SignalWatch(), tmp_path, redis=redis, dice=random.Random())  # type: ignore[arg-type]
    scene.limits, drawn = FEW_TASKS, []

    def lose(scene: Scene, fault: FaultName, seen: str) -> None:
        drawn.append((scene.dice.random(), scene.limits.tasks == FEW_TASKS.tasks))
        if fault == "cuts-off" or also_lost:
            raise Failed(fault, seen)

    def usual(new: Scene) -> None:
        lose(new, "no-answer", "no byte came")

    with pytest.raises(Failed) as found, scene.control(usual, "without SIGTERM"):
        lose(scene, "cuts-off", "SIGTERM came")
    assert drawn == [(drawn[0][0], True), (drawn[0][0], False)]
    assert found.value.fault == ("no-answer" if also_lost else "cuts-off")
    proof = ("the same requests, without SIGTERM", ["no byte came"]) if also_lost else ("", ())
    assert found.value.proof == proof


TRACED = """7 1000.5 +++ exited with 0 +++
7 1002.5 recvfrom(6<TCP:[127.0.0.1:80->127.0.0.1:7000]>, "GET", 9, 0, NULL, NULL) = 3 <0.1>
7 1002.6 connect(8<TCP:[127.0.0.1:9000->127.0.0.1:6379]>, 0x1, 16) = 0 <0.1>
7 1002.7 +++ killed by SIGSEGV +++
8 1002.7 +++ killed by SIGSEGV +++
"""


def test_a_trace_names_the_connections_to_redis(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(TRACED)
    failed = Failed("redis-stops-all", "late", since=1000.5, redis_port=6379)
    assert excerpt(trace, failed) == ["7  2.100 connect(8<Redis>, 0x1, 16) = 0 <0.1>"]
    failed.port = 7000
    assert "(6<client 7000>, " in excerpt(trace, failed)[0]


def test_threads_that_a_signal_killed_are_no_processes(tmp_path: Path) -> None:
    """SIGSEGV ended a process with two threads. The finding does not call its threads processes.
    The times of the proof count from the moment when the server was ready."""
    (tmp_path / "trace").write_text(TRACED)
    scene = Scene(None, None, SignalWatch(), tmp_path, redis=None, dice=random.Random())  # type: ignore[arg-type]
    scene.trace, scene.ready = tmp_path / "trace", 1000.7
    found = cause_of(Failed("no-answer", "late"), scene, waits_idle=False)
    assert found.fault == "crash"
    assert found.seen == "late; meanwhile a process of the server was killed by SIGSEGV"
    assert found.proof[1] == [f"{n}  2.000 +++ killed by SIGSEGV +++" for n in (7, 8)]


@pytest.mark.parametrize(
    ("bodies", "fault", "came"),
    [(3, "", True), (1, "wrong-answer", True), (0, "wrong-answer", False)],
)
def test_the_first_check_notes_whether_a_file_came(
    tmp_path: Path, bodies: int, fault: str, came: bool
) -> None:
    """The other checks run if the server has sent at least one file correctly."""
    scene = answered_scene(tmp_path)
    right = dict(list(scene.site.small.items())[:bodies])
    scene.sent_file, scene.require = False, partial(Scene.require, scene)

    def get(path: str) -> Response:
        body = right.get(path, path.encode())
        return Response(200, b"HTTP/1.1 200 OK\r\nContent-Length: %d" % len(body), body)

    scene.get = get
    with pytest.raises(Failed, match=r"answered|said") if fault else contextlib.nullcontext():
        files(scene)
    assert scene.sent_file == came


@pytest.mark.parametrize("sent_file", [True, False])
def test_a_failed_gate_stops_the_grading_only_if_no_file_came(sent_file: bool) -> None:
    failed = Attempt("", Failed("child-accepts", "left", proof=("", ["ppoll("])))
    attempts = iter([failed, Attempt()])
    runner: Any = SimpleNamespace(attempt=lambda *_, **__: next(attempts), sent_file=sent_file)
    runner.served = True
    gate, other = Trial("files", 1, print, gate=True), Trial("other", 1, print, alone=True)
    world = World(runner)
    assert world.check(gate).came == "failed"
    outcome = world.check(other)
    assert outcome.came == ("right" if sent_file else "not tried")
    assert outcome.note == (
        "" if sent_file else "the check `files` failed, and no file came correctly"
    )


def test_consequences_of_a_fault_in_the_first_check_give_no_points() -> None:
    """A server that answers one client and then crashes passes no check, so it gets no points."""
    failures = iter([Failed("crash", "1", proof=("", ["SIGSEGV"])), Failed("no-answer", "0 bytes")])
    runner: Any = SimpleNamespace(sent_file=True, served=True)
    runner.attempt = lambda *_, **__: Attempt("", next(failures))
    world = World(runner)
    world.check(Trial("files", 4, print, gate=True))
    outcome = world.check(Trial("other", 2, print, alone=True))
    assert (outcome.came, outcome.points, outcome.of) == ("follows", 0, 2)


def test_a_fault_is_proven_before_the_other_checks_use_up_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sure fault that may cause many others is traced immediately; a doubtful fault is not."""

    def attempt(_: object, check: Trial, again: bool, lane: int = 0) -> Attempt | None:
        found = Failed("ignores-end", "open", sure=check.name != "doubtful")
        return Attempt("", found, ["recv() = 0"] if again else ()) if lane else None

    monkeypatch.setattr(CheckRunner, "attempt", attempt)
    monkeypatch.setattr(trying, "apart", lambda: True)
    trials = [Trial(name, 1, print) for name in ("sure", "doubtful")]
    scene: Any = SimpleNamespace(left=lambda: 0.0)
    world = World(CheckRunner(scene, 1, True), [Stage("a", "b", trials)], lambda: 0.0)
    findings = [world.check(one).finding for one in trials]
    assert [one and one.proof for one in findings] == [["recv() = 0"], []]


def test_a_crash_with_the_thread_sanitizer_is_a_report() -> None:
    said = "SUMMARY: ThreadSanitizer: SEGV ../tsan/tsan_interface.cpp:67 in unsigned long load"
    found = THREADS.summary.search(said)
    assert found
    assert found.groups() == ("SEGV", "tsan_interface.cpp:67", "unsigned")
