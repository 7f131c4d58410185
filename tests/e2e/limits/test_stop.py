# SPDX-License-Identifier: MIT
"""Stop by a signal: requests in flight are finished, and no accepted client is left without a
response."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from .. import processes
from ..claims import CLOSE, crowd, of
from ..client import FORM, Client, fetch, form, request
from ..conftest import Start
from ..harness import Server, all_of, architecture
from ..redisbox import PrivateRedis
from ..site import MB
from ..small import limited
from ..sockets import backlog, free_port
from ..timing import PATIENCE, undisturbed, wait_until

# Slightly less than a stopping server leaves to requests in flight, and a running one to idle
# clients.
STOP_TIME = IDLE_TIME = 4
# The time that a server leaves to a Redis that does not answer.
REDIS_TIME = 1.5
POST = request("POST", "/guestbook", (FORM, *CLOSE), form(guest_name="A", guest_remarks="B"))


def _finish_request(server: Server) -> None:
    with Client(server) as client:
        client.send(POST[:-10])
        client.wait_until_read()
        server.begin_to_stop(busy=1)
        client.send(POST[-10:])
        response = client.read()
        assert response.status == 303
        assert response.closes
        assert client.read_to_end() == b""
    assert server.wait() == 0
    assert server.statistics()["requests"] == "1"


def test_request_in_flight_is_finished(start: Start) -> None:
    """A request that has begun is answered after SIGTERM, and the connection is closed."""
    undisturbed(STOP_TIME, lambda: _finish_request(start()))


def _end_keep_alive(server: Server) -> None:
    with Client(server) as client, Client(server) as idle:
        client.send(request("GET", "/t/digits.txt")[:-2])
        client.wait_until_read()
        if server.kind.keeps_alive:
            idle.exchange(request("GET", "/t/digits.txt"))
        server.begin_to_stop(busy=1)
        client.send(b"\r\n")
        assert client.read().closes
        assert client.read_to_end() == b""
    assert server.wait() == 0


def test_keep_alive_ends_with_the_request_in_flight(start: Start) -> None:
    """The response after SIGTERM has close even for a client that wants keep-alive."""
    undisturbed(STOP_TIME, lambda: _end_keep_alive(start()))


def _finish_download(server: Server) -> None:
    # More than the kernel buffers, and less than a busy machine sends in five seconds.
    size = 10 * MB
    with Client(server, receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/big.bin", (("Range", f"bytes=0-{size - 1}"),)))
        client.read_head()
        client.read_exactly(MB)
        server.begin_to_stop()
        client.read_exactly(size - MB)
    assert server.wait() == 0


def test_download_in_flight_is_finished(start: Start) -> None:
    """A large part of a file in flight arrives whole after SIGTERM."""
    undisturbed(STOP_TIME, lambda: _finish_download(start()))


def _ask_again_in_flight(server: Server) -> None:
    size = 10 * MB
    with Client(server, receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/big.bin", (("Range", f"bytes=0-{size - 1}"),)))
        client.read_head()
        client.send(request("GET", "/t/digits.txt"))
        server.begin_to_stop()
        client.read_exactly(size)
        if server.kind.keeps_alive:
            assert client.read().closes
    assert server.wait() == 0


def test_next_request_behind_a_download_in_flight(start: Start) -> None:
    """A request sent before the response said close costs no byte of that response."""
    undisturbed(STOP_TIME, lambda: _ask_again_in_flight(start()))


def _stop_while_many_wait(start: Start) -> None:
    """Signal a server while sixty clients wait for its Redis, then resume Redis; all are served."""
    with PrivateRedis() as redis, contextlib.ExitStack() as stack:
        server = start("--workers", "4", redis=redis.url(0))
        assert fetch(server, "/guestbook").status == 200
        redis.pause()
        clients = [stack.enter_context(Client(server)) for _ in range(60)]
        for client in clients:
            client.send(request("GET", "/guestbook"))
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        redis.resume()
        responses = [client.read() for client in clients]
        assert {(response.status, response.closes) for response in responses} == {(200, True)}
        assert server.wait() == 0
        assert server.statistics()["requests"] == "61"


def test_who_waits_is_served(start: Start) -> None:
    """Clients that wait in the backlog, or in a server's queue, at the signal are served."""
    undisturbed(REDIS_TIME, lambda: _stop_while_many_wait(start))


