# SPDX-License-Identifier: MIT
"""What the seven say of themselves: the checkable sentences of the opening comments and README.

Each test quotes the sentence that it keeps true. Who changes the sentence must look at the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import processes
from .client import Client, EndOfStreamError, fetch, request
from .conftest import Start
from .faults import FaultyServer, Plan
from .harness import REPOSITORY, Server, is_sanitized
from .redisbox import PrivateRedis
from .sockets import backlog
from .timing import undisturbed, wait_until
from .tracing import Trace, call_of, skip_unless_traceable, skip_unless_visible, waiting

WORKERS = 4
CLOSE = (("Connection", "close"),)
DIGITS, VISIT, ELSEWHERE = (
    request("GET", path, CLOSE) for path in ("/t/digits.txt", "/guestbook", "/t/plain")
)
KEPT = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]
# A little less than a half request is given.
HALF_TIME = 8


def _words(text: str) -> str:
    """The text on one line, without what comments and Markdown put around it."""
    text = re.sub(r"^ \*", "", text, flags=re.MULTILINE)
    return " ".join(re.sub(r"[`*]|\]\([^)]*\)|\[", "", text).split())


def says(*sentences: str) -> None:
    """Assert that each sentence still stands in an opening comment or in README."""
    sources = [*REPOSITORY.glob("[0-9][0-9]_*/main.c"), REPOSITORY / "README.md"]
    texts = [_words(path.read_text(encoding="utf-8")) for path in sources]
    for sentence in sentences:
        assert any(_words(sentence) in text for text in texts), f"nobody says: {sentence}"


def limit(name: str) -> int:
    """A number of lib/config.h."""
    found = re.search(rf"^#define {name} +(\d+)", (REPOSITORY / "lib/config.h").read_text(), re.M)
    assert found is not None, f"lib/config.h has no {name}"
    return int(found[1])


def _only(server: Server, *names: str) -> None:
    if server.kind.name not in names:
        server.finish()
        pytest.skip(f"a sentence of {', '.join(names)}")


@contextlib.contextmanager
def _clients(server: Server, count: int, data: bytes) -> Iterator[list[Client]]:
    """Clients that have sent something, one after another."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(count)]
        for client in clients:
            client.send(data)
        yield clients


def _answer(clients: list[Client]) -> None:
    """Send the rest of the half requests, and read the responses."""
    for client in clients:
        assert client.exchange(b"\r\n").status == 200


@pytest.fixture
def own() -> Iterator[PrivateRedis]:
    """A Redis that only one server uses."""
    with PrivateRedis() as server:
        yield server


# ---- Who waits, and where? ----

# In which call the main thread sleeps; and the workers: those that have nothing to do, those whose
# client is silent (or Redis), none (None) where there are no workers.
SLEEP = {
    "iterative": ("accept4", None, "recvfrom"),
    "forking": ("ppoll", None, "recvfrom"),
    "preforking": ("wait4", "accept4", "recvfrom"),
    "threading": ("accept4", None, "recvfrom"),
    "prethreading": ("accept4", "futex", "recvfrom"),
    "poll": ("poll", None, None),
    "epoll": ("epoll_wait", None, None),
}


def _expected(name: str, silent: int) -> tuple[str, Counter[str]]:
    """Who sleeps where while so many clients, or Redis, are waited for."""
    main, idle, busy = SLEEP[name]
    workers: Counter[str] = Counter()
    if name == "iterative":
        return (busy if silent else main), workers
    if busy is not None and silent:
        workers[busy] = silent
    if idle is not None and silent < WORKERS:
        workers[idle] = WORKERS - silent
    return main, workers


def _sleeps(server: Server, silent: int) -> None:
    expected = _expected(server.name, silent)
    wait_until(lambda: waiting(server) == expected, f"{expected}, not {waiting(server)}")


def test_who_waits_and_where(start: Start, own: PrivateRedis) -> None:
    """Idle, with silent clients, and with a Redis that does not answer: everybody sleeps where
    it is said; and nothing sleeps anywhere else."""
    says(
        "The only process waits for the one client whom it serves, in recv and send, and for "
        "Redis, in recv.",
        "Each child for its own client and for Redis, in recv and send (and in poll",
        "The parent waits in ppoll() for the next client or a child's end",
        "Free workers all sleep in accept() on the same socket",
        "The main thread waits in accept() for the next client.",
        "Free threads wait for the queue, in pthread_cond_wait().",
        "For the network nobody sleeps but poll().",
        "For the network nobody sleeps but epoll_wait().",
        "poll(), for everybody",
        "epoll_wait(), for everybody",
    )
    skip_unless_visible()
    server = start("--workers", str(WORKERS), redis=own.url())
    if server.name not in SLEEP:
        pytest.skip("nobody has said where it waits")
    _sleeps(server, 0)
    silent = 1 if server.kind.waiters == 1 else 3
    with _clients(server, silent, HALF) as clients:
        _sleeps(server, silent)
        _answer(clients)
    for _ in range(3):
        assert fetch(server, "/guestbook").status == 200
    own.pause()
    with _clients(server, 1, VISIT):
        _sleeps(server, 1)
        own.resume()
    _sleeps(server, 0)


