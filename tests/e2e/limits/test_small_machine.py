# SPDX-License-Identifier: MIT
"""Small machines: servers under low limits.

A server prints at its start which limit is too low, or it serves all clients, maybe slower. It
never crashes or spins, and when the clients have left, it is in its former state.
"""

import contextlib
import errno
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ..client import ELSEWHERE, IDLE_TIME, KEPT, REDIS_TIME, REQUEST_TIME, VISIT, request
from ..conftest import PORTS
from ..harness import REPOSITORY, Server, Start, architecture, of, run_to_end, shared
from ..redisbox import PrivateRedis
from ..site import build_project_site, build_site
from ..small import (
    HOME,
    KEPT_HOME,
    assert_rests,
    assert_serves,
    assert_serves_crowd,
    limited,
    redirected,
    started_or_said,
)
from ..timing import undisturbed, undisturbed_test, wait_until

# ---- Limits at the start ----


@pytest.mark.parametrize("descriptors", [4, 8, 12, 16, 20, 24, 32, 64])
def test_descriptors(start: Start, arch: str, descriptors: int) -> None:
    """With any limit of descriptors the server serves all requests, or reports the limit."""
    kind, prefix = architecture(arch), limited(nofile=descriptors)
    for workers in (2, 100) if kind.has_workers else (2,):
        server = started_or_said(start, "--workers", str(workers), prefix=prefix)
        if server is not None:
            assert_serves(server)
        enough = descriptors >= 15 + kind.listeners(workers)
        assert server is not None or not enough, "the descriptors are enough"


# ---- Few descriptors, many clients ----


@pytest.mark.parametrize("descriptors", [20, shared(32), shared(64)])
def test_more_clients_than_descriptors(start: Start, descriptors: int) -> None:
    """With few descriptors, 60 slow clients and 300 requests for the guestbook are all served."""
    server = start("--workers", "8", prefix=limited(nofile=descriptors))
    undisturbed(REQUEST_TIME, lambda: assert_serves_crowd(server, 60))
    assert server.statuses("/guestbook", 300, at_once=30) == {200: 300}


@undisturbed_test(IDLE_TIME)
def test_idle_clients_leave_room(start: Start, arch: str) -> None:
    """New clients are served, however many idle clients stay connected."""
    descriptors = 19 + architecture(arch).listeners(64)
    server = start("--workers", "64", prefix=limited(nofile=descriptors))
    with server.crowd(40, KEPT) as clients:
        assert {client.read(seconds=IDLE_TIME).status for client in clients} == {200}


def _with_many_files(folder: Path) -> Path:
    """Return a site with 120 small files and six large ones."""
    root = build_project_site(Path(tempfile.mkdtemp(dir=folder)), REPOSITORY)
    for number in range(120):
        (root / "public" / f"{number}.txt").write_text(str(number))
    for number in range(6):
        with (root / "public" / f"{number}.bin").open("wb") as file:
            file.truncate(8_000_000)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", [32, shared(64)])
@undisturbed_test(REQUEST_TIME / 4)
def test_large_files_hold_descriptors(start: Start, tmp_path: Path, descriptors: int) -> None:
    """While slow clients hold different large files open, all other clients are served."""
    root = _with_many_files(tmp_path)
    options = ("--workers", "8", "--time-scale", "4")
    server = start(*options, root=root, prefix=limited(nofile=descriptors))
    slow = 0 if server.kind.is_stalled_by_one else 6
    with contextlib.ExitStack() as stack:
        for number in range(slow):
            client = stack.enter_context(server.client(receive_buffer=4096))
            client.send(request("GET", f"/{number}.bin"))
            assert b" 200 " in client.read_head()
        for number in range(120):
            assert server.get(f"/{number}.txt").body == str(number).encode()
        assert server.get("/guestbook").status == 200


