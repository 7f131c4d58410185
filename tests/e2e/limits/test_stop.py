# SPDX-License-Identifier: MIT
"""The end: after a stop signal a server finishes requests in flight, and leaves no accepted client
without a response. When a client or process ends, its processes end and its descriptors are closed.
"""

import contextlib
import itertools
import os
import re
import signal
import time
from pathlib import Path

import pytest

from bench.host.sockets import accept_queue
from bench.load.client import Client as PlainClient

from .. import processes
from ..client import CLOSE, FORM, IDLE_TIME, REDIS_TIME, Client, form, request
from ..harness import Server, Start, limit, of, of_kind
from ..redisbox import PrivateRedis
from ..site import MB
from ..small import limited
from ..sockets import listens, longest_backlog
from ..timing import undisturbed_test, wait_until
from ..tracing import Trace, skip_unless_traceable

# Seconds: slightly less than STOP_TIMEOUT, the time that a stopping server waits for requests.
STOP_TIME = 4
POST = request("POST", "/guestbook", (FORM,), form(guest_name="A", guest_remarks="B"))


@undisturbed_test(STOP_TIME)
def test_request_in_flight_is_finished(start: Start) -> None:
    """A request that began before SIGTERM is answered; then the server closes the connection."""
    server = start()
    with server.client() as client, server.client() as idle:
        client.send_read(POST[:-10])
        if server.kind.keeps_alive:
            idle.exchange(request("GET", "/t/digits.txt"))
        server.begin_to_stop(busy=1)
        client.send(POST[-10:])
        response = client.read()
        assert (response.status, response.closes) == (303, True)
        assert client.read_to_end() == b""
    assert server.wait() == 0
    assert server.statistics()["requests"] == ("2" if server.kind.keeps_alive else "1")


