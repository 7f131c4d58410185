# SPDX-License-Identifier: MIT
"""Faults of system calls at the start: a server starts completely, or prints the reason and exits
with status 1. The tests include the first connection to Redis, which the first request that needs
Redis opens. If the connection fails, the response has an error status, no socket is left, and the
next connection succeeds. (The server of test_faults.py already has a connection to Redis.)
"""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ..client import EndOfStreamError, fetch
from ..faults import FaultyServer, faults
from ..harness import architecture
from ..redisbox import RedisClient
from ..timing import wait_until

pytestmark = pytest.mark.plain_build("a sanitizer's own library must be the first one")

MOST = 400
WORKERS = 2


def _ask_redis(server: FaultyServer) -> None:
    with contextlib.suppress(EndOfStreamError, ConnectionError):
        assert fetch(server, "/guestbook").status in (200, 500, 503)


def _assert_whole(server: FaultyServer, store: RedisClient) -> None:
    """Assert that the server serves files, redirects and the guestbook, and stops correctly."""
    with server:
        wait_until(lambda: fetch(server, "/guestbook").status == 200, "Redis is back")
        statuses = [fetch(server, path).status for path in ("/t/digits.txt", "/t/plain")]
        assert statuses == [200, 302]
        wait_until(lambda: server.open_sockets() == store.connected(), "no socket is left over")


def _fails_at_start(server: FaultyServer) -> bool:
    """Return whether the server fails to start. Assert that it then exits with 1 after one line."""
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
def make(binary: Path, site: Path, lone_store: RedisClient) -> Make:
    """Return a function that makes a server whose nth call fails: make(call, nth, error)."""

    def one(*fault: str | int) -> FaultyServer:
        server = FaultyServer(binary, site, lone_store.url, ("--workers", str(WORKERS)))
        server.plan.arm(*fault)  # type: ignore[arg-type]
        return server

    return one


@pytest.mark.slow
@pytest.mark.parametrize(("call", "errors"), faults("start"))
def test_faults_at_start(make: Make, lone_store: RedisClient, call: str, errors: list[int]) -> None:
    """The server starts, or exits with a message, if any call of a function fails at the start."""
    for error in errors:
        for nth in range(1, MOST):
            server = make(call, nth, error)
            if not _fails_at_start(server):
                _ask_redis(server)
                # Later calls of this function belong to test_faults().
                failed = server.plan.disarm()
                _assert_whole(server, lone_store)
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
        assert fetch(server, "/guestbook").status == 200


def test_listener_cannot_be_watched(make: Make) -> None:
    """If an event loop cannot watch the listening socket at first, it tries again."""
    with make("epoll_ctl", 1, errno.ENOMEM) as server:
        assert fetch(server, "/guestbook").status == 200
        # Only a server that imports epoll_ctl() has called it.
        assert server.plan.disarm() == (b"epoll_ctl" in server.binary.read_bytes())