@pytest.mark.slow
def test_limit_is_lifted(start: Start) -> None:
    """All clients are served after the limit of descriptors is lowered or raised."""
    server = start("--workers", "8", prefix=("prlimit", "--nofile=32:4096", "--"), at_rest=True)
    for limit in (24, 4096):
        for pid in server.pids():
            with contextlib.suppress(ProcessLookupError):  # a child may have ended meanwhile
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, 4096))
        undisturbed(REQUEST_TIME, lambda: assert_serves_crowd(server, 60))


# ---- Few processes ----


def unused_user() -> int:
    """Return an unused user ID, because the limit counts all processes of a user. The number is
    random, so tests that run at the same time get different IDs."""
    taken = {process.info["uids"].real for process in psutil.process_iter(["uids"])}
    numbers = iter(lambda: random.randrange(200_000, 2_000_000_000), None)
    return next(number for number in numbers if number not in taken)


@pytest.fixture
def small_user(binary: Path, redis: PrivateRedis) -> Iterator[Callable[..., Server]]:
    """Yield a function that makes a server with a user of its own and a limit of processes."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    user = str(unused_user())
    with tempfile.TemporaryDirectory(prefix="zs-small-") as folder:
        root = build_project_site(Path(folder), REPOSITORY)
        shutil.copy(binary, root)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)

        def make(processes: int, workers: int, *more: str) -> Server:
            become = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
            prefix = (*become, "--pdeathsig", "KILL", "--", *limited(nproc=processes))
            options = ("--workers", str(workers), *more)
            return Server(root / binary.name, root, redis.url(0), options, prefix)

        yield make


@undisturbed_test(REQUEST_TIME)
def test_more_clients_than_processes(small_user: Callable[..., Server]) -> None:
    """Sixty slow clients are all served with thirty processes: clients wait for a free process."""
    with small_user(processes=30, workers=8) as server:
        with server.crowd(60, HOME[:-2]) as clients:
            assert_rests(server)
            for client in clients:
                client.send_if_open(HOME[-2:])
            assert [client.read().status for client in clients] == [200] * 60
        assert server.get("/guestbook").status == 200


@of("forking", "threading")
@undisturbed_test(IDLE_TIME)
def test_waits_for_a_process_at_the_end(small_user: Callable[..., Server]) -> None:
    """A client that waits for a process at SIGTERM is served, because idle clients must leave."""
    server = small_user(processes=8, workers=1)
    with contextlib.ExitStack() as stack, server.start().crowd(7, KEPT_HOME) as idle:
        stack.callback(server.kill)
        assert [client.read().closes for client in idle] == [False] * 7
        with server.crowd(3, HOME) as others:
            wait_until(lambda: "clients wait" in server.stderr, "a process is missing")
            assert server.stop() == 0
            assert [client.read().status for client in others] == [200] * 3
        assert [client.read_to_end() for client in idle] == [b""] * 7


@of("forking", "threading")
@undisturbed_test(IDLE_TIME)
def test_none_is_kept_while_processes_lack(small_user: Callable[..., Server]) -> None:
    """If a client waits for a process, the next response ends another client's connection."""
    with small_user(processes=8, workers=1) as server, server.crowd(7, KEPT_HOME) as first:
        assert [client.read().closes for client in first] == [False] * 7
        with server.crowd(1, KEPT_HOME) as (late,):
            wait_until(lambda: "clients wait" in server.stderr, "a process is missing")
            assert first[0].exchange(KEPT_HOME).closes
            assert late.read().status == 200


@of("preforking", "multicore")
def test_worker_that_cannot_be_replaced(small_user: Callable[..., Server]) -> None:
    """The server logs a missing worker, and forks it as soon as the limit allows."""
    server = small_user(processes=3, workers=2)
    become = server.prefix[: server.prefix.index("--") + 1]
    with server:
        wait_until(lambda: server.is_at_rest(2), "the server has all workers")
        other = subprocess.Popen([*become, "sleep", "600"])
        with other, contextlib.ExitStack() as stack:
            stack.callback(other.kill)
            user = Path(f"/proc/{server.pid}").stat().st_uid
            wait_until(lambda: Path(f"/proc/{other.pid}").stat().st_uid == user, "it counts")
            os.kill(server.children()[0], signal.SIGKILL)
            wait_until(lambda: "out of processes" in server.stderr, "the shortage is logged")
        wait_until(lambda: server.is_at_rest(2), "the server has all workers again")


