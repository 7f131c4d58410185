# SPDX-License-Identifier: MIT
"""CPU quotas of hosts, in both versions of control groups, and quotas of a process tree."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.accounting import (
    PERIOD_US,
    Group,
    Scope,
    Slicing,
    find_slicing,
    remove_stale_groups,
)
from bench.host.kernel import CpuTicks, TcpCounters, cpu_ticks, difference
from bench.host.machine import (
    Host,
    find_quota,
    parse_cgroup,
    parse_mounts,
    seconds_used,
)
from tests.e2e.processes import has_ended

from ..whole_sweep import wait_for

V1_CGROUP = "4:cpuset:/zl/a\n3:cpuacct:/zl/a\n2:cpu:/zl/a\n1:name=systemd:/\n0::/\n"


def v1_mounts(top: Path, root: str = "/") -> str:
    return (
        f"31 23 0:28 / {top} rw,relatime - tmpfs tmpfs rw,mode=755\n"
        f"32 31 0:29 {root} {top}/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu\n"
        f"33 31 0:30 {root} {top}/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
        f"39 31 0:36 / {top}/unified rw,relatime - cgroup2 cgroup2 rw\n"
    )


def v2_mounts(top: Path, root: str = "/") -> str:
    return f"35 24 0:30 {root} {top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def fill(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")
    return folder


def net(proc: Path, overflows: int, drops: int, resent: int, forgotten: int) -> None:
    """Write the kernel's files of TCP counters: these counters and some others."""
    fill(
        proc / "net",
        netstat="TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeWaitOverflow\n"
        f"TcpExt: 7 {overflows} {drops} {forgotten}\nIpExt: InNoRoutes\nIpExt: 3",
        snmp=f"Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: InSegs RetransSegs\nTcp: 9 {resent}",
    )


def use_of(group: Path, version: str, periods: int, throttled: int, used_us: int) -> None:
    """Write the counters of a group with a quota, as this version of cgroups does."""
    counted = f"nr_periods {periods}\nnr_throttled {throttled}\n"
    if version == "cgroup v2":
        fill(group, cpu__stat=f"usage_usec {used_us}\nuser_usec 1\n{counted}")
    else:
        fill(group, cpu__stat=f"{counted}throttled_time 5")
        fill(group.parents[2] / "cpuacct/zl/a", cpuacct__usage=f"{used_us * 1000}")


@pytest.mark.parametrize(
    ("version", "group", "quota"),
    [
        ("cgroup v2", "zl/a", {"cpu__max": "1500 10000"}),
        ("cgroup v1", "cpu/zl/a", {"cpu__cfs_quota_us": "1500", "cpu__cfs_period_us": "10000"}),
    ],
)
def test_the_use_of_a_host_with_a_quota(
    tmp_path: Path, version: str, group: str, quota: dict[str, str]
) -> None:
    of_v2 = version == "cgroup v2"
    mounts, cgroup = (v2_mounts if of_v2 else v1_mounts)(tmp_path), "0::/zl/a/inner\n"
    folder, proc = fill(tmp_path / group, **quota), fill(tmp_path / "proc")
    fill(folder / "inner", cpu__max="max 100000", cpu__stat="usage_usec 1")
    fill(proc / "self", cgroup=cgroup if of_v2 else V1_CGROUP, mountinfo=mounts)
    use_of(folder, version, 433, 412, 2_500_000)
    host = Host(proc)
    assert (host.quota.version, host.quota.folder, host.allowed) == (version, folder, 0.15)
    before = host.count()
    assert before == (2.5, 433, 412, None), "this kernel has no TCP counters"
    net(proc, 10, 20, 30, 40)
    first = host.count()
    assert difference(first, before).tcp is None
    use_of(folder, version, 443, 415, 4_000_000)
    net(proc, 11, 22, 33, 44)
    assert difference(host.count(), first) == (1.5, 10, 3, TcpCounters(1, 2, 3, 4))