def test_parent_never_reads(start: Start, own: PrivateRedis, tmp_path: Path) -> None:
    """02: what clients and Redis send is the children's."""
    says("it never reads from a client or from Redis")
    skip_unless_traceable()
    server = start(redis=own.url())
    _only(server, "forking")
    trace = Trace(server, tmp_path / "trace", alone=True)
    for _ in range(5):
        assert fetch(server, "/guestbook").status == 200
    assert server.stop() == 0
    calls = trace.calls()
    assert calls["clone"] == calls["accept4"] - _failed_accepts(tmp_path / "trace") == 5
    assert calls["recvfrom"] == calls["read"] == calls["recvmsg"] == 0


def _failed_accepts(trace: Path) -> int:
    return len(re.findall(r"^accept4\(.* = -1 ", trace.read_text(), re.MULTILINE))


def test_wakes_one(start: Start) -> None:
    """03, 05: a connection wakes one worker, and the others sleep on."""
    says("the kernel wakes one for each connection, and not the whole herd")
    workers, connections = 16, 40
    server = start("--workers", str(workers))
    _only(server, "preforking", "prethreading")
    wait_until(lambda: server.is_at_rest(workers), "it has all its workers")
    tasks = [(p, t) for p in server.pids() for t in processes.tasks(p) if t != server.pid]

    def switches() -> list[int]:
        return [_switches(*task) for task in tasks]

    fetch(server, "/t/digits.txt")
    before = switches()
    for _ in range(connections):
        fetch(server, "/t/digits.txt")
    woken = sum(after - once for after, once in zip(switches(), before, strict=True))
    # A herd would be 16 for each; a worker may sleep again for its client, and for a lock.
    assert connections / 2 < woken < 5 * connections