@pytest.mark.slow
@pytest.mark.plain_build("the search for leaks needs one more process")
def test_not_one_more_process(small_user: Callable[..., Server]) -> None:
    """A server that cannot create even one process or thread reports this when it needs one, and
    stops correctly."""
    server = small_user(processes=1, workers=1)
    if server.kind.has_workers:
        status, _, error = run_to_end(*server.command())
        assert (status, "give fewer --workers" in error) == (1, True)
        return
    with server, server.client() as client:
        client.send(HOME)
        if server.kind.lends_redis:
            wait_until(lambda: "clients wait" in server.stderr, "the shortage is logged")
            assert_rests(server)
            assert server.stderr.count("\n") == 1, server.stderr
        else:
            assert client.read().status == 200


@of("epoll")
@pytest.mark.plain_build("the search for leaks needs one more process")
def test_no_process_for_the_log_writer(small_user: Callable[..., Server]) -> None:
    """A server that cannot start a log writer writes its log itself, and reports the effect."""
    with small_user(1, 1, "--log") as server:
        said = "cannot start a log writer (Resource temporarily unavailable), so a slow disk may"
        assert server.stderr.startswith(f"epoll: {said}")
        assert server.stderr.count("log writer") == 1
        assert server.get("/redirect").status == 302
        wait_until(lambda: server.stdout.count("\n") == 1, "the request is logged")


# ---- Few ports for connections to Redis ----
# Each test has its own network namespace, because the range of ports applies to a whole namespace.

REASON = "cannot be connected to: Cannot assign requested address; widen net.ipv4.ip_local_port"
FEW, MANY = (50_000, 50_001), (20_000, 49_999)


def _allow_ports(first: int, last: int) -> None:
    """Set the range of ports for outgoing connections in this thread's network namespace."""
    PORTS.write_text(f"{first} {last}")


@contextlib.contextmanager
def _all_ports_taken(port: int) -> Iterator[None]:
    """Use up all ports for outgoing connections to `port`."""
    with contextlib.ExitStack() as stack:
        result = 0
        while result == 0:
            taken = stack.enter_context(socket.socket())
            # close() resets the connection, so no port is left in TIME_WAIT.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            result = taken.connect_ex(("127.0.0.1", port))
        assert result == errno.EADDRNOTAVAIL
        yield


@pytest.mark.usefixtures("own_network")
def test_fewer_ports_than_clients(start: Start, arch: str) -> None:
    """With two free ports, twelve simultaneous clients and later clients all get the page."""
    with PrivateRedis() as redis:
        workers = architecture(arch).workers_within(2, 16)
        server = start("--workers", workers, redis=redis.url())

        def attempt() -> None:
            _allow_ports(*MANY)
            with server.crowd(12, b"") as clients:
                _allow_ports(*FEW)
                for client in clients:
                    client.send(VISIT)
                assert [client.read().status for client in clients] == [200] * 12

        undisturbed(REDIS_TIME, attempt)
        _allow_ports(*MANY)
        assert server.statuses("/guestbook", 20) == {200: 20}
        assert "unavailable" not in server.stderr
        assert server.stderr.count("\n") == server.stderr.count(REASON) <= 1, server.stderr