def _come_in(server: Server) -> list[socket.socket]:
    """Return the clients that still connect, one after another, until one cannot."""
    came: list[socket.socket] = []
    while len(came) < 100:
        one = socket.socket()
        one.settimeout(0.05)
        try:
            one.connect((server.host, server.port))
            one.sendall(request("GET", "/t/digits.txt", CLOSE))
        except OSError:
            one.close()
            break
        came.append(one)
    return came


def _is_left_alone(client: socket.socket) -> bool:
    client.settimeout(2)
    with client:
        try:
            client.recv(1)
        except TimeoutError:
            return True
        except OSError:  # the listening socket was closed just after its connect
            pass
    return False


def test_nobody_is_let_in_and_left_alone(start: Start) -> None:
    """A server that accepts no more closes its listening socket, also during a slow request."""
    server = start()
    if server.kind.is_stalled_by_one:
        pytest.skip("clients after a slow one wait for it")
    wait_until(lambda: server.is_at_rest(4), "it has all its workers")
    with Client(server) as slow:
        with server.suspended():
            slow.send(b"GET / HT")
            server.send_signal(signal.SIGTERM)
            # It gets the signal while a client waits, before any child may accept it.
            server.send_signal(signal.SIGCONT)
            time.sleep(0.003 if server.children() else 0)
        left = [client for client in _come_in(server) if _is_left_alone(client)]
        assert not left, f"{len(left)} without a response"
    assert server.wait() == 0


