# SPDX-License-Identifier: MIT
"""The agent reads the figures of servers from the kernel, and sets the CPUs of servers. It reads
stacks from the output of perf, pprof and callgrind, and samples and traces processes."""

import mmap
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from bench.host.accounting import CpuTime, Periods, Usage
from bench.host.process import Child, SignalWatch, StartError
from bench.host.project import ROOT, find_program
from bench.load.generators import latency_from, parse_percentile_file, parse_request_times
from bench.records.conditions import Conditions
from bench.records.environment import Placement
from bench.records.figures import Frame
from bench.records.workloads import WORKLOADS, named, workload_for
from bench.stations import footprint, sampling
from bench.stations.footprint import Switches, TaskUse, Weight, look_at
from bench.stations.sampling import Function, Stack, tree, why_no_perf
from bench.stations.station import LocalStation, ServerOrder
from bench.subjects.subject import Place, reference_subject
from tests.e2e.tracing import skip_unless_traceable

from ..commands import in_path
from ..measuring import measured_of
from ..whole_sweep import SECONDS

RECORDED = Path(__file__).parents[1] / "recorded"
NOWHERE = Placement(server=[], load=[], note="")


def test_a_process_with_children_is_sampled() -> None:
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
        assert footprint.tasks_of(pids).keys() == set(pids)
        assert look_at([2**22 - 1]).processes == 0, "an ended process does not count"
        assert footprint.weigh([2**22 - 1]) == Weight()
        assert footprint.weigh([*pids, 2**22 - 1]).descriptors == seen.descriptors
    finally:
        for pid in pids:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        child.communicate()


class Counted:
    """A mock server with known counts before and after the load."""

    url = "http://127.0.0.1:1/"
    place = Place("redis://127.0.0.1:1/0", Path())

    def __init__(self, *moments: Usage | None) -> None:
        self._moments = list(moments)

    def used(self) -> Usage | None:
        return self._moments.pop(0)

    def pids(self) -> list[int]:
        return [os.getpid()]

    def running(self) -> bool:
        return True


def test_what_servers_have_used_is_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counted(
        Usage(CpuTime(1e5, 2e5), 5e3, Periods(10, 1)),
        Usage(CpuTime(4e5, 6e5), 2.5e4, Periods(30, 16)),
    )
    other = Counted(Usage(CpuTime(0, 0), None, None), Usage(CpuTime(1e5, 0), None, None))
    glances = [Weight(1, 2, 9, 1_000_000), Weight(4, 5, 3, 2_500_000), Weight()]
    monkeypatch.setattr(footprint, "look_at", lambda pids: glances.pop(0))
    watched = footprint.Observation([one, other], NOWHERE, (), None)
    watched.begin(SignalWatch())
    while glances:
        watched._next_look = 0.0
        watched.look()
    found = watched.end().servers
    assert found.cpu == CpuTime(4e5, 4e5)
    assert [used.cpu.total for used in found.used] == [7e5, 1e5]
    assert [used.wanted_us for used in found.used] == [7.2e5, None]
    assert [used.throttled for used in found.used] == [0.75, None]
    assert found.switches is None, "this process did not do the work"
    assert (found.samples, found.processes_peak, found.threads_peak) == (2, 4, 5)
    assert (found.descriptors_peak, found.pss_peak_mb, found.pss_mean_mb) == (9, 2.5, 1.75)
    unknown = Counted(None, None)
    glances.append(Weight(3, 3, 30, 7_500_000))
    short = footprint.Observation([unknown], NOWHERE, (), None)
    short.begin(SignalWatch())
    found = short.end().servers
    assert (found.cpu, found.used) == (None, [None])
    assert (found.samples, found.pss_mean_mb) == (1, 7.5), "a very short load is sampled once"


def test_of_many_processes_some_are_looked_at_and_scaled_up() -> None:
    most = footprint.MOST_LOOKED_AT
    for _ in range(5):  # a thread of an earlier test may end between the two samples
        few, many = look_at([os.getpid()] * most), look_at([os.getpid()] * most * 3)
        if many.threads == 3 * few.threads:
            break
    assert (few.processes, many.processes, many.threads) == (most, 3 * most, 3 * few.threads)
    assert many.pss == pytest.approx(3 * few.pss, rel=0.05)


