# SPDX-License-Identifier: MIT
"""Each installed reference server answers like the seven servers, and runs as declared."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import redis

from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.load import client
from bench.load.client import Response
from bench.load.running import probe, require_content
from bench.records.workloads import WORKLOADS
from bench.services.redis_server import PrivateRedis, connect
from bench.stations.footprint import Weight, look_at
from bench.stations.sampling import Tracer
from bench.subjects.running import RunningServer
from bench.subjects.subject import (
    LeftOut,
    Reference,
    reference,
    reference_names,
    reference_subject,
    server_subject,
)
from tests.e2e.processes import kill_session, living
from tests.e2e.timing import wait_until
from tests.e2e.tracing import native, skip_unless_traceable

from ..measuring import started
from ..whole_sweep import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("references"),
    pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server"),
    pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll"),
]

SECONDS = 60.0
CLIENTS = 20
ROUNDS = 5
REMARKS = ("plain", "a < b & \"c\" > 'd'", "日本語 – ü", "$VISITOR_COUNT$ \\1 $& $1")
VERSIONS = (10, 11)
EQUAL_HEAD = 235
"""Bytes of a head in the comparison of Go and nginx, without the digits of an inode's number."""
USUAL_INODE = 6
"""Heads without an inode's number are padded as if they had a number of this length."""
SPELLINGS = ((b"&#34;", b"&quot;"), (b"&#43;", b"+"))
"""Other encodings of the same characters, which html/template of Go uses."""


@dataclass(frozen=True)
class Peer:
    """A running reference server, and `epoll` to compare it with."""

    said: Reference
    server: RunningServer
    epoll: RunningServer
    store: redis.Redis


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    server = PrivateRedis((), SignalWatch())
    try:
        with connect(server.url) as client:
            client.rpush("guestbook_remarks", *REMARKS)
        yield server.url
    finally:
        server.end()


@contextlib.contextmanager
def found(name: str, redis_url: str) -> Iterator[RunningServer]:
    """Yield a server that runs on one core, or skip the test if a part is missing."""
    try:
        subject = server_subject(name, ROOT / name) if name == "epoll" else reference_subject(name)
    except LeftOut as reason:
        pytest.skip(str(reason))
    with started(subject, sorted(os.sched_getaffinity(0))[:1], redis_url=redis_url) as server:
        yield server


@pytest.fixture(scope="module")
def epoll(redis_url: str) -> Iterator[RunningServer]:
    with found("epoll", redis_url) as server:
        yield server


@pytest.fixture(scope="module", params=reference_names())
def peer(request: pytest.FixtureRequest, epoll: RunningServer, redis_url: str) -> Iterator[Peer]:
    with found(request.param, redis_url) as server, connect(redis_url) as store:
        yield Peer(reference(request.param), server, epoll, store)


def answer(server: RunningServer, name: str, store: redis.Redis) -> Response:
    workload = WORKLOADS[name]
    store.set("visitor_count", 1_234_566)
    return probe(server.url + workload.path.lstrip("/"), workload, workload.status)


def spelt(page: bytes) -> bytes:
    """Return the page with one encoding for each character."""
    for theirs, ours in SPELLINGS:
        page = page.replace(theirs, ours)
    return page


def test_it_answers_as_the_seven_do(peer: Peer) -> None:
    for name in peer.said.workloads:
        workload = WORKLOADS[name]
        its, ours = (answer(server, name, peer.store) for server in (peer.server, peer.epoll))
        require_content(its, workload)
        assert its.status == ours.status
        if not workload.leads:
            assert spelt(its.body) == spelt(ours.body), name
    if "guestbook" in peer.said.workloads:
        assert peer.store.get("visitor_count") == b"1234567", "it counts each visit once"


def test_heads_are_equally_long_where_a_comparison_wants_that(peer: Peer) -> None:
    """In the comparison of Go and nginx, heads over HTTP/1.1, which wrk uses, are as long as those
    of epoll. The ETag of epoll has a file's inode number, whose length differs between machines."""
    if peer.said.workloads != ("hello",):
        pytest.skip("this server belongs to another comparison")
    its, ours = (head_of_hello(server) for server in (peer.server, peer.epoll))
    inode = f"{(ROOT / 'public' / 'files' / 'hello.txt').stat().st_ino:x}"
    assert len(ours) == EQUAL_HEAD + len(inode)
    theirs = len(inode) if inode.encode() in its else USUAL_INODE
    assert len(its) == EQUAL_HEAD + theirs, its


def head_of_hello(server: RunningServer) -> bytes:
    parts = urlsplit(server.url)
    asked = f"GET {WORKLOADS['hello'].path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
    with client.Client((parts.hostname or "", parts.port or 0), SECONDS) as connection:
        return connection.ask(asked.encode()).head


