# SPDX-License-Identifier: MIT
"""How the grader names a failure: the facts that distinguish similar faults."""

import contextlib
import itertools
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from bench.grade import inspection, threads
from bench.grade.attempts import CheckRunner, Trial
from bench.grade.findings import FILE, Failed, FaultName
from bench.grade.scene import Scene
from bench.grade.server import WORKERS
from bench.grade.stages.comparing import Sent

from .test_checks import CLOSES, GOOD, answering

GET = b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    ("fault", "is_cut", "named"),
    [
        ("no-answer", True, "short-write"),
        ("loses-pipelined", True, "short-write"),
        ("no-answer", False, "no-answer"),
        ("few-at-once", True, "few-at-once"),
    ],
)
def test_a_response_that_ends_after_its_head(
    monkeypatch: pytest.MonkeyPatch, fault: FaultName, is_cut: bool, named: str
) -> None:
    def once(*_: object) -> None:
        raise Failed(fault, "late", is_cut=is_cut)

    monkeypatch.setattr(CheckRunner, "_once", once)
    scene: Any = SimpleNamespace(left=lambda: 50.0)
    check = Trial("a check", 1, lambda scene: None)
    attempt = CheckRunner(scene, 1, can_trace=False).attempt(check, again=False, lane=1)
    assert attempt is not None
    assert attempt.failed is not None
    assert attempt.failed.fault == named


def test_short_write_has_the_consequences_of_no_answer() -> None:
    for cause in ("wrong-length", "resets", "loses-pipelined", "drops-half-closed"):
        assert FILE.may_cause(cause, "no-answer")
        assert FILE.may_cause(cause, "short-write")
    for fault in ("interrupted-call", "state-left", "one-recv", "loses-pipelined"):
        assert FILE.may_cause("short-write", fault)


def test_a_thread_that_woke_up_waits_for_no_kept_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads 1 and 2 wait for the same lock, thread 3 for another; thread 2 has woken up."""
    seen = iter([{1: (16, 5), 2: (16, 7), 3: (32, 1)}, {1: (16, 5), 2: (16, 8), 3: (32, 1)}])
    monkeypatch.setattr(threads, "_waits_for_locks", lambda _: next(seen))
    monkeypatch.setattr(threads, "STUCK_SECONDS", 0)
    assert [line.split()[0] for line in threads.kept_lock([1])] == ["1"]


def test_an_idle_thread_waits_for_a_signal_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not idle are the first thread, a thread that waits for a lock, and a thread that reads."""
    waits, for_lock = (16, 0x189, 0, 0, 0, 0), (16, 128, 2, 0, 0, 0)
    calls = [
        (1, "futex", waits),
        (2, "futex", for_lock),
        (3, "futex", waits),
        (4, "recvfrom", (5,)),
    ]
    monkeypatch.setattr(threads, "_calls", lambda _: iter(calls))
    assert [line.split()[0] for line in threads.idle_threads([1])] == ["3"]


@pytest.mark.parametrize(
    ("idle", "accepts", "named"),
    [
        (WORKERS, True, "workers-stuck"),
        (WORKERS + 1, True, "lost-wakeup"),
        (WORKERS + 1, False, "workers-stuck"),
    ],
)
def test_more_idle_threads_than_clients_mean_a_lost_wake_up(
    monkeypatch: pytest.MonkeyPatch, idle: int, accepts: bool, named: str
) -> None:
    """If the first thread does not wait for clients, another fault may be the cause."""

    def talk(*_: object) -> None:
        raise Failed("no-answer", "late", sure=False)

    client = SimpleNamespace(send=lambda _: None, close=lambda: None, port=1)
    scene: Any = SimpleNamespace(
        several=True,
        alive=lambda: None,
        pids=lambda: [1],
        talk=talk,
        client=lambda: contextlib.nullcontext(client),
    )
    scene.unanswered = partial(Scene.unanswered, scene)
    monkeypatch.setattr(inspection, "idle_threads", lambda _: ["2 futex("] * idle)
    monkeypatch.setattr(inspection, "wait_for_clients", lambda _: ["1 accept4("] * accepts)
    monkeypatch.setattr(inspection, "require_end_of_head", lambda _: None)
    with pytest.raises(Failed) as failed:
        inspection.require_capacity(scene, "seen", ["/a"])
    assert failed.value.fault == named


@pytest.mark.parametrize(
    ("right", "named"),
    [((3, 4), "state-left"), ((3,), "wrong-answer"), ((4,), "wrong-answer")],
)
def test_two_new_servers_must_answer_correctly(
    monkeypatch: pytest.MonkeyPatch, right: tuple[int, ...], named: str
) -> None:
    """Three repetitions (0 to 2) are wrong, and then two new servers get the request."""
    numbers: Iterator[int] = itertools.count()
    pair = answering(monkeypatch, lambda _: next(numbers) not in right)
    failed = pair.explained(Sent([GET]), GOOD + b"x", GOOD + b"y")
    assert failed.fault == named


@pytest.mark.parametrize(
    ("fault", "named"), [("one-recv", "one-recv"), ("loses-pipelined", "not-kept")]
)
def test_a_server_that_closes_after_pieces(fault: FaultName, named: str) -> None:
    assert Sent([GET], [1], fault).difference(CLOSES, GOOD).fault == named
