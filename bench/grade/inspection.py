# SPDX-License-Identifier: MIT
"""Inspect a server's processes in /proc: the system calls in which their threads wait, how often
these wake up, and the open descriptors."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from bench.grade.scene import Scene
from bench.grade.stage import NotHere
from bench.host.accounting import rusage_of_reaped
from bench.host.kernel import cpu_ticks, difference
from bench.host.process import task_folders
from bench.host.programs import call_name
from bench.host.sockets import ALL, LISTEN, tcp_sockets

FUTEX_PRIVATE_FLAG, FUTEX_WAIT, CONTENDED = 0x80, 0, 2
STUCK_SECONDS = 0.8
SAME_FILE, MOST_FILES = 3, 68
"""The number of descriptors of one file, and of all files, that a process may have: a server keeps
64 files open that no client receives (OPEN_FILES, lib/config.h)."""


def busy_others() -> Callable[[], float]:
    """Return a function that returns the share of the CPUs' time since now that other programs
    than this process and its ended children have used."""
    cpus = os.sched_getaffinity(0)

    def own_seconds() -> float:
        return time.process_time() + rusage_of_reaped().total / 1e6

    before, own, begun = cpu_ticks(cpus), own_seconds(), time.monotonic()

    def share() -> float:
        passed = (time.monotonic() - begun) * len(cpus) or 1.0
        busy = difference(cpu_ticks(cpus), before).busy_share or 0.0
        return max(0.0, busy - (own_seconds() - own) / passed)

    return share


def kept_lock(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread that waits without a timeout for the same mutex, now and after
    STUCK_SECONDS. If there are several mutexes, only the one with most threads counts. As long as
    the number of waiting threads falls, the mutex is only busy, and this function waits longer."""
    after = _waits_for_locks(pids)
    while before := after:
        time.sleep(STUCK_SECONDS)
        after = _waits_for_locks(pids)
        if len(after) >= len(before):
            break
    lines: dict[str, list[str]] = defaultdict(list)
    for thread, mutex in before.items():
        if after.get(thread) == mutex:
            lines[mutex].append(f"{thread} futex({mutex}, FUTEX_WAIT, 2, NULL) <has not returned>")
    return max(lines.values(), key=len, default=[])


def wake_ups(pids: Sequence[int]) -> dict[int, int]:
    """Return the number of each thread's voluntary context switches since its start."""
    found = {}
    for task in _tasks(pids):
        with suppress(OSError):
            _, _, after = (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")
            found[int(task.name)] = int(after.split()[0]) if after else 0
    return found


def in_accept(pids: Sequence[int]) -> list[int]:
    """Return the processes whose first thread waits in accept."""
    calls = ((pid, _call(Path(f"/proc/{pid}/task/{pid}"))) for pid in pids)
    return [pid for pid, call in calls if call and call_name(call[0]).startswith("accept")]


def sleeping(pids: Sequence[int]) -> list[str]:
    """Return a line for each sleeping thread: its number and the name of its system call."""
    calls = ((task.name, _call(task)) for task in _tasks(pids))
    return [f"{name} {call_name(call[0])}( <has not returned>" for name, call in calls if call]


def _waits_for_locks(pids: Sequence[int]) -> dict[int, str]:
    """Return by thread the address of the mutex that it waits for. The C library uses this futex
    operation for mutexes only, not for condition variables or semaphores."""
    found = {}
    for task in _tasks(pids):
        call = _call(task)
        if len(call) < 5 or call_name(call[0]) != "futex":
            continue
        address, operation, value, timeout = call[1:5]
        if (operation & ~FUTEX_PRIVATE_FLAG, value, timeout) == (FUTEX_WAIT, CONTENDED, 0):
            found[int(task.name)] = f"{address:#x}"
    return found


def _tasks(pids: Sequence[int]) -> Iterator[Path]:
    """Return /proc/PID/task/TID for each thread."""
    return chain.from_iterable(map(task_folders, pids))


def _call(task: Path) -> list[int]:
    """Return number and arguments of the call that a thread waits in; empty if it runs."""
    with suppress(OSError, ValueError):
        return [int(word, 0) for word in (task / "syscall").read_text().split()]
    return []


def can_look(scene: Scene) -> bool:
    """Return whether the descriptors of the server's processes can be read."""
    try:
        Path(f"/proc/{scene.pid}/exe").readlink()
    except PermissionError:
        return False
    except OSError:
        pass  # the server has ended: the checks report this
    return True


def must_look(scene: Scene) -> None:
    """Raise NotHere if the descriptors of the server's processes cannot be read. In a container
    without this right the grader would find no leak."""
    if not can_look(scene):
        raise NotHere(
            "the processes of another user cannot be inspected here; start the container with "
            "--cap-add SYS_PTRACE"
        )


def redis_connections(scene: Scene) -> int:
    """Return how many connections to Redis the server has open; this process has some, too."""
    ours = {0}  # 0: the connection has ended, and only the kernel still has it
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            ours.add(descriptor.stat().st_ino)
    return sum(one.inode not in ours for one in tcp_sockets(remote=scene.redis_port or 0))


def opened(scene: Scene) -> Iterator[list[tuple[Path, str]]]:
    """Yield for each process of the server its descriptors in /proc and their targets."""
    for paths in scene.entries("fd"):
        found = []
        for path in paths:
            with suppress(OSError):
                found.append((path, str(path.readlink())))
        yield found


def is_tcp(path: Path) -> bool:
    """Return whether a socket is a TCP socket; True if the kernel does not report the protocol."""
    try:
        return b"TCP" in os.getxattr(path, "system.sockprotoname")
    except OSError:
        return True


def useless_descriptors(scene: Scene) -> int:
    """Return the number of leaked descriptors: TCP sockets that neither listen nor lead to Redis,
    and those of files beyond SAME_FILE or MOST_FILES in a process."""
    redis_port = scene.redis_port or 0
    useful = {
        f"socket:[{one.inode}]"
        for one in [
            *tcp_sockets(local=scene.address[1], states=LISTEN),
            *tcp_sockets(remote=redis_port, states=ALL & ~LISTEN),
        ]
    }
    count = 0
    for descriptors in opened(scene):
        files: Counter[str] = Counter()
        for path, name in descriptors:
            if name.startswith("socket:"):
                count += name not in useful and is_tcp(path)
            else:
                files[name] += str(scene.site.root) in name
        count += sum(max(0, times - SAME_FILE) for times in files.values())
        count += max(0, files.total() - MOST_FILES)
    return count


def channels(scene: Scene) -> set[str]:
    """Return the names of the server's open pipes and non-TCP sockets. Epoll sets, eventfds and
    the like have no unique names: they are numbered within a process."""
    found: set[str] = set()
    for descriptors in opened(scene):
        nameless: Counter[str] = Counter()
        for path, name in descriptors:
            if name.startswith("anon_inode:"):
                nameless[name] += 1
            elif name.startswith("pipe:") or (name.startswith("socket:") and not is_tcp(path)):
                found.add(name)
        found |= {f"{name} {i}" for name, times in nameless.items() for i in range(times)}
    return found
