# SPDX-License-Identifier: MIT
"""The CPUs on which servers run."""

import os

import pytest

from bench.host.project import ROOT
from bench.host.quota import Host
from bench.host.signals import SignalWatch
from bench.records.conditions import Conditions
from bench.stations.orders import Report, ServerOrder
from bench.stations.servers import Servers
from bench.subjects.subject import select

CPUS = sorted(os.sched_getaffinity(0))[:2]

pytestmark = [
    pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll"),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]


@pytest.mark.parametrize(("cores", "bound", "spread"), [("one", 1, 0), ("all", 2, 2)])
def test_one_core_or_all(cores: str, bound: int, spread: int) -> None:
    """A server has one core or all, also those of the load. With all, no CPU share of others is
    reported."""
    conditions = Conditions("redirect", cores="all" if cores == "all" else "one")
    with SignalWatch() as watch:
        servers = Servers(CPUS[:1], CPUS[1:], watch)
        order = ServerOrder(subject="epoll", redis_url="redis://127.0.0.1:1", conditions=conditions)
        try:
            servers.start(select(["epoll"])[0], order, "127.0.0.1")
            (pid,) = servers.pids()
            assert sorted(os.sched_getaffinity(pid)) == CPUS[:bound]
            servers.begin()
            report = Report(host=Host().count(), allowed=1.0)
            servers.end(report)
        finally:
            servers.stop()
    assert (report.servers.cpus, report.servers.spread) == (1 - spread // 2, spread)
