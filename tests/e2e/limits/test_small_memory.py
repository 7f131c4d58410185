# SPDX-License-Identifier: MIT
"""Small machines: little memory and small stacks; see test_small_machine.py."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.services.redis_server import LONGEST_REMARK

from .. import processes
from ..client import FORM, REQUEST_TIME, request
from ..harness import Server, Start, limit, of, shared
from ..redisbox import Conversation, FalseRedis, PrivateRedis, RedisClient, encode
from ..small import assert_serves, assert_serves_crowd, limited, started_or_said
from ..timing import undisturbed, wait_until
from ..tracing import Trace, skip_unless_traceable
from .test_clients import apache_bench

pytestmark = pytest.mark.plain_build(
    "sanitizers need more memory and stack, keep freed memory, or have a thread of their own"
)


@pytest.mark.parametrize("megabytes", [4, 6, 8, 12, 16, 40, shared(300)])
@pytest.mark.parametrize("kind", ["as", "data"])
def test_memory(start: Start, kind: str, megabytes: int) -> None:
    """With any limit of memory all clients are served, maybe after a wait, or the server reports at
    its start that the limit is too low."""
    server = started_or_said(start, "--workers", "8", prefix=limited(**{kind: megabytes << 20}))
    if server is not None:
        undisturbed(REQUEST_TIME, lambda: assert_serves_crowd(server, 250))
    assert server is not None or megabytes < 12


@of("iterative", "epoll")
def test_least_memory(start: Start) -> None:
    """With the least memory with which it starts, a server serves the largest pages."""
    for kilobytes in range(512, 12 << 10, 128):
        server = started_or_said(start, prefix=limited(data=kilobytes << 10))
        if server is not None:
            break
    assert server is not None
    for _ in range(limit("REMARKS_SHOWN")):
        assert server.sign("Ann", "€" * limit("GUEST_REMARKS_LIMIT")).status == 303
    assert_serves(server)


@pytest.mark.parametrize("kilobytes", [20, 24, 32, 48, 64])
def test_stack(start: Start, kilobytes: int) -> None:
    """A server runs with a stack of 64 KB; with less it prints a message and does not crash."""
    server = started_or_said(start, prefix=limited(stack=kilobytes << 10))
    if server is not None:
        assert_serves(server)
    assert (server is not None) == (kilobytes >= 64)


@of("threading")
@pytest.mark.parametrize("kind", ["as", "data"])
def test_threads_that_end_slowly_leave_memory(start: Start, tmp_path: Path, kind: str) -> None:
    """Requests are served although ending threads still occupy memory for their stacks. The C
    library keeps stacks for later threads and never gives them to malloc. The guestbook's page and
    Redis' reply need at least 130 KB each. malloc must provide this memory although the process
    has a limit (`ulimit -v` or `-d`).
    """
    skip_unless_traceable()
    server = start(prefix=limited(**{kind: 12 << 20}))
    for _ in range(limit("REMARKS_SHOWN")):
        assert server.sign("Ann", "€" * 850).status == 303
    slow = ("-e", "trace=exit", "-e", "inject=exit:delay_enter=1000000")
    Trace(server, tmp_path / "trace", *slow)
    assert server.statuses("/redirect", 60) == {302: 60}
    assert_serves(server)


# ---- Memory ----


@of("forking", "threading", "prethreading", "epoll")
@pytest.mark.slow
def test_memory_does_not_grow(start: Start) -> None:
    """Memory use does not grow between connection 2,000 and 10,000. The heap may grow once, if more
    threads run at once than before; a leak grows each time."""
    server = start("--workers", "4")
    apache_bench(server, "/redirect", 2000)
    assert any(_bytes_grown(server, 8000) < 20 * 8000 for _ in range(3)), "20 bytes a connection"


def test_an_idle_server_sleeps(start: Start) -> None:
    """After an idle server has returned memory to the kernel, no thread wakes up."""
    server = start("--workers", "4")
    apache_bench(server, "/redirect", 500)

    def sleeps() -> bool:
        before = _wakings(server)
        time.sleep(1.2)  # more than two of TRIM_INTERVAL
        return _wakings(server) == before

    wait_until(sleeps, "the server sleeps")


def _wakings(server: Server) -> int:
    tasks = [task for pid in server.pids() for task in processes.tasks(pid)]
    return sum(processes.status_number(task, "voluntary_ctxt_switches") for task in tasks)


def _bytes_grown(server: Server, connections: int) -> int:
    process = psutil.Process(server.pid)
    before = process.memory_full_info().uss  # exact, unlike VmRSS
    apache_bench(server, "/redirect", connections)
    return process.memory_full_info().uss - before


# ---- Clients that do not read or do not finish their request, in a control group ----

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 16 << 20
CLIENTS = 120
SECONDS = 2
"""Seconds after which a server without a limit has used all of the group's memory."""


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a control group of version 1 with 16 MB of memory; skip the test if that fails."""
    folder = GROUPS / f"zerohttpd-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no control group of version 1 for memory: {error}")
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text(encoding="ascii"), "it is empty")
    folder.rmdir()


def _start_in(group: Path, start: Start, *words: str, **more: str) -> Server:
    """Start a server in a control group; it may have 4,096 descriptors."""
    join = f'ulimit -n 4096; echo $$ > {group}/cgroup.procs && exec "$@"'
    return start(*words, prefix=("sh", "-c", join, "sh"), **more)


def _require_all_run(server: Server) -> None:
    assert server.running()
    assert "signal" not in server.stderr, server.stderr


@pytest.mark.slow
def test_readers_that_do_not_read(
    group: Path, start: Start, redis: PrivateRedis, store: RedisClient
) -> None:
    """If many clients do not read, no process is killed, the group has free memory, and the page is
    served afterwards."""
    for _ in range(50):
        store.do("RPUSH", "guestbook_remarks", LONGEST_REMARK)  # a page of 333 KB
    server = _start_in(group, start, "--workers", "100", redis=redis.url(store.database))
    _request_pages(server, group)


def _slow_remarks(conversation: Conversation) -> None:
    """Reply with 50 remarks of 4,000 bytes, but send their last two bytes half a second later."""
    remarks = encode(*[b"x" * 4000] * 50)
    while (words := conversation.next_command()) is not None:
        if words[0] == b"LRANGE":
            conversation.send(remarks[:-2])
            time.sleep(0.5)
        conversation.send(remarks[-2:] if words[0] == b"LRANGE" else b":1\r\n")


@of("threading", "prethreading")
@pytest.mark.slow
def test_many_long_replies_of_redis(group: Path, start: Start) -> None:
    """While many threads wait for the end of a reply, the server is not killed. About 3 s."""
    with FalseRedis(_slow_remarks) as false:
        server = _start_in(group, start, "--workers", "100", redis=false.url)
        _request_pages(server, group)


def _request_pages(server: Server, group: Path) -> None:
    """Let clients request the guestbook, and read nothing. Then one client gets the page."""
    with server.crowd(CLIENTS, request("GET", "/guestbook"), receive_buffer=2048):
        time.sleep(SECONDS)
        most = int((group / "memory.max_usage_in_bytes").read_text(encoding="ascii"))
    assert most < LIMIT, f"{most} bytes"
    wait_until(lambda: server.get("/guestbook").status == 200, "the page is served again")
    _require_all_run(server)


@of("threading", "epoll", "multicore")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "half"),
    [
        (6000, request("GET", "/", (("X-Long", "x" * 900),))[:-2]),
        (1000, request("GET", "/", (("X-Long", "x" * 16_000),))[:-2]),
        (1000, request("POST", "/guestbook", (FORM,), b"x" * 60_000)[:-1]),
    ],
    ids=["heads", "long-heads", "bodies"],
)
def test_clients_that_do_not_finish_their_request(
    group: Path, start: Start, count: int, half: bytes
) -> None:
    """The server accepts as many clients as the memory of the group allows; no process is killed.
    About 3 s each."""
    server = _start_in(group, start, "--workers", "8")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(count)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex((server.host, server.port))
        for client in clients:
            with contextlib.suppress(OSError):  # the backlog is full
                client.send(half)
        time.sleep(SECONDS)
    wait_until(lambda: server.get("/t/digits.txt").status == 200, "files are served again")
    _require_all_run(server)
