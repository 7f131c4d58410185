# SPDX-License-Identifier: MIT
"""Stacks in the output of perf, of pprof and of callgrind; the tree; and sampled processes."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.host.process import Child
from bench.host.programs import find_program
from bench.host.signals import SignalWatch
from bench.records.conditions import Conditions
from bench.records.figures import Frame
from bench.stations.counting import (
    Function,
    Owner,
    Stack,
    counts,
    owner_of,
    traces,
    tree,
    what_was_counted,
)
from bench.stations.sampling import Sampler, stacks_of, why_no_perf
from bench.subjects.subject import stranger_subject

from ..measuring import measured_of

RECORDED = Path(__file__).parents[1] / "recorded"
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
        # On ARM the entry has no name of its own, whether or not the compiler made a clone.
        (ARM, 10, [((MAIN, SEND, ARM_SEND), 1)]),
    ],
)
def test_samples_of_a_process_and_of_its_children(
    lines: list[str], process: int, found: list[tuple[Stack, int]]
) -> None:
    assert list(stacks_of(lines, [process])) == found


def test_own_instructions_of_each_stack_and_none_twice(tmp_path: Path) -> None:
    file = tmp_path / "callgrind.7"
    file.write_text("\n".join(COUNTED) + "\n")
    stacks: Counter[str] = Counter()
    for stack, count in counts(file):
        stacks[" ".join(function.name for function in stack)] += count
    assert (stacks["(below main) main work"], stacks["(below main) main work send"]) == (12, 100)
    found = what_was_counted(tmp_path)
    assert (found.how, found.kernel, found.frames[0].own) == ("callgrind", False, 0)
    assert found.count == 112, "neither the start of the server nor the loader"
    assert [frame.name for frame in found.frames[0].below] == ["work"]
    assert what_was_counted(tmp_path / "none") is None
    for last in (4, -1):
        (tmp_path / "callgrind.8").write_text("\n".join([*COUNTED[:last], "4"]))
        assert what_was_counted(tmp_path) is None, "a process that was killed while it wrote"


def test_the_samples_that_go_took_of_itself() -> None:
    kernel = Function("internal/runtime/syscall/linux.Syscall6", "kernel")
    assert list(traces(TRACES)) == [
        ((Function("net/http.(*conn).serve"), Function("syscall.Write"), kernel), 58),
        ((Function("runtime.casgstatus"),), 1),
    ]
    assert list(traces(TRACES[:5])) == []


def stack(words: str) -> Stack:
    return tuple(map(Function, words.split()))


def test_what_is_too_small_counts_with_its_caller() -> None:
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
        sampler = Sampler([child.pid], [], [], watch)

        def used() -> float:
            times = shell.cpu_times()
            return times.user + times.children_user + times.children_system

        before = used()
        while used() < before + 0.5:  # of CPU time, however busy the machine is
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
        sampler = Sampler([child.pid], [], [], watch)
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
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\nprintf 'Error:\\nNo permission.\\n' >&2\nexit 255\n")
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    why_no_perf.cache_clear()
    yield
    why_no_perf.cache_clear()


@pytest.mark.usefixtures("no_perf")
def test_why_perf_may_not_is_said_in_its_words() -> None:
    """The reason that perf gives is shown; it follows a line that only says "Error"."""
    assert why_no_perf() == "perf is not allowed here: No permission."


@pytest.mark.slow
@pytest.mark.usefixtures("no_perf")
@pytest.mark.skipif(find_program("go") is None, reason="needs go")
@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
@pytest.mark.parametrize("name", ["go", "fasthttp"])
def test_without_perf_a_peer_of_go_looks_at_itself(name: str) -> None:
    conditions = Conditions("hello", keep_alive=True, mode="sampled", generator="wrk")
    run = measured_of(stranger_subject(name), conditions, requests=60_000)
    assert run.reason is None
    assert (run.stacks.how, run.stacks.unit, run.stacks.kernel) == ("pprof", "samples", False)
    assert run.stacks.count > 10
    names = {frame.name for frame in run.stacks.frames}
    assert any("serve" in one.lower() or "workerpool" in one.lower() for one in names), names


@pytest.mark.parametrize(
    ("place", "owner"),
    [
        ("[kernel.kallsyms]", "kernel"),
        ("[nf_conntrack]", "kernel"),
        ("bpf_prog_6deef7357e7b4530", "kernel"),
        ("[vdso]", "library"),
        ("[unknown]", "library"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "library"),
        ("/srv/zerohttpd/epoll", "server"),
    ],
)
def test_whose_a_function_is(place: str, owner: Owner) -> None:
    """A function of a kernel module does not count as user space."""
    assert owner_of(place) == owner
