# SPDX-License-Identifier: MIT
"""Faults of system calls: each call fails, is interrupted, or is short (one byte). A session with
fixed requests is repeated. First the first call of a function fails, then its second call, and so
on. Each response is right, or has status 500 or 503, or the connection is closed. The server does
not crash, leaks nothing, and answers the next session correctly.
"""

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..claims import CLOSE, limit, of, of_kind
from ..client import FORM, Client, EndOfStreamError, Response, fetch, form, request, sign
from ..conftest import Start
from ..faults import LIBRARY, SHORT, FaultyServer, faults
from ..markup import part, remarks
from ..redisbox import RedisClient
from ..site import eighty_kilobytes, wait_until_settled
from ..timing import wait_until
from ..tracing import Trace, skip_unless_traceable

pytestmark = pytest.mark.plain_build("a sanitizer's own library must be the first one")

WORKERS = 2
MOST = 400
LARGE = eighty_kilobytes()
RIGHT, REFUSED, CLOSED = "right", "refused", "closed"
PAGE = "the page of the guestbook"

# Faults after which the server repeats or continues the call, so no request fails.
HARMLESS = (errno.EINTR, errno.EBUSY, SHORT)
# Calls after which the response may be an error if the call was short or interrupted.
MAY_REFUSE = ("openat2", "read")


class Session:
    """A session of fixed requests, with the valid responses."""

    def __init__(self, server: FaultyServer, store: RedisClient) -> None:
        self.server = server
        self.store = store
        self.number = 0

    def run(self) -> list[str]:
        """Run the session once; return the result of each request."""
        self.number += 1
        self.store.do("DEL", "guestbook_remarks")
        self.store.do("RPUSH", "guestbook_remarks", "one - Ann", "two - Bob")
        # A changed file is in no cache, so each session opens it again.
        changed = self.server.root / "public" / "t" / "changed.txt"
        changed.write_bytes(b"version %d" % self.number)
        outcomes = self._talk(
            (request("GET", "/t/digits.txt"), 200, b"0123456789"),
            (request("GET", "/t/changed.txt"), 200, changed.read_bytes()),
            (request("GET", "/t/sub", CLOSE), 301, "/t/sub/"),
        )
        outcomes += self._talk((request("GET", "/guestbook", CLOSE), 200, PAGE))
        outcomes += self._sign()
        for last in (
            (request("GET", "/t/80k.bin", CLOSE), 200, LARGE),
            (request("GET", "/t/plain", CLOSE), 302, "/guestbook"),
            (request("GET", "/t/none", CLOSE), 404, None),
            (request("GET", "/sorted", CLOSE), 200, None),
            (b"nonsense\r\n\r\n", 400, None),
        ):
            outcomes += self._talk(last)
        return outcomes

    def _talk(self, *exchanges: tuple[bytes, int, object]) -> list[str]:
        """Send requests on one connection, or on a new one after a close; return each result."""
        outcomes: list[str] = []
        try:
            with Client(self.server) as client:
                for number, (raw, status, what) in enumerate(exchanges, start=1):
                    response = client.exchange(raw)
                    outcomes.append(REFUSED if response.status in (500, 503) else RIGHT)
                    if outcomes[-1] == RIGHT:
                        self._assert_right(response, status, what)
                    if response.closes and number < len(exchanges):
                        return outcomes + self._talk(*exchanges[number:])
        except (EndOfStreamError, ConnectionError):
            outcomes.append(CLOSED)
        return outcomes

    def _assert_right(self, response: Response, status: int, what: object) -> None:
        """Assert the status, and `what`: PAGE, a body, the target of a redirect, or None (any)."""
        assert response.status == status, response.head
        if what == PAGE:
            assert remarks(response.text) == ["two - Bob", "one - Ann"]
            count = int(part(response.text, "count").replace(",", ""))
            assert count == self.store.number("visitor_count")
        elif what is not None:
            assert what in (response.body, response.field("Location"))

    def _sign(self) -> list[str]:
        """Post a remark in two parts. Assert that a confirmed remark is stored once."""
        text = f"number {self.number} " + "x" * 900
        body = form(guest_name="Eve", guest_remarks=text)
        raw = request("POST", "/guestbook", (FORM, *CLOSE), body)
        outcome = CLOSED
        try:
            with Client(self.server) as client:
                client.send_read(raw[:200])
                status = client.exchange(raw[200:]).status
                assert status in (303, 500, 503)
                outcome = RIGHT if status == 303 else REFUSED
        except (EndOfStreamError, ConnectionError):
            pass
        stored = self.store.remarks().count(f"{text} - Eve".encode())
        assert stored == 1 if outcome == RIGHT else stored <= 1
        return [outcome]


@pytest.fixture(scope="module")
def faulty(binary: Path, site: Path, lone_store: RedisClient) -> Iterator[FaultyServer]:
    """Yield a server that all tests of this file use."""
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: build it first (make faults)", pytrace=False)
    wait_until_settled(site)  # the server does not cache a file that has just changed
    options = ("--workers", str(WORKERS), "--log")
    with FaultyServer(binary, site, lone_store.url, options) as server:
        yield server


