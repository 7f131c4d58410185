# SPDX-License-Identifier: MIT
"""Child processes: their output, their CPUs and their end. These tests start real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.host.process import ERRORS, OUTPUT, Child, SignalWatch, lines_at_ends
from bench.load.running import Generator, Load, Outcome
from bench.records.errors import Interrupted
from tests.e2e.processes import has_ended

from ..commands import run
from ..whole_sweep import SECONDS, wait_for

USED_SECONDS = 0.2
USES = f"""
import time
while time.process_time() < {USED_SECONDS}: pass
print(flush=True)
time.sleep(60)
"""
ADOPTS = f"""
import sys, time
from bench.host.accounting import adopt_orphans, rusage_of_reaped
from bench.host.process import Child

adopt_orphans()
child = Child(["sh", "-c", '"$@" & wait', "sh", sys.executable, "-c", {USES!r}])
while not child.stdout:
    time.sleep(0.01)
before = rusage_of_reaped().total
child.end()
print(rusage_of_reaped().total - before)
"""
"""A program that ends a shell whose child still runs, and prints their CPU time in us."""


def test_output_is_there_during_and_after(tmp_path: Path) -> None:
    """The output of a child can be read during and after its run. A line is returned when it is
    complete, or after the end of the child."""
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.01; done"
    words = f"echo one; printf t; echo err >&2; {waits}; echo wo; printf three; exec sleep 60"
    child = Child(["sh", "-c", words])
    try:
        wait_for(lambda: "err" in child.stderr, "the child printed nothing")
        assert (child.stdout, child.stderr) == ("one\nt", "err\n")
        assert [child.next_lines(OUTPUT) for _ in range(2)] == ["one\n", ""]
        go.touch()
        wait_for(lambda: child.stdout.endswith("three"), "the second line was not printed")
        assert child.next_lines(OUTPUT) == "two\n"
        assert child.running()
    finally:
        assert child.end()
    assert child.exit_status == -signal.SIGTERM
    assert (child.stdout, child.stderr) == ("one\ntwo\nthree", "err\n")
    assert [child.next_lines(stream) for stream in (OUTPUT, ERRORS)] == ["three", "err\n"]


def test_a_program_after_a_prefix_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program after a prefix (env, setpriv) is found in folders that are not in many users' PATH:
    Debian's Apache in /usr/sbin, `go` in /usr/local/go/bin."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    child = Child(["env", "sh", "-c", "echo $PATH"])
    assert child.wait(SECONDS)
    child.end()
    assert child.stdout.startswith("/usr/bin:/bin:/usr/sbin:/usr/local/go/bin:")


def test_a_process_that_ignores_the_signal_is_killed_with_its_children() -> None:
    child = Child(["sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; wait"])
    while not child.stdout.endswith("\n"):
        time.sleep(0.01)
    assert not child.end(timeout=0.2)
    assert not child.end(), "the second call returns the same"
    assert child.exit_status == -signal.SIGKILL
    wait_for(lambda: has_ended(int(child.stdout)), "the child of the killed process still runs")


def test_the_usage_of_a_child_that_is_not_reaped_is_counted() -> None:
    done = run(sys.executable, "-c", ADOPTS)
    assert float(done.stdout) >= USED_SECONDS * 1e6


def test_a_child_runs_on_its_cpu() -> None:
    cpu = max(os.sched_getaffinity(0))
    child = Child(["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], [cpu])
    assert child.wait(SECONDS)
    child.end()
    assert child.stdout.split() == ["Cpus_allowed_list:", str(cpu)]


def test_the_demand_is_that_of_the_busiest_thread() -> None:
    program = """
import threading, time
def work():
    while time.thread_time() < 0.4: pass
thread = threading.Thread(target=work)
thread.start()
while thread.is_alive(): time.sleep(0.05)
time.sleep(0.2)
"""

    class Tool(Generator):
        name = "it"

        def command(self, *_: object) -> list[str]:
            return [sys.executable, "-c", program]

        def read(self, ran: Outcome, *_: object) -> Outcome:
            return ran

    done = Tool().run(Load("", 1, 1, 20.0), (), SignalWatch())
    assert not done.timed_out
    assert done.demand is not None
    assert done.demand * done.wall_seconds > 0.3, "the first thread slept all the time"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_die_with_their_parent(number: int) -> None:
    program = "from bench.host.process import Child; import time\n" + (
        "c = Child(['sleep', '60']); print(c.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    # The child's death signal is set before exec(), which changes its name to `sleep`.
    while b"sleep" not in open(f"/proc/{pid}/comm", "rb").read():  # noqa: PTH123, SIM115
        time.sleep(0.01)
    parent.send_signal(number)
    parent.communicate()
    wait_for(lambda: has_ended(pid), "the child still runs")


def test_a_signal_is_noted_and_raised_where_it_is_safe() -> None:
    with SignalWatch() as watch:
        watch.check()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted) as caught:
            watch.check()
    assert caught.value.exit_status == 130, "the first signal counts"


def test_a_long_file_is_read_at_both_ends(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    line = b'7 1.5 recvfrom(3, "", 1024, 0, NULL, NULL) = 0 <0.1>\n'
    with trace.open("wb") as file:
        file.write(b"7 1.0 first\n")
        for _ in range(20):
            file.write(line * 40_000)
        file.write(b"7 2.0 +++ killed by SIGSEGV +++\n")
    lines = lines_at_ends(trace)
    assert (lines[0], lines[-1]) == ("7 1.0 first", "7 2.0 +++ killed by SIGSEGV +++")
    assert len(lines) < 20 * 40_000
    trace.write_bytes(line)
    assert lines_at_ends(trace) == [line.decode().strip()]
