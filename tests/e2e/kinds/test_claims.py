# SPDX-License-Identifier: MIT
"""The servers' claims about themselves: where they wait, what a request costs, and what
happens at a limit or in a crash.

claims.txt has the sentences, each with the test that checks it. If a sentence changes, check its
test, too.
"""

import contextlib
import ctypes
import os
import re
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.sockets import accept_queue

from .. import processes
from ..client import (
    CLOSE,
    DIGITS,
    ELSEWHERE,
    HALF,
    KEPT,
    REDIS_TIME,
    REQUEST_TIME,
    VISIT,
    WORKERS,
    answer,
    request,
)
from ..faults import FaultyServer
from ..harness import REPOSITORY, Server, Start, limit, of, of_kind
from ..processes import status_number
from ..redisbox import PrivateRedis
from ..site import wait_until_settled
from ..small import limited
from ..sockets import longest_backlog
from ..timing import TIMEOUT, deadline_in, undisturbed_test, wait_until
from ..tracing import Trace, call_of, native, skip_unless_traceable, skip_unless_visible, waiting

HERE = Path(__file__).parent


def _words(text: str) -> str:
    """Return a text on one line, without comment marks and Markdown."""
    text = re.sub(r"^ \*", "", text, flags=re.MULTILINE)
    return " ".join(re.sub(r"[`*]|\]\([^)]*\)|\[", "", text).split())


def test_each_claim_is_made_and_has_a_test() -> None:
    """Each sentence of claims.txt is in a main.c, the README or an explanation, and has a test."""
    files = [REPOSITORY / "README.md", *REPOSITORY.glob("docs/explanation/*.md")]
    files += REPOSITORY.glob("[0-9][0-9]_*/main.c")
    texts = [_words(path.read_text(encoding="utf-8")) for path in files]
    for line in (HERE / "claims.txt").read_text(encoding="utf-8").splitlines():
        (file, test), sentence = line.partition(": ")[0].split(), line.partition(": ")[2]
        (module,) = HERE.parent.glob(f"*/test_{file}.py")
        assert f"def test_{test}(" in module.read_text(encoding="utf-8"), line
        assert any(_words(sentence) in text for text in texts), f"not in a comment: {line}"


# ---- Where does a server wait? ----

# The calls in which the main thread, an idle worker, and a worker with a silent client (or a silent
# Redis) sleep; None: no such worker. In 01 the main thread sleeps also in the third call.
SLEEP = {
    "iterative": ("accept4", None, "recvfrom"),
    "forking": ("ppoll", None, "recvfrom"),
    "preforking": ("wait4", "accept4", "recvfrom"),
    "threading": ("accept4", None, "recvfrom"),
    "prethreading": ("accept4", "futex", "recvfrom"),
    "poll": (native("poll"), None, None),
    "epoll": (native("epoll_wait"), None, None),
    "multicore": ("wait4", native("epoll_wait"), native("epoll_wait")),
}


def _expected(name: str, silent: int) -> tuple[str, Counter[str]]:
    """Return the expected result of `waiting` with this number of silent clients, or of clients
    that wait for Redis."""
    main, idle, busy = SLEEP[name]
    workers: Counter[str] = Counter()
    if name == "iterative":
        return (busy if silent else main), workers
    if busy is not None and silent:
        workers[busy] = silent
    if idle is not None and silent < WORKERS:
        workers[idle] += WORKERS - silent
    return main, workers


def _sleeps(server: Server, silent: int) -> None:
    expected = _expected(server.name, silent)
    wait_until(lambda: waiting(server) == expected, f"{expected}, not {waiting(server)}")


@pytest.mark.plain_build("ThreadSanitizer has a thread of its own")
@undisturbed_test(REDIS_TIME)
def test_who_waits_and_where(start: Start, own: PrivateRedis) -> None:
    """Each thread sleeps in the documented call, also with silent clients or a silent Redis."""
    skip_unless_visible()
    server = start("--workers", str(WORKERS), redis=own.url())
    if server.name not in SLEEP:
        pytest.skip("the waiting calls of this server are not documented")
    _sleeps(server, 0)
    silent = 1 if server.kind.is_stalled_by_one else 3
    with server.crowd(silent, HALF) as clients:
        _sleeps(server, silent)
        answer(clients)
    assert server.statuses("/guestbook", 3) == {200: 3}
    with server.crowd(1, b"") as (client,):
        with own.paused():
            client.send(VISIT)
            _sleeps(server, 1)
        assert client.read().status == 200
    _sleeps(server, 0)


