# SPDX-License-Identifier: MIT
"""Faults of system calls: each call fails, is interrupted, or is short (one byte).

A session with fixed requests is repeated on a running server; in session N the Nth call of a
function fails. Each response is right, or has status 500 or 503, or the connection is closed. The
server does not crash, leaks nothing, and answers the next session correctly. At its start, a server
starts completely, or prints the reason and exits with status 1.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..client import CLOSE, FORM, EndOfStreamError, Response, form, request
from ..faults import LIBRARY, SHORT, FaultyServer, faults
from ..harness import Start, architecture, limit, of, of_kind
from ..markup import part, remarks
from ..redisbox import PrivateRedis, RedisClient
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

    def assert_nothing_is_left(self) -> None:
        """Assert that the server has only its usual threads, processes, sockets and files."""
        server, store = self.server, self.store
        wait_until(lambda: server.is_at_rest(WORKERS), "the server is at rest")
        wait_until(lambda: server.open_sockets() == store.connected(), "no other socket is open")
        assert server.files_opened_twice() == []

    def _talk(self, *exchanges: tuple[bytes, int, object]) -> list[str]:
        """Send requests on one connection, or on a new one after a close; return each result."""
        outcomes: list[str] = []
        try:
            with self.server.client() as client:
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
            with self.server.client() as client:
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
def faulty(binary: Path, site: Path) -> Iterator[Session]:
    """Yield a session of a server with its own Redis. Most tests of this file use it."""
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: build it first (make faults)", pytrace=False)
    wait_until_settled(site)  # the server does not cache a file that has just changed
    options = ("--workers", str(WORKERS), "--log")
    with PrivateRedis() as redis, FaultyServer(binary, site, redis.url(1), options) as server:
        yield Session(server, redis.client(1))


@pytest.mark.slow
@pytest.mark.parametrize(("call", "errors"), faults("session"))
def test_faults(faulty: Session, call: str, errors: list[int]) -> None:
    """If any call of a function fails, the server reacts as the head of this file says."""
    server, plan = faulty.server, faulty.server.plan
    for _ in range(3):
        faulty.run()
    faulty.assert_nothing_is_left()
    pids, blocks = set(server.pids()), plan.blocks
    for error in errors:
        for nth in range(1, MOST):
            plan.arm(call, nth, error)
            outcomes = faulty.run()
            failed = plan.disarm()
            what = f"{call} {nth}: {errno.errorcode.get(error, 'short')}: {outcomes}"
            print(what, failed)
            if not failed or (error in HARMLESS and call not in MAY_REFUSE):
                assert set(outcomes) == {RIGHT}, what
            wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
            assert set(faulty.run()) == {RIGHT}, what
            faulty.assert_nothing_is_left()
            if not failed:
                break
        else:
            pytest.fail(f"more than {MOST} calls of {call} in one session")
    assert set(server.pids()) == pids
    assert plan.crashes == 0
    if not server.kind.has_workers and not server.kind.lends_redis:  # one process, one thread
        wait_until(lambda: plan.blocks <= blocks + 2, f"{plan.blocks} blocks, not {blocks}")
    assert "is not in its list" not in server.stderr


@of_kind("not completes")
def test_a_first_send_that_finds_no_room(faulty: Session) -> None:
    """If the first send returns EAGAIN, the server sends the response later."""
    plan = faulty.server.plan
    plan.arm("sendmsg", 1, errno.EAGAIN)
    assert faulty.server.get("/sorted").status == 200
    assert plan.disarm()


@of("forking", "preforking", "threading", "epoll")
def test_accept_is_forbidden(start: Start, tmp_path: Path) -> None:
    """After an unusual error of accept4(2), the server logs the error once, and pauses before the
    next call. Here the call fails for some time, as if the filter of a container forbids it."""
    skip_unless_traceable()
    # strace makes the call invalid, which the server's own filter would report.
    server = start("--workers", "1", "--no-confinement", at_rest=True)
    calls = 60
    fault = ("-e", "trace=accept4", "-e", f"inject=accept4:error=EPERM:when=1..{calls}")
    begun = time.monotonic()  # some servers call accept4(2) again as soon as strace is attached
    Trace(server, tmp_path / "trace", *fault)
    assert server.get("/t/digits.txt").status == 200
    assert time.monotonic() - begun > (calls - 1) * limit("RETRY_DELAY") / 1000
    assert server.stderr.count("cannot accept clients (Operation not permitted)") == 1


def test_a_rename_while_a_file_is_opened(faulty: Session) -> None:
    """The server repeats openat2(2) after EAGAIN, which the kernel returns during a rename."""
    plan = faulty.server.plan
    changed = faulty.server.root / "public" / "t" / "changed.txt"
    changed.write_bytes(b"not in any cache")
    plan.arm("openat2", 1, errno.EAGAIN)
    assert faulty.server.get("/t/changed.txt").body == b"not in any cache"
    assert plan.disarm()


def test_words_without_memory(faulty: Session) -> None:
    """If there is no memory for the page /sorted, the server answers 503."""
    plan = faulty.server.plan
    # The server may still need a buffer to close the previous connection.
    faulty.assert_nothing_is_left()
    plan.arm("realloc", 2, errno.ENOMEM)  # the first call is for the request
    assert faulty.server.get("/sorted").status == 503
    assert plan.disarm()
    assert faulty.server.get("/sorted").status == 200


@pytest.mark.redis_code
def test_new_connection_without_memory(faulty: Session) -> None:
    """If there is no memory for SELECT, the server sends no command to database 0 instead."""
    server, plan = faulty.server, faulty.server.plan
    other = RedisClient(faulty.store.port)
    for nth in range(1, 10):
        wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
        faulty.store.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.2)  # only a connection that has been idle is checked
        plan.arm("realloc", nth, errno.ENOMEM)
        for _ in range(3):
            with contextlib.suppress(EndOfStreamError):
                assert server.sign("Ann", "without memory").status in (303, 503)
        assert plan.disarm()
        assert other.do("DBSIZE") == 0, f"realloc {nth}"
        other.close()


# ---- At the start ----
#
# These tests include the first connection to Redis, which the first request that needs Redis opens.
# If the connection fails, the response has an error status, no socket is left, and the next
# connection succeeds.


def _assert_whole(server: FaultyServer, store: RedisClient) -> None:
    """Assert that the server serves files, redirects and the guestbook, and stops correctly."""
    with server:
        wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
        statuses = [server.get(path).status for path in ("/t/digits.txt", "/t/plain")]
        assert statuses == [200, 302]
        wait_until(lambda: server.open_sockets() == store.connected(), "no socket is left over")


def _fails_at_start(server: FaultyServer) -> bool:
    """Return whether the server fails to start. If so, assert one line of error and status 1."""
    with contextlib.suppress(AssertionError):
        server.start()
    # 03 and 09 fork their workers after the banner.
    wait_until(lambda: not server.running() or server.is_at_rest(WORKERS), "the end or all workers")
    if server.running():
        return False
    assert server.wait() == 1, server.stderr
    assert server.stderr.startswith(f"{server.name}: "), server.stderr
    assert server.stderr.count("\n") == 1, server.stderr
    assert len(server.stderr) > len(server.name) + 15, server.stderr
    return True


Make = Callable[..., FaultyServer]


@pytest.fixture
def make(binary: Path, site: Path, own: PrivateRedis) -> Make:
    """Return a function that makes a server whose nth call fails: make(call, nth, error)."""

    def one(*fault: str | int) -> FaultyServer:
        server = FaultyServer(binary, site, own.url(1), ("--workers", str(WORKERS)))
        server.plan.arm(*fault)  # type: ignore[arg-type]
        return server

    return one


@pytest.mark.slow
@pytest.mark.parametrize(("call", "errors"), faults("start"))
def test_faults_at_start(make: Make, own: PrivateRedis, call: str, errors: list[int]) -> None:
    """The server starts, or exits with a message, if any call of a function fails at the start."""
    store = own.client()
    for error in errors:
        for nth in range(1, MOST):
            server = make(call, nth, error)
            if not _fails_at_start(server):
                with contextlib.suppress(EndOfStreamError, ConnectionError):
                    assert server.get("/guestbook").status in (200, 500, 503)
                # Later calls of this function belong to test_faults().
                failed = server.plan.disarm()
                _assert_whole(server, store)
                if not failed:
                    break
            assert server.plan.crashes == 0
        else:
            pytest.fail(f"more than {MOST} calls of {call} at the start")


NEEDED = {
    "openat2": "openat2 ENOSYS EPERM",
    "io_uring_queue_init_params": "io_uring_setup EPERM ENOSYS EINVAL ENOMEM",
}
"""Functions without which a server does not start, with their system calls and possible errors."""


@pytest.mark.shared_code
@pytest.mark.parametrize("call", NEEDED)
def test_a_needed_call_is_refused(make: Make, arch: str, call: str) -> None:
    """If an old kernel or a container refuses a needed call, the message names the call and the
    error."""
    if call.startswith("io_uring") and not architecture(arch).completes:
        pytest.skip("this server does not use io_uring")
    name, *errors = NEEDED[call].split()
    for error in errors:
        server = make(call, 1, getattr(errno, error))
        assert _fails_at_start(server)
        assert f"{name}(2)" in server.stderr
        assert os.strerror(getattr(errno, error)) in server.stderr


OLD = {
    "seccomp": "to all system calls, public/",
    "landlock_create_ruleset": "all files and ports (this kernel has no Landlock)",
}


@pytest.mark.shared_code
@pytest.mark.parametrize("call", OLD)
def test_old_kernel(make: Make, call: str) -> None:
    """On a kernel without seccomp or Landlock the server runs, and its banner says so."""
    with make(call, 1, errno.ENOSYS) as server:
        assert server.plan.disarm()
        assert OLD[call] in server.banner["confined"]
        assert server.get("/guestbook").status == 200


def test_listener_cannot_be_watched(make: Make) -> None:
    """If an event loop cannot watch the listening socket at first, it tries again."""
    with make("epoll_ctl", 1, errno.ENOMEM) as server:
        assert server.get("/guestbook").status == 200
        # Only a server that imports epoll_ctl() has called it.
        assert server.plan.disarm() == (b"epoll_ctl" in server.binary.read_bytes())
