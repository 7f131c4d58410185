# SPDX-License-Identifier: MIT
"""Find processes in /proc, and kill them. Linux only."""

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil


def session_processes(session: int) -> list[int]:
    """Return the PIDs of a session, with zombies. A server's session has all its descendants
    except the log writers."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - with getsid(2), 20 times faster than Path
        with contextlib.suppress(ValueError, ProcessLookupError):
            if os.getsid(int(name)) == session:
                found.append(int(name))
    return found


def state(task: int) -> str:
    """Return the state of a process or thread: R, S (sleeping), D, T (stopped by SIGSTOP), t (by a
    tracer), Z (not reaped), ...; X if it has ended."""
    return (status(task, "State") or "X")[0]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended (a zombie counts as ended)."""
    return state(pid) in "ZX"


def living(session: int) -> list[int]:
    return [pid for pid in session_processes(session) if not has_ended(pid)]


def log_writers(pid: int) -> list[psutil.Process]:
    """Return the children of a server that have their own session, as log writers do."""
    children = psutil.Process(pid).children()
    return [child for child in children if os.getsid(child.pid) == child.pid]


def zombies(session: int) -> list[int]:
    return [pid for pid in session_processes(session) if state(pid) == "Z"]


def kill_session(session: int) -> None:
    """Kill all processes of a session; reap them, except the leader, which its own parent reaps.
    Repeat this, because a process may have forked after it was listed."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for pid in living(session):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap_orphans(session)
        if set(session_processes(session)) <= {session}:
            return
        time.sleep(0.01)


def reap_orphans(session: int) -> None:
    """Reap the terminated processes of a session that this process has inherited."""
    for pid in set(zombies(session)) - {session}:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def status(pid: int, key: str) -> list[str]:
    """Return the words of the line `key` in /proc/PID/status of a process or thread; empty if there
    is none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        return text.partition(f"\n{key}:")[2].partition("\n")[0].split()
    return []


def status_number(pid: int, key: str) -> int:
    """Return a number in /proc/PID/status (VmHWM, VmRSS, ... in kB); 0 if the process has ended."""
    return int((status(pid, key) or "0")[0])


def has_signal(pid: int, mask: str, number: int) -> bool:
    """Return whether a signal is in a mask of a process or thread: SigCgt (has a handler), SigBlk
    (blocked), ShdPnd (pending). False if the process has ended."""
    return bool(int((status(pid, mask) or "0")[0], 16) >> (number - 1) & 1)


def tasks(pid: int) -> list[int]:
    """Return the thread IDs of a process; empty if it has ended."""
    try:
        return [int(p.name) for p in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def own_threads(pid: int) -> int:
    """Return the number of threads of a process, without ThreadSanitizer's thread; 0 if it has
    ended. ThreadSanitizer starts a thread with all signals blocked in a process that starts threads
    and in each forked child, but not in a parent without threads."""
    masks = [status(task, "SigBlk") for task in tasks(pid)]
    return sum(not int(mask[0], 16) >> (signal.SIGTERM - 1) & 1 for mask in masks if mask)


def descriptors(pid: int) -> list[str]:
    """Return the targets of a process's descriptors; empty if the process is ending."""
    names = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed just now
                names.append(str(entry.readlink()))
    return names
