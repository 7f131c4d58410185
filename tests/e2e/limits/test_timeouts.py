# SPDX-License-Identifier: MIT
"""Clients that wait, send single bytes or do not read are disconnected at their timeout. All cases
run at the same time, each with its own server. Most servers have shorter timeouts (--time-scale); a
few cases use the default timeouts.
"""

import functools
import itertools
import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.host.process import SignalWatch, guarded
from bench.torture.ground import NEAR, NoLine, slow_line

from ..client import FORM, KEPT, Client, form, request, split_responses
from ..harness import Server, Start, of
from ..timing import TIMEOUT, deadline_in, undisturbed, undisturbed_test

IDLE, REQUEST, SENDING = 5.0, 10.0, 10.0
TIME_SCALE = 4
# The largest difference, in seconds, between the times that the test and the server measure.
GRAIN = 0.1
CHUNKED = request("POST", "/guestbook", (FORM, ("Transfer-Encoding", "chunked")))
HALVES = {
    "head": KEPT[:-2],
    "body": request("POST", "/guestbook", (FORM, ("Content-Length", "100"))) + b"guest-name=A",
    "chunk": CHUNKED + b"50\r\nguest",
}
"""Requests that stop in the middle."""


def _part(server: Server, seconds: float) -> float:
    """Return a time divided by the server's --time-scale."""
    return seconds / TIME_SCALE if "--time-scale" in server.options else seconds


Check = Callable[[Server], None]
CASES: list[Check] = []


def case(*, keeps_alive: bool = False, within: float = math.inf) -> Callable[[Check], Check]:
    """Return a decorator that adds a check to the cases. keeps_alive: skip servers without
    keep-alive; within: the `seconds` of undisturbed(), to be divided by --time-scale."""

    def add(check: Check) -> Check:
        @functools.wraps(check)
        def run(server: Server) -> None:
            if server.kind.keeps_alive or not keeps_alive:
                undisturbed(_part(server, within), lambda: check(server))

        CASES.append(run)
        return run

    return add


@case(keeps_alive=True, within=REQUEST - 2)
def idle_after_response(server: Server) -> None:
    """An idle connection is closed without a response after the idle timeout. A request that began
    at the same time has a longer timeout."""
    with server.client() as half, server.client() as client:
        begun = time.monotonic()
        client.exchange(KEPT)
        half.send(b"GET / HT")
        assert client.read_to_end() == b""
        assert time.monotonic() - begun >= _part(server, IDLE) - GRAIN
        assert half.is_quiet(0), "an idle client has the timeout of a request"


@case(keeps_alive=True, within=IDLE)
def asks_now_and_then(server: Server) -> None:
    """Each response restarts the idle timeout, so a client with new requests stays connected."""
    with server.client() as client:
        for _ in range(3):
            assert client.exchange(KEPT).status == 200
            time.sleep(_part(server, 0.6 * IDLE))


@case()
def expected_but_never_sent(server: Server) -> None:
    """If no body arrives after the response 100, the server sends 408."""
    fields = (FORM, ("Content-Length", "100"), ("Expect", "100-continue"))
    begun = time.monotonic()
    with server.client() as client:
        assert client.exchange(request("POST", "/guestbook", fields)).status == 100
        _assert_408(server, client, begun)


@case(keeps_alive=True, within=IDLE)
def half_second_request(server: Server) -> None:
    """The timeout of the second request on a connection begins with its first byte."""
    with server.client() as client:
        client.exchange(KEPT)
        time.sleep(_part(server, 4))
        begun = time.monotonic()
        client.send(b"GET / HT")
        _assert_408(server, client, begun)


def half(server: Server, part: str = "head") -> None:
    """A head, a body or a chunk that stops in the middle gives 408 after a request's timeout."""
    begun = time.monotonic()
    with server.client() as client:
        client.send(HALVES[part])
        _assert_408(server, client, begun)


CASES += [functools.partial(half, part=part) for part in HALVES]


def _assert_408(server: Server, client: Client, begun: float) -> None:
    """Assert that a 408 arrives, and not before the timeout."""
    responses = split_responses(client.read_to_end())
    assert [r.status for r in responses] == [408]
    assert responses[0].closes
    assert time.monotonic() - begun >= _part(server, REQUEST) - GRAIN


@case()
def trickling_head(server: Server) -> None:
    """Single bytes do not prolong the timeout of a request."""
    begun = time.monotonic()
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        end = deadline_in(TIMEOUT)
        while client.is_quiet(0.2):
            assert time.monotonic() < end, "each byte prolongs the timeout"
            client.send_if_open(b"y")
        _assert_408(server, client, begun)


@case(keeps_alive=True)
def trickling_empty_lines(server: Server) -> None:
    """Empty lines do not prolong the idle timeout, because they begin no request. CR and LF arrive
    separately."""
    with server.client() as client:
        client.exchange(KEPT)
        end = deadline_in(TIMEOUT)
        halves = itertools.cycle((b"\r", b"\n"))
        while client.is_quiet(0.2):
            assert time.monotonic() < end, "empty lines prolong the timeout"
            client.send_if_open(next(halves))
        assert client.read_to_end() == b""


