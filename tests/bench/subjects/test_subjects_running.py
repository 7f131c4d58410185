# SPDX-License-Identifier: MIT
"""Running baselines send the right responses to clients and the right commands to Redis."""

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from urllib.parse import urlsplit

import pytest
import redis

from bench.host.process import SignalWatch, StartError
from bench.host.project import ROOT
from bench.load.client import Client
from bench.records.conditions import Conditions
from bench.records.workloads import WORKLOADS
from bench.services.redis_server import PrivateRedis, connect
from bench.subjects.running import RunningServer
from bench.subjects.subject import (
    BASELINE_ASKS,
    BASELINE_BUILD,
    BASELINES,
    baseline_subject,
    server_subject,
)

from ..measuring import started

pytestmark = [
    pytest.mark.xdist_group("baselines"),
    pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server"),
    pytest.mark.skipif(not BASELINE_BUILD.exists(), reason="the baselines are not built"),
]

ARCHITECTURES = sorted(file.stem.partition("_")[2] for file in BASELINES.glob("[0-9]*.c"))
PASSWORD = "se:cret"
REQUEST = b"GET /any HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SECONDS = 30.0


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[redis.Redis, str]]:
    """Yield a client and the URL of a Redis with a password."""
    server = PrivateRedis((), SignalWatch())
    try:
        parts = urlsplit(server.url)
        with connect(server.url) as first:
            first.config_set("requirepass", PASSWORD)
        url = f"redis://:se%3Acret@{parts.hostname}:{parts.port}/0"
        with connect(url) as client:
            for number in range(50):
                client.rpush("guestbook_remarks", f"remark {number} " + "x" * 100)
            yield client, url
    finally:
        server.end()


def baseline(architecture: str, **place: object) -> AbstractContextManager[RunningServer]:
    return started(baseline_subject(architecture), **place)


def client_of(server: RunningServer, receive: int = 0) -> Client:
    parts = urlsplit(server.url)
    return Client((parts.hostname or "", parts.port or 0), SECONDS, receive)


def ask(server: RunningServer, path: str = "/any") -> bytes:
    """Return the whole response to a single request."""
    with client_of(server) as client:
        last = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        client.send(last.replace(b"/any", path.encode()))
        return client.rest()[0]


def visitors(client: redis.Redis) -> int:
    return int(client.get("visitor_count") or 0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_baseline_sends_the_requested_length(architecture: str) -> None:
    with baseline(architecture, answer_bytes=700, address="127.0.0.2") as server:
        answer = ask(server)
        assert urlsplit(server.url).hostname == "127.0.0.2"
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(answer) == 700
    assert b"Connection: close\r\n" in head
    assert int(head.rpartition(b"Content-Length: ")[2]) == len(body)


Store = tuple[redis.Redis, str]
GUESTBOOK = Conditions("guestbook")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_asks_redis_for_each_request_over_few_connections(
    architecture: str, store: Store
) -> None:
    client, url = store
    before, opened = visitors(client), client.info("stats")["total_connections_received"]
    requests = 150
    place = {"redis_url": url, "conditions": GUESTBOOK, "answer_bytes": 3000}
    with baseline(architecture, **place) as server:
        assert all(len(ask(server)) == 3000 for _ in range(requests))
        assert visitors(client) - before == requests
        opened = client.info("stats")["total_connections_received"] - opened
        assert opened <= 110, "at most one for each of a hundred workers"


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != "iterative"])
def test_it_keeps_connections_and_confuses_no_clients(architecture: str, store: Store) -> None:
    client, url = store
    before = visitors(client)
    kept = GUESTBOOK._replace(keep_alive=True)
    with baseline(architecture, redis_url=url, conditions=kept, answer_bytes=900) as server:
        clients = [client_of(server) for _ in range(20)]
        for _ in range(3):
            for one in clients:
                one.send(REQUEST)
            assert [one.answer().size for one in clients] == [900] * 20
        assert visitors(client) - before == 60
        for one in clients:
            one.close()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_long_answer_arrives_at_a_slow_client(architecture: str) -> None:
    size = 6_000_000  # more than socket buffers hold
    with (
        baseline(architecture, answer_bytes=size) as server,
        client_of(server, receive=65536) as client,
    ):
        client.send(REQUEST)
        assert len(client.rest()[0]) == size


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_clients_that_leave_do_no_harm(architecture: str, store: Store) -> None:
    place = {"redis_url": store[1], "conditions": GUESTBOOK, "answer_bytes": 100_000}
    with baseline(architecture, **place) as server:
        for _ in range(30):
            with client_of(server) as client:
                client.send(REQUEST)
        assert len(ask(server)) == 100_000
        assert server.running()


@pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll")
def test_the_commands_are_those_of_the_server(store: Store) -> None:
    """A baseline sends Redis the commands of BASELINE_ASKS, and no others that change data. The
    server epoll sends the same commands for the workloads guestbook and link."""
    client, url = store

    def counts() -> tuple[int, int]:
        return visitors(client), client.llen("guestbook_remarks")

    baseline, server = baseline_subject("epoll"), server_subject("epoll", ROOT / "epoll")
    asked = [(baseline, name) for name in BASELINE_ASKS]
    for one, name in [*asked, (server, "guestbook"), (server, "link")]:
        workload, before = WORKLOADS[name], counts()
        with started(one, redis_url=url, conditions=Conditions(name)) as running:
            ask(running, workload.path)
            with connect(url) as watcher, watcher.monitor() as monitor:
                ask(running, workload.path)
                words = [monitor.next_command()["command"] for _ in range(workload.waits)]
        assert words == list(BASELINE_ASKS[name]), (one.name, name)
        rise = tuple(now - then for now, then in zip(counts(), before, strict=True))
        assert rise == (2 * workload.visits, 2 * workload.remarks), (one.name, name)


def test_a_baseline_reports_that_redis_refuses_it(store: Store) -> None:
    """A baseline reports that Redis refuses the password, before or after it prints its address."""
    wrong = store[1].replace("se%3Acret", "wrong")
    try:
        with baseline("epoll", redis_url=wrong, conditions=Conditions("link")) as server:
            with contextlib.suppress(OSError):
                assert ask(server) == b""
            ended = server.stop()
            assert ended
            said = ended.describe()
    except StartError as error:
        said = str(error)
    assert "Redis" in said
