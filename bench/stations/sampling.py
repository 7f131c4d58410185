# SPDX-License-Identifier: MIT
"""Profile servers under load: sample or count their functions, count their system calls.

perf samples the call stack on the servers' CPU thousands of times a second, including kernel
functions. Samples of other processes are dropped, so the results are shares of the servers' CPU
time. perf samples CPUs instead of processes, because perf would start a new sampling period for
each new process. Short processes, such as the children of `forking`, would have no samples.

If perf is not allowed (kernel.perf_event_paranoid, or a container that forbids perf_event_open),
the profile is written when a server ends. Valgrind's callgrind counts the instructions of each
function exactly, but only in user space, and measures no time. The server runs about fifty times
slower. A Go program can sample itself: its runtime takes 100 samples per second of CPU time. Its
samples count kernel time for the function that makes the system call.

strace counts system calls. A traced server is slower, so it may wait more often, which adds a few
calls.
"""

import os
import platform
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from bench.host.kernel import task_folders, text_of
from bench.host.process import Child, SignalWatch, StartError, last_line
from bench.host.project import completed, find_program, output_of
from bench.records.conditions import Mode
from bench.records.errors import UserError
from bench.records.figures import Frame, StackFigures
from bench.subjects.running import CALLGRIND_FILE
from bench.subjects.subject import PROFILE_FILE

# ---- Call stacks as a tree for a flame graph ----

SMALLEST = 0.004
"""A function with a smaller share of the whole profile is counted as a part of its caller."""
STARTS = frozenset({"main", "start_thread"})
"""The functions with which the stack of a process or thread begins in a profile."""
Owner = Literal["server", "library", "kernel"]
OWN_MEMORY = ("[vdso", "[vsyscall", "[heap", "[stack", "[unknown", "[anon")
"""A file name with one of these prefixes means memory of the process, not a file."""


class Function(NamedTuple):
    """A function and its owner."""

    name: str
    of: Owner = "server"


Stack = tuple[Function, ...]
"""The functions of a stack, the outermost first."""


def owner_of(place: str) -> Owner:
    """Return the owner of a function; `place` is the function's file, as perf or callgrind
    names it. A name in brackets means the kernel or memory without a file, e.g. the vdso."""
    if place.startswith("bpf_prog_"):
        return "kernel"
    if place.startswith("["):
        return "library" if place.startswith(OWN_MEMORY) else "kernel"
    return "library" if ".so" in place else "server"


def tree(stacks: Iterable[tuple[Stack, int]]) -> list[Frame]:
    """Return the merged stacks. Each begins with its first function that is in STARTS. Functions
    with small shares are counted as parts of their callers."""
    counted = Counter[Stack]()
    for stack, count in stacks:
        begin = next((i for i, one in enumerate(stack) if one.name in STARTS), 0)
        counted[stack[begin:]] += count
    return _frames(counted, SMALLEST * counted.total())


def _frames(stacks: Mapping[Stack, int], least: float) -> list[Frame]:
    below: dict[Function, Counter[Stack]] = {}
    for stack, count in stacks.items():
        if stack:
            below.setdefault(stack[0], Counter())[stack[1:]] += count
    kept = [(function, each.total(), each) for function, each in below.items()]
    return [
        Frame(name=function.name, of=function.of, count=count, below=_frames(each, least))
        for function, count, each in sorted(kept, key=lambda one: (-one[1], one[0]))
        if count >= least
    ]


# ---- Samples by perf ----

RATE = 4999
"""Samples per second: no multiple of the kernel's tick rate, so samples do not follow ticks."""
STACK_BYTES = 4096
"""The number of bytes of each stack that perf copies. perf searches for the callers in these bytes,
because the servers have no frame pointers."""
FRAME_POINTERS = ("--call-graph", "fp")
"""The options for Go programs, which have frame pointers. perf cannot use their unwind tables,
because Go compresses them."""
OF_GO = ".go.buildinfo"
ARM_REGISTERS = ",".join([*(f"x{number}" for number in range(30)), "lr", "sp", "pc"])
"""The registers that perf records on ARM. By default perf adds SVE's vector length, which the
kernel's cpu-clock event does not support."""
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
"""All system calls enter the kernel through these functions, so a profile omits them as callers."""
UNKNOWN = "[unknown]"
_FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):")


@cache
def why_no_perf() -> str:
    """Return the reason why perf cannot be used here; empty if perf works."""
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
    """Return the profiling method that works here; for "auto", also the reason if it is not perf.
    Raises UserError if `wanted` names a method that does not work."""
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
    return None, f"{reason}; valgrind, which can count instructions, is not installed"


