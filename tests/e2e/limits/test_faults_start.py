# SPDX-License-Identifier: MIT
"""Faults of system calls at the start: a server starts completely, or prints why not and exits with
1.

The start includes the connection to Redis, which begins with the first request for it. If that
fails, the response says so, nothing of it is left, and the next connection succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from ..client import EndOfStreamError, fetch
from ..faults import FaultyServer, Plan
from ..redisbox import PrivateRedis, RedisClient
from ..timing import wait_until

pytestmark = pytest.mark.plain_build("a sanitizer's own library must be the first one")

MOST = 400
WORKERS = 2
FAULTS = {
    "socket": (errno.EMFILE, errno.ENOBUFS),
    "connect": (errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EINTR),
    "getsockopt": (errno.ENOBUFS,),
    "setsockopt": (errno.ENOMEM,),
    "bind": (errno.EADDRINUSE, errno.EACCES),
    "listen": (errno.EADDRINUSE,),
    "getsockname": (errno.ENOBUFS,),
    "open": (errno.EMFILE, errno.EACCES),
    "openat2": (errno.EMFILE, errno.EACCES),
    "fstatat": (errno.EIO,),
    "fstat": (errno.EIO,),
    "read": (errno.EIO,),
    "fcntl": (errno.EINVAL,),
    "mmap": (errno.ENOMEM,),
    "epoll_create1": (errno.EMFILE,),
    "fork": (errno.EAGAIN,),
    "pthread_create": (errno.EAGAIN,),
    "malloc": (errno.ENOMEM,),
    "calloc": (errno.ENOMEM,),
    "realloc": (errno.ENOMEM,),
    "seccomp": (errno.ENOSYS, errno.EINVAL),
    "landlock_create_ruleset": (errno.ENOSYS, errno.EOPNOTSUPP),
    "landlock_add_rule": (errno.EPERM,),
    "landlock_restrict_self": (errno.EPERM,),
}


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


@pytest.mark.slow
@pytest.mark.parametrize("call", FAULTS)
def test_faults_at_start(
    binary: Path, site: Path, lone_store: RedisClient, tmp_path: Path, call: str
) -> None:
    """Each call of a kind fails in turn, until the start makes no more of them."""
    plan = Plan(tmp_path / "plan")
    url = f"redis://127.0.0.1:{lone_store.port}/{lone_store.database}"
    for error in FAULTS[call]:
        for nth in range(1, MOST):
            plan.arm(call, nth, error)
            options = ("--workers", str(WORKERS))
            server = FaultyServer(binary, site, url, options, plan=plan)
            if not _fails_at_start(server):
                _ask_redis(server)
                # Later calls of this kind belong to test_faults.py.
                failed = plan.disarm()
                _assert_whole(server, lone_store)
                if not failed:
                    break
            assert plan.crashes == 0
        else:
            pytest.fail(f"more than {MOST} calls of {call} at the start")


@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM])
def test_openat2_is_refused(
    binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path, refusal: int
) -> None:
    """On Linux before 5.6, or with a container's seccomp filter, the message names openat2 (0.2
    s)."""
    plan = Plan(tmp_path / "plan")
    plan.arm("openat2", 1, refusal)
    server = FaultyServer(binary, site, redis.url(4060), ("--workers", str(WORKERS)), plan=plan)
    assert _fails_at_start(server)
    assert "openat2(2)" in server.stderr
    assert os.strerror(refusal) in server.stderr


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("seccomp", "to all system calls, public/"),
        ("landlock_create_ruleset", "all files and ports (this kernel has no Landlock)"),
    ],
)
def test_old_kernel(
    binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path, call: str, words: str
) -> None:
    """On a kernel without seccomp and Landlock the server runs, and says so."""
    plan = Plan(tmp_path / "plan")
    plan.arm(call, 1, errno.ENOSYS)
    with FaultyServer(
        binary, site, redis.url(4060), ("--workers", str(WORKERS)), plan=plan
    ) as server:
        assert plan.disarm()
        assert words in server.banner["confined"]
        assert fetch(server, "/guestbook").status == 200


def test_listener_cannot_be_watched(
    binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path
) -> None:
    """An event loop that cannot watch the listening socket at first tries it again."""
    plan = Plan(tmp_path / "plan")
    plan.arm("epoll_ctl", 1, errno.ENOMEM)
    with FaultyServer(binary, site, redis.url(4060), plan=plan) as server:
        assert fetch(server, "/guestbook").status == 200
        assert plan.disarm() == (b"epoll_ctl" in binary.read_bytes())  # importers call it