@undisturbed_test(STOP_TIME)
def test_next_request_behind_a_download_in_flight(start: Start) -> None:
    """A client whose download was in flight at SIGTERM gets all bytes, although the client has
    already sent its next request."""
    server = start()
    # More than the kernel buffers, and less than a busy machine sends in five seconds.
    size = 10 * MB
    with server.client(receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/big.bin", (("Range", f"bytes=0-{size - 1}"),)))
        client.read_head()
        client.send(request("GET", "/t/digits.txt"))
        server.begin_to_stop()
        client.read_exactly(size)
        if server.kind.keeps_alive:
            assert client.read().closes
    assert server.wait() == 0


@undisturbed_test(REDIS_TIME)
def test_a_waiting_client_is_served(start: Start, own: PrivateRedis) -> None:
    """Clients that wait in the backlog or in a server's queue at SIGTERM are served."""
    with contextlib.ExitStack() as stack:
        server = start("--workers", "4", redis=own.url())
        assert server.get("/guestbook").status == 200
        with own.paused():
            clients = stack.enter_context(server.crowd(60, request("GET", "/guestbook")))
            server.send_signal(signal.SIGTERM)
            # The signal handler sets the stop flag of all processes, and then shortens the backlog.
            wait_until(lambda: longest_backlog(server.port) == 0, "the server has the signal")
        responses = [client.read() for client in clients]
        assert {(response.status, response.closes) for response in responses} == {(200, True)}
        assert server.wait() == 0
        assert server.statistics()["requests"] == "61"


def _come_in(server: Server) -> list[PlainClient]:
    """Connect up to 100 clients, until one is refused; each sends a request. Return the clients."""
    came: list[PlainClient] = []
    with contextlib.suppress(OSError):
        while len(came) < 100:
            came.append(PlainClient((server.host, server.port), 0.05))
            came[-1].send(request("GET", "/t/digits.txt", CLOSE))
    return came


def _is_left_alone(one: PlainClient) -> bool:
    """Return whether a client gets neither a byte nor a FIN for STOP_TIME seconds. The kernel
    resets such a client when the server ends."""
    with one:
        return one.rest(STOP_TIME) == (b"", False)


@of_kind("not is_stalled_by_one")
def test_no_accepted_client_is_left_unserved(start: Start) -> None:
    """A stopping server closes its listener immediately, even during a slow request, so that no
    client is left without a response."""
    server = start(at_rest=True)
    with server.client() as slow:
        with server.suspended():
            slow.send(b"GET / HT")
            server.send_signal(signal.SIGTERM)
            # The parent gets the signal before a child can accept the client.
            server.send_signal(signal.SIGCONT)
            time.sleep(0.003 if server.children() else 0)
        left = [one for one in _come_in(server) if _is_left_alone(one)]
        assert not left, f"{len(left)} without a response"
    assert server.wait() == 0


@of("preforking", "multicore")
def test_a_leaving_worker_closes_its_connection(start: Start) -> None:
    """Each worker that ends shuts the listener down, because the parent may be late."""
    server = start("--workers", "2", at_rest=True)

    def is_told(pid: int) -> bool:
        return processes.has_signal(pid, "ShdPnd", signal.SIGTERM)

    with server.client() as slow, server.suspended():
        slow.send(b"GET / HT")
        server.send_signal(signal.SIGTERM)
        server.send_signal(signal.SIGCONT)
        wait_until(lambda: all(map(is_told, server.children())), "the workers have SIGTERM")
        server.send_signal(signal.SIGSTOP)
        wait_until(lambda: processes.state(server.pid) == "T", "the parent is stopped again")
        for worker in server.children():
            os.kill(worker, signal.SIGCONT)
        wait_until(lambda: bool(processes.zombies(server.pid)), "a worker has left")
        with pytest.raises(ConnectionRefusedError):
            server.get("/")
    assert server.wait() == 0


@of("preforking", "multicore")
def test_parent_serves_clients_after_all_workers_have_exited(start: Start) -> None:
    """If Ctrl-C reaches the workers first, the parent serves the connections that wait."""
    server = start("--workers", "2", at_rest=True)
    with server.suspended(), server.client() as client:
        for worker in server.children():
            os.kill(worker, signal.SIGINT)
            os.kill(worker, signal.SIGCONT)
        wait_until(lambda: len(processes.zombies(server.pid)) == 2, "both workers have left")
        client.send(request("GET", "/t/digits.txt"))
        wait_until(lambda: accept_queue(server.port) == 1, "the client waits in the backlog")
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGCONT)
        response = client.read()
        assert (response.status, response.closes) == (200, True)
    assert server.wait() == 0
    assert server.statistics()["requests"] == "1"


HELD = {
    "idle": b"",
    "half a head": b"GET / HT",
    "half a body": POST[:-5],
    "an unread file": request("GET", "/t/big.bin"),
    "unread pages": request("GET", "/sorted") * 900,
}
END_OF_HEAD = b"\r\n\r\n"


def _hold(server: Server, raw: bytes) -> list[Client]:
    """Return three clients that delay the end of a server; the first has a large receive buffer."""
    clients = [server.client(receive_buffer=size) for size in (1 << 18, 4096, 4096)]
    for client in clients:
        if raw == b"" and server.kind.keeps_alive:
            client.exchange(request("GET", "/t/digits.txt"))
        client.send(raw)
    if raw.endswith(END_OF_HEAD):
        wait_until(lambda: not clients[0].is_quiet(0), "the answer has begun")
    elif raw != b"":
        clients[0].wait_until_read()
    return clients


def _all_ended(servers: list[Server], clients: list[list[Client]]) -> bool:
    """Let the first client of each server read a little; return whether all servers have ended."""
    for group in clients:
        group[0].sip(65536)
    return not any(server.running() for server in servers)