class Sampler:
    """A running perf that samples some processes. End it with `stop`."""

    def __init__(
        self, pids: Sequence[int], theirs: Sequence[int], own: Sequence[int], watch: SignalWatch
    ) -> None:
        """Sample these processes and their children on the CPUs `theirs` (empty: all CPUs); perf
        runs on `own`. Raises StartError or Interrupted."""
        if reason := why_no_perf():
            raise StartError(reason)
        self._pids = set(pids)
        self._names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-perf-")
        place = Path(self._folder.name)
        for name in ("order", "answer"):
            os.mkfifo(place / name)
        # Each FIFO is opened for reading and writing, because opening one end would wait for perf.
        self._order = os.open(place / "order", os.O_RDWR | os.O_NONBLOCK)
        self._answer = os.open(place / "answer", os.O_RDWR | os.O_NONBLOCK)
        where = ["--cpu", ",".join(map(str, theirs))] if theirs else ["--all-cpus"]
        control = f"fifo:{place / 'order'},{place / 'answer'}"
        options = ["--output", str(place / "data"), "--delay", "-1", "--control", control]
        back = FRAME_POINTERS if any(map(_is_of_go, pids)) else STACKS
        self._child = Child([*RECORD, *back, *where, *options], own)
        os.write(self._order, b"enable\n")
        _await(self, self._child, lambda: select.select([self._answer], [], [], 0)[0], watch)

    def stop(self) -> StackFigures:
        """Stop sampling and return the profile. Raise StartError if perf has no samples."""
        self._child.end(READY_SECONDS, signal.SIGINT)
        words = ["perf", "script", "--input", str(Path(self._folder.name, "data")), "--no-inline"]
        words += ["--comms", ",".join(self._names)]  # perf skips processes with other names
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


def _await(
    tool: "Sampler | Tracer", child: Child, ready: Callable[[], object], watch: SignalWatch
) -> None:
    """Wait until a tool is `ready`; otherwise close it. Raises StartError or Interrupted."""
    try:
        if not child.until(ready, READY_SECONDS, watch):
            said = last_line(child.stderr) or "no error message"
            yama = re.search("ptrace.*not permitted", said) and text_of(YAMA).strip() in ("1", "2")
            fix = "; fix: sudo sysctl kernel.yama.ptrace_scope=0" if yama else ""
            how = (
                "did not begin to observe the servers" if child.running() else f"ended: {said}{fix}"
            )
            raise StartError(f"{child.command[0]} {how}")
    except BaseException:
        tool.close()
        raise


def _is_of_go(pid: int) -> bool:
    return OF_GO in output_of(["readelf", "--sections", "--wide", f"/proc/{pid}/exe"])


def stacks_of(lines: Iterable[str], pids: Collection[int]) -> Iterator[tuple[Stack, int]]:
    """Yield the samples of some processes and their descendants, from the output of `perf script
    --show-task-events --fields pid,ip,sym,dso`. A sample is a line with the PID, a line for each
    function (the innermost first), and an empty line."""
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
    """Return a list with a line's function; empty for a caller in ENTRY or unknown user code."""
    _, _, rest = line.strip().partition(" ")
    name, _, place = rest.rpartition(" (")
    owner = owner_of(place)
    plain = name.strip().partition("." if owner == "kernel" else "@")[0]  # no suffix
    if (plain in ENTRY and not innermost) or (plain == UNKNOWN and owner != "kernel"):
        return []
    return [Function(plain, owner)]


# ---- Profiles that servers write when they end ----

START_AND_END = frozenset({"server_start", "server_ready", "server_end"})
"""Functions that run once, before or after all requests."""
READ_SECONDS = 60.0
"""The time limit of perf script and pprof. Newer versions of Go build pprof at its first use."""
CALLERS_OF_KERNEL = frozenset({"internal/runtime/syscall/linux.Syscall6", "runtime.futex"})
"""Functions that spend almost all their time in the kernel."""
RULE = "-----------+-"
"""The beginning of the line before each stack in pprof's output."""


def what_was_counted(folder: Path) -> StackFigures | None:
    """Return the profile of all processes that have written a file into `folder`; None if no file
    has a stack of a request, or if a killed process left a truncated file."""
    files = list(folder.glob(f"{CALLGRIND_FILE}*"))
    if not all("\ntotals: " in file.read_text(errors="replace")[-100:] for file in files):
        return None
    stacks = [one for file in files for one in counts(file) if _is_serving(one[0])]
    return StackFigures(how="callgrind", kernel=False, frames=tree(stacks)) if stacks else None


