# SPDX-License-Identifier: MIT
"""The system calls that a server makes, and the call in which a thread sleeps."""

import contextlib
import functools
import platform
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench.host.process import guarded
from bench.live.tasks import call_in, look
from bench.stations.sampling import is_traced
from bench.timeline.record import Refused, require_tracing

from . import processes
from .harness import Server
from .timing import wait_until

# If Linux has only the newer of two calls, the C library's older function uses the newer call.
NEWER = {"aarch64": {"epoll_wait": "epoll_pwait", "poll": "ppoll"}}


def native(call: str) -> str:
    """Return the name on this processor for a system call of x86-64."""
    return NEWER.get(platform.machine(), {}).get(call, call)


def call_of(pid: int, task: int) -> tuple[str, tuple[int, ...]]:
    """Return the call in which a thread sleeps, and its arguments; ("", ()) if the thread runs or
    has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
        return call_in(Path(f"/proc/{pid}/task/{task}/syscall").read_text(encoding="ascii"))
    return "", ()


def waiting(server: Server) -> tuple[str, Counter[str]]:
    """Return the call in which the main thread sleeps, and the number of workers in each call."""
    main, *workers = look(server.pid)
    return main.call, Counter(worker.call for worker in workers)


def skip_unless_visible() -> None:
    """Skip the test if /proc does not show the calls in which processes sleep, or if the tests
    do not know this processor's calls."""
    if platform.machine() not in ("x86_64", *NEWER):
        pytest.skip(f"the tests do not know the calls of {platform.machine()}")
    if not Path("/proc/self/syscall").exists():
        pytest.skip("this kernel does not show the call in which a process sleeps")


def skip_unless_traceable(attached: bool = True) -> None:
    """Skip the test if processes may not trace each other, as in some containers. `attached`: skip
    also if a process may trace only its children, as on Ubuntu (kernel.yama.ptrace_scope=1)."""
    try:
        require_tracing(("strace",))
    except Refused as reason:
        pytest.skip(str(reason))
    if attached and (refused := _refusal()):
        pytest.skip(f"no tracing here: {refused}; if sysctl kernel.yama.ptrace_scope is 1, try 0")


@functools.cache
def _refusal() -> str:
    """Return what strace prints if it may not attach to another process; empty if it may."""
    with subprocess.Popen(guarded(["cat"]), stdin=subprocess.PIPE) as other:
        words = ["strace", "-qq", "-o", "/dev/null", f"-p{other.pid}"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as strace:
            wait_until(lambda: strace.poll() or is_traced(other.pid), "strace attaches or ends")
            refused = strace.poll()
            other.communicate()  # ends cat
            said = strace.communicate()[1].strip()
    return said if refused else ""


def begun_by_strace(path: Path) -> tuple[str, ...]:
    """Return the prefix that lets strace trace a command from its start, which ptrace_scope 1
    allows. The command keeps the PID; strace is another process with its own session (-DDD, since
    5.4)."""
    return ("strace", "-DDD", "-f", "-qq", "-o", str(path), "--")


def _sleeps(pids: list[int], alone: bool) -> dict[int, int]:
    """Return how often each thread of these processes has slept or stopped, by its ID; with `alone`
    only the first threads (voluntary_ctxt_switches of proc_pid_status(5))."""
    threads = pids if alone else [task for pid in pids for task in processes.tasks(pid)]
    return {task: processes.status_number(task, "voluntary_ctxt_switches") for task in threads}


class Trace:
    """An strace(1) that is attached to a server until the server ends."""

    def __init__(self, server: Server, path: Path, *options: str, alone: bool = False) -> None:
        """Attach to all processes and threads of the server, also to those that start later;
        `alone`: attach only to the first process."""
        self.path = path
        pids = [server.pid] if alone else server.pids()
        follow = [] if alone else ["-f"]
        words = ["strace", *follow, *options, "-qq", "-o", str(path)]
        words += [f"-p{pid}" for pid in pids]
        before = _sleeps(pids, alone)
        self._process = subprocess.Popen(guarded(words), stderr=subprocess.PIPE)
        # A thread has a tracer before it is stopped, and its calls are traced only after that. It
        # stops twice: when strace interrupts its call, and when the call begins again (ptrace(2)).
        wait_until(
            lambda: all(
                count >= before.get(task, 0) + 2 for task, count in _sleeps(pids, alone).items()
            ),
            "strace is attached",
        )

    def calls(self) -> Counter[str]:
        """Wait for the end of the server; return how often it made each call."""
        self._process.wait(60)
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return Counter(re.findall(r"^(?:\d+ +)?(\w+)\(", text, re.MULTILINE))