@case()
def reader_that_stops(server: Server) -> None:
    """A client that reads nothing of its response is disconnected after the send timeout."""
    begun = time.monotonic()
    with server.client(receive_buffer=65536) as client:
        client.send(request("GET", "/t/big.bin"))
        client.wait_until_given_up()
        assert time.monotonic() - begun >= _part(server, SENDING) - GRAIN
        data = client.read_to_end()
    assert data.startswith(b"HTTP/1.1 200 ")
    assert len(data) < 50_000_000


@case()
def ten_at_once(server: Server) -> None:
    """After half requests have timed out, the server serves the next client."""
    count = 2 if server.kind.worker_per_client else 10 if server.kind.stalled_by == "none" else 1
    with server.crowd(count, b"GET / HT") as clients:
        assert [client.read().status for client in clients] == [408] * count
    with server.client() as client:
        assert client.exchange(KEPT).status == 200


@case(within=0.8 * SENDING)
def slow_reader(server: Server) -> None:
    """A client that reads slowly is not disconnected. On loopback the window opens in steps of 64
    KB; in this case each step takes half of the send timeout."""
    with server.client(receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/big.bin"))
        begun, taken = time.monotonic(), 0
        while (passed := time.monotonic() - begun) < 6:
            # Client.read() would read more, but all other bytes must stay in the kernel.
            due = int(52_000 * passed) - taken
            taken += len(client.socket.recv(due)) if due > 0 else 0
            time.sleep(0.1)
        client.read_exactly(20_000_000)


REAL: list[Check] = [idle_after_response, half, reader_that_stops]


def _at_once(cases: list[Check], servers: list[Server]) -> None:
    """Run all cases at once. Raise an AssertionError that lists all failed cases."""
    with ThreadPoolExecutor(len(cases)) as pool:
        running = [pool.submit(case, one) for case, one in zip(cases, servers, strict=True)]
        problems = [(str(c), f.exception()) for c, f in zip(cases, running, strict=True)]
    failed = [f"{name}: {error!r}" for name, error in problems if error is not None]
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.shared_code
def test_timeouts(start: Start) -> None:
    _at_once(CASES, [start("--workers", "2", "--time-scale", str(TIME_SCALE)) for _ in CASES])


@pytest.mark.slow
@of("prethreading")
def test_real_figures(start: Start) -> None:
    _at_once(REAL, [start("--workers", "2") for _ in REAL])


@undisturbed_test(REQUEST / 20)
@pytest.mark.parametrize("told", [False, True], ids=["", "told-to-stop"])
def test_request_that_came_while_suspended(start: Start, arch: str, told: bool) -> None:
    """A request that arrived while the server was suspended is served, although its timeout is
    over. 06 and 07 have more clients than one epoll_wait() of 07 returns (EVENTS_AT_ONCE)."""
    count, scale = (600, 5) if arch in ("poll", "epoll") else (1, 20)
    server = start("--workers", "2", "--time-scale", str(scale))
    with server.crowd(count, KEPT[:-2]) as clients:
        clients[-1].wait_until_read()
        with server.suspended():
            for client in clients:
                client.send(KEPT[-2:])
            time.sleep(1.2 * REQUEST / scale)
            if told:
                server.send_signal(signal.SIGTERM)
        assert [client.read().status for client in clients] == [200] * count
    if told:
        assert server.wait() == 0


def test_one_piece_is_taken_late(start: Start) -> None:
    """After SIGCONT a server accepts one late read; a request that needs more reads gets 408."""
    server = start("--workers", "2", "--time-scale", "20")
    body = form(guest_name="A", guest_remarks="B" * 20_000)
    raw = request("POST", "/guestbook", (FORM,), body)
    with server.client() as client:
        client.send_read(raw[:200])
        with server.suspended():
            client.send(raw[200:])
            time.sleep(1.5 * REQUEST / 20)
        assert client.read().status == 408


# ---- A slow sender ----

SIZE = 250_000


@pytest.fixture
def line(own_network: None) -> Iterator[list[str]]:
    """Yield the prefix for a command at the other end of a slow line, which sends 64 kbit/s."""
    try:
        with slow_line(SignalWatch()) as inside:
            shape = "tc qdisc add dev far root tbf rate 64kbit burst 8kb latency 400ms"  # a modem's
            subprocess.run([*inside, *shape.split()], check=True)
            yield inside
    except NoLine as why:
        pytest.skip(f"no line of limited speed can be made: {why}")


@pytest.mark.shared_code
def test_refusal_reaches_a_slow_sender(
    binary: Path, site: Path, tmp_path: Path, line: list[str]
) -> None:
    """A slow client whose body is too long gets 413 before the reset."""
    body = tmp_path / "body"
    body.write_bytes(bytes(SIZE))
    with Server(binary, site, "redis://127.0.0.1:1", ("--address", NEAR)) as server:
        words = f"curl -s -m {TIMEOUT} -o /dev/null -w %{{http_code}} -H Expect: --data-binary"
        curl = [*line, *words.split(), f"@{body}", f"{server.url}guestbook"]
        done = subprocess.run(guarded(curl), capture_output=True, text=True, check=False)
        assert done.stdout == "413"