@of("poll", "epoll")
def test_loop_sleeps_for_no_client_alone(start: Start) -> None:
    """06, 07: while clients are silent, the loop sleeps in poll() or epoll_wait() only."""
    skip_unless_visible()
    server = start("--time-scale", "20")
    slept: Counter[str] = Counter()
    end = deadline_in(TIMEOUT)
    with server.crowd(2, b"") as silent:
        while any(client.is_quiet(0.005) for client in silent):
            assert time.monotonic() < end, "silent clients do not time out"
            slept[call_of(server.pid, server.pid)[0]] += 1
    known = ("", SLEEP[server.name][0])
    elsewhere = {call: times for call, times in slept.items() if call not in known}
    # The check may find the loop in the middle of a call that does not wait.
    assert sum(elsewhere.values()) < 5, f"the loop also slept in {elsewhere}"


@of("forking")
def test_parent_never_reads(start: Start, own: PrivateRedis, tmp_path: Path) -> None:
    skip_unless_traceable()
    server = start(redis=own.url())
    trace = Trace(server, tmp_path / "trace", alone=True)
    assert server.statuses("/guestbook", 5) == {200: 5}
    assert server.stop() == 0
    calls = trace.calls()
    failed = re.findall(r"^accept4\(.* = -1 ", trace.path.read_text(), re.MULTILINE)
    assert calls["clone"] == calls["accept4"] - len(failed) == 5
    assert calls["recvfrom"] == calls["read"] == calls["recvmsg"] == 0


@of("preforking", "prethreading", "multicore")
@pytest.mark.plain_build("ThreadSanitizer has a thread of its own")
def test_wakes_one(start: Start) -> None:
    """03, 05, 09: a connection wakes one worker; all others continue to sleep."""
    skip_unless_visible()
    workers, connections = 16, 40
    server = start("--workers", str(workers), at_rest=True)
    tasks = [t for p in server.pids() for t in processes.tasks(p) if t != server.pid]

    def switches() -> int:
        return sum(processes.status_number(task, "voluntary_ctxt_switches") for task in tasks)

    idle = Counter({SLEEP[server.name][1]: workers})
    server.get("/t/digits.txt")
    before = switches()
    for _ in range(connections):
        wait_until(lambda: waiting(server)[1] == idle, "all workers sleep")
        server.get("/t/digits.txt")
    woken = switches() - before
    # A thundering herd would be 16 workers a connection. Clients and locks also wake workers.
    assert connections <= woken + 1 < 5 * connections


@of("preforking", "prethreading")
@pytest.mark.plain_build("ThreadSanitizer has a thread of its own")
@undisturbed_test(REQUEST_TIME)
def test_each_of_a_burst_is_taken(start: Start) -> None:
    """03, 05: with enough workers no connection of a burst waits for another."""
    workers = 16
    server = start("--workers", str(workers), at_rest=True)
    for pid in server.pids():
        _queue_up_behind_main(server, pid)
        os.kill(pid, signal.SIGSTOP)
    with server.crowd(workers, HALF) as clients:  # all connect before a worker wakes
        for pid in server.pids():
            os.kill(pid, signal.SIGCONT)
        for client in clients:
            client.wait_until_read()
        answer(clients)


def _queue_up_behind_main(server: Server, pid: int) -> None:
    """Run all threads on one processor. SCHED_BATCH workers do not preempt the main thread."""
    processor = {min(os.sched_getaffinity(server.pid))}
    for task in processes.tasks(pid):
        os.sched_setaffinity(task, processor)
        if task != server.pid:
            os.sched_setscheduler(task, os.SCHED_BATCH, os.sched_param(0))


# ---- What does a request cost? ----