def _is_told(pid: int) -> bool:
    """Return whether SIGTERM is pending for a process that is stopped."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = int(status.partition("\nShdPnd:\t")[2].split("\n")[0], 16)
    return bool(pending >> (signal.SIGTERM - 1) & 1)


@of("preforking", "multicore")
def test_who_leaves_shuts_the_door(start: Start) -> None:
    """Each process that leaves shuts the socket down, because the parent may be late."""
    server = start("--workers", "2")
    wait_until(lambda: server.is_at_rest(2), "it has all its workers")
    with Client(server) as slow, server.suspended():
        slow.send(b"GET / HT")
        server.send_signal(signal.SIGTERM)
        server.send_signal(signal.SIGCONT)
        wait_until(lambda: all(map(_is_told, server.children())), "its workers have SIGTERM")
        server.send_signal(signal.SIGSTOP)
        wait_until(lambda: processes.stands_still(server.pid), "it is stopped again")
        for worker in server.children():
            os.kill(worker, signal.SIGCONT)
        wait_until(lambda: bool(processes.zombies(server.pid)), "a worker has left")
        with pytest.raises(ConnectionRefusedError):
            fetch(server, "/")
    assert server.wait() == 0


@of("preforking", "multicore")
def test_parent_serves_clients_after_all_workers_have_exited(start: Start) -> None:
    """Ctrl-C may reach the workers first. The parent then serves the connections that wait."""
    server = start("--workers", "2")
    wait_until(lambda: server.is_at_rest(2), "it has all its workers")
    with server.suspended(), Client(server) as client:
        for worker in server.children():
            os.kill(worker, signal.SIGINT)
            os.kill(worker, signal.SIGCONT)
        wait_until(lambda: len(processes.zombies(server.pid)) == 2, "both workers have left")
        client.send(request("GET", "/t/digits.txt"))
        wait_until(lambda: backlog(server.port) == 1, "it waits in the backlog")
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGCONT)
        response = client.read()
        assert (response.status, response.closes) == (200, True)
    assert server.wait() == 0
    assert server.statistics()["requests"] == "1"


def test_new_connections_are_refused(start: Start) -> None:
    """After the stop no process listens."""
    server = start()
    assert server.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), PATIENCE)


HELD = {
    "idle": b"",
    "half a head": b"GET / HT",
    "half a body": POST[:-5],
    "an unread file": request("GET", "/t/big.bin"),
    "unread pages": request("GET", "/sorted") * 900,
}
END_OF_HEAD = b"\r\n\r\n"


def _hold(server: Server, raw: bytes) -> list[Client]:
    """Return three clients that a stopping server would have to wait for; the first reads
    faster."""
    clients = [Client(server, receive_buffer=size) for size in (1 << 18, 4096, 4096)]
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
    """Return whether they have ended; the first of their clients reads on, a little at a time."""
    for group in clients:
        group[0].sip(65536)
    return not any(server.running() for server in servers)


@pytest.mark.slow
@pytest.mark.waits
def test_ends_in_spite_of_clients(start: Start) -> None:
    """Idle clients, half requests and slow readers cannot hold a stopping server for long. If
    requests in flight had their usual timeouts, half ones would get 408, and slow readers would
    hold it for minutes."""
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


def _leave_idle_clients(server: Server, other: Server) -> None:
    """Idle connections are closed while those of another server are still kept."""
    kept, clients = Client(other), [Client(server) for _ in range(4)]
    kept.exchange(request("GET", "/t/digits.txt"))
    time.sleep(1)
    for client in clients:
        client.exchange(request("GET", "/t/digits.txt"))
    server.send_signal(signal.SIGTERM)
    for client in clients:
        assert client.read_to_end() == b""
        client.close()
    assert server.wait() == 0
    assert kept.is_quiet(0), "they were kept as long as if the server had not been stopped"
    kept.close()


def test_idle_clients_are_left_at_once(binary: Path, start: Start) -> None:
    """Connections between two requests are not in flight, so they are closed at once."""
    if not architecture(binary.name).keeps_alive:
        pytest.skip("it closes after each response")
    undisturbed(IDLE_TIME, lambda: _leave_idle_clients(start(), start()))


def _serve_who_waits(server: Server, other: Server) -> None:
    """All workers are taken, most by idle clients: at the signal these are closed for waiting
    clients."""
    kept = request("GET", "/t/digits.txt")
    with crowd(server, 8, kept) as idle, crowd(other, 1, kept) as others:
        for client in (*idle, *others):
            assert not client.read().closes
        with crowd(server, 2, kept[:-2]), Client(server) as late:
            late.send(kept)
            assert late.is_quiet(0.2), "a worker was free"
            server.send_signal(signal.SIGTERM)
            assert late.read().status == 200
            assert others[0].is_quiet(0), "idle clients had their usual timeout"
    assert server.wait() == 0


@of("threading", "prethreading")
def test_idle_clients_make_room(start: Start) -> None:
    """Idle clients are also closed if there are descriptors for ten clients only."""
    options = ("--workers", "20")
    few = limited(nofile=64)
    undisturbed(IDLE_TIME, lambda: _serve_who_waits(start(*options, prefix=few), start(*options)))


def test_second_signal(start: Start) -> None:
    """A second Ctrl-C does not disturb the stop."""
    server = start()
    with Client(server) as client:
        client.send(b"GET / HT")
        client.wait_until_read()
        server.begin_to_stop(signal.SIGINT)
        server.send_signal(signal.SIGINT)
        time.sleep(0.1)
    server.wait()
    assert not processes.session_processes(server.pid)


def test_terminal_signals_everyone(start: Start) -> None:
    """Ctrl-C in a terminal reaches all processes of the group, and the server stops as usual."""
    server = start()
    client = Client(server)
    assert client.exchange(request("GET", "/t/digits.txt")).status == 200
    os.killpg(server.pid, signal.SIGINT)
    assert client.read_to_end() == b""
    client.close()
    assert server.wait() == 0
    assert server.statistics()["requests"] == "1"
    assert not processes.session_processes(server.pid)


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.shared_code
def test_started_where_signals_are_blocked(start: Start) -> None:
    """Signals that were blocked before exec still stop the server."""
    server = start(prefix=("env", "--block-signal"))
    with Client(server) as client:
        client.send(b"GET / HT")
        client.wait_until_read()
        assert server.stop() == 0


def test_several_servers_side_by_side(binary: Path, site: Path) -> None:
    """Two servers without any Redis do not disturb each other."""
    nobody = f"redis://127.0.0.1:{free_port()}"
    with all_of([Server(binary, site, nobody, ("--workers", "2")) for _ in range(2)]) as both:
        assert both[0].port != both[1].port
        for server in both:
            assert fetch(server, "/t/digits.txt").status == 200


@pytest.mark.of_servers("preforking", "epoll")
def test_nohup(start: Start) -> None:
    """A server that nohup(1) has started continues after SIGHUP (0.3 s)."""
    server = start(prefix=("nohup",))
    server.send_signal(signal.SIGHUP)
    assert fetch(server, "/t/digits.txt").status == 200
    assert server.stop() == 0
