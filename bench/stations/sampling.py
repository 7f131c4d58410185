# SPDX-License-Identifier: MIT
"""Watch servers under load: sample their functions with perf, count their system calls with strace.

perf takes thousands of samples a second of the stack that runs on the servers' CPU, with its kernel
part; samples of other processes are dropped. So the results are shares of CPU time. perf samples
the CPU instead of processes, because for each child and thread it would start a new period. It
would never sample processes shorter than a period: all children of `forking`.

If perf is not allowed (kernel.perf_event_paranoid, or a container that forbids the call), see
`bench.stations.counting`.

strace slows a server down, so it sometimes waits when it would not without strace: this adds a few
calls.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from bench.host.kernel import text_of
from bench.host.process import Child, StartError, last_line, task_folders
from bench.host.programs import find_program, output_of
from bench.host.signals import SignalWatch
from bench.records.errors import UserError
from bench.records.figures import Mode, StackFigures
from bench.stations.counting import Function, Stack, owner_of, stacks_by, tree
from bench.stations.orders import Calls

RATE = 4999
"""Samples a second: not a multiple of the kernel's tick, to avoid sampling in step with it."""
STACK_BYTES = 4096
"""The bytes of each stack that perf copies to find the callers up to main(): the servers are built
without frame pointers."""
FRAME_POINTERS = ("--call-graph", "fp")
"""Go programs have frame pointers. Go's unwind tables are compressed, so perf finds no callers
with them."""
OF_GO = ".go.buildinfo"
"""An ELF section of each Go program."""
ARM_REGISTERS = ",".join([*(f"x{number}" for number in range(30)), "lr", "sp", "pc"])
"""By default perf also requests the vector length if the processor has SVE, which the kernel's
cpu-clock event does not support."""
RECORD = (
    *("perf", "record", "--quiet", "--no-buildid", "--no-buildid-cache", "--event", "cpu-clock"),
    *("--freq", str(RATE)),
)
STACKS = (
    *("--call-graph", f"dwarf,{STACK_BYTES}"),
    *(("--user-regs", ARM_REGISTERS) if platform.machine() == "aarch64" else ()),
)
READY_SECONDS = 20.0
ENTRY = frozenset(
    {"entry_SYSCALL_64_after_hwframe", "do_syscall_64", "el0t_64_sync", "el0t_64_sync_handler"}
    | {"el0_svc", "do_el0_svc", "invoke_syscall", "el0_svc_common", "x64_sys_call"}
)
"""All system calls enter the kernel through these functions, so they carry no information."""
UNKNOWN = "[unknown]"
_FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):")


@cache
def why_no_perf() -> str:
    """Return the reason why perf cannot be used here; empty if it can."""
    if shutil.which("perf") is None:
        return "perf is not installed: apt-get install linux-perf (Ubuntu: linux-tools-generic)"
    with tempfile.TemporaryDirectory(prefix="zerohttpd-perf-") as folder:
        words = [*RECORD, *STACKS, "--all-cpus", "--output", str(Path(folder, "data")), "true"]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    lines = (line.strip() for line in done.stderr.splitlines())
    said = next((line for line in lines if line not in ("", "Error:")), "")
    return f"perf is not allowed here: {said or 'no error message'}"


def how_stacks(wanted: str) -> tuple[Mode | None, str]:
    """Return how functions can be profiled here; with "auto" also the reason if it is not by perf.
    Raises UserError if a method is named and does not work."""
    if wanted == "no":
        return None, ""
    reason = why_no_perf() if wanted in ("auto", "perf") else ""
    if not reason and wanted != "callgrind":
        return "sampled", ""
    if wanted == "perf":
        raise UserError(reason)
    if find_program("valgrind"):
        return "counted", reason
    if wanted == "callgrind":
        raise UserError("valgrind is not installed: apt-get install valgrind")
    return None, f"{reason}; and valgrind, which could count instructions, is not installed"


class Sampler:
    """A perf that samples the CPUs of some processes. End it with `stop`."""

    def __init__(
        self, pids: Sequence[int], theirs: Sequence[int], own: Sequence[int], watch: SignalWatch
    ) -> None:
        """Sample these processes and their children on the CPUs `theirs` (none: all); perf runs on
        `own`. Raises StartError or Interrupted."""
        if reason := why_no_perf():
            raise StartError(reason)
        self._pids = set(pids)
        self._names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-perf-")
        place = Path(self._folder.name)
        for name in ("order", "answer"):
            os.mkfifo(place / name)
        # Open for reading and writing: opening one end alone would wait for the other.
        self._order = os.open(place / "order", os.O_RDWR | os.O_NONBLOCK)
        self._answer = os.open(place / "answer", os.O_RDWR | os.O_NONBLOCK)
        where = ["--cpu", ",".join(map(str, theirs))] if theirs else ["--all-cpus"]
        control = f"fifo:{place / 'order'},{place / 'answer'}"
        options = ["--output", str(place / "data"), "--delay", "-1", "--control", control]
        back = FRAME_POINTERS if any(map(_is_of_go, pids)) else STACKS
        self._child = Child([*RECORD, *back, *where, *options], own)
        try:
            self._begin(watch)
        except BaseException:
            self.close()
            raise

    def _begin(self, watch: SignalWatch) -> None:
        def answered() -> bytes | None:
            try:
                return os.read(self._answer, 64)
            except BlockingIOError:
                return None

        os.write(self._order, b"enable\n")
        if not self._child.until(answered, READY_SECONDS, watch):
            if self._child.running():
                raise StartError("perf did not start to sample")
            raise StartError(f"perf ended: {last_line(self._child.stderr)}")

    def stop(self) -> StackFigures:
        """Stop sampling and return the stacks. Raise StartError if perf has no samples."""
        self._child.end(READY_SECONDS, signal.SIGINT)
        words = ["perf", "script", "--input", str(Path(self._folder.name, "data")), "--no-inline"]
        words += ["--comms", ",".join(self._names)]  # perf skips the rest
        words += ["--show-task-events", "--fields", "pid,ip,sym,dso"]
        try:
            stacks = stacks_by(words, lambda lines: stacks_of(lines, self._pids))
        finally:
            self.close()
        below = sum(stack[-1].of == "kernel" for stack, _ in stacks)
        share = round(1 - below / len(stacks), 4) if below else None
        return StackFigures(how="perf", kernel=below > 0, user_share=share, frames=tree(stacks))

    def close(self) -> None:
        """Stop sampling and discard the samples. Must not be called after `stop`."""
        self._child.end()
        os.close(self._order)
        os.close(self._answer)
        self._folder.cleanup()