def _assert_nothing_is_left(server: FaultyServer, store: RedisClient) -> None:
    """Assert that the server has only its usual threads, processes, sockets and files."""
    wait_until(lambda: server.is_at_rest(WORKERS), "the server is at rest")
    wait_until(lambda: server.open_sockets() == store.connected(), "only sockets to Redis are open")
    assert server.files_opened_twice() == []


@pytest.mark.slow
@pytest.mark.parametrize(("call", "errors"), faults("session"))
def test_faults(
    faulty: FaultyServer, lone_store: RedisClient, call: str, errors: list[int]
) -> None:
    """If any call of a function fails, the server reacts as the head of this file says."""
    plan = faulty.plan
    session = Session(faulty, lone_store)
    for _ in range(3):
        session.run()
    _assert_nothing_is_left(faulty, lone_store)
    pids, blocks = set(faulty.pids()), plan.blocks
    for error in errors:
        for nth in range(1, MOST):
            plan.arm(call, nth, error)
            outcomes = session.run()
            failed = plan.disarm()
            what = f"{call} {nth}: {errno.errorcode.get(error, 'short')}: {outcomes}"
            print(what, failed)
            if not failed or (error in HARMLESS and call not in MAY_REFUSE):
                assert set(outcomes) == {RIGHT}, what
            wait_until(lambda: fetch(faulty, "/guestbook").status == 200, "Redis is back")
            assert set(session.run()) == {RIGHT}, what
            _assert_nothing_is_left(faulty, lone_store)
            if not failed:
                break
        else:
            pytest.fail(f"more than {MOST} calls of {call} in one session")
    assert set(faulty.pids()) == pids
    assert plan.crashes == 0
    if not faulty.kind.has_workers and not faulty.kind.lends_redis:  # one process, one thread
        wait_until(lambda: plan.blocks <= blocks + 2, f"{plan.blocks} blocks, not {blocks}")
    assert "is not in its list" not in faulty.stderr


@of_kind("not completes")
def test_a_first_send_that_finds_no_room(faulty: FaultyServer) -> None:
    """If the first send returns EAGAIN, the server sends the response later."""
    plan = faulty.plan
    plan.arm("sendmsg", 1, errno.EAGAIN)
    assert fetch(faulty, "/sorted").status == 200
    assert plan.disarm()


@of("forking", "preforking", "threading", "epoll")
def test_accept_is_forbidden(start: Start, tmp_path: Path) -> None:
    """After an unusual error of accept4(2), the server logs the error once, and pauses before the
    next call. Here the call fails for some time, as if the filter of a container forbids it."""
    skip_unless_traceable()
    # strace makes the call invalid, which the server's own filter would report.
    server = start("--workers", "1", "--no-confinement", at_rest=True)
    calls = 20
    fault = ("-e", "trace=accept4", "-e", f"inject=accept4:error=EPERM:when=1..{calls}")
    Trace(server, tmp_path / "trace", *fault)
    begun = time.monotonic()
    assert fetch(server, "/t/digits.txt").status == 200
    assert time.monotonic() - begun > (calls - 1) * limit("RETRY_DELAY") / 1000
    assert server.stderr.count("cannot accept clients (Operation not permitted)") == 1


def test_a_rename_while_a_file_is_opened(faulty: FaultyServer) -> None:
    """The server repeats openat2(2) after EAGAIN, which the kernel returns during a rename."""
    plan = faulty.plan
    changed = faulty.root / "public" / "t" / "changed.txt"
    changed.write_bytes(b"not in any cache")
    plan.arm("openat2", 1, errno.EAGAIN)
    assert fetch(faulty, "/t/changed.txt").body == b"not in any cache"
    assert plan.disarm()


def test_words_without_memory(faulty: FaultyServer, lone_store: RedisClient) -> None:
    """If there is no memory for the page /sorted, the server answers 503."""
    plan = faulty.plan
    # The server may still need a buffer to close the previous connection.
    _assert_nothing_is_left(faulty, lone_store)
    plan.arm("realloc", 2, errno.ENOMEM)  # the first call is for the request
    assert fetch(faulty, "/sorted").status == 503
    assert plan.disarm()
    assert fetch(faulty, "/sorted").status == 200


def _is_answered(server: FaultyServer) -> int:
    """Post a remark; return the status, or 0 if the connection was closed without a response."""
    try:
        return sign(server, "Ann", "without memory").status
    except EndOfStreamError:
        return 0


@pytest.mark.redis_code
def test_new_connection_without_memory(faulty: FaultyServer, lone_store: RedisClient) -> None:
    """If there is no memory for SELECT, the server sends no command to database 0 instead."""
    plan = faulty.plan
    other = RedisClient(lone_store.port)
    for nth in range(1, 10):
        wait_until(lambda: fetch(faulty, "/guestbook").status == 200, "Redis is back")
        lone_store.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.2)  # only a connection that has been idle is checked
        plan.arm("realloc", nth, errno.ENOMEM)
        answers = [_is_answered(faulty) for _ in range(3)]
        assert plan.disarm()
        assert set(answers) <= {303, 503, 0}
        assert other.do("DBSIZE") == 0, f"realloc {nth}: {answers}"
        other.close()
