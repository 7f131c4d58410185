# SPDX-License-Identifier: MIT
"""Services during a load: the slow Redis, idle connections, and nginx; and the CPUs of a run."""

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.host.accounting import CpuTime
from bench.host.machine import place
from bench.host.process import SignalWatch
from bench.host.project import find_program
from bench.load.running import IdleConnections, ProbeError, probe
from bench.records.workloads import workload_for
from bench.services.balancer import (
    Balancer,
    BalancerOrder,
    configuration,
    used_between,
    workers_for,
)
from bench.services.redis_server import SlowRedis
from bench.torture.attacks import held_connections
from tests.e2e.redisbox import Conversation, FalseRedis

from ..measuring import broken_server
from ..whole_sweep import SECONDS, wait_for

DELAY = 0.02


def repeat(conversation: Conversation) -> None:
    while conversation.receive():
        conversation.send(conversation.pending)
        conversation.pending = b""


@pytest.fixture
def echo() -> Iterator[int]:
    """Yield the port of a server that sends back what it receives."""
    with FalseRedis(repeat) as server:
        yield server.port


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)


def test_each_reply_comes_later_and_none_is_lost(echo: int) -> None:
    url = f"redis://user:word@127.0.0.1:{echo}/3"
    with SlowRedis(url, DELAY * 1000, (), SignalWatch()) as slow:
        assert slow.url.startswith("redis://user:word@127.0.0.1:")
        assert slow.url.endswith("/3")
        with connect(slow.url) as client:
            for number in range(5):
                begin = time.monotonic()
                client.sendall(b"%d" % number)
                assert client.recv(10) == b"%d" % number
                assert time.monotonic() - begin >= DELAY
            client.sendall(b"x" * 1_000_000)
            got = 0
            while got < 1_000_000:
                got += len(client.recv(65536))


def test_a_reply_comes_in_two_pieces(echo: int) -> None:
    slow = SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch(), split=True)
    with slow, connect(slow.url) as client:
        for _ in range(20):
            client.sendall(b"12345")
            first = client.recv(10)
            if first != b"12345":  # a paused machine may merge the pieces
                break
        assert (first, client.recv(10)) == (b"1234", b"5")


def test_connections_are_delayed_side_by_side(echo: int) -> None:
    with SlowRedis(f"redis://127.0.0.1:{echo}", 1000, (), SignalWatch()) as slow:
        clients = [connect(slow.url) for _ in range(50)]
        begin = time.monotonic()
        for client in clients:
            client.sendall(b"?")
        for client in clients:
            assert client.recv(1) == b"?"
        assert time.monotonic() - begin < 25, "50 delays of 1 s overlap"
        for client in clients:
            client.close()


def test_an_end_is_passed_on(echo: int) -> None:
    slow = SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch())
    with slow, connect(slow.url) as client:
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("good", 40),
        ("drops", 150),  # each hundredth response is missing and its connection closed
    ],
)
def test_idle_connections_are_held_and_counted(mode: str, count: int) -> None:
    with broken_server(mode) as url, IdleConnections(f"{url}any", count, (), SignalWatch()) as idle:
        time.sleep(0.5)
        wait_for(lambda: held_connections(urlsplit(url).port or 0) == count, "some are missing")
        report = idle.report()
    assert (report.asked, report.held) == (count, count)
    if mode == "good":
        assert (report.reopened, report.requests, report.requests_during) == (0, 40, 0)
    assert report.reopened + report.requests >= count


def test_connections_that_had_to_wait_were_not_closed() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/any"
        with IdleConnections(url, 20, (), SignalWatch()) as idle:
            listener.settimeout(SECONDS)
            taken = [listener.accept()[0] for _ in range(20)]
            time.sleep(0.5)
            report = idle.report()
    for client in taken:
        client.close()
    assert (report.held, report.reopened) == (20, 0)


def order(keep: bool, connections: int = 100) -> BalancerOrder:
    return BalancerOrder(servers=["10.0.0.1:81", "10.0.0.2:82"], keep=keep, connections=connections)


def test_the_configuration() -> None:
    text, kept = (
        configuration(order(keep), ("10.0.0.9", 80), Path("/folder"), 1, 20_000)
        for keep in (False, True)
    )
    for part in (
        *("server 10.0.0.1:81 ", "server 10.0.0.2:82 ", "listen 10.0.0.9:80 backlog=65535;"),
        'proxy_set_header Connection "close";',
    ):
        assert part in text
    assert set(re.findall(r"/[a-z/]+(?=/)", text)) == {"/folder", "/dev"}, "an unexpected folder"
    assert ("keepalive 100" in text, "keepalive 100;" in kept) == (False, True)
    assert 'proxy_set_header Connection "";' in kept


@pytest.mark.parametrize(
    ("connections", "cpus", "descriptors", "workers"),
    [(100, 1, 20_000, 1), (100, 4, 20_000, 4), (15_000, 1, 20_000, 2), (15_000, 1, 1_048_576, 1)],
)
def test_workers(connections: int, cpus: int, descriptors: int, workers: int) -> None:
    assert workers_for(connections, cpus, descriptors) == workers
    listen = ("10.0.0.9", 80)
    text = configuration(order(True, connections), listen, Path("/f"), cpus, descriptors)
    assert f"worker_processes {workers};" in text
    assert ("reuseport" in text) == (workers > 1)


def test_the_cpu_time_of_all_nginx_processes_is_counted() -> None:
    """The CPU times of nginx processes are added up; `wanted_s` is the largest known value."""
    before = {1: (CpuTime(10, 20), 1.0), 2: (CpuTime(30, 40), None), 3: (CpuTime(90, 90), 5.0)}
    after = {1: (CpuTime(15, 23), 3.0), 2: (CpuTime(40, 60), 8.0)}
    use = used_between(before, after)
    assert (use.cpu, use.wanted_s) == (CpuTime(15, 23), 2.0)


@pytest.mark.skipif(find_program("nginx") is None, reason="nginx is not installed")
def test_error_responses_of_nginx_are_counted() -> None:
    with socket.socket() as held, SignalWatch() as watch:
        held.bind(("127.0.0.1", 0))  # so no process can listen at this address
        dead = f"127.0.0.1:{held.getsockname()[1]}"
        order = BalancerOrder(servers=[dead], keep=True, connections=10)
        found = Balancer(order, "127.0.0.1", [], watch)
        try:
            for _ in range(3):
                with pytest.raises(ProbeError, match="502"):
                    probe(f"{found.url}redirect", workload_for("redirect"), None)
        finally:
            end = found.stop()
    assert (end.errors, end.status) == (3, 0)
    assert "connect() failed (111" in end.last_error  # ECONNREFUSED; its text depends on the system


@pytest.mark.parametrize(
    ("cpus", "instances", "server", "load"),
    [
        ([0], 1, [], []),
        ([0, 1], 1, [0], [1]),
        ([0, 1], 4, [0], [1]),
        ([0, 1, 2, 3], 2, [0, 1], [2, 3]),
        ([0, 1, 2, 3], 8, [0, 1, 2], [3]),
    ],
)
def test_each_instance_gets_a_cpu_while_there_are_some(
    cpus: list[int], instances: int, server: list[int], load: list[int]
) -> None:
    found = place(cpus, instances)
    assert (found.server, found.load) == (server, load)