def _is_of_go(pid: int) -> bool:
    return OF_GO in output_of(["readelf", "--sections", "--wide", f"/proc/{pid}/exe"])


def stacks_of(lines: Iterable[str], pids: Collection[int]) -> Iterator[tuple[Stack, int]]:
    """Yield the samples of some processes and their descendants, from the output of `perf script
    --show-task-events --fields pid,ip,sym,dso`: a line with the PID, a line for each function (the
    innermost first), and an empty line."""
    theirs = set(pids)
    found: list[Function] = []
    wanted = False
    for line in lines:
        if forked := _FORK.search(line):
            child, parent = map(int, forked.groups())
            if parent in theirs:
                theirs.add(child)
        elif not line.strip():
            if wanted and found:
                yield tuple(reversed(found)), 1
            found, wanted = [], False
        elif line.startswith("\t"):
            found += _function(line, innermost=not found)
        else:
            wanted = line.strip().isdigit() and int(line) in theirs


def _function(line: str, innermost: bool) -> list[Function]:
    """Return the function of a line, or an empty list if it has no information. An entry function
    is kept only if it is the innermost one."""
    _, _, rest = line.strip().partition(" ")
    name, _, place = rest.rpartition(" (")
    owner = owner_of(place)
    plain = name.strip().partition("." if owner == "kernel" else "@")[0]  # no clone, no version
    if (plain in ENTRY and not innermost) or (plain == UNKNOWN and owner != "kernel"):
        return []
    return [Function(plain, owner)]


# ---- System calls ----

ATTACH_SECONDS = 20.0
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
"""If it is 1, a process may trace only its descendants; ptrace(2), "ptrace_scope". strace and the
server are both children of this process."""
WRITES = {"write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "pwrite64"}
_CALL = re.compile(r"^\d+\s+(?P<name>[a-z_0-9]+)\((?P<rest>.*)$")


class Tracer:
    """An strace of some processes with their threads and children. End it with `stop`."""

    def __init__(self, pids: Sequence[int], watch: SignalWatch) -> None:
        """Attach to all. Raises Interrupted, or StartError if strace is missing or not allowed."""
        if shutil.which("strace") is None:
            raise StartError("strace is not installed: apt-get install strace")
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-strace-")
        self._file = Path(self._folder.name, "trace")
        attach = [word for pid in pids for word in ("-p", str(pid))]
        words = ["strace", "-f", "-qq", "-s", "16", "-o", str(self._file), *attach]
        self._child = Child(words)
        try:
            self._await(pids, watch)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop tracing without counts."""
        self.stop()

    def stop(self) -> Calls:
        """Stop tracing and return the counts."""
        self._child.end(number=signal.SIGINT)
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        self._folder.cleanup()
        counted = count(lines)
        writes = sum(counted[name] for name in WRITES) - writes_to_redis(lines)
        return Calls(by_name=dict(counted.most_common()), writes=writes)

    def _await(self, pids: Sequence[int], watch: SignalWatch) -> None:
        if self._child.until(lambda: all(map(is_traced, pids)), ATTACH_SECONDS, watch):
            return
        if self._child.running():
            raise StartError("strace did not attach")
        said = last_line(self._child.stderr) or "no error message"
        fix = "; fix: sudo sysctl kernel.yama.ptrace_scope=0"
        yama = text_of(YAMA).strip() in ("1", "2") and "not permitted" in said
        raise StartError(f"strace ended: {said}{fix if yama else ''}")


def count(lines: Iterable[str]) -> Counter[str]:
    """Return the calls by name in the lines of `strace -f -o`; an interrupted call counts once."""
    return Counter(match["name"] for line in lines if (match := _CALL.match(line)))


def writes_to_redis(lines: Iterable[str]) -> int:
    """Return the number of writes with Redis commands, which begin with the RESP array sign `*`."""
    matches = (match for line in lines if (match := _CALL.match(line)))
    return sum(m["name"] in WRITES and '"*' in m["rest"][:60] for m in matches)


def is_traced(pid: int) -> bool:
    """Return whether all threads of a process have a tracer. One of them may end meanwhile."""
    statuses = (text_of(task / "status") for task in task_folders(pid))
    return all("TracerPid:\t0\n" not in status for status in statuses)