@pytest.mark.slow
def test_ends_in_spite_of_clients(start: Start) -> None:
    """Idle clients, half requests and slow readers delay the end of a server by some seconds only.
    With the usual timeouts half requests would get 408, and slow readers would take minutes."""
    servers = [start() for _ in HELD]
    begun = time.monotonic()
    clients = [_hold(server, raw) for server, raw in zip(servers, HELD.values(), strict=True)]
    for server in servers:
        server.begin_to_stop()
    in_time = time.monotonic() - begun < 2
    wait_until(lambda: _all_ended(servers, clients), "all servers have ended")
    for server in servers:
        assert server.wait() == 0
        assert not processes.session_processes(server.pid)
    if in_time:
        halves = [group[0] for what, group in zip(HELD, clients, strict=True) if "half" in what]
        assert [client.read_to_end() for client in halves] == [b"", b""]
    for client in itertools.chain(*clients):
        client.close()


@of_kind("keeps_alive")
@undisturbed_test(IDLE_TIME)
def test_idle_clients_are_left_at_once(start: Start) -> None:
    """At SIGTERM a server immediately closes connections without a request in progress."""
    server, other = start(), start()
    with other.client() as kept, server.crowd(4, b"") as clients:
        kept.exchange(request("GET", "/t/digits.txt"))
        time.sleep(1)
        for client in clients:
            client.exchange(request("GET", "/t/digits.txt"))
        server.send_signal(signal.SIGTERM)
        assert [client.read_to_end() for client in clients] == [b""] * 4
        assert server.wait() == 0
        assert kept.is_quiet(0), "idle clients had their usual timeout"


@of("threading", "prethreading")
@undisturbed_test(IDLE_TIME)
def test_idle_clients_make_room(start: Start) -> None:
    """At SIGTERM idle clients are disconnected even if the server has descriptors for only ten
    clients."""
    options = ("--workers", "20")
    few = limited(nofile=64)
    server, other = start(*options, prefix=few), start(*options)
    kept = request("GET", "/t/digits.txt")
    with server.crowd(8, kept) as idle, other.crowd(1, kept) as others:
        for client in (*idle, *others):
            assert not client.read().closes
        with server.crowd(2, kept[:-2]), server.client() as late:
            late.send(kept)
            assert late.is_quiet(0.2), "a worker was free"
            server.send_signal(signal.SIGTERM)
            assert late.read().status == 200
            assert others[0].is_quiet(0), "idle clients had their usual timeout"
    assert server.wait() == 0


def test_terminal_signals_everyone(start: Start) -> None:
    """A server ends correctly if all its processes get SIGINT twice, as after Ctrl-C."""
    server = start()
    with server.client() as client:
        assert client.exchange(request("GET", "/t/digits.txt")).status == 200
        for _ in range(2):
            os.killpg(server.pid, signal.SIGINT)
        assert client.read_to_end() == b""
    assert server.wait() == 0
    assert server.statistics()["requests"] == "1"
    assert not processes.session_processes(server.pid)


@pytest.mark.shared_code
def test_started_where_signals_are_blocked(start: Start) -> None:
    server = start("--time-scale", "20", prefix=("env", "--block-signal"))
    with server.client() as client:
        client.send_read(b"GET / HT")
        assert server.stop() == 0


@pytest.mark.of_servers("preforking", "epoll")
def test_nohup(start: Start) -> None:
    server = start(prefix=("nohup",))
    server.send_signal(signal.SIGHUP)
    assert server.get("/t/digits.txt").status == 200
    assert server.stop() == 0


# ---- Many workers: the signal wakes each worker, and none spins ----

WORKERS = 40


@pytest.mark.plain_build("sanitizers make calls of their own")
@of("preforking", "prethreading")
def test_workers_that_wait_end_at_once(start: Start, tmp_path: Path) -> None:
    """No worker spins while it waits for its signal. In 03 the parent signals the children one by
    one, and the first child shuts the listener down. The other children notice this, and pause
    before they check again. On a busy machine their signal may be late."""
    skip_unless_traceable()
    server = start("--workers", str(WORKERS), at_rest=True)
    trace = Trace(server, tmp_path / "trace")
    assert server.stop() == 0
    calls, pauses = trace.calls(), len(re.findall(r"poll\(NULL, 0, ", trace.path.read_text()))
    assert calls["accept4"] <= 3 * WORKERS + pauses
    assert server.stderr == ""