def _calls(start: Start, trace: Path, *pieces: bytes) -> Counter[str]:
    """Count a server's calls for five requests, each sent in these pieces, and for its stop."""
    skip_unless_traceable()
    server = start("--workers", str(WORKERS))
    server.get("/t/digits.txt", *CLOSE)  # the file is open now
    wait_until(lambda: server.is_at_rest(WORKERS), "the server is at rest")
    tracer = Trace(server, trace)
    for _ in range(5):
        with server.client() as client:
            for piece in pieces[:-1]:
                client.send_read(piece)
            assert client.exchange(pieces[-1]).status == 200
    wait_until(lambda: server.is_at_rest(WORKERS), "the server is at rest again")
    assert server.stop() == 0
    return tracer.calls()


@of_kind("not completes")
@pytest.mark.plain_build("sanitizers make calls of their own")
@undisturbed_test(1)
def test_one_read_a_request(start: Start, tmp_path: Path) -> None:
    """A request of up to RECEIVE_SIZE that arrives in one segment is read with one call."""
    raw = request("GET", "/t/digits.txt", (*CLOSE, ("X-Long", "x" * 700)))
    # If the data comes a second late (busy CPU), the server gets the connection first: two reads.
    calls = _calls(start, tmp_path / "trace", raw)
    assert calls["recvfrom"] == 5, "not exactly one read for each request"


@of("poll", "epoll")
@pytest.mark.plain_build("sanitizers make calls of their own")
@undisturbed_test(1)
def test_change_of_interest(start: Start, tmp_path: Path, arch: str) -> None:
    """To start watching a client, 06 assigns to a variable, and 07 makes a system call."""
    # If the data comes a second late (busy CPU), the server gets the connection first: two reads.
    whole = _calls(start, tmp_path / "whole", DIGITS)
    halves = _calls(start, tmp_path / "halves", HALF, b"\r\n")
    assert halves["recvfrom"] - whole["recvfrom"] == 5
    more = {key for key in halves if halves[key] - whole[key] >= 5}
    # These calls belong to the additional loop iteration.
    more -= {"recvfrom", "accept4", native("poll"), native("epoll_wait")}
    assert more == ({"epoll_ctl"} if arch == "epoll" else set())
    assert whole["epoll_ctl"] == 0
    assert halves["epoll_ctl"] == (5 if arch == "epoll" else 0)


@of("poll")
def test_poll_hands_over_everything(start: Start) -> None:
    """06: each poll() call gets all connections, also idle connections."""
    skip_unless_visible()
    server = start()
    wait_until(lambda: _polled(server) == 1, "only the listening socket is watched")
    with server.crowd(50, KEPT) as clients:
        for client in clients:
            client.read()
        wait_until(lambda: _polled(server) == 51, "poll() is called with 51 descriptors")


def _polled(server: Server) -> int:
    """Return the number of descriptors in the server's poll() call; 0 if it does not sleep in
    poll()."""
    call, arguments = call_of(server.pid, server.pid)
    return arguments[1] if call == native("poll") else 0


@of("poll", "epoll", "prethreading", "iterative")
@undisturbed_test(REDIS_TIME)
def test_one_connection_to_redis(start: Start, own: PrivateRedis) -> None:
    """06, 07: all clients share a connection to Redis. 01, 05: serial clients share one."""
    server = start("--workers", str(WORKERS), redis=own.url())
    before = own.client().connections()
    at_once = 1 if server.name in ("prethreading", "iterative") else 10
    with server.crowd(at_once, b"") as clients:
        with own.paused():
            for client in clients:
                client.send_read(VISIT)
        assert {client.read().status for client in clients} == {200}
    assert server.statuses("/guestbook", 10) == {200: 10}
    assert own.client().connections() - before == 2  # one connection is own.client()


@of("prethreading")
@pytest.mark.plain_build("a sanitizer's own library must be the first one")
def test_locks(binary: Path, site: Path, redis: PrivateRedis) -> None:
    wait_until_settled(site)
    with FaultyServer(binary, site, redis.url(redis.unused()), ("--workers", "2")) as server:
        plan = server.plan

        def both_wait() -> None:
            wait_until(lambda: waiting(server)[1]["futex"] == 2, "both threads wait")

        # A thread that wakes takes the lock inside the C library, where the call is not counted.
        costs = {ELSEWHERE: 2, DIGITS: 2 + 2, VISIT: 2 + 2 + 2}
        for raw, cost in costs.items():
            for path in ("/guestbook", "/t/digits.txt"):
                server.get(path)  # puts the template or the file into the cache
            both_wait()
            plan.count("pthread_mutex_lock")
            for _ in range(3):
                with server.client() as client:
                    client.send(raw)
                    client.read()
                    assert client.read_to_end() == b""
            both_wait()
            assert plan.seen == 3 * cost, raw
            plan.disarm()