def test_switches_are_those_of_the_tasks_that_did_the_work() -> None:
    before = {7: TaskUse(Switches(10, 1), 1000.0), 8: TaskUse(Switches(0, 0), 0.0)}
    after = {7: TaskUse(Switches(15, 2), 1500.0), 8: TaskUse(Switches(4, 0), 480.0)}
    assert footprint.switches_between(before, after, CpuTime(600.0, 400.0)) == Switches(9, 1)
    assert footprint.switches_between(before, after, CpuTime(6000.0, 4000.0)) is None, (
        "tasks that began and ended in between did nine tenths of the work"
    )
    assert footprint.switches_between(before, {7: after[7]}, CpuTime(600.0, 400.0)) is None
    assert footprint.switches_between(before, after, None) is None


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


def test_a_jump_between_two_percentiles_is_not_in_the_mean() -> None:
    percentiles = {str(p): 1.2 for p in range(99)} | {"99": 3600.0, "100": 3700.0}
    found = latency_from(percentiles, [1] * 9890 + [3600] * 110)
    assert found.mean == pytest.approx((9890 * 1.2 + 110 * 3600) / 10_000, abs=0.5)


def test_workloads_by_name_and_by_path() -> None:
    assert named(["all"]) == tuple(WORKLOADS)
    assert named(["sign", "link", "sign"]) == ("sign", "link")
    assert workload_for("/guestbook").name == "guestbook"
    assert workload_for("/else").path == "/else"
    assert [w.name for w in WORKLOADS.values() if w.private_only] == ["link", "sign"]


CPUS = sorted(os.sched_getaffinity(0))[:2]


@pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll")
@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
@pytest.mark.parametrize(("cores", "bound", "spread"), [("one", 1, 0), ("all", 2, 2)])
def test_one_core_or_all(cores: str, bound: int, spread: int) -> None:
    """A server runs on one core or on all cores, including the load generator's. With all cores,
    the agent reports no CPU share of other programs."""
    conditions = Conditions("redirect", cores="all" if cores == "all" else "one")
    with SignalWatch() as watch:
        order = ServerOrder(subject="epoll", redis_url="redis://127.0.0.1:1", conditions=conditions)
        placement = Placement(server=CPUS[:1], load=CPUS[1:], note="")
        with closing(LocalStation(watch, placement)) as station:
            station.start_servers(order)
            (pid,) = station._servers[0].pids()
            assert sorted(os.sched_getaffinity(pid)) == CPUS[:bound]
            station.begin()
            servers = station.end().servers
    assert (servers.cpus, servers.spread) == (1 - spread // 2, spread)


SCRIPT, ARM, TRACES, COUNTED = (
    (RECORDED / f"{name}.txt").read_text().splitlines()
    for name in ("perf", "perf_arm", "pprof", "callgrind")
)


MAIN = Function("main")


SEND = Function("send", "library")
KERNEL = ("tcp_sendmsg", "do_syscall_64", "__arm64_sys_sendto")
TCP, SYSCALL, ARM_SEND = (Function(name, "kernel") for name in KERNEL)


@pytest.mark.parametrize(
    ("lines", "process", "found"),
    [
        (SCRIPT, 10, [((MAIN, SEND, TCP), 1), ((MAIN,), 1)]),
        (SCRIPT, 11, [((MAIN,), 1)]),
        ([], 10, []),
        # A sample on the way into the kernel, before do_syscall_64() called anything, counts for
        # the kernel, not for the function that made the system call.
        ([*SCRIPT[:4], *SCRIPT[5:]], 10, [((MAIN, SEND, SYSCALL), 1), ((MAIN,), 1)]),
        # On ARM, too, functions of ENTRY are left out, even if the compiler made a clone of one.
        (ARM, 10, [((MAIN, SEND, ARM_SEND), 1)]),
    ],
)
def test_samples_of_a_process_and_of_its_children(
    lines: list[str], process: int, found: list[tuple[Stack, int]]
) -> None:
    assert list(sampling.stacks_of(lines, [process])) == found


def test_own_instructions_of_each_stack_and_none_twice(tmp_path: Path) -> None:
    file = tmp_path / "callgrind.7"
    file.write_text("\n".join(COUNTED) + "\n")
    stacks: Counter[str] = Counter()
    for stack, count in sampling.counts(file):
        stacks[" ".join(function.name for function in stack)] += count
    assert (stacks["(below main) main work"], stacks["(below main) main work send"]) == (12, 100)
    found = sampling.what_was_counted(tmp_path)
    assert (found.how, found.kernel, found.frames[0].own) == ("callgrind", False, 0)
    assert found.count == 112, "the start of the server and the loader do not count"
    assert [frame.name for frame in found.frames[0].below] == ["work"]
    assert sampling.what_was_counted(tmp_path / "none") is None
    for last in (4, -1):
        (tmp_path / "callgrind.8").write_text("\n".join([*COUNTED[:last], "4"]))
        assert sampling.what_was_counted(tmp_path) is None, "a process was killed while it wrote"


def test_the_samples_that_go_took_of_itself() -> None:
    kernel = Function("internal/runtime/syscall/linux.Syscall6", "kernel")
    assert list(sampling.traces(TRACES)) == [
        ((Function("net/http.(*conn).serve"), Function("syscall.Write"), kernel), 58),
        ((Function("runtime.casgstatus"),), 1),
    ]
    assert list(sampling.traces(TRACES[:5])) == []


def stack(words: str) -> Stack:
    return tuple(map(Function, words.split()))


def test_small_frames_count_with_their_caller() -> None:
    found = tree([(stack("start main big"), 996), (stack("main small"), 3), (stack("main x"), 4)])
    assert found == [Frame(name="main", count=1003, below=[Frame(name="big", count=996)])]
    (main,) = tree([(stack("main big"), 90), (stack("main small"), 10)])
    assert [(frame.name, frame.own) for frame in main.below] == [("big", 90), ("small", 10)]
    assert tree([]) == []


@pytest.mark.skipif(bool(why_no_perf()), reason=why_no_perf())
def test_a_process_and_its_children_are_sampled() -> None:
    child = Child(["sh", "-c", "while :; do (:); done"])
    watch = SignalWatch()
    shell = psutil.Process(child.pid)
    try:
        while shell.name() != "sh":  # its name is known only after exec
            watch.sleep(0.02)
        sampler = sampling.Sampler([child.pid], [], [], watch)

        def used() -> float:
            times = shell.cpu_times()
            return times.user + times.children_user + times.children_system

        before = used()
        while used() < before + 0.5:  # seconds of CPU time, even on a busy machine
            watch.sleep(0.1)
        found = sampler.stop()
        assert (child.running(), found.how, found.kernel) == (True, "perf", True)
        assert found.count > 20
        assert found.user_share is not None
        assert 0 < found.user_share < 1
    finally:
        child.end()


GO = """package main
//go:noinline
func inner() (n int) { for i := 0; i < 1000; i++ { n += i }; return n }
func main() { for { inner() } }
"""


@pytest.mark.skipif(bool(why_no_perf()), reason=why_no_perf())
@pytest.mark.skipif(find_program("go") is None, reason="needs go")
def test_functions_of_go_have_their_callers(tmp_path: Path) -> None:
    (tmp_path / "busy.go").write_text(GO)
    words = [find_program("go") or "", "build", "-o", str(tmp_path / "busy"), "busy.go"]
    subprocess.run(words, cwd=tmp_path, check=True)
    child, watch = Child([str(tmp_path / "busy")]), SignalWatch()
    try:
        while psutil.Process(child.pid).name() != "busy":
            watch.sleep(0.02)
        sampler = sampling.Sampler([child.pid], [], [], watch)
        watch.sleep(1.0)
        start = sampler.stop().frames[0]
    finally:
        child.end()
    assert start.name.startswith("runtime.goexit")
    assert start.below[0].name == "runtime.main"
    # Frame pointers do not show the caller of a leaf function.
    assert start.below[0].below[0].name == "main.inner"


@pytest.fixture
def no_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    in_path(monkeypatch, tmp_path, "perf", "printf 'Error:\\nNo permission.\\n' >&2; exit 255\n")
    why_no_perf.cache_clear()
    yield
    why_no_perf.cache_clear()


@pytest.mark.usefixtures("no_perf")
def test_the_reason_of_perf_is_shown() -> None:
    """The message contains perf's own reason, which follows a line that only says "Error"."""
    assert why_no_perf() == "perf is not allowed here: No permission."


@pytest.mark.slow
@pytest.mark.usefixtures("no_perf")
@pytest.mark.skipif(find_program("go") is None, reason="needs go")
@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
@pytest.mark.parametrize("name", ["go", "fasthttp"])
def test_without_perf_a_server_in_go_samples_itself(name: str) -> None:
    conditions = Conditions("hello", keep_alive=True, mode="sampled", generator="wrk")
    run = measured_of(reference_subject(name), conditions, requests=60_000)
    assert run.reason is None
    assert (run.stacks.how, run.stacks.unit, run.stacks.kernel) == ("pprof", "samples", False)
    assert run.stacks.count > 10
    names = {frame.name for frame in run.stacks.frames}
    assert any("serve" in one.lower() or "workerpool" in one.lower() for one in names), names


@pytest.mark.parametrize(
    ("place", "owner"),
    [
        *((name, "kernel") for name in ("[kernel.kallsyms]", "[nf_conntrack]", "bpf_prog_6deef73")),
        *((name, "library") for name in ("[vdso]", "[unknown]", "/usr/lib/libc.so.6")),
        ("/srv/zerohttpd/epoll", "server"),
    ],
)
def test_the_origin_of_a_function(place: str, owner: sampling.Owner) -> None:
    """The sampler counts functions of kernel modules as kernel, not as user space."""
    assert sampling.owner_of(place) == owner


TRACE = (RECORDED / "strace.txt").read_text().splitlines()


def test_system_calls_are_counted_once_each() -> None:
    counted = sampling.count(TRACE)
    once = dict.fromkeys(("accept4", "sendto", "sendmsg", "close"), 1)
    assert counted == {"recvfrom": 3, **once}, (
        "an interrupted call has two lines; signals and exits are no calls"
    )
    assert sum(counted[name] for name in sampling.WRITES) == 2
    assert sampling.writes_to_redis(TRACE) == 1, "writes to Redis are no writes to clients"
    assert sampling.count([]) == {}


def test_a_process_is_watched_and_then_released() -> None:
    skip_unless_traceable()
    child = Child(["sh", "-c", "while :; do sleep 0.01; echo x; done"])
    watch = SignalWatch()
    try:
        tracer, before = sampling.Tracer([child.pid], watch), child.stdout
        assert watch.until(lambda: child.stdout != before, SECONDS), "the process wrote nothing"
        calls = tracer.stop()
        assert child.running()
        assert calls.by_name["write"] > 0
        assert calls.writes >= calls.by_name["write"]
    finally:
        child.end()


REFUSED = "echo 'strace: attach: ptrace(PTRACE_SEIZE, 7): Operation not permitted' >&2; exit 1\n"


@pytest.mark.parametrize(("scope", "is_cured"), [("0", False), ("1", True), ("3", False)])
def test_a_refused_user_gets_the_fix(
    scope: str, is_cured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a refused strace contains the fix only if ptrace_scope is 1 or 2."""
    in_path(monkeypatch, tmp_path, "strace", REFUSED)
    monkeypatch.setattr(sampling, "YAMA", tmp_path / "ptrace_scope")
    (tmp_path / "ptrace_scope").write_text(f"{scope}\n")
    with pytest.raises(StartError, match="Operation not permitted") as told:
        sampling.Tracer([os.getpid()], SignalWatch())
    assert ("sudo sysctl kernel.yama.ptrace_scope=0" in str(told.value)) == is_cured
