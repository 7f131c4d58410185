# SPDX-License-Identifier: MIT
"""A CPU quota limits a process with all its children, and leaves nothing behind."""

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
from bench.host.kernel import difference

from .test_process import gone

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
"""Four processes on one core that want a core each. The first stays until it is stopped: a scope of
systemd exists, and can be read, as long as it has a process."""


@pytest.fixture(scope="module")
def slicing() -> Slicing:
    found = find_slicing()
    if found is None:
        pytest.skip("no control group with a quota can be made here")
    return found


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
    periods = slice_of.periods()
    used = slice_of.read().total / 1e6
    burn.communicate("\n")
    granted = 0.2 * PERIOD_US / 1e6 * periods.all
    assert periods.throttled > 0.5 * periods.all
    # What it has used above the quota before the kernel saw it is deducted from the next periods.
    assert used <= granted + 0.03


def test_what_is_still_in_it_is_killed_when_it_is_closed(slicing: Slicing) -> None:
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
    assert gone(child)


def test_what_the_kernel_and_systemd_are_told(tmp_path: Path) -> None:
    """15 % of a core is written as 1,500 of each 10,000 microseconds, or as a percentage for
    systemd. Version 1 takes it in files, which are in plain folders here."""
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
    (limited / "cpu.stat").write_text("nr_periods 20\nnr_throttled 5\n")
    before = made.periods()
    (limited / "cpu.stat").write_text("nr_periods 30\nnr_throttled 13\nthrottled_time 9\n")
    assert difference(made.periods(), before) == (10, 8)
    scope = Scope(Path("/sys/fs/cgroup"), 0.15).wrap(["server"])
    assert {"CPUQuota=15%", "CPUQuotaPeriodSec=10000us"} < set(scope)


def test_what_systemd_does_not_know_is_closed_already() -> None:
    """A unit that systemd does not know counts as closed: otherwise its error would hide the
    server's."""
    Scope(Path("/sys/fs/cgroup"), 0.5).close()


LEAVES_IT = """
import os, subprocess, sys, time
from bench.host.accounting import find_slicing
made = find_slicing().slice(0.5)
child = subprocess.Popen(made.wrap(["sleep", "300"]), stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
while child.pid not in made.pids():
    time.sleep(0.01)
print(made._folder, made._limited, child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_left_is_removed_by_the_next(slicing: Slicing) -> None:
    if slicing.quotas is None:
        pytest.skip("systemd removes its scopes")
    done = subprocess.run([sys.executable, "-c", LEAVES_IT], capture_output=True, text=True)
    *folders, child = done.stdout.split()
    assert all(Path(folder).exists() for folder in folders), done.stderr
    find_slicing()
    assert not Path(folders[1]).exists()
    assert gone(int(child))
    remove_stale_groups(slicing.parent)
    assert not Path(folders[0]).exists()