# ---- What happens at the limit? ----


@of("iterative", "preforking", "prethreading")
@undisturbed_test(REQUEST_TIME)
def test_the_rest_wait_in_the_backlog(start: Start) -> None:
    """01, 03: waiting clients are in the kernel's backlog; 05: in the main thread's queue."""
    server = start("--workers", str(WORKERS))
    holders = 1 if server.name == "iterative" else WORKERS
    with server.silent(holders) as holding, server.crowd(3, DIGITS) as others:
        in_kernel = 0 if server.name == "prethreading" else 3
        wait_until(lambda: accept_queue(server.port) == in_kernel, f"{in_kernel} wait")
        assert all(client.is_quiet(0.1) for client in others)
        answer(holding)
        assert [client.read().status for client in others] == [200] * 3


@of("prethreading")
@undisturbed_test(REQUEST_TIME)
def test_queue_holds_more_than_the_backlog(start: Start) -> None:
    """05: the main thread accepts all connections until the descriptors for clients are used up."""
    skip_unless_visible()
    server = start("--workers", "2", "--backlog", "4", prefix=limited(nofile=64))
    with contextlib.ExitStack() as stack:
        count = 0
        while call_of(server.pid, server.pid)[0] != "futex":
            stack.enter_context(server.client()).send(HALF)
            count += 1
            wait_until(lambda: _main_sleeps(server), "the client is accepted")
        assert count > 4 + 2
        stack.enter_context(server.client()).send(HALF)
        wait_until(lambda: accept_queue(server.port) == 1, "a client waits in the backlog")


def _main_sleeps(server: Server) -> bool:
    name = call_of(server.pid, server.pid)[0]
    return name == "futex" or (name == "accept4" and accept_queue(server.port) == 0)


@of("forking", "preforking", "threading", "prethreading")
@undisturbed_test(0.4)
def test_idle_client_holds_its_worker(start: Start) -> None:
    """02, 04: an idle client holds a child or thread. 03, 05: a client that waits for a worker is
    served when the idle connection is closed."""
    assert limit("IDLE_TIMEOUT") == 5000
    server = start("--workers", "1", "--time-scale", "10")
    with server.client() as idle, server.client() as late:
        assert not idle.exchange(KEPT).closes
        assert server.kind.has_workers or not server.is_at_rest(0)
        late.send(KEPT)
        assert idle.read_to_end() == b""
        assert late.read().status == 200
    wait_until(lambda: server.is_at_rest(1), "the child or thread ends")