def counts(file: Path) -> Iterator[tuple[Stack, int]]:
    """Yield the stacks in a file, each with its number of instructions, see "Callgrind Format
    Specification"."""
    names: dict[str, str] = {}
    objects: dict[str, str] = {}
    owners: dict[str, Owner] = {}
    place: Owner = "server"
    found: list[tuple[list[str], int]] = []
    stack: list[str] = []
    below = False  # the line after "calls=" repeats the cost that the callee's own lines have
    with file.open(errors="replace") as lines:
        for line in lines:
            key, _, value = line.rstrip().partition("=")
            number, _, name = value.partition(" ")
            if key == "ob":
                place = owner_of(objects.setdefault(number, name))
            elif key in ("fn", "cfn"):
                names.setdefault(number, name)
                if key == "fn":
                    stack = [one.split("@")[0] for one in names[number].split("'")][::-1]
                    owners[stack[-1]] = place
            elif key == "calls":
                below = True
            elif line[0] in "0123456789+-*":
                if not below:
                    found.append((stack, int(line.split()[1])))
                below = False
    for called, count in found:
        yield tuple(Function(name, owners.get(name, "server")) for name in called), count


def _is_serving(stack: Stack) -> bool:
    names = {function.name for function in stack}
    return not STARTS.isdisjoint(names) and START_AND_END.isdisjoint(names)


def what_it_wrote(folder: Path) -> StackFigures:
    """Return the profile that a Go program has written into `folder`. Raise StartError if pprof
    cannot read the file or finds no samples."""
    pprof = ["go", "tool", "pprof", "-symbolize=none", "-sample_index=samples", "-traces"]
    stacks = stacks_by([*pprof, str(folder / PROFILE_FILE)], traces)
    return StackFigures(how="pprof", kernel=False, frames=tree(stacks))


def stacks_by(
    command: Sequence[str], read: Callable[[Iterable[str]], Iterable[tuple[Stack, int]]]
) -> list[tuple[Stack, int]]:
    """Return the stacks that `read` finds in a tool's output. Raises StartError if it finds
    none."""
    try:
        done = completed(command, READ_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"{command[0]} cannot read the profile: {error}") from None
    stacks = list(read(done.stdout.splitlines()))
    if done.returncode != 0 or not stacks:
        raise StartError(f"{command[0]} found no samples: {last_line(done.stderr)}")
    return stacks


def traces(lines: Iterable[str]) -> Iterator[tuple[Stack, int]]:
    """Yield the stacks in the output of `go tool pprof -traces`. A stack is a line like RULE, then
    a line with the count and the innermost function, then a line for each caller."""
    found: list[Function] = []
    count = 0
    for line in lines:
        if line.startswith(RULE):
            if found:
                yield tuple(reversed(found)), count
            found, count = [], -1
        elif count:
            number, name = line[:10].strip(), line[10:].strip().removesuffix(" (inline)")
            if count < 0:
                count = int(number)
            found.append(Function(name, "kernel" if name in CALLERS_OF_KERNEL else "server"))


# ---- System calls ----

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
"""If this setting is 1, a process may trace only its descendants, see "ptrace_scope" in ptrace(2).
Then strace may not trace a server, because strace and server are children of this process."""
WRITES = {"write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "pwrite64"}
_CALL = re.compile(r"^\d+\s+(?P<name>[a-z_0-9]+)\((?P<rest>.*)$")


class Calls(BaseModel):
    """The system calls during a load."""

    by_name: dict[str, int] = {}  # How often each system call was made, the most frequent first.
    writes: int = 0  # The number of writes to clients.


class Tracer:
    """A running strace that traces some processes, their threads and children. Call `stop`."""

    def __init__(self, pids: Sequence[int], watch: SignalWatch) -> None:
        """Attach strace to all processes. Raises Interrupted, or StartError if it fails."""
        if shutil.which("strace") is None:
            raise StartError("strace is not installed: apt-get install strace")
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-strace-")
        self._file = Path(self._folder.name, "trace")
        attach = [f"-p{pid}" for pid in pids]
        self._child = Child(["strace", "-f", "-qq", "-s16", "-o", str(self._file), *attach])
        _await(self, self._child, lambda: all(map(is_traced, pids)), watch)

    def stop(self) -> Calls:
        """Stop tracing and return the counts."""
        self._child.end(number=signal.SIGINT)
        lines = text_of(self._file).splitlines()
        self._folder.cleanup()
        counted = count(lines)
        writes = sum(counted[name] for name in WRITES) - writes_to_redis(lines)
        return Calls(by_name=dict(counted.most_common()), writes=writes)

    close = stop


def count(lines: Iterable[str]) -> Counter[str]:
    """Return the numbers of calls by name in the output of `strace -f -o`."""
    return Counter(call["name"] for call in filter(None, map(_CALL.match, lines)))


def writes_to_redis(lines: Iterable[str]) -> int:
    """Return the number of writes to Redis: a Redis command begins with the sign `*`."""
    calls = filter(None, map(_CALL.match, lines))
    return sum(call["name"] in WRITES and '"*' in call["rest"][:60] for call in calls)


def is_traced(pid: int) -> bool:
    """Return whether all threads of a process have a tracer. Ignore threads that have just
    ended."""
    statuses = (text_of(task / "status") for task in task_folders(pid))
    return all("TracerPid:\t0\n" not in status for status in statuses)