def test_the_quota_of_the_parent_group(tmp_path: Path) -> None:
    """A group without a quota has the quota of its parent, but at most the machine's CPUs."""
    fill(tmp_path / "cpu/zl/a", cpu__cfs_quota_us="-1")
    parent = fill(tmp_path / "cpu/zl", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000")
    fill(tmp_path / "cpuacct/zl", cpuacct__usage="1")
    proc = fill(tmp_path / "proc/self", cgroup=V1_CGROUP, mountinfo=v1_mounts(tmp_path)).parent
    assert (Host(proc).quota.folder, Host(proc).quota.cpus) == (parent, 2.0)
    fill(parent, cpu__cfs_quota_us="990000000")
    assert Host(proc).allowed == len(Host(proc).cpus)


def test_only_a_part_of_the_hierarchy_is_mounted(tmp_path: Path) -> None:
    """The quota is found in a partly mounted hierarchy, as in a container: /zl/a is the top."""
    fill(tmp_path, cpu__max="50000 100000", cpu__stat="usage_usec 7")
    found = find_quota("0::/zl/a\n", v2_mounts(tmp_path, "/zl/a"))
    assert (found.folder, found.cpus) == (tmp_path, 0.5)
    assert find_quota("0::/else\n", v2_mounts(tmp_path, "/zl/a")) is None


@pytest.mark.parametrize("cgroup", ["", "0::/\n", V1_CGROUP, "nonsense\n"])
@pytest.mark.parametrize("mounts", ["", "1 2 3\n", v1_mounts(Path("/nowhere"))])
def test_no_quota_to_be_seen(cgroup: str, mounts: str) -> None:
    assert find_quota(cgroup, mounts) is None


def test_lines_of_the_kernel(tmp_path: Path) -> None:
    assert parse_cgroup("4:cpu,cpuacct:/x:y\n0::/\n") == [
        (frozenset({"cpu", "cpuacct"}), "/x:y"),
        (frozenset(), "/"),
    ]
    (first, *_) = parse_mounts(v1_mounts(Path("/a\\040b")))
    assert (first.point, first.version) == (Path("/a b/cpu"), "cgroup v1")
    assert first.controllers >= {"cpu"}
    stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 60 20 1 2 3 0 0\ncpu1 9 0 0 1 0 0 0 0\nintr 5\n"
    (tmp_path / "stat").write_text(stat)
    assert cpu_ticks([0], tmp_path / "stat") == CpuTicks(idle=80, total=106)
    assert difference(CpuTicks(90, 200), CpuTicks(80, 100)).busy_share == pytest.approx(0.9)
    assert CpuTicks(0, 0).busy_share is None
    assert seconds_used("") is None


def test_the_use_of_a_host_without_a_quota(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.allowed == len(host.cpus)
    host.cpus = [0, 2]
    others = "cpu1 500 0 0 0 0 0 0 0 0 0\n"
    fill(tmp_path, stat=f"cpu0 10 0 10 60 20 1 2 3 4 0\n{others}cpu2 0 0 0 9 0 0 0 0 0 0")
    before = host.count()
    others = "cpu1 900 0 0 0 0 0 0 0 0 0\n"
    fill(tmp_path, stat=f"cpu0 40 0 20 99 30 1 2 3 9 0\n{others}cpu2 5 0 0 9 0 0 0 0 0 0")
    ticks = 30 + 10 + 5  # not idle, disk or guest time; user time includes guest time
    cpu_s, *others_of_it = difference(host.count(), before)
    assert cpu_s == pytest.approx(ticks / os.sysconf("SC_CLK_TCK"))
    assert others_of_it == [None, None, None]


BURN = """
import os, time
parent = os.getpid()
for _ in range(3):
    if os.fork() == 0:
        break
end = time.monotonic() + 1.0
while time.monotonic() < end:
    pass
if os.getpid() == parent:
    for _ in range(3):
        os.wait()
    print("burnt", flush=True)
    input()
"""
"""Four processes that want a core each. The first process then waits for input, because a scope of
systemd exists only while it has a process."""


@pytest.fixture
def slice_of(slicing: Slicing) -> Iterator[Group]:
    made = slicing.slice(0.2)
    yield made
    made.close()


def test_all_processes_together_get_the_share_and_no_more(slice_of: Group) -> None:
    burn = subprocess.Popen(
        slice_of.wrap([sys.executable, "-c", BURN]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert burn.stdout.readline() == "burnt\n"
    found = slice_of.read()
    periods, used = found.periods, found.cpu.total / 1e6
    burn.communicate("\n")
    granted = 0.2 * PERIOD_US / 1e6 * periods.all
    assert periods.throttled > 0.5 * periods.all
    # The kernel deducts use above the quota from the next periods.
    assert used <= granted + 0.03


def test_closing_a_group_kills_its_processes(slicing: Slicing) -> None:
    made = slicing.slice(0.5)
    process = subprocess.Popen(
        made.wrap(["sh", "-c", "sleep 300 & echo $!; wait"]), text=True, stdout=subprocess.PIPE
    )
    child = int(process.stdout.readline())
    folders = made.folders
    assert child in made.pids()
    made.close()
    process.wait(timeout=20)
    assert not any(folder.exists() for folder in folders)
    wait_for(lambda: has_ended(child), "the child still runs")


def test_the_settings_of_the_kernel_and_systemd(tmp_path: Path) -> None:
    """15 % of a core is written as 1,500 of each 10,000 microseconds, or as a percentage for
    systemd. Plain folders replace the control groups; `cpu` has the files of version 1."""
    groups, quotas = tmp_path / "unified", tmp_path / "cpu"
    groups.mkdir()
    quotas.mkdir()
    made = Group(groups, quotas, 0.15)
    (own,), (limited,) = groups.iterdir(), quotas.iterdir()
    assert {file.name: file.read_text() for file in limited.iterdir()} == {
        "cpu.shares": "262144",
        "cpu.cfs_period_us": "10000",
        "cpu.cfs_quota_us": "1500",
    }
    words = made.wrap(["server", "--port"])
    assert {str(own), str(limited)} < set(words)
    assert words[-2:] == ["server", "--port"]
    (own / "cpu.stat").write_text("usage_usec 9\nuser_usec 3\nsystem_usec 4\n")
    (limited / "cpu.stat").write_text("nr_periods 20\nnr_throttled 5\n")
    before = made.read()
    (limited / "cpu.stat").write_text("nr_periods 30\nnr_throttled 13\nthrottled_time 9\n")
    (own / "cpu.pressure").write_text("some total=9\nfull avg10=0.00 total=7\n")
    assert difference(made.read(), before) == ((0, 0), None, (10, 8))
    assert made.read()[:2] == ((3, 4), 7)
    scope = Scope(Path("/sys/fs/cgroup"), 0.15).wrap(["server"])
    assert {"CPUQuota=15%", "CPUQuotaPeriodSec=10000us"} < set(scope)


def test_closing_an_unknown_unit_is_no_error() -> None:
    """Closing an unknown unit of systemd raises no error: it could hide an earlier error."""
    Scope(Path("/sys/fs/cgroup"), 0.5).close()


LEAVES_IT = """
import os, subprocess, sys, time
from bench.host.accounting import find_slicing
made = find_slicing().slice(0.5)
child = subprocess.Popen(made.wrap(["sleep", "300"]), stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
while child.pid not in made.pids():
    time.sleep(0.01)
print(made.folders[0], made.folders[-1], child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_groups_of_a_killed_run_are_removed_by_the_next(slicing: Slicing) -> None:
    if slicing.quotas is None:
        pytest.skip("systemd removes its scopes")
    done = subprocess.run([sys.executable, "-c", LEAVES_IT], capture_output=True, text=True)
    *folders, child = done.stdout.split()
    assert all(Path(folder).exists() for folder in folders), done.stderr
    find_slicing()
    assert not Path(folders[1]).exists()
    wait_for(lambda: has_ended(int(child)), "the child still runs")
    remove_stale_groups(slicing.parent)
    assert not Path(folders[0]).exists()