def test_length_of_the_backlog(start: Start) -> None:
    """The backlog is as long as requested, up to the kernel's limit (somaxconn). With a backlog of
    1 all clients are served, because their kernels repeat the connection request."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert longest_backlog(start().port) == min(limit("DEFAULT_BACKLOG"), most)
    server = start("--backlog", "1")
    assert longest_backlog(server.port) == 1
    assert server.statuses("/guestbook", 24, at_once=12) == {200: 24}


@of("iterative")
@undisturbed_test(REQUEST_TIME)
def test_full_backlog(start: Start) -> None:
    """01: the kernel drops connection requests above the backlog."""
    size = 4
    server = start("--backlog", str(size))
    with server.crowd(1, HALF) as (holding,):
        holding.wait_until_read()
        with server.crowd(size + 1, DIGITS) as others:  # the kernel queues one more
            wait_until(lambda: accept_queue(server.port) == size + 1, "the backlog is full")
            with socket.socket() as late:
                late.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    late.connect((server.host, server.port))
            answer([holding])
            assert [client.read().status for client in others] == [200] * (size + 1)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Let this process have 8,192 descriptors during a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 8192:
        pytest.skip("this needs 8,192 descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
@of("forking", "threading")
@undisturbed_test(REQUEST_TIME)
def test_limit_of_children(start: Start) -> None:
    """02, 04: a thousand clients are served at once; more are accepted when some of them leave."""
    most = limit("CHILDREN_LIMIT")
    server = start()

    def workers() -> int:
        return sum(len(processes.tasks(pid)) for pid in server.pids()) - 1

    with server.crowd(most, HALF) as clients:
        wait_until(lambda: workers() == most, f"{most} workers")
        with server.crowd(3, DIGITS) as others:
            wait_until(lambda: accept_queue(server.port) == 3, "three wait in the backlog")
            assert workers() == most
            answer(clients[:1])
            assert {client.read().status for client in others} == {200}
        wait_until(lambda: workers() == most - 1, "only the workers of silent clients are left")
    wait_until(lambda: server.is_at_rest(0), "all have ended")


# ---- A crash ----


@of("forking", "preforking", "multicore")
@undisturbed_test(REQUEST_TIME)
def test_crash_of_a_child(start: Start, arch: str) -> None:
    """02, 03: a crash ends one client's connection only. 09: a crash ends the connections of one
    worker. 03, 09 fork another worker. The program that starts the server may ignore SIGCHLD."""
    skip_unless_visible()
    # The probability that a hash assigns none of 24 clients to the killed worker is 1 : 1,000.
    count, options = (24, ("--listener-each",)) if arch == "multicore" else (3, ())
    prefix = ("env", "--ignore-signal=CHLD")
    server = start("--workers", str(WORKERS), *options, prefix=prefix)
    if arch != "forking":
        wait_until(lambda: server.is_at_rest(WORKERS), "the server has all workers")
    with server.silent(count) as clients:

        def busy() -> list[int]:
            calls = ("recvfrom", native("epoll_wait"))
            return [pid for pid in server.children() if call_of(pid, pid)[0] in calls]

        wait_until(lambda: len(busy()) >= 3, "three children wait")
        crashed, *_ = busy()
        os.kill(crashed, signal.SIGKILL)
        wait_until(lambda: crashed not in server.children(), "the killed child is reaped")
        kept = [client for client in clients if client.is_quiet(0)]
        assert len(kept) == 2 if count == 3 else 0 < len(kept) < count
        assert {client.read_to_end() for client in clients if client not in kept} == {b""}
        answer(kept)
    wait_until(lambda: server.is_at_rest(WORKERS), "there are as many workers as before")
    line = f"child {crashed} was ended by signal 9 (Killed); the kernel's log"
    wait_until(lambda: line in server.stderr, "the log reports the crash")
    assert server.get("/t/digits.txt").status == 200
    if arch != "forking":  # a further crash by the same signal is only counted
        crashed, *_ = server.children()
        os.kill(crashed, signal.SIGKILL)
        wait_until(lambda: crashed not in server.children(), "the killed child is reaped")
        wait_until(lambda: server.is_at_rest(WORKERS), "there are as many workers as before")
        assert server.stderr.count("was ended by signal 9") == 1


@of("threading", "prethreading")
@pytest.mark.plain_build("a sanitizer handles the signal of a crash itself")
def test_crash_of_a_thread(start: Start) -> None:
    """04, 05: the crash of one thread ends the whole server."""
    server = start("--workers", str(WORKERS))
    with server.silent(2) as clients:
        thread = next(task for task in processes.tasks(server.pid) if task != server.pid)
        ctypes.CDLL(None).tgkill(server.pid, thread, signal.SIGSEGV)
        assert {client.read_to_end() for client in clients} == {b""}
    assert server.wait() == -signal.SIGSEGV


@of("poll", "epoll")
@pytest.mark.plain_build("a sanitizer keeps freed memory")
@undisturbed_test(REDIS_TIME)
def test_a_crowd_that_has_been_answered_holds_little(start: Start, own: PrivateRedis) -> None:
    """After many simultaneous responses, the server returns memory to the kernel within
    TRIM_INTERVAL. It keeps at most 128 KB plus a kilobyte for each connection."""
    clients, kept = 800, 128 * 1024
    server = start(redis=own.url())
    before = status_number(server.pid, "RssAnon") * 1024

    def each() -> float:
        return (status_number(server.pid, "RssAnon") * 1024 - before) / clients

    with contextlib.ExitStack() as stack:
        with own.paused():
            idle = stack.enter_context(server.crowd(clients, request("GET", "/guestbook")))
            wait_until(lambda: each() > 1600, "all have asked")
        for client in idle:
            assert client.read().status in (200, 503)
        wait_until(lambda: each() < 1024 + kept / clients, "the memory is returned")