def _switches(pid: int, task: int) -> int:
    """How often a thread has gone to sleep."""
    text = Path(f"/proc/{pid}/task/{task}/status").read_text(encoding="utf-8")
    found = re.search(r"^voluntary_ctxt_switches:\t(\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


# ---- What does it cost? ----


def _calls(start: Start, tmp_path: Path, serve: Callable[[Server], object]) -> Counter[str]:
    """The calls that a server makes while it serves, and at its end."""
    skip_unless_traceable()
    server = start("--workers", str(WORKERS))
    fetch(server, "/t/digits.txt")  # the file is open now
    wait_until(lambda: server.is_at_rest(WORKERS), "it is at rest")
    trace = Trace(server, tmp_path / f"trace-{len(list(tmp_path.iterdir()))}")
    serve(server)
    wait_until(lambda: server.is_at_rest(WORKERS), "it is at rest again")
    assert server.stop() == 0
    return trace.calls()


def test_cost_of_a_connection(start: Start, tmp_path: Path) -> None:
    """Who is made for a connection: a child in 02, a thread in 04, nobody elsewhere."""
    says(
        "Nothing but the work itself: no second process, no switch, no lock.",
        "A fork, an exit and a wait for each connection",
        "A thread created and ended for each connection",
        "a fixed number of processes, forked at the start",
        "a fixed number of threads, created at the start",
    )
    connections = 7

    def serve(server: Server) -> None:
        for _ in range(connections):
            assert fetch(server, "/t/digits.txt", *CLOSE).status == 200

    calls = _calls(start, tmp_path, serve)
    made = calls["clone"] + calls["clone3"]
    name = start().name
    assert made == (connections if name in ("forking", "threading") else 0)
    if name == "forking":
        assert calls["exit_group"] == connections + 1
        assert calls["wait4"] >= connections
    if name == "threading":
        assert calls["exit"] == connections
    if name == "iterative":
        assert calls["futex"] == 0


def test_change_of_interest(start: Start, tmp_path: Path) -> None:
    """06, 07: what it costs to begin to watch a client: an assignment, or a system call."""
    says(
        "a change of interest is an assignment and costs no system call",
        "Each change of interest is a system call, which is why a connection whose request is "
        "already there is served without ever entering the set.",
    )
    _only(start(), "poll", "epoll")
    connections = 5

    def in_one_piece(server: Server) -> None:
        for _ in range(connections):
            with Client(server) as client:
                client.send(DIGITS)
                assert client.read().status == 200

    def in_two_pieces(server: Server) -> None:
        for _ in range(connections):
            with Client(server) as client:
                client.send(HALF)
                client.wait_until_read()
                assert client.exchange(b"\r\n").status == 200

    whole = _calls(start, tmp_path, in_one_piece)
    halves = _calls(start, tmp_path, in_two_pieces)
    name = start().name
    assert halves["recvfrom"] - whole["recvfrom"] == connections
    more = {key for key in halves if halves[key] - whole[key] >= connections}
    more -= {"recvfrom", "poll", "epoll_wait"}
    assert more == ({"epoll_ctl"} if name == "epoll" else set())
    assert whole["epoll_ctl"] == 0
    assert halves["epoll_ctl"] == (connections if name == "epoll" else 0)


def test_poll_hands_over_everything(start: Start) -> None:
    """06: each call of poll() is given every connection, idle ones too."""
    says("each poll() hands all of it to the kernel", "an idle client costs a little of every poll")
    skip_unless_visible()
    server = start()
    _only(server, "poll")
    assert _polled(server) == 1  # the listening socket
    with _clients(server, 50, KEPT) as clients:
        for client in clients:
            client.read()
        wait_until(lambda: _polled(server) == 51, "poll() is called with 51 descriptors")


def _polled(server: Server) -> int:
    """How many descriptors its poll() was given; it sleeps in it."""
    wait_until(lambda: call_of(server.pid, server.pid)[0] == "poll", "it sleeps in poll()")
    arguments = call_of(server.pid, server.pid)[1]
    return arguments[1] if arguments else 0


def test_one_connection_to_redis(start: Start, own: PrivateRedis) -> None:
    """06, 07: all share one; 05: as many as are used at once."""
    says(
        "all share one connection to it and replies come in order",
        "Of connections to Redis as many as are used at once.",
    )
    server = start("--workers", str(WORKERS), redis=own.url())
    _only(server, "poll", "epoll", "prethreading", "iterative")
    before = own.client().connections()
    own.pause()
    at_once = 1 if server.name in ("prethreading", "iterative") else 10
    with _clients(server, at_once, VISIT) as clients:
        for client in clients:
            client.wait_until_read()
        own.resume()
        assert {client.read().status for client in clients} == {200}
    for _ in range(10):
        assert fetch(server, "/guestbook").status == 200
    assert own.client().connections() - before == 2  # one of them is that of the last line


def test_locks(binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path) -> None:
    """05: how often a lock is taken for what."""
    says(
        "two for each connection (put, take), one for each thread that wakes, two for each file "
        "that it borrows, two for each page that asks Redis, and one for each request after which "
        "the connection might be kept."
    )
    if binary.name != "prethreading" or is_sanitized(binary):
        pytest.skip("a sentence of prethreading")
    plan = Plan(tmp_path / "plan")
    with FaultyServer(binary, site, redis.url(261), ("--workers", "2"), plan=plan) as server:
        # A thread that wakes takes its lock inside of the C library, where nobody counts it.
        costs = {ELSEWHERE: 2, DIGITS: 2 + 2, VISIT: 2 + 2 + 2}
        for raw, cost in costs.items():
            for path in ("/guestbook", "/t/digits.txt"):
                fetch(server, path)  # the cache has them now
            wait_until(lambda: waiting(server)[1]["futex"] == 2, "both threads wait")
            plan.count("pthread_mutex_lock")
            for _ in range(3):
                with Client(server) as client:
                    client.send(raw)
                    client.read()
                    assert client.read_to_end() == b""
            assert plan.seen == 3 * cost, raw
            plan.disarm()


# ---- What happens at the limit? ----


def test_the_rest_wait_in_the_backlog(start: Start) -> None:
    """01, 03: whoever is not served waits in the kernel; 05: in a queue of the main thread's."""
    says(
        "All others wait for the process, in the kernel's backlog.",
        "one client that stalls stops everybody until its time is over",
        "N workers serve N connections; the next waits in the backlog until one ends.",
        "N threads serve N connections; the next waits in the queue until one ends.",
        "the next wait in a queue of the main thread's",
    )
    server = start("--workers", str(WORKERS))
    _only(server, "iterative", "preforking", "prethreading")
    holders = 1 if server.name == "iterative" else WORKERS

    def attempt() -> None:
        with _clients(server, holders, HALF) as holding:
            for client in holding:
                client.wait_until_read()
            with _clients(server, 3, DIGITS) as others:
                in_kernel = 0 if server.name == "prethreading" else 3
                wait_until(lambda: backlog(server.port) == in_kernel, f"{in_kernel} wait")
                assert all(client.is_quiet(0.1) for client in others)
                _answer(holding)
                assert [client.read().status for client in others] == [200] * 3

    undisturbed(HALF_TIME, attempt)


def test_full_backlog(start: Start) -> None:
    """01: beyond the backlog the kernel drops connection requests."""
    says("The backlog fills; then the kernel drops connection requests")
    size = 4
    server = start("--backlog", str(size))
    _only(server, "iterative")

    def attempt() -> None:
        with _clients(server, 1, HALF) as (holding,):
            holding.wait_until_read()
            with _clients(server, size + 1, DIGITS) as others:  # one more: listen(2)
                wait_until(lambda: backlog(server.port) == size + 1, "the backlog is full")
                with socket.socket() as late:
                    late.settimeout(0.5)
                    with pytest.raises(TimeoutError):
                        late.connect((server.host, server.port))
                _answer([holding])
                assert [client.read().status for client in others] == [200] * (size + 1)

    undisturbed(HALF_TIME, attempt)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many descriptors as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 8192:
        pytest.skip("this needs 8,192 descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_limit_of_children(start: Start) -> None:
    """02, 04: a thousand at once; then nobody is accepted until one ends."""
    most = limit("CHILDREN_LIMIT")
    says(
        "With CHILDREN_LIMIT children alive the parent stops accepting until one ends; the rest "
        "wait in the backlog.",
        "With CHILDREN_LIMIT threads alive",
        f"{most:,} children; then the parent stops accepting until one ends",
        f"{most:,} threads; then the main thread stops accepting until one ends",
    )
    server = start()
    _only(server, "forking", "threading")

    def workers() -> int:
        return sum(len(processes.tasks(pid)) for pid in server.pids()) - 1

    def attempt() -> None:
        with _clients(server, most, HALF) as clients:
            wait_until(lambda: workers() == most, f"{most} workers")
            with _clients(server, 3, DIGITS) as others:
                wait_until(lambda: backlog(server.port) == 3, "three wait in the backlog")
                assert workers() == most
                _answer(clients[:1])
                assert {client.read().status for client in others} == {200}
            assert workers() <= most

    undisturbed(HALF_TIME, attempt)
    wait_until(lambda: server.is_at_rest(0), "all have ended")


# ---- A crash ----


def _ends(client: Client) -> bool:
    """Whether the connection ends without a response."""
    try:
        client.read()
    except (EndOfStreamError, OSError):
        return True
    return False


def test_crash_of_a_child(start: Start) -> None:
    """02, 03: one client suffers and nobody else; in 03 another worker is forked."""
    says(
        "A crash takes one client with it.",
        "if one worker crashes, its client suffers and nobody else, and the parent forks another",
    )
    server = start("--workers", str(WORKERS))
    _only(server, "forking", "preforking")

    def attempt() -> None:
        with _clients(server, 3, HALF) as clients:
            for client in clients:
                client.wait_until_read()
            wait_until(lambda: waiting(server)[1]["recvfrom"] == 3, "three workers wait")
            busy = [p for p in server.children() if call_of(p, p)[0] == "recvfrom"]
            os.kill(busy[0], signal.SIGKILL)
            wait_until(lambda: not all(c.is_quiet(0) for c in clients), "one client is left")
            lost = [client for client in clients if not client.is_quiet(0)]
            assert len(lost) == 1
            assert _ends(lost[0])
            _answer([client for client in clients if client is not lost[0]])
        wait_until(lambda: server.is_at_rest(WORKERS), "there are as many workers as before")
        assert busy[0] not in server.children()
        assert fetch(server, "/t/digits.txt").status == 200

    skip_unless_visible()
    undisturbed(HALF_TIME, attempt)


def test_crash_of_a_thread(start: Start) -> None:
    """04, 05: the crash of one is the end of all."""
    says("a crash of one is the end of all", "nobody is left to start another")
    server = start("--workers", str(WORKERS))
    _only(server, "threading", "prethreading")
    with _clients(server, 2, HALF) as clients:
        for client in clients:
            client.wait_until_read()
        thread = next(task for task in processes.tasks(server.pid) if task != server.pid)
        ctypes.CDLL(None).tgkill(server.pid, thread, signal.SIGSEGV)
        assert all(_ends(client) for client in clients)
    assert server.wait() == -signal.SIGSEGV


# ---- Keep-alive ----


def test_what_an_idle_client_holds(start: Start) -> None:
    """A child, a thread, a worker, or nothing but memory; 01 keeps none."""
    says(
        "no connection is kept alive here: one idle browser would own the server",
        "yes; an idle client holds a child",
        "yes; an idle client holds a thread",
        "an idle client holds a worker for up to 5 s",
        "yes; an idle client costs memory only",
    )
    assert limit("IDLE_TIMEOUT") == 5000
    server = start("--workers", str(WORKERS))
    if server.name == "iterative":
        assert fetch(server, "/t/digits.txt").closes
        return
    with Client(server) as client:
        assert not client.exchange(KEPT).closes
        if server.name in ("poll", "epoll"):
            assert server.is_at_rest(WORKERS)
        elif server.name in SLEEP:
            skip_unless_visible()
            wait_until(lambda: waiting(server)[1]["recvfrom"] == 1, "one waits for the client")
