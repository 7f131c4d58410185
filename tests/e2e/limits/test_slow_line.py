# SPDX-License-Identifier: MIT
"""Files arrive whole through a slow network, and at a program that reads slowly.

The line is a pair of virtual interfaces between two new network namespaces; one end limits the bits
per second: ip-netns(8), tc-tbf(8). If that is not allowed, its tests are skipped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..client import Client, request
from ..conftest import Start
from ..harness import Server
from ..namespaces import namespaces, run
from ..processes import mortal
from ..redisbox import PrivateRedis
from ..sockets import is_given_up
from ..timing import PACE, PATIENCE, TRIES

pytestmark = pytest.mark.shared_code

SIZE = 500_000
NOBODY = "redis://127.0.0.1:1"


@dataclass(frozen=True)
class Line:
    """A line of limited speed: what the server's end sends, and the clients' share of the timeout.

    In the time after which the server closes a stalled client, each client gets less than a third
    of the kernel's buffer or of one sendfile(2). TCP does not share a line equally: one of several
    downloads may get nothing for seconds. Therefore they have the full timeout.
    """

    rate: str
    downloads: int
    time_scale: int


LINES = (Line("256kbit", 2, 1), Line("256kbit", 1, 4))


@contextlib.contextmanager
def shaped(rate: str) -> Iterator[tuple[str, str]]:
    """Yield two namespaces with a line between them; the first has the address 10.77.0.1. Raise
    OSError."""
    with namespaces(2) as ends:
        run(f"ip link add line netns {ends[0]} type veth peer name line netns {ends[1]}")
        for number, end in enumerate(ends, start=1):
            run(f"ip -n {end} address add 10.77.0.{number}/24 dev line")
            run(f"ip -n {end} link set line up")
        # The queue of a modem: 400 ms at this rate.
        run(f"tc -n {ends[0]} qdisc add dev line root tbf rate {rate} burst 8kb latency 400ms")
        yield ends[0], ends[1]


@pytest.fixture(scope="module")
def _lines_allowed() -> None:
    """Skip the test if no such line can be made."""
    try:
        with shaped("1mbit"):
            pass
    except OSError as error:
        pytest.skip(f"no line of limited speed can be made: {error}")


def _fetch(url: str, size: int, before: tuple[str, ...]) -> str:
    """Download with curl; return the error, or nothing."""
    report = ("-s", "-o", "/dev/null", "-w", "%{http_code} %{size_download}")
    patience = 4 * PATIENCE * PACE.slowness
    done = subprocess.run(
        mortal([*before, "curl", "-m", str(patience), *report, url]),
        capture_output=True,
        text=True,
        check=False,
    )
    expected = f"200 {size}"
    return "" if (done.returncode, done.stdout) == (0, expected) else f"{done} {expected}"


def _through(line: Line, binary: Path, root: Path) -> list[str]:
    """Run so many downloads through a line at once; return their errors."""
    options = ("--address", "10.77.0.1", "--time-scale", str(line.time_scale))
    with shaped(line.rate) as (near, far):
        inside = tuple(f"ip netns exec {near}".split())
        outside = tuple(f"ip netns exec {far}".split())
        with Server(binary, root, NOBODY, options, prefix=inside) as server:
            url = f"{server.url}t/half.bin"
            with ThreadPoolExecutor(line.downloads) as pool:
                jobs = [pool.submit(_fetch, url, SIZE, outside) for _ in range(line.downloads)]
                return [f"{line}: {wrong}" for job in jobs if (wrong := job.result())]


@pytest.fixture(scope="module")
def slow_site(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site with one more file of half a megabyte."""
    root = tmp_path_factory.mktemp("slow")
    for name in ("templates", "redirects"):
        (root / name).symlink_to(site / name)
    (root / "public" / "t").mkdir(parents=True)
    (root / "public" / "t" / "half.bin").write_bytes(os.urandom(SIZE))
    (root / "public" / "t" / "large.bin").write_bytes(os.urandom(20 * SIZE))
    return root


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.usefixtures("_lines_allowed")
def test_downloads_through_slow_lines(binary: Path, slow_site: Path) -> None:
    """Each download arrives whole, through each line; all lines at the same time."""
    with ThreadPoolExecutor(len(LINES)) as pool:
        found = list(pool.map(lambda line: _through(line, binary, slow_site), LINES))
    assert not any(found), found


def _is_served(server: Server, rate: int, seconds: float) -> tuple[bool, float]:
    """Read so many bytes per second for so long; return whether it is still open, and the longest
    pause."""
    with Client(server, receive_buffer=1 << 18) as client:
        client.send(request("GET", "/t/large.bin"))
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
def test_program_that_reads_slowly(start: Start, slow_site: Path) -> None:
    """On loopback, where the window opens in steps of 64 KB, a slow reader is not cut off. Each
    step takes half the time after which a stalled client is cut off."""
    server = start("--time-scale", "2", root=slow_site)
    for _ in range(TRIES):
        served, pause = _is_served(server, rate=26_000, seconds=12)
        if served:
            return
        assert pause > 1, "a client that read all the time was cut off"
    raise AssertionError("the machine paused in each try")


@pytest.mark.usefixtures("_lines_allowed")
def test_refusal_reaches_a_slow_sender(binary: Path, slow_site: Path, redis: PrivateRedis) -> None:
    """A client that sends too long a body through a slow line reads the refusal before the
    reset."""
    options = ("--address", "10.77.0.1")
    with shaped("256kbit") as (near, far):
        run(f"tc -n {far} qdisc add dev line root tbf rate 64kbit burst 8kb latency 400ms")
        inside = tuple(f"ip netns exec {near}".split())
        with Server(binary, slow_site, redis.url(0), options, prefix=inside) as server:
            body = slow_site / "public" / "t" / "half.bin"
            command = f"ip netns exec {far} curl -s -m {PATIENCE} -o /dev/null -w %{{http_code}}"
            command += f" -H Expect: --data-binary @{body} {server.url}guestbook"
            words = command.split(" ")
            done = subprocess.run(mortal(words), capture_output=True, text=True, check=False)
            assert done.stdout == "413"
