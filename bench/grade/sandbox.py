# SPDX-License-Identifier: MIT
"""The sandbox for untrusted programs: namespaces, limits, Landlock and a separate user.

If the machine allows it, the examination has its own network namespace, with loopback only, and its
own PID namespace, which ends with the examination. The compiler and the program run with limits and
Landlock (fence.py). If the grader is root, they run as a user without other processes.
"""

import functools
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.grade.fence import fenced, version
from bench.host.kernel import text_of
from bench.host.process import SignalWatch
from bench.host.project import ended_well
from bench.host.sockets import bring_up_loopback

INSIDE = "ZEROHTTPD_GRADE_INSIDE"
"""The environment variable that names the way in which the namespaces were made."""
OWN = ("--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
WAYS = {"root": ("unshare", *OWN), "user": ("unshare", "--user", "--map-root-user", *OWN)}
"""`user` needs no root rights, but a kernel that allows unprivileged user namespaces."""
FIRST_USERS = {True: range(1_000_000_000, 1_800_000_000), False: range(61_184, 65_184)}
"""User IDs that no account has, to which the lane is added. systemd reserves the first range for
containers, the second one for services. The kernel counts the tasks of a user in all namespaces, so
two examinations must not have the same ID. False: many containers have no larger ID than 65,535."""
MEMORY = 512 << 20
"""The bytes that all processes of a server together may use (`GradedServer.memory`)."""
REDIS_PASSWORD = secrets.token_urlsafe(16)
"""The password of the Redis user `grader`, who may close and limit connections."""
REDIS_LIMITS = {
    "user": "default on nopass ~* +@all -@admin -@dangerous -@scripting +info\n"
    f"user grader on >{REDIS_PASSWORD} +client +config +select",
    "maxmemory": "64mb",
    "client-output-buffer-limit": "normal 32mb 0 0",
}
"""Settings of the graded program's Redis, which runs with the grader's rights outside of the
sandbox. Therefore the program may use only commands for data."""
TIME_ZONE = "TZ=GRADE-5:30"
"""A local time that differs from GMT, to find servers that do not send dates in GMT."""
REAPING_SECONDS = 5.0
"""The time limit for init to reap processes whose parents have ended."""


@dataclass(frozen=True)
class Limits:
    """The limits of an untrusted program."""

    processor_seconds: int = 40
    address_space: int | None = 4 << 30
    """Bytes; None: no limit, because a sanitizer reserves terabytes of addresses."""
    file_bytes: int = 4 << 20  # The size limit of each file, e.g. of the program's output.
    descriptors: int = 2048
    tasks: int = 512  # Processes and threads.
    others: int = 2048
    """An allowance for other tasks of the grader's user if the program runs as this user, because
    the kernel counts all tasks of a user together."""


def enter(arguments: Sequence[str]) -> None:
    """Execute Python with these arguments in new namespaces. Return if this process already runs in
    them, or if this machine does not allow namespaces."""
    if INSIDE in os.environ:
        if os.environ[INSIDE] != "none":
            bring_up_loopback()
            # Hide the grader's arguments (proc(5)): the program must not read the seed.
            hidden = ("mount", "-o", "remount,hidepid=2,gid=0", "/proc")
            subprocess.run(hidden, capture_output=True)
        return
    way = next((name for name, words in WAYS.items() if ended_well([*words, "--", "true"])), None)
    if way is None:
        os.environ[INSIDE] = "none"
        return
    environment = {**os.environ, INSIDE: way}
    words = [*WAYS[way], "--", sys.executable, *arguments]
    os.execvpe(words[0], words, environment)


def isolation() -> list[str]:
    """Return texts that say which parts of the sandbox are active."""
    way, landlock, limits = os.environ.get(INSIDE, "none"), version(), Limits()
    tasks = limits.tasks + (limits.others if user() is None else 0)
    if user() is not None:
        rights = "a user ID of its own, without privileges"
    elif way == "user":
        reads = "" if landlock else ": it could read your files"
        rights = f"YOUR user ID, with privileges only in the sandbox{reads}"
    else:
        files = ", except with files" if landlock else ""
        rights = f"YOUR user ID: it could do everything that you can do{files}"
    network = ["no network except its own loopback", "all its processes end with the examination"]
    refused = "namespaces are refused here (grade as root, or in a disposable machine)"
    return [
        *(network if way != "none" else [f"NO network of its own: {refused}"]),
        rights,
        "read access only to the system's files and its own, and no write access"
        if landlock
        else "NO limit to the files that it may open: this kernel has no Landlock",
        f"limits: {limits.processor_seconds} s of CPU time, {limits.descriptors} "
        f"descriptors, {tasks} processes and threads, {MEMORY >> 20} MB of memory",
    ]


def apart() -> bool:
    """Return whether the examination has its own namespaces. Without namespaces, only one server
    may run at a time, because a check also sees the processes of other servers."""
    return os.environ.get(INSIDE, "none") != "none"


def user(lane: int = 0) -> int | None:
    """Return the user ID of graded programs, or None if they run as the grader's user. Each lane
    (`GradedServer.lane`) of each examination has its own ID."""
    return _nobodys(lane) if os.geteuid() == 0 and os.environ.get(INSIDE) != "user" else None


@functools.cache
def _nobodys(lane: int) -> int:
    """Return the ID of a user without processes, plus `lane`. The grader kills its processes."""
    if lane:
        return _nobodys(0) + lane
    every = "0 0 4294967295"  # also the case if the kernel has no user namespaces, and no such file
    has_all = text_of(Path("/proc/self/uid_map"), every).split() == every.split()
    while processes_of(number := secrets.choice(FIRST_USERS[has_all])):
        pass
    return number


def confined(
    command: Sequence[str],
    limits: Limits,
    reads: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    environment: Sequence[str] = (),
    lane: int = 0,
) -> list[str]:
    """Return a command line that runs `command` with limits, Landlock and the ID `user(lane)`.
    `reads`: files and folders that the command may read, in addition to the system's. `writes`:
    folders that the command may write. `environment`: additional variables (NAME=value)."""
    tasks, rights = limits.tasks, ["--no-new-privs"]
    if (number := user(lane)) is None:
        # The kernel counts all tasks of the grader's user together.
        ours = processes_of(os.getuid())
        tasks += limits.others + sum(process.info["num_threads"] for process in ours)
    else:
        rights += [f"--reuid={number}", f"--regid={number}", "--clear-groups"]
        rights += ["--inh-caps=-all", "--bounding-set=-all"]
    words = ["prlimit", f"--cpu={limits.processor_seconds}", f"--fsize={limits.file_bytes}"]
    words += [f"--nofile={limits.descriptors}", f"--nproc={tasks}", "--core=0"]
    if limits.address_space is not None:
        words.append(f"--as={limits.address_space}")
    variables = [f"PATH={os.defpath.lstrip(':')}", "LC_ALL=C.UTF-8", TIME_ZONE, *environment]
    variables += [f"TMPDIR={folder}" for folder in writes[:1]]
    inner = ["setpriv", *rights, "--", "env", "--ignore-environment", *variables, *command]
    return [*words, "--", *fenced(inner, reads, writes)]


def give(folder: Path) -> None:
    """Make the confined user (if any) the owner of a file, or of a folder and its content."""
    number = user()
    if number is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, number, number, follow_symlinks=False)


def end_strangers(lane: int) -> None:
    """Kill all processes of the confined user, if there is one, with kill(-1) as this user. The
    call also reaches processes that fork meanwhile."""
    number = user(lane)
    if number is not None:
        words = ["setpriv", f"--reuid={number}", "--clear-groups", "sh", "-c", "kill -KILL -1"]
        subprocess.run(words, capture_output=True)  # the command fails if no process is left


def forget_strangers() -> bool:
    """Wait until init has reaped the confined user's ended processes, which count against the
    limit. Return False if processes are left after REAPING_SECONDS."""
    return SignalWatch().until(lambda: not processes_of(user()), REAPING_SECONDS)


def processes_of(number: int | None) -> list[psutil.Process]:
    """Return the processes of a user, with the number of their threads in `info`."""
    every = psutil.process_iter(["uids", "num_threads"])
    return [one for one in every if one.info["uids"] and one.info["uids"].real == number]
