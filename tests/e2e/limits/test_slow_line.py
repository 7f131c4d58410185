# SPDX-License-Identifier: MIT
"""A program that reads slowly gets its file, and a slow sender its refusal.

The line is a pair of virtual interfaces between two new network namespaces; one end limits the bits
per second: ip-netns(8), tc-tbf(8). If that is not allowed, its tests are skipped.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.process import guarded

from ..client import Client, request
from ..conftest import Start
from ..harness import Server
from ..namespaces import namespaces, run
from ..redisbox import PrivateRedis
from ..sockets import is_given_up
from ..timing import PATIENCE, TRIES

pytestmark = pytest.mark.shared_code

SIZE = 250_000


@pytest.fixture
def line() -> Iterator[tuple[str, str]]:
    """Yield two namespaces with a slow line between them; the first has the address 10.77.0.1."""
    with contextlib.ExitStack() as stack:
        try:
            near, far = stack.enter_context(namespaces(2))
            run(f"ip link add line netns {near} type veth peer name line netns {far}")
            for end, number, rate in ((near, 1, "256kbit"), (far, 2, "64kbit")):
                run(f"ip -n {end} address add 10.77.0.{number}/24 dev line")
                run(f"ip -n {end} link set line up")
                # The queue of a modem.
                run(f"tc -n {end} qdisc add dev line root tbf rate {rate} burst 8kb latency 400ms")
        except OSError as error:
            pytest.skip(f"no line of limited speed can be made: {error}")
        yield near, far


def _is_served(server: Server, rate: int, seconds: float) -> tuple[bool, float]:
    """Read at that rate for so long; return whether it is still open, and the longest pause."""
    with Client(server, receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/big.bin"))
        begun = last = time.monotonic()
        taken, pause = 0, 0.0
        while last - begun < seconds and not is_given_up(server.port, client.socket):
            # Not a byte more than that, as Client would: it must stay in the kernel.
            due = int(rate * (last - begun)) - taken
            taken += len(client.socket.recv(due)) if due > 0 else 0
            time.sleep(0.1)
            now = time.monotonic()
            last, pause = now, max(pause, now - last)
        return last - begun >= seconds, pause


@pytest.mark.slow
@pytest.mark.waits
def test_program_that_reads_slowly(start: Start) -> None:
    """On loopback, where the window opens in steps of 64 KB, a slow reader is not cut off. Each
    step takes half the time after which a stalled client is cut off."""
    server = start("--time-scale", "4")
    for _ in range(TRIES):
        served, pause = _is_served(server, rate=52_000, seconds=6)
        if served:
            return
        assert pause > 0.5, "a client that read all the time was cut off"
    raise AssertionError("the machine paused in each try")


def test_refusal_reaches_a_slow_sender(
    binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path, line: tuple[str, str]
) -> None:
    """A client that sends too long a body slowly reads the refusal before the reset."""
    near, far = line
    body = tmp_path / "body"
    body.write_bytes(bytes(SIZE))
    inside = tuple(f"ip netns exec {near}".split())
    with Server(binary, site, redis.url(0), ("--address", "10.77.0.1"), prefix=inside) as server:
        command = f"ip netns exec {far} curl -s -m {PATIENCE} -o /dev/null -w %{{http_code}}"
        command += f" -H Expect: --data-binary @{body} {server.url}guestbook"
        words = command.split(" ")
        done = subprocess.run(guarded(words), capture_output=True, text=True, check=False)
        assert done.stdout == "413"
