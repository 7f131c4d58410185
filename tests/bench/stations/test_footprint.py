# SPDX-License-Identifier: MIT
"""Figures read from the kernel, and the calculation with them."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.accounting import CpuTime
from bench.host.kernel import CpuTicks, cpu_ticks, parse_table, tcp_counters
from bench.host.slices import Periods
from bench.load.ab import latency_from, parse_percentile_file, parse_request_times
from bench.records.workloads import WORKLOADS, named, workload_for
from bench.stations import footprint
from bench.stations.footprint import Glance, TaskUse, look_at, switches_between, tasks_of, weigh
from bench.stations.orders import Switches, Weight

RECORDED = Path(__file__).parents[1] / "recorded"

NETSTAT = """\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeWaitOverflow
TcpExt: 5 14416 14420 907
IpExt: InNoRoutes InOctets
IpExt: 0 99
"""
SNMP = """\
Tcp: RtoAlgorithm MaxConn RetransSegs InErrs
Tcp: 1 -1 10716 0
"""


def test_tables_of_the_kernel(tmp_path: Path) -> None:
    assert parse_table(NETSTAT)["TcpExt"]["ListenOverflows"] == 14_416
    assert parse_table(SNMP)["Tcp"]["MaxConn"] == -1
    (tmp_path / "net").mkdir()
    (tmp_path / "net/netstat").write_text(NETSTAT)
    (tmp_path / "net/snmp").write_text(SNMP)
    found = tcp_counters(tmp_path)
    assert found == (14_416, 14_420, 10_716, 907)
    assert found is not None
    assert found - found == (0, 0, 0, 0)
    assert tcp_counters(tmp_path / "net") is None


def test_how_busy_a_cpu_was(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 60 20 0 0 0 0 0\ncpu1 9 0 0 1 0 0 0 0\n"
    )
    assert cpu_ticks([0], stat) == CpuTicks(idle=80, total=100)
    assert cpu_ticks([0, 1], stat) == CpuTicks(idle=81, total=110)
    assert CpuTicks(90, 200).busy_since(CpuTicks(80, 100)) == pytest.approx(0.9)
    assert CpuTicks(80, 100).busy_since(CpuTicks(80, 100)) is None


def test_a_process_with_children_is_looked_at() -> None:
    program = "import os,time\nfor _ in range(3):\n    if os.fork() == 0: break\n"
    child = subprocess.Popen(
        [sys.executable, "-c", program + "print(flush=True)\ntime.sleep(30)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        for _ in range(4):
            child.stdout.readline()
        tasks = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        pids = [child.pid, *map(int, tasks)]
        seen = look_at(pids)
        assert (seen.processes, seen.threads) == (4, 4)
        assert seen.descriptors >= 4 * 3
        alone = look_at([child.pid])
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        assert alone.pss_mb < seen.pss_mb < pages * mmap.PAGESIZE / 1e6, "shared pages count once"
        assert tasks_of(pids).keys() == set(pids)
        assert look_at([2**22 - 1]).processes == 0, "an ended process does not count"
        assert weigh([2**22 - 1]) == Weight(pss=0, anonymous=0, descriptors=0, ran_us=0)
        assert weigh([*pids, 2**22 - 1]).descriptors == seen.descriptors
    finally:
        for pid in pids:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        child.communicate()


class Counted:
    """Replaces a server; its counts before and after the load are known."""

    url = "http://127.0.0.1:1/"

    def __init__(self, *moments: tuple[CpuTime | None, float | None, Periods | None]) -> None:
        self._moments = list(moments)

    def cpu(self) -> CpuTime | None:
        return self._moments[0][0]

    def starved_us(self) -> float | None:
        return self._moments[0][1]

    def periods(self) -> Periods | None:
        return self._moments.pop(0)[2]

    def pids(self) -> list[int]:
        return [os.getpid()]

    def running(self) -> bool:
        return True


def test_what_servers_have_used_is_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counted(
        (CpuTime(1e5, 2e5), 5e3, Periods(10, 1)), (CpuTime(4e5, 6e5), 2.5e4, Periods(30, 16))
    )
    other = Counted((CpuTime(0, 0), None, None), (CpuTime(1e5, 0), None, None))
    glances = [Glance(1, 2, 9, 1.0), Glance(4, 5, 3, 2.5), Glance(0, 0, 0, 0.0)]
    monkeypatch.setattr(footprint, "look_at", lambda pids: glances.pop(0))
    watched = footprint.Footprint([one, other], ())
    watched.begin()
    while glances:
        watched.look()
    found = watched.end()
    assert found.cpu == CpuTime(4e5, 4e5)
    assert (found.spent_us, found.wanted_us) == ([7e5, 1e5], [7.2e5, None])
    assert found.throttled == [0.75, None]
    assert found.switches is None, "our own tasks did not do that work"
    assert (found.samples, found.processes_peak, found.threads_peak) == (2, 4, 5)
    assert (found.descriptors_peak, found.pss_peak_mb, found.pss_mean_mb) == (9, 2.5, 1.75)
    unknown = Counted((None, None, None), (None, None, None))
    glances.append(Glance(3, 3, 30, 7.5))
    short = footprint.Footprint([unknown], ())
    short.begin()
    found = short.end()
    assert (found.cpu, found.wanted_us, found.spent_us) == (None, [None], [None])
    assert (found.samples, found.pss_mean_mb) == (1, 7.5), "too short a load is sampled once"


def test_of_many_processes_some_are_looked_at_and_scaled_up() -> None:
    most = footprint.MOST_LOOKED_AT
    few, many = look_at([os.getpid()] * most), look_at([os.getpid()] * most * 3)
    assert (few.processes, many.processes, many.threads) == (most, 3 * most, 3 * few.threads)
    assert many.pss_mb == pytest.approx(3 * few.pss_mb, rel=0.05)


def test_switches_are_those_of_the_tasks_that_did_the_work() -> None:
    before = {7: TaskUse(Switches(10, 1), 1000.0), 8: TaskUse(Switches(0, 0), 0.0)}
    after = {7: TaskUse(Switches(15, 2), 1500.0), 8: TaskUse(Switches(4, 0), 480.0)}
    assert switches_between(before, after, CpuTime(600.0, 400.0)) == Switches(9, 1)
    assert switches_between(before, after, CpuTime(6000.0, 4000.0)) is None, (
        "tasks that came and went in between did nine tenths of the work"
    )
    assert switches_between(before, {7: after[7]}, CpuTime(600.0, 400.0)) is None
    assert switches_between(before, after, None) is None


def test_latency_is_put_together_of_two_files_of_ab() -> None:
    percentiles = parse_percentile_file((RECORDED / "requests.csv").read_text())
    times = parse_request_times((RECORDED / "requests.tsv").read_text())
    assert len(times) == 500
    found = latency_from(percentiles, times)
    assert found is not None
    assert (found.p99, found.max, found.count) == (percentiles["99"], percentiles["100"], 500)
    assert found.p99 <= found.p999 <= found.max
    assert found.mean == pytest.approx(sum(times) / 500, abs=0.3)
    assert latency_from({}, times) is None
    assert latency_from(percentiles, []) is None


def test_the_99_9th_percentile_is_of_the_requests_themselves() -> None:
    percentiles = {str(p): 1.0 for p in range(100)} | {"99": 2.5, "100": 900.4}
    times = [1] * 9980 + [3] * 9 + [400] * 11
    found = latency_from(percentiles, times)
    assert found is not None
    assert (found.p99, found.p999, found.max) == (2.5, 400, 900.4)


def test_a_cliff_between_two_percentiles_does_not_spoil_the_mean() -> None:
    percentiles = {str(p): 1.2 for p in range(99)} | {"99": 3600.0, "100": 3700.0}
    found = latency_from(percentiles, [1] * 9890 + [3600] * 110)
    assert found is not None
    assert found.mean == pytest.approx((9890 * 1.2 + 110 * 3600) / 10_000, abs=0.5)


def test_workloads_by_name_and_by_path() -> None:
    assert named(["all"]) == tuple(WORKLOADS)
    assert named(["sign", "link", "sign"]) == ("sign", "link")
    assert workload_for("/guestbook").name == "guestbook"
    assert workload_for("/else").path == "/else"
    assert [w.name for w in WORKLOADS.values() if w.private_only] == ["link", "sign"]
