# SPDX-License-Identifier: MIT
"""No port is free for connections to Redis: connections are shared, and the log says how to fix it.

When ports are free again, all is as before. Each test has its own network namespace, because the
limit is that of the whole machine (ip(7)).
"""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..claims import ELSEWHERE, REDIS_TIME, crowd
from ..client import fetch, request
from ..conftest import Start
from ..harness import architecture
from ..namespaces import inside, namespaces, run
from ..redisbox import PrivateRedis
from ..timing import undisturbed, wait_until

VISIT = request("GET", "/guestbook", (("Connection", "close"),))
REASON = "cannot be connected to: Cannot assign requested address; widen net.ipv4.ip_local_port"
FEW, MANY = (50_000, 50_001), (20_000, 49_999)


SETTING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _allow_ports(first: int, last: int) -> None:
    """Set the ports that this thread's namespace has for connections that it makes."""
    SETTING.write_text(f"{first} {last}")


@pytest.fixture
def _own_network(redis: PrivateRedis) -> Iterator[None]:
    """Run the test, and all that it starts, in a network namespace of its own."""
    with contextlib.ExitStack() as stack:
        try:
            (name,) = stack.enter_context(namespaces(1))
            run(f"ip -n {name} link set lo up")
        except OSError as error:
            pytest.skip(f"no network namespace: {error}")
        stack.enter_context(inside(name))
        try:
            SETTING.write_text(SETTING.read_text())
        except OSError as error:  # in most containers
            pytest.skip(f"the settings of a new network cannot be changed: {error}")
        yield


@contextlib.contextmanager
def _all_ports_taken(port: int) -> Iterator[None]:
    """Take all ports for connections to this one."""
    with contextlib.ExitStack() as stack:
        result = 0
        while result == 0:
            taken = stack.enter_context(socket.socket())
            # Reset at the end: none is left in TIME_WAIT.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            result = taken.connect_ex(("127.0.0.1", port))
        assert result == errno.EADDRNOTAVAIL
        yield


@pytest.mark.usefixtures("_own_network")
def test_fewer_ports_than_clients(start: Start, arch: str) -> None:
    """With two ports, each of twelve simultaneous clients gets the page, and the next one too."""
    with PrivateRedis() as redis:
        workers = architecture(arch).workers_within(2, 16)
        server = start("--workers", workers, redis=redis.url())

        def attempt() -> None:
            _allow_ports(*MANY)
            with crowd(server, 12, b"") as clients:
                _allow_ports(*FEW)
                for client in clients:
                    client.send(VISIT)
                assert [client.read().status for client in clients] == [200] * 12

        undisturbed(REDIS_TIME, attempt)
        _allow_ports(*MANY)
        for _ in range(20):
            assert fetch(server, "/guestbook").status == 200
        assert "unavailable" not in server.stderr
        assert server.stderr.count("\n") == server.stderr.count(REASON) <= 1, server.stderr


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.usefixtures("_own_network")
def test_no_port_at_all(start: Start) -> None:
    """Without a port pages are 503 after a while, and all else is served; later all is served."""
    with PrivateRedis() as redis:
        server = start("--workers", "16", redis=redis.url())
        count = 1 if server.kind.is_stalled_by_one else 4  # each waits
        with crowd(server, count, b"") as visitors, crowd(server, 4, b"") as others:
            _allow_ports(*FEW)
            with _all_ports_taken(redis.port):
                for client in visitors:
                    client.send(VISIT)
                for client in others:
                    client.send(ELSEWHERE)
                assert [client.read().status for client in others] == [302] * 4
                assert [client.read().status for client in visitors] == [503] * count
                _allow_ports(*MANY)
        wait_until(lambda: fetch(server, "/guestbook").status == 200, "Redis is back")
        for _ in range(20):
            assert fetch(server, "/guestbook").status == 200
        assert server.stderr.count(REASON) == 1, server.stderr
