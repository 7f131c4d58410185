# SPDX-License-Identifier: MIT
"""Figures read from the kernel, and the calculation with them."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.accounting import CpuTime, Periods
from bench.load.ab import latency_from, parse_percentile_file, parse_request_times
from bench.records.workloads import WORKLOADS, named, workload_for
from bench.stations import footprint
from bench.stations.footprint import TaskUse, look_at, switches_between, tasks_of, weigh
from bench.stations.orders import Switches, Weight

RECORDED = Path(__file__).parents[1] / "recorded"


def test_a_process_with_children_is_looked_at() -> None:
    program = "import os,time\nfor _ in range(3):\n    if os.fork() == 0: break\n"
    child = subprocess.Popen(
        [sys.executable, "-c", program + "print(flush=True)\ntime.sleep(30)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        for _ in range(4):
            child.stdout.readline()
        tasks = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        pids = [child.pid, *map(int, tasks)]
        seen = look_at(pids)
        assert (seen.processes, seen.threads) == (4, 4)
        assert seen.descriptors >= 4 * 3
        alone = look_at([child.pid])
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        assert alone.pss < seen.pss < pages * mmap.PAGESIZE, "shared pages count once"
        assert tasks_of(pids).keys() == set(pids)
        assert look_at([2**22 - 1]).processes == 0, "an ended process does not count"
        assert weigh([2**22 - 1]) == Weight()
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
    glances = [Weight(1, 2, 9, 1_000_000), Weight(4, 5, 3, 2_500_000), Weight()]
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
    glances.append(Weight(3, 3, 30, 7_500_000))
    short = footprint.Footprint([unknown], ())
    short.begin()
    found = short.end()
    assert (found.cpu, found.wanted_us, found.spent_us) == (None, [None], [None])
    assert (found.samples, found.pss_mean_mb) == (1, 7.5), "too short a load is sampled once"


def test_of_many_processes_some_are_looked_at_and_scaled_up() -> None:
    most = footprint.MOST_LOOKED_AT
    for _ in range(5):  # a thread of an earlier test may end meanwhile
        few, many = look_at([os.getpid()] * most), look_at([os.getpid()] * most * 3)
        if many.threads == 3 * few.threads:
            break
    assert (few.processes, many.processes, many.threads) == (most, 3 * most, 3 * few.threads)
    assert many.pss == pytest.approx(3 * few.pss, rel=0.05)


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
    found = latency_from(percentiles, times)
    assert (found.p99, found.max, found.count) == (percentiles["99"], percentiles["100"], 500)
    assert found.p99 <= found.p999 <= found.max
    assert found.mean == pytest.approx(sum(times) / 500, abs=0.3)
    assert latency_from({}, times) is latency_from(percentiles, []) is None


def test_the_99_9th_percentile_is_of_the_requests_themselves() -> None:
    percentiles = {str(p): 1.0 for p in range(100)} | {"99": 2.5, "100": 900.4}
    found = latency_from(percentiles, [1] * 9980 + [3] * 9 + [400] * 11)
    assert (found.p99, found.p999, found.max) == (2.5, 400, 900.4)


def test_a_cliff_between_two_percentiles_does_not_spoil_the_mean() -> None:
    percentiles = {str(p): 1.2 for p in range(99)} | {"99": 3600.0, "100": 3700.0}
    found = latency_from(percentiles, [1] * 9890 + [3600] * 110)
    assert found.mean == pytest.approx((9890 * 1.2 + 110 * 3600) / 10_000, abs=0.5)


def test_workloads_by_name_and_by_path() -> None:
    assert named(["all"]) == tuple(WORKLOADS)
    assert named(["sign", "link", "sign"]) == ("sign", "link")
    assert workload_for("/guestbook").name == "guestbook"
    assert workload_for("/else").path == "/else"
    assert [w.name for w in WORKLOADS.values() if w.private_only] == ["link", "sign"]
