# SPDX-License-Identifier: MIT
"""Faults of system calls at the start: a server starts completely, or prints why not and exits with
1.

The start includes the connection to Redis, which begins with the first request for it. If that
fails, the response says so, nothing of it is left, and the next connection succeeds.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ..client import EndOfStreamError, fetch
from ..faults import FaultyServer, faults
from ..redisbox import RedisClient
from ..timing import wait_until

pytestmark = pytest.mark.plain_build("a sanitizer's own library must be the first one")

MOST = 400
WORKERS = 2
OWN, SHARED = faults("start"), faults("shared_start")


def _ask_redis(server: FaultyServer) -> None:
    with contextlib.suppress(EndOfStreamError, ConnectionError):
        assert fetch(server, "/guestbook").status in (200, 500, 503)


def _assert_whole(server: FaultyServer, store: RedisClient) -> None:
    """Assert that it serves files, redirects and the guestbook, and stops correctly."""
    with server:
        wait_until(lambda: fetch(server, "/guestbook").status == 200, "Redis is back")
        statuses = [fetch(server, path).status for path in ("/t/digits.txt", "/t/plain")]
        assert statuses == [200, 302]
        wait_until(lambda: server.open_sockets() == store.connected(), "no socket is left over")


def _fails_at_start(server: FaultyServer) -> bool:
    """Return whether it does not start; it must have printed why in one line, and exited with 1."""
    with contextlib.suppress(AssertionError):
        server.start()
    # 03 forks its workers after the banner.
    wait_until(lambda: not server.running() or server.is_at_rest(WORKERS), "it ends or is at rest")
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
    """Return a function that makes a server in which a call fails: make(call, nth, error)."""
    url = f"redis://127.0.0.1:{lone_store.port}/{lone_store.database}"

    def one(*fault: str | int) -> FaultyServer:
        server = FaultyServer(binary, site, url, ("--workers", str(WORKERS)))
        server.plan.arm(*fault)  # type: ignore[arg-type]
        return server

    return one


@pytest.mark.slow
@pytest.mark.parametrize("call", OWN)
def test_faults_at_start(make: Make, lone_store: RedisClient, call: str) -> None:
    """Make the first call of a kind fail, then the second, and so on to the last of the start."""
    _fail_in_turn(make, lone_store, call, OWN[call])


@pytest.mark.slow
@pytest.mark.shared_code
@pytest.mark.parametrize("call", SHARED)
def test_faults_at_the_shared_start(make: Make, lone_store: RedisClient, call: str) -> None:
    """Calls of lib/ and ops/ fail in the same way."""
    _fail_in_turn(make, lone_store, call, SHARED[call])


def _fail_in_turn(make: Make, store: RedisClient, call: str, errors: tuple[int, ...]) -> None:
    for error in errors:
        for nth in range(1, MOST):
            server = make(call, nth, error)
            if not _fails_at_start(server):
                _ask_redis(server)
                # Later calls of this kind belong to test_faults.py.
                failed = server.plan.disarm()
                _assert_whole(server, store)
                if not failed:
                    break
            assert server.plan.crashes == 0
        else:
            pytest.fail(f"more than {MOST} calls of {call} at the start")


@pytest.mark.shared_code
@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM])
def test_openat2_is_refused(make: Make, refusal: int) -> None:
    """On Linux before 5.6, or with a filter of a container, the message names openat2."""
    server = make("openat2", 1, refusal)
    assert _fails_at_start(server)
    assert "openat2(2)" in server.stderr
    assert os.strerror(refusal) in server.stderr


OLD = {
    "seccomp": "to all system calls, public/",
    "landlock_create_ruleset": "all files and ports (this kernel has no Landlock)",
}


@pytest.mark.shared_code
@pytest.mark.parametrize("call", OLD)
def test_old_kernel(make: Make, call: str) -> None:
    """On a kernel without seccomp and Landlock the server runs, and says so."""
    with make(call, 1, errno.ENOSYS) as server:
        assert server.plan.disarm()
        assert OLD[call] in server.banner["confined"]
        assert fetch(server, "/guestbook").status == 200


def test_listener_cannot_be_watched(make: Make) -> None:
    """An event loop that cannot watch the listening socket at first tries it again."""
    with make("epoll_ctl", 1, errno.ENOMEM) as server:
        assert fetch(server, "/guestbook").status == 200
        # Importers call it.
        assert server.plan.disarm() == (b"epoll_ctl" in server.binary.read_bytes())
