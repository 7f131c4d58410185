# SPDX-License-Identifier: MIT
"""Clients that do not read or do not finish their request, in a control group of 16 MB. Takes 2 to
5 s for each server."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..claims import of
from ..client import Client, fetch, request
from ..conftest import Start
from ..redisbox import PrivateRedis, RedisClient
from ..timing import wait_until

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 16 << 20
CLIENTS = 120
MANY = 6000
SECONDS = 2
"""Seconds after which a server without a limit has used all of the group's memory."""
REMARK = '"' * 1000 + " - " + '"' * 100
"""Each character is written as &quot;, so fifty remarks make a page of 333 KB."""


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a control group of 16 MB (version 1, if root may make one)."""
    folder = GROUPS / f"zerohttpd-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no control group of version 1 for memory: {error}")
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text(encoding="ascii"), "it is empty")
    folder.rmdir()


@pytest.mark.slow
@pytest.mark.plain_build("sanitizers need more memory than that")
def test_readers_that_do_not_read(
    group: Path, start: Start, redis: PrivateRedis, store: RedisClient
) -> None:
    """No process is killed, the group has memory left, and the page is served afterwards."""
    for _ in range(50):
        store.do("RPUSH", "guestbook_remarks", REMARK)
    join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    url = redis.url(store.database)
    server = start("--workers", "100", redis=url, prefix=("sh", "-c", join, "sh"))
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(Client(server, receive_buffer=2048))
            client.send(request("GET", "/guestbook"))
        time.sleep(SECONDS)
        most = int((group / "memory.max_usage_in_bytes").read_text(encoding="ascii"))
    assert most < LIMIT, f"{most} bytes"
    wait_until(lambda: fetch(server, "/guestbook").status == 200, "the page is served again")
    assert server.running()
    assert "signal" not in server.stderr, server.stderr


@of("poll", "epoll", "multicore")
@pytest.mark.slow
@pytest.mark.plain_build("sanitizers need more memory than that")
def test_clients_that_do_not_finish_their_request(group: Path, start: Start) -> None:
    """Each event loop accepts as many as its part of the memory allows; no process is killed."""
    join = f'ulimit -n 4096; echo $$ > {group}/cgroup.procs && exec "$@"'
    server = start("--workers", "8", prefix=("sh", "-c", join, "sh"))
    half = request("GET", "/", (("X-Long", "x" * 900),))[:-2]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(MANY)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex((server.host, server.port))
        for client in clients:
            with contextlib.suppress(BlockingIOError):  # the backlog is full
                client.sendall(half)
        time.sleep(SECONDS)
    wait_until(lambda: fetch(server, "/t/digits.txt").status == 200, "files are served again")
    assert server.running()
    assert "signal" not in server.stderr, server.stderr
