# SPDX-License-Identifier: MIT
"""Baselines and reference servers, built and started: their responses, and their commands to
Redis."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from bench.host.process import StartError
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.load.client import Client
from bench.records.conditions import Conditions
from bench.records.workloads import WORKLOADS
from bench.services.redis_server import PrivateRedis, connect
from bench.subjects.running import RunningServer
from bench.subjects.subject import (
    FLOOR_ASKS,
    FLOORS,
    Place,
    Subject,
    floor_subject,
    server_subject,
)

pytestmark = [
    pytest.mark.xdist_group("floors"),
    pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server"),
]

ARCHITECTURES = sorted(file.stem.partition("_")[2] for file in FLOORS.glob("[0-9]*.c"))
PASSWORD = "se:cret"
REQUEST = b"GET /any HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SECONDS = 30.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("floor")
    make = ["make", "--silent", "floor", f"FLOOR={folder}", "CFLAGS=-O1 -g -Werror"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def ours(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.subjects.subject.FLOOR_BUILD", built)


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[redis.Redis, str]]:
    """Yield a Redis with a password: a client, and its URL."""
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


class Floor:
    def __init__(self, architecture: str, tmp_path: Path, **more: object) -> None:
        words = {"redis_url": "redis://127.0.0.1:1", "folder": tmp_path} | more
        place = Place(**words)  # type: ignore[arg-type]
        self.server = RunningServer(floor_subject(architecture), place, (), SignalWatch())
        parts = urlsplit(self.server.url)
        self.address = (parts.hostname or "", parts.port or 0)

    def __enter__(self) -> "Floor":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def connect(self, receive: int = 0) -> Client:
        return Client(self.address, SECONDS, receive)

    def ask(self) -> bytes:
        with self.connect() as client:
            client.send(REQUEST)
            return client.rest()[0]


def request(url: str, path: str) -> bytes:
    """Return the whole response to a single request."""
    parts = urlsplit(url)
    with Client((parts.hostname or "", parts.port or 0), SECONDS) as client:
        client.send(f"GET {path} HTTP/1.0\r\nHost: h\r\n\r\n".encode())
        return client.rest()[0]


def visitors(client: redis.Redis) -> int:
    return int(client.get("visitor_count") or 0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_floor_answers_as_long_as_it_is_told(architecture: str, tmp_path: Path) -> None:
    with Floor(architecture, tmp_path, answer_bytes=700, address="127.0.0.2") as floor:
        answer = floor.ask()
        assert floor.address[0] == "127.0.0.2"
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(answer) == 700
    assert b"Connection: close\r\n" in head
    assert int(head.rpartition(b"Content-Length: ")[2]) == len(body)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_asks_redis_for_each_request_over_few_connections(
    architecture: str, tmp_path: Path, store: tuple[redis.Redis, str]
) -> None:
    client, url = store
    before, opened = visitors(client), client.info("stats")["total_connections_received"]
    requests = 150
    with Floor(
        architecture, tmp_path, redis_url=url, conditions=Conditions("guestbook"), answer_bytes=3000
    ) as floor:
        assert all(len(floor.ask()) == 3000 for _ in range(requests))
        assert visitors(client) - before == requests
        opened = client.info("stats")["total_connections_received"] - opened
        assert opened <= 110, "a hundred workers have one each; otherwise a few are enough"


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != "iterative"])
def test_it_keeps_connections_and_mixes_nobody_up(
    architecture: str, tmp_path: Path, store: tuple[redis.Redis, str]
) -> None:
    client, url = store
    before = visitors(client)
    words = {
        "redis_url": url,
        "conditions": Conditions("guestbook", keep_alive=True),
        "answer_bytes": 900,
    }
    with Floor(architecture, tmp_path, **words) as floor:
        clients = [floor.connect() for _ in range(20)]
        for _ in range(3):
            for one in clients:
                one.send(REQUEST)
            assert [one.answer().size for one in clients] == [900] * 20
        assert visitors(client) - before == 60
        for one in clients:
            one.close()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_long_answer_arrives_at_a_slow_client(architecture: str, tmp_path: Path) -> None:
    size = 6_000_000  # more than the kernel takes at once
    with (
        Floor(architecture, tmp_path, answer_bytes=size) as floor,
        floor.connect(receive=65536) as client,
    ):
        client.send(REQUEST)
        assert len(client.rest()[0]) == size


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_clients_that_leave_do_no_harm(
    architecture: str, tmp_path: Path, store: tuple[redis.Redis, str]
) -> None:
    with Floor(
        architecture,
        tmp_path,
        redis_url=store[1],
        conditions=Conditions("guestbook"),
        answer_bytes=100_000,
    ) as floor:
        for _ in range(30):
            with floor.connect() as client:
                client.send(REQUEST)
        assert len(floor.ask()) == 100_000
        assert floor.server.running()


def test_every_workload_with_a_floor_leaves_in_redis_what_the_server_leaves(
    tmp_path: Path, store: tuple[redis.Redis, str]
) -> None:
    client, url = store
    for workload in WORKLOADS.values():
        subject = floor_subject("epoll")
        if not subject.can(Conditions(workload.name)):
            continue
        before = visitors(client), client.llen("guestbook_remarks")
        with Floor("epoll", tmp_path, redis_url=url, conditions=Conditions(workload.name)) as floor:
            floor.ask()
        after = visitors(client), client.llen("guestbook_remarks")
        rise = after[0] - before[0], after[1] - before[1]
        assert rise == (workload.visits, workload.remarks), workload.name


@pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll")
def test_the_commands_are_those_of_the_server(
    tmp_path: Path, store: tuple[redis.Redis, str]
) -> None:
    """Its commands are those of the server, as Redis sees them; the first request, with the login,
    is ignored."""
    _, url = store
    seen: dict[str, list[list[str]]] = {}
    for one in (floor_subject("epoll"), server_subject("epoll", ROOT / "epoll")):
        for name in ("guestbook", "link"):
            place = Place(url, tmp_path, conditions=Conditions(name))
            running = RunningServer(one, place, (), SignalWatch())
            try:
                request(running.url, WORKLOADS[name].path)
                with connect(url) as watcher, watcher.monitor() as monitor:
                    request(running.url, WORKLOADS[name].path)
                    waits = range(WORKLOADS[name].waits)
                    words = [monitor.next_command()["command"] for _ in waits]
            finally:
                running.stop()
            seen.setdefault(name, []).append(words)
    for name, (of_floor, of_server) in seen.items():
        assert of_floor == of_server == list(FLOOR_ASKS[name])


def test_a_floor_that_redis_refuses_says_so(tmp_path: Path, store: tuple[redis.Redis, str]) -> None:
    wrong = store[1].replace("se%3Acret", "wrong")
    place = Place(wrong, tmp_path, conditions=Conditions("link"))
    with pytest.raises(StartError, match="Redis"):
        _start_and_wait(floor_subject("epoll"), place)


def _start_and_wait(subject: Subject, place: Place) -> None:
    """Start a baseline and wait. It prints its address before it connects, so it may end a moment
    later."""
    running = RunningServer(subject, place, (), SignalWatch())
    with contextlib.suppress(OSError):
        assert request(running.url, "/") == b""
    ended = running.stop()
    assert ended
    raise StartError(ended.describe())
