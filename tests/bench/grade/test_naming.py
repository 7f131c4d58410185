# SPDX-License-Identifier: MIT
"""How the grader names a failure: the facts that distinguish similar faults."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.grade import inspection, threads
from bench.grade.attempts import CheckRunner, Trial
from bench.grade.differences import BROKEN, OPEN, REMARK, cause
from bench.grade.findings import FILE, Failed, FaultName
from bench.grade.scene import Scene
from bench.grade.server import WORKERS
from bench.grade.stages import comparing, situations
from bench.grade.stages.comparing import Pair, Sent
from bench.grade.stages.situations import take

GET = b"GET / HTTP/1.1\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
BAD = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\n\r\n"
CLOSES = GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
UNAVAILABLE = BAD.replace(b"400", b"503")
BODY = GOOD + b"x"


@pytest.mark.parametrize(
    ("path", "mine", "its", "fault"),
    [
        (b"/", GOOD + b"x", GOOD + b"y", "wrong-answer"),
        (b"/", GOOD, GOOD + b"y", "short-write"),
        (b"/", GOOD.replace(b"1\r", b"2\r") + b"y", GOOD + b"y", "wrong-length"),
        (b"/", BODY + b"y", BODY, "wrong-length"),
        (b"/", BODY, BODY + BAD, "loses-pipelined"),
        (b"/", BODY + GOOD, BODY + BAD, "believes-anything"),
        (b"/", BODY + BAD[9:], BODY + BAD, "bad-head"),
        (b"/", BODY + b"y" + BAD, BODY + BAD, "wrong-length"),
        (b"/", BODY + BODY, BODY, "wrong-answer"),
        (b"/", GOOD[:20], GOOD, "no-answer"),
        (b"/", BODY, b"", "wrong-answer"),
        (b"/guestbook", BODY, BAD + REMARK, "believes-anything"),
        (b"/", b"", GOOD, "no-answer"),
        (b"/", OPEN, GOOD, "no-answer"),
        (b"/", b"hello", GOOD, "bad-head"),
        (b"/", GOOD, BAD, "believes-anything"),
        (b"/", MISSING, BAD, "believes-anything"),
        (b"/", BAD, GOOD, "wrong-answer"),
        (b"/", GOOD, CLOSES, "never-closes"),
        (b"/", CLOSES, GOOD, "not-kept"),
        (b"/", CLOSES + OPEN, CLOSES, "never-closes"),
        (b"/", GOOD + OPEN, GOOD, "ignores-end"),
        (b"/guestbook", BAD.replace(b"400", b"503"), GOOD, "no-redis"),
        (b"/guestbook", GOOD, BAD.replace(b"Connection", b"X"), "wrong-answer"),
        (b"/", b"\n" + GOOD, GOOD, "bad-head"),
        (b"/guestbook", GOOD, GOOD + REMARK, "no-redis"),
        (b"/", BAD.replace(b"Connection", b"X"), BAD, "never-closes"),
        (b"/", BAD.replace(b"Connection", b"X") + b"a form", BAD, "believes-anything"),
        (b"/", GOOD + OPEN, BODY, "short-write"),
        (b"/", GOOD + b"x" + BROKEN, GOOD + b"x", "resets"),
        (b"/", GOOD + BROKEN, GOOD + b"x", "resets"),
        (b"/", GOOD + b"xy" + BROKEN, GOOD + b"x", "wrong-length"),
    ],
)
def test_a_difference_from_the_reference_server_is_named(
    path: bytes, mine: bytes, its: bytes, fault: str
) -> None:
    assert cause(b"GET " + path + b" HTTP/1.1", mine, its) == fault


def answering(monkeypatch: pytest.MonkeyPatch, is_wrong: Callable[[Sent], bool]) -> Pair:
    """Return a pair whose graded server gives a wrong answer if `is_wrong(sent)` is true."""

    def respond(scene: object, sent: Sent, ends: bool = True) -> bytes:
        return GOOD + (b"x" if scene is mine and is_wrong(sent) else b"y")

    mine: Any = SimpleNamespace(alive=lambda: None, stop=lambda: None, server="")
    mine.of = lambda _: SimpleNamespace(started=lambda: contextlib.nullcontext(mine))
    monkeypatch.setattr(comparing, "responses", respond)
    monkeypatch.setattr(Pair, "prepare", lambda _: None)
    return Pair(mine, cast(Any, None), cast(Any, SimpleNamespace(kept=True)))


@pytest.mark.parametrize(
    ("is_wrong", "fault", "count"),
    [
        (lambda sent: b"b" in sent.parts, "wrong-answer", 1),
        (lambda sent: b"a" in sent.parts and list(sent.cuts) == sent.ends != [], "state-left", 2),
        (lambda sent: b"c" in sent.parts[1:] and not sent.cuts, "loses-pipelined", 3),
        (lambda sent: list(sent.cuts) == [2], "one-recv", 4),
    ],
)  # fmt: skip
def test_a_difference_is_named_by_the_simplest_requests_that_show_it(
    monkeypatch: pytest.MonkeyPatch, is_wrong: Callable[[Sent], bool], fault: str, count: int
) -> None:
    """The grader reduces four requests to the `count` requests that still show the difference."""
    pair = answering(monkeypatch, is_wrong)
    parts = (b"a", b"b", b"c", b"d")
    cuts = [2] if fault == "one-recv" else [1, 2, 3] if fault == "state-left" else []
    with pytest.raises(Failed) as found:
        pair.require_same(Sent(parts, cuts, "one-recv" if cuts else "loses-pipelined"))
    assert found.value.fault == fault
    shown = f"{count} requests on a connection" if count > 1 else "the request b'b' was answered"
    assert found.value.seen.startswith(shown)


@pytest.mark.parametrize(
    ("usual", "mine", "its", "alone", "fault"),
    [
        ("redis-stops-all", GOOD + b"1x", GOOD + b"1y", GOOD + b"2x", "wrong-answer"),
        ("redis-stops-all", BAD, UNAVAILABLE, BAD, "redis-stops-all"),
        ("redis-not-back", UNAVAILABLE, GOOD, GOOD, "redis-not-back"),
        ("redis-not-back", BAD, GOOD, BAD, "wrong-answer"),
        (None, b"", GOOD + b"1x", GOOD + b"2x", "not-kept"),
        (None, b"\n" + GOOD, GOOD, b"", "wrong-length"),
        (None, GOOD + OPEN, BODY, b"", "short-write"),
        ("redis-not-back", b"", GOOD, GOOD, "redis-not-back"),
        ("redis-stops-all", b"", GOOD, GOOD, "redis-stops-all"),
        (None, GOOD + b"1x", GOOD + b"1y", GOOD + b"2y", "state-left"),
    ],
)
def test_a_difference_in_a_situation_is_named(
    monkeypatch: pytest.MonkeyPatch, usual: Any, mine: bytes, its: bytes, alone: bytes, fault: str
) -> None:
    """A situation's fault is reported for a wrong status, not for a wrong page. `state-left` is
    reported only if a new connection gets the right response (apart from the visitor number)."""
    pair = answering(monkeypatch, lambda _: False)
    monkeypatch.setattr(situations, "responses", lambda *_: alone)
    actors: Any = tuple(
        SimpleNamespace(step=lambda _, got=got: lambda *_: got, clients={b"a": None})
        for got in (mine, its)
    )
    with pytest.raises(Failed) as found:
        take(pair, actors, b"ask a GET /guestbook HTTP/1.1\r\nHost: a", usual)
    assert found.value.fault == fault
    assert found.value.seen.startswith("`GET /guestbook HTTP/1.1` of client a was answered ")


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
    for first in ("wrong-length", "resets", "loses-pipelined", "drops-half-closed"):
        assert FILE.may_cause(first, "no-answer")
        assert FILE.may_cause(first, "short-write")
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
