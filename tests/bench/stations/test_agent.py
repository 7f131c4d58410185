# SPDX-License-Identifier: MIT
"""All processes that an agent starts end with the agent, even if it is killed. Each host is this
machine; agents, servers, Redis and nginx are real."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from bench.host.process import SignalWatch, StartError, raise_descriptors
from bench.host.project import ROOT, find_program
from bench.load.running import probe
from bench.records.errors import Interrupted, UserError
from bench.records.workloads import workload_for
from bench.services.balancer import BalancerOrder
from bench.services.redis_server import connect
from bench.stations import agent
from bench.stations.agent import AgentHost, HostLost, RemoteStation
from bench.stations.station import ServerOrder
from tests.e2e.sockets import listens

from ..whole_sweep import AGENT, MARK, marked, strays, wait_for

ELSEWHERE = "127.0.0.2"
"""Another address of this machine, at which no program listens by default."""

pytestmark = pytest.mark.skipif(
    not (ROOT / "preforking").exists() or not shutil.which("redis-server"),
    reason="needs ./preforking and redis-server",
)
needs_nginx = pytest.mark.skipif(find_program("nginx") is None, reason="nginx is not installed")


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the value of an environment variable that marks all descendants of a test."""
    found = uuid.uuid4().hex
    monkeypatch.setenv(MARK, found)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.chdir(ROOT)
    return found


@pytest.fixture
def station(mark: str) -> Iterator[RemoteStation]:
    with contextlib.closing(greeted(AGENT)) as found:
        yield found


def host(agent: list[str], address: str = ELSEWHERE) -> AgentHost:
    return AgentHost(name="far", address=address, agent=agent)


def greeted(agent: list[str], address: str = ELSEWHERE) -> RemoteStation:
    """Return a connection to an agent after its first reply."""
    station = RemoteStation(host(agent, address), SignalWatch())
    try:
        station.greet()
    except BaseException:
        station.close()
        raise
    return station


def all_started(station: RemoteStation) -> list[str]:
    """Start Redis, two servers and, if installed, nginx; return their URLs."""
    redis_url = station.start_redis()
    order = ServerOrder(subject="preforking", instances=2, redis_url=redis_url)
    urls = [*station.start_servers(order), redis_url]
    if find_program("nginx"):
        servers = [urlsplit(url).netloc for url in urls[:2]]
        through = BalancerOrder(servers=servers, keep=True, connections=100)
        urls.append(station.start_balancer(through))
    return urls


def test_a_run_step_by_step(station: RemoteStation, mark: str) -> None:
    seen = station.survey(["preforking"])
    assert [subject.name for subject in seen.subjects] == ["preforking"]
    assert seen.versions.servers["preforking"]
    assert seen.host.cpus >= 1
    assert seen.limits.descriptors > 0

    urls = all_started(station)
    assert {urlsplit(url).hostname for url in urls} == {ELSEWHERE}
    started = [pid for pid, words in marked(mark) if words.startswith(f"{ROOT}/preforking")]
    variables = [Path(f"/proc/{pid}/environ").read_bytes() for pid in started]
    assert variables, "the servers run"
    assert not any(b"GIT_DIR=" in each for each in variables), "they do not inherit GIT_DIR"
    workload = workload_for("guestbook")
    station.begin()
    for url in urls[:2]:
        assert probe(f"{url}guestbook", workload, 200).status == 200
    time.sleep(0.3)  # the agent takes samples in this time
    report = station.end()
    assert report.servers.alive == [True, True]
    assert (report.servers.processes_peak or 0) > 2
    assert report.servers.samples >= 1
    assert report.host.cpu_s >= 0

    stopped = station.stop_run()
    assert [end.status for end in stopped.servers] == [0, 0]
    assert [end.statistics and end.statistics.requests for end in stopped.servers] == [1, 1]
    assert stopped.life.cpu.total > 0
    assert station.stop_run().servers == []
    wait_for(lambda: not listens(urlsplit(urls[0]).port), "the server still listens")
    assert connect(urls[2]).get("visitor_count") == b"2", "Redis is kept for the next run"
    station.begin()
    assert station.end().servers is None, "a host without servers has nothing to observe"
    station.close()
    wait_for(lambda: not listens(urlsplit(urls[2]).port), "Redis still listens")
    assert strays(mark, os.getpid()) == []


def test_redis_has_a_password_where_others_could_reach_it(mark: str) -> None:
    """At an address that other hosts can reach, Redis has a password. No command line shows the
    password, because every user may read command lines."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    address = next((word for word in found if "." in word), None)
    if address is None:
        pytest.skip("this machine has only loopback addresses")
    with contextlib.closing(greeted(AGENT, address)) as station:
        url = station.start_redis()
        assert connect(url).ping()
        parts = urlsplit(url)
        assert len(parts.password) > 20
        with pytest.raises(redis.RedisError, match="uthenticat"):
            connect(f"redis://{parts.hostname}:{parts.port}").ping()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                assert parts.password not in (folder / "cmdline").read_text(errors="replace")


@needs_nginx
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, None])
def test_nothing_is_left(mark: str, number: int | None) -> None:
    """When an agent is ended, killed, or loses its connection (None), all its processes end."""
    raise_descriptors()
    station = greeted(AGENT)
    urls = all_started(station)
    if number is None:
        station._child.pipes[0].close()
    else:
        station._child.send(number)
    station._child.wait(30)
    assert strays(mark, os.getpid()) == []
    wait_for(lambda: not any(listens(urlsplit(url).port) for url in urls), "a service listens")
    with pytest.raises(HostLost, match="far"):
        station.begin()
    assert station.stop_run().servers == []
    assert station.lost
    station.close()


def test_errors_of_the_host_are_reported(station: RemoteStation) -> None:
    with pytest.raises(UserError, match=r"far: unknown server: nobody"):
        station.survey(["nobody"])
    with pytest.raises(StartError, match=r"far: preforking did not start: .*--redis"):
        station.start_servers(ServerOrder(subject="preforking", redis_url="nonsense://x"))
    assert not station.lost, "the agent still answers"
    station.stop_run()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (["/nowhere/ssh"], r"far has ended \(status 127\): .*No such file"),
        (["sh", "-c", "echo no route to host >&2; exit 255"], r"\(status 255\): no route to host"),
        (["sh", "-c", "echo Welcome; cat"], "sent a line that is not a reply: 'Welcome'"),
        (["cat"], "sent a line that is not a reply"),
        (["sh", "-c", "head -c 5000000 /dev/zero; sleep 60"], "sent a line that is not a reply"),
        (["sh", "-c", 'echo \'{"result": "0123"}\'; cat'], "another version of this project"),
    ],
)
def test_a_program_that_is_no_agent(agent: list[str], words: str) -> None:
    with pytest.raises(HostLost, match=words):
        greeted(agent)


def test_a_silent_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agent.TIMEOUTS, "hello", 0.2)
    with pytest.raises(HostLost, match=r"far sent no reply to hello in 0\.2 s"):
        greeted(["sleep", "60"])


def test_a_signal_is_not_waited_out(mark: str) -> None:
    watch = SignalWatch()
    watch.number = signal.SIGINT
    with pytest.raises(Interrupted):
        RemoteStation(host(AGENT), watch).greet()
    assert strays(mark, os.getpid()) == []
