# SPDX-License-Identifier: MIT
"""Stacks in the output of perf, of pprof and of callgrind; the tree; and sampled processes."""

import shutil
import subprocess
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

SCRIPT = """\
    0 PERF_RECORD_FORK(10:10):(1:1)
   10 PERF_RECORD_FORK(11:11):(10:10)
   11 PERF_RECORD_COMM exec: epoll:11/11
   10
\tffffffff81e32fa2 tcp_sendmsg.part.0 ([kernel.kallsyms])
\tffffffff821ed511 do_syscall_64 ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t          10ad97 send@GLIBC_2.2.5 (/usr/lib/libc.so.6)
\t            4e47 main (/srv/epoll)
\tffffffffffffffff [unknown] ([unknown])

   12
\t            4e47 main (/srv/other)

   11
\t            4e47 main (/srv/epoll)

""".splitlines()

ARM = """\
   10
\tffff800008c0fc24 __arm64_sys_sendto ([kernel.kallsyms])
\tffff800008027178 invoke_syscall.constprop.0 ([kernel.kallsyms])
\tffff80000802729c el0_svc_common ([kernel.kallsyms])
\tffff8000080273b8 do_el0_svc ([kernel.kallsyms])
\tffff800008d46c58 el0_svc ([kernel.kallsyms])
\tffff800008d470b0 el0t_64_sync_handler ([kernel.kallsyms])
\tffff80000801159c el0t_64_sync ([kernel.kallsyms])
\t           10ad97 send@GLIBC_2.17 (/usr/lib/aarch64-linux-gnu/libc.so.6)
\t             4e47 main (/srv/epoll)

""".splitlines()

MAIN = Function("main")

TRACES = """\
File: go
Build ID: d88d25b826efcd231d54a7c28ec1c9bf2842c705
Type: samples
Time: 2026-11-23 18:10:26 UTC
Duration: 4.03s, Total samples = 163\x20
-----------+-------------------------------------------------------
        58   internal/runtime/syscall/linux.Syscall6
             syscall.Write (inline)
             net/http.(*conn).serve
-----------+-------------------------------------------------------
         1   runtime.casgstatus
-----------+-------------------------------------------------------
""".splitlines()

COUNTED = """\
version: 1
positions: line
events: Ir

ob=(1) /srv/epoll
fl=(1) main.c
fn=(1) work'main'(below main)
10 5
+2 7
cfn=(2) send'work'main'(below main)
calls=3 40
+1 100
fn=(2)
40 90
* 10
fn=(3) strlen'server_start'main'(below main)
1 1000
fn=(4) dl_main
1 500
totals: 1712
""".splitlines()


def test_samples_of_a_process_and_of_its_children_alone() -> None:
    assert list(stacks_of(SCRIPT, [10])) == [
        ((MAIN, Function("send", "library"), Function("tcp_sendmsg", "kernel")), 1),
        ((MAIN,), 1),
    ]
    assert list(stacks_of(SCRIPT, [11])) == [((MAIN,), 1)]
    assert list(stacks_of([], [10])) == []


def test_a_sample_on_the_way_into_the_kernel_was_taken_there() -> None:
    """A sample on the way into the kernel counts for the kernel, not for the function that made the
    system call."""
    entry = SCRIPT[:4] + SCRIPT[5:]  # before do_syscall_64() called anything
    [(stack, _), _] = stacks_of(entry, [10])
    assert stack == (MAIN, Function("send", "library"), Function("do_syscall_64", "kernel"))


def test_the_way_into_the_kernel_says_nothing_on_arm_either() -> None:
    """On ARM the entry into the kernel also has no name of its own, whether or not the compiler
    made a clone."""
    [(stack, _)] = stacks_of(ARM, [10])
    assert stack == (MAIN, Function("send", "library"), Function("__arm64_sys_sendto", "kernel"))


def test_own_instructions_of_each_stack_and_none_twice(tmp_path: Path) -> None:
    file = tmp_path / "callgrind.7"
    file.write_text("\n".join(COUNTED) + "\n")
    stacks: dict[tuple[str, ...], int] = {}
    for stack, count in counts(file):
        names = tuple(function.name for function in stack)
        stacks[names] = stacks.get(names, 0) + count
    assert stacks[("(below main)", "main", "work")] == 12
    assert stacks[("(below main)", "main", "work", "send")] == 100
    found = what_was_counted(tmp_path)
    assert found is not None
    assert (found.how, found.kernel) == ("callgrind", False)
    assert found.count == 112, "neither the start of the server nor the loader"
    assert found.frames[0].own == 0
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
        assert child.running()
        assert found.how == "perf"
        assert found.kernel
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
    assert run.stacks is not None
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
