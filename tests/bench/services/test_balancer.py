# SPDX-License-Identifier: MIT
"""nginx before servers: its configuration, and the detection of responses of its own. Real
nginx."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.accounting import CpuTime
from bench.host.machine import place
from bench.host.signals import SignalWatch
from bench.load.probe import ProbeError, probe
from bench.records.conditions import Conditions
from bench.records.figures import Balancer as Way
from bench.records.run import Run
from bench.records.workloads import workload_for
from bench.services.balancer import (
    Balancer,
    BalancerOrder,
    Used,
    configuration,
    nginx,
    workers_for,
)

from ..measuring import measured

needs_nginx = pytest.mark.skipif(nginx() is None, reason="nginx is not installed")


def order(keep: bool, connections: int = 100) -> BalancerOrder:
    return BalancerOrder(servers=["10.0.0.1:81", "10.0.0.2:82"], keep=keep, connections=connections)


def test_the_configuration() -> None:
    text = configuration(order(False), ("10.0.0.9", 80), Path("/folder"), 1, 20_000)
    assert "server 10.0.0.1:81 " in text
    assert "server 10.0.0.2:82 " in text
    assert "listen 10.0.0.9:80 backlog=65535;" in text
    assert 'proxy_set_header Connection "close";' in text
    assert "keepalive 100" not in text
    assert set(re.findall(r"/[a-z/]+(?=/)", text)) == {"/folder"}, "it writes nowhere else"
    kept = configuration(order(True), ("10.0.0.9", 80), Path("/folder"), 1, 20_000)
    assert 'proxy_set_header Connection "";' in kept
    assert "keepalive 100;" in kept


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


def test_what_all_its_processes_used_meanwhile() -> None:
    """The CPU time of all nginx processes is counted: half a second and one, a quarter and two. The
    busiest needed two, as far as known."""
    times = {1: CpuTime(10, 20), 2: CpuTime(30, 40), 3: CpuTime(90, 90)}
    before = Used(times, {1: 1.0, 2: None, 3: 5.0, 4: 1.0})
    after = Used({1: CpuTime(15, 23), 2: CpuTime(40, 60)}, {1: 3.0, 2: 8.0, 4: 2.5})
    use = after.since(before)
    assert (use.cpu, use.wanted_s) == (CpuTime(15, 23), 2.0)


@pytest.fixture
def dead() -> Iterator[str]:
    """Yield an address at which no process listens, and none can while this is used."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@needs_nginx
def test_its_own_answers_are_counted(dead: str) -> None:
    found = Balancer(
        BalancerOrder(servers=[dead], keep=True, connections=10), "127.0.0.1", [], SignalWatch()
    )
    try:
        for _ in range(3):
            with pytest.raises(ProbeError, match="502"):
                probe(f"{found.url}redirect", workload_for("redirect"), None)
    finally:
        end = found.stop()
    assert (end.errors, end.status) == (3, 0)
    assert "connect() failed (111" in end.last_error  # ECONNREFUSED; not all print its text


def behind(fault: str, way: Way, instances: int = 1) -> Run:
    """Run the broken server behind nginx."""
    return measured(fault, Conditions("/any", instances=instances, balancer=way), timeout=20.0)


@needs_nginx
@pytest.mark.parametrize("way", ["close", "keep"])
@pytest.mark.parametrize("instances", [1, 2])
def test_a_good_one_holds_behind_it(way: Way, instances: int) -> None:
    run = behind("good", way, instances)
    assert run.reason is None
    assert run.nginx_process is not None
    assert run.process is not None
    assert run.process.processes_peak == instances


@needs_nginx
@pytest.mark.slow
@pytest.mark.parametrize("way", ["close", "keep"])
@pytest.mark.parametrize("fault", ["drops", "errors", "always-errors", "dies", "cuts", "cheats"])
def test_a_broken_one_is_found_out_behind_it(fault: str, way: Way) -> None:
    run = behind(fault, way)
    assert run.state == "failed"
    assert run.reason is not None
    assert run.requests_per_second is None


@needs_nginx
def test_one_of_two_that_dies_is_found_out() -> None:
    assert behind("dies", "close", 2).state == "failed"


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