@pytest.mark.plain_build("sanitizers make calls of their own")
@pytest.mark.slow
@of("preforking", "prethreading", "epoll", "multicore")
def test_workers_that_serve_are_woken_rarely(start: Start, tmp_path: Path) -> None:
    """While a server stops, SIGALRM only rarely wakes the workers whose clients have sent half a
    request."""
    skip_unless_traceable()
    server = start("--workers", "8", at_rest=True)
    with server.silent(8):
        tasks = len(server.pids()) + 8 * server.kind.shares_redis
        trace = Trace(server, tmp_path / "trace")
        assert server.stop() == 0
        trace.calls()
    rarely = limit("STOP_TIMEOUT") // limit("WAKE_DELAY")
    assert rarely / 2 <= trace.path.read_text().count("--- SIGALRM ") <= 1.5 * rarely * tasks


# ---- The end of a client or process ----


def test_death_of_the_parent(start: Start) -> None:
    """If the parent is killed, every child ends immediately."""
    server = start("--workers", "5")
    with server.crowd(5, b"") as clients:
        for client in clients if server.kind.keeps_alive else clients[:1]:
            client.exchange(request("GET", "/guestbook"))
        server.send_signal(signal.SIGKILL)
        server.wait()
        wait_until(lambda: not processes.living(server.pid), "all children end")
        processes.reap_orphans(server.pid)
    # The kernel ends operations of io_uring a little later than the process.
    wait_until(lambda: not listens(server.port), "no process listens")


def test_no_descriptors_left_open(start: Start) -> None:
    """The server closes descriptors and reaps children, however clients leave."""
    server = start()

    def work() -> None:
        for raw in (
            request("GET", "/guestbook", CLOSE),
            b"nonsense\r\n\r\n",
            request("GET", "/t/80k.bin", CLOSE),
            request("GET", "/t", CLOSE),  # a folder: redirected to /t/
            request("GET", "/t/nothing", CLOSE),
        ):
            for _ in range(20):
                server.send_to_end(raw)
        for _ in range(20):
            client = server.client()
            client.send(request("GET", "/t/big.bin"))
            client.reset()

    def descriptors() -> int:
        return sum(len(processes.descriptors(pid)) for pid in server.pids())

    work()
    wait_until(lambda: server.is_at_rest(4), "the server is at rest")
    before = descriptors()
    for _ in range(3):
        work()
    # A leak would leave at least 60 of 360 descriptors; a pool of Redis connections may grow to 20.
    wait_until(lambda: descriptors() <= before + 40, f"back to about {before} descriptors")


@of("forking", "preforking", "multicore")
def test_end_of_a_child(start: Start) -> None:
    """If a child gets SIGTERM, only its connection ends, and a worker is replaced. The child does
    not close the listening socket of other workers. (A crash: kinds/test_claims.py.)"""
    server = start()
    with server.client() as client:
        client.send_read(b"GET / HT")
        child = server.children()[-1]
        os.kill(child, signal.SIGTERM)
        client.close()
        # Before the child terminates, the kernel may still give it a client.
        wait_until(lambda: child not in server.children(), "the child has terminated")
        assert server.statuses("/guestbook", 8) == {200: 8}
    wait_until(lambda: server.is_at_rest(4), "the server is at rest")


def test_child_of_a_shell_is_not_waited_for(start: Start) -> None:
    """The server does not wait for a child of the shell that executed the server."""
    server = start(prefix=("sh", "-c", 'sleep 600 & exec "$0" "$@"'))
    assert server.get("/t/digits.txt").status == 200
    assert server.stop() == 0
    assert len(processes.living(server.pid)) == 1
    processes.kill_session(server.pid)