@pytest.mark.slow
@pytest.mark.redis_code
@pytest.mark.usefixtures("own_network")
def test_no_port_at_all(start: Start) -> None:
    """Without a free port, only pages that need Redis fail, with 503 after a wait. When ports are
    free again, all pages are served."""
    with PrivateRedis() as redis:
        server = start("--workers", "16", redis=redis.url())
        count = 1 if server.kind.is_stalled_by_one else 4  # 01 serves one at a time
        with server.crowd(count, b"") as visitors, server.crowd(4, b"") as others:
            _allow_ports(*FEW)
            with _all_ports_taken(redis.port):
                for client in visitors:
                    client.send(VISIT)
                for client in others:
                    client.send(ELSEWHERE)
                assert [client.read().status for client in others] == [302] * 4
                assert [client.read().status for client in visitors] == [503] * count
                _allow_ports(*MANY)
        wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
        assert server.statuses("/guestbook", 20) == {200: 20}
        assert server.stderr.count(REASON) == 1, server.stderr


# ---- Other limits, and an unusual environment ----


NEITHER = 'mount -t tmpfs none /proc && mount -t tmpfs none /dev && exec "$0" "$@" <&- >&-'
ENVIRONMENTS = (
    limited(memlock=0, sigpending=0, msgqueue=0, rtprio=0, core=0),
    ("unshare", "--mount", "sh", "-c", NEITHER),
    ("sh", "-c", 'cd $(mktemp -d) && rmdir $PWD && exec "$0" "$@"'),
)


@pytest.mark.shared_code
@pytest.mark.plain_build("the search for leaks reads /proc, and sanitizers need more stack")
@pytest.mark.parametrize("prefix", ENVIRONMENTS)
def test_unusual_environments(start: Start, prefix: tuple[str, ...]) -> None:
    """A server serves all requests with limits of 0, without /proc and /dev, or in a deleted
    folder."""
    if subprocess.run([*prefix, "true"], check=False).returncode != 0:
        pytest.skip("this user is not allowed to mount")
    server = start("--log", prefix=prefix)
    assert_serves(server)
    server.finish()


@pytest.mark.shared_code
@pytest.mark.plain_build("sanitizers need more stack")
def test_a_small_stack_is_raised(start: Start) -> None:
    assert_serves(start(prefix=("prlimit", "--stack=32768:8388608", "--")))


# ---- The access log ----


@pytest.mark.shared_code
@pytest.mark.parametrize("how", [">&-", ">/dev/full", "<&- >&-"])
def test_log_to_nowhere(start: Start, how: str) -> None:
    """If standard output is closed or full, log lines go neither to a client nor to Redis."""
    server = start("--log", prefix=redirected(how))
    for _ in range(5):
        assert_serves(server)
    with server.client() as client:
        for _ in range(5 if server.kind.keeps_alive else 1):
            assert client.exchange(KEPT).body == b"0123456789"
    complaints = [x for x in server.stderr.splitlines() if not re.match(r"[a-z]+ {2,}\S", x)]
    assert complaints == []  # all other lines are the banner


@pytest.mark.shared_code
def test_log_reaches_a_limit_or_its_reader_leaves(start: Start, tmp_path: Path) -> None:
    """Requests are served if the log has reached its size limit or has no reader (`| head -1`)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    left = start("--log", prefix=redirected(f"> '{pipe}'"))
    assert_serves(left)
    os.close(reader)
    full = start("--log", prefix=limited(fsize=4096))
    for server in (left, full):
        assert server.statuses("/t/digits.txt", 100) == {200: 100}
    wait_until(lambda: len(full.stdout) == 4096, "the log is full")


@pytest.mark.shared_code
@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full"])
def test_without_standard_error(start: Start, how: str) -> None:
    """If standard error is closed or full, messages do not go to a client."""
    server = start(redis="redis://127.0.0.1:1", prefix=redirected(how))
    for _ in range(3):
        assert server.get("/guestbook").status == 503
        assert server.get("/t/digits.txt").body == b"0123456789"


@pytest.mark.shared_code
def test_root_is_moved(start: Start, tmp_path: Path) -> None:
    root = build_site(tmp_path / "site", REPOSITORY)
    server = start(root=root)
    assert server.get("/guestbook").status == 200
    root.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "public" / "new.txt").write_text("new")
    assert server.get("/new.txt").body == b"new"
    assert server.sign("", "").status == 400
    assert_serves(server)