class Client:
    """A client that requests a page over a connection that it asks the server to keep."""

    def __init__(self, peer: Peer, version: int = 11) -> None:
        parts = urlsplit(peer.server.url)
        self._path = WORKLOADS[peer.said.workloads[0]].path
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
        if version == 10:
            self._connection._http_vsn, self._connection._http_vsn_str = 10, "HTTP/1.0"
        self._headers = {"Connection": "keep-alive"} if version == 10 else {}

    def ask(self) -> bool:
        """Send one request, and return whether the server keeps the connection."""
        self._connection.request("GET", self._path, headers=self._headers)
        response = self._connection.getresponse()
        assert 200 <= response.status < 400
        response.read()
        says_so = response.getheader("Connection", "").lower() == "keep-alive"
        if not (says_so if self._headers else not response.will_close):
            self.close()
            return False
        return True

    def close(self) -> None:
        self._connection.close()


def serve(peer: Peer) -> list[Weight]:
    """Let each client send a request, ROUNDS times; return a sample of the server after each."""
    clients = [Client(peer) for _ in range(CLIENTS)]
    seen = []
    try:
        for _ in range(ROUNDS):
            for client in clients:
                client.ask()
            seen.append(look_at(peer.server.pids()))
    finally:
        for client in clients:
            client.close()
    return seen


def test_it_keeps_connections_as_it_says(peer: Peer) -> None:
    kept = []
    for version in VERSIONS:
        client = Client(peer, version)
        try:
            # The second request uses the same connection, if the server keeps it.
            kept.append(client.ask() and client.ask())
        finally:
            client.close()
    assert (
        kept
        == {"yes": [True, True], "HTTP/1.1": [False, True], "no": [False, False]}[peer.said.keeps]
    )


def await_pool(peer: Peer, processes: int) -> None:
    """Wait until a pool of processes is complete; the server listens earlier."""
    wait_for(lambda: len(peer.server.pids()) >= processes, "the pool is not complete")


def test_its_processes_and_threads_are_those_that_it_says(peer: Peer) -> None:
    (few, many), (least, most) = peer.said.serving.processes, peer.said.serving.threads
    await_pool(peer, few)
    seen = serve(peer)
    assert all(few <= look.processes <= many for look in seen), seen
    assert least <= max(look.threads for look in seen) <= most, seen


def test_its_system_calls_are_those_that_it_says(peer: Peer) -> None:
    skip_unless_traceable()
    await_pool(peer, peer.said.serving.processes[0])
    tracer = Tracer(peer.server.pids(), SignalWatch())
    try:
        serve(peer)
    finally:
        calls = tracer.stop().by_name
    for said in peer.said.serving.calls:
        assert any(native(one) in calls for one in said.split(" or ")), (said, calls)


def test_it_ends_with_all_that_it_started(peer: Peer) -> None:
    """A reference server ends with all its processes. This test is the last test of each server."""
    session = peer.server.pid
    assert living(session)
    peer.server.ask_to_stop()
    wait_for(lambda: not living(session), "processes of the server are left")
    ended = peer.server.stop()
    assert ended is not None
    assert ended.obeyed
    assert ended.status in (0, -signal.SIGTERM, 128 + signal.SIGTERM), ended.describe()


DYING = """
import os, signal, sys, time
from pathlib import Path
from bench.host.process import SignalWatch
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, reference_subject

place = Place("redis://127.0.0.1:1", Path(sys.argv[2]))
server = RunningServer(reference_subject(sys.argv[1]), place, (), SignalWatch())
before, now = [], server.pids()
while now != before or len(now) < int(sys.argv[3]):  # a later process would be left
    time.sleep(0.5)
    before, now = now, server.pids()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


PROCESSES = {name: reference(name).serving.processes[0] for name in reference_names()}


@pytest.mark.parametrize("name", [name for name in reference_names() if PROCESSES[name] > 1])
def test_nothing_of_it_outlives_a_benchmark_that_is_killed(name: str) -> None:
    try:
        reference(name).prepare()
    except LeftOut as reason:
        pytest.skip(str(reason))
    with tempfile.TemporaryDirectory(prefix="zerohttpd-subject-") as folder:
        words = [sys.executable, "-c", DYING, name, folder, str(PROCESSES[name])]
        died = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
        assert died.returncode == -signal.SIGKILL, died.stderr
        session = int(died.stdout)
        try:
            wait_until(lambda: not living(session), "processes of the server are left")
        finally:
            kill_session(session)


WITH_REDIS = [name for name in reference_names() if "guestbook" in reference(name).workloads]


@pytest.mark.parametrize("name", WITH_REDIS)
def test_without_redis_all_but_the_guestbook_is_served(name: str) -> None:
    workload = WORKLOADS["guestbook"]
    with found(name, "redis://127.0.0.1:1/0") as server:
        asked = [probe(server.url + workload.path.lstrip("/"), workload, 503) for _ in range(2)]
        assert all(one.status == 503 for one in asked)
        moved = WORKLOADS["moved"]
        require_content(probe(server.url + moved.path.lstrip("/"), moved, moved.status), moved)
