# SPDX-License-Identifier: MIT
"""What stands between this machine and the program of a stranger.

The whole examination runs in namespaces of its own: a network of which only the loopback is there,
and a table of processes that ends with it. The program itself, and the compiler that makes it, run
under limits and behind a fence (fence.py); where we are root, as a user whom nobody else is.
"""

import contextlib
import ctypes
import functools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.grade.fence import fenced, version
from bench.host.loopback import bring_up_loopback
from bench.host.programs import ended_well

INSIDE = "ZEROHTTPD_GRADE_INSIDE"
"""In the environment of an examination that is in namespaces of its own: how they were made."""
OWN = ("--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
WAYS = {"root": ("unshare", *OWN), "user": ("unshare", "--user", "--map-root-user", *OWN)}
"""The second one needs no root, but a kernel that lets everybody make a namespace of users."""
FIRST_USER, USERS = 61_184, 4_000
"""Numbers that systemd gives to services that need a user for a moment: nobody's account."""
MEMORY = 512 << 20
"""Bytes that all processes of a server may hold, but for what they share; `Scene.guarded` looks."""
REDIS_LIMITS = {
    "user": "default on nopass ~* +@all -@admin -@dangerous -@scripting +info",
    "maxmemory": "64mb",
    "client-output-buffer-limit": "normal 32mb 0 0",
}
"""Of the Redis that a program is given. It stands outside of the fence, with our rights: so
it obeys in what is done with data, and in nothing else."""
REAPING_SECONDS = 5.0
"""Within which init asks for those whose parents have ended."""
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Limits:
    """What a program may take."""

    processor_seconds: int = 40
    address_space: int | None = 4 << 30
    """Bytes; None: any, for a program whose sanitizer needs a thousand times what it uses."""
    file_bytes: int = 4 << 20
    """Of what it says, too: all of that is read again and again."""
    descriptors: int = 1024
    tasks: int = 512
    """Processes and threads."""
    others: int = 2048
    """As many again may our user begin elsewhere, where the program has none of its own: the kernel
    counts them together."""


def enter(arguments: Sequence[str]) -> None:
    """Become Python with these arguments in namespaces of its own, as far as this machine allows;
    returns where it is there already, or must stay."""
    if INSIDE in os.environ:
        if os.environ[INSIDE] != "none":
            _die_with_parent()
            bring_up_loopback()
        return
    way = next((name for name, words in WAYS.items() if ended_well([*words, "--", "true"])), None)
    if way is None:
        os.environ[INSIDE] = "none"
        return
    environment = {**os.environ, INSIDE: way}
    words = [*WAYS[way], "--", sys.executable, *arguments]
    os.execvpe(words[0], words, environment)


def isolation() -> list[str]:
    """What is in force, in words for the one who grades."""
    way = os.environ.get(INSIDE, "none")
    told = (
        ["no network but its own loopback", "all its processes end with the examination"]
        if way != "none"
        else ["NO network of its own: namespaces are refused here (run it as root, or in a machine "
              "that is thrown away)"]
    )  # fmt: skip
    if user() is not None:
        told.append("a user of its own, without rights")
    elif way == "user":
        reads = "" if version() else ": it could read what you can read"
        told.append(f"YOUR user, but without rights outside{reads}")
    else:
        files = ", but for files" if version() else ""
        told.append(f"YOUR user: it could do what you can do{files}")
    told.append(
        "no file but the system's and its own, and none to write"
        if version()
        else "NO fence around its files: this kernel has no Landlock"
    )
    limits = Limits()
    tasks = limits.tasks if user() is not None else limits.tasks + limits.others
    told.append(
        f"limits: {limits.processor_seconds} s of processor time, {limits.descriptors} "
        f"descriptors, {tasks} processes and threads, {MEMORY >> 20} MB of memory"
    )
    return told


def user() -> int | None:
    """The number of the user that programs run as; None: ours. The same for the whole
    examination, and another one for each."""
    return _nobodys() if os.geteuid() == 0 and os.environ.get(INSIDE) != "user" else None


@functools.cache
def _nobodys() -> int:
    """A number under which nothing runs: all that does will be ended."""
    number = FIRST_USER + secrets.randbelow(USERS)
    while _are_there(number):
        number = FIRST_USER + secrets.randbelow(USERS)
    return number


def confined(
    command: Sequence[str],
    limits: Limits,
    reads: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    environment: Sequence[str] = (),
) -> list[str]:
    """The command line with its limits, its fence, its user and an empty environment in front.
    `reads`, `writes`: folders that it may read, beside the system's, and write; `environment`:
    variables (NAME=value) that it gets."""
    words = [
        "prlimit",
        f"--cpu={limits.processor_seconds}",
        f"--fsize={limits.file_bytes}",
        f"--nofile={limits.descriptors}",
        "--core=0",
    ]
    if limits.address_space is not None:
        words.append(f"--as={limits.address_space}")
    number = user()
    if number is None:
        words.append(f"--nproc={limits.tasks + limits.others + _tasks_of_ours()}")
        user_words = ["setpriv", "--no-new-privs"]
    else:
        words.append(f"--nproc={limits.tasks}")
        user_words = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]
        user_words += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    variables = [f"PATH={os.defpath.lstrip(':')}", "LC_ALL=C.UTF-8", *environment]
    variables += [f"TMPDIR={folder}" for folder in writes[:1]]
    inner = [*user_words, "--", "env", "--ignore-environment", *variables, *command]
    return [*words, "--", *fenced(inner, reads, writes)]


def give(folder: Path) -> None:
    """Make a folder, with all in it, the confined user's."""
    number = user()
    if number is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, number, number, follow_symlinks=False)


def end_strangers() -> None:
    """End whatever the confined user still runs: kill(-1) in his name misses none that forks
    meanwhile. Where there is a table of processes of its own, they would end with it."""
    number = user()
    if number is not None:
        words = ["setpriv", f"--reuid={number}", "--clear-groups", "sh", "-c", "kill -KILL -1"]
        subprocess.run(words, capture_output=True)  # it fails where nobody is left


def forget_strangers() -> bool:
    """Wait a little until those that have ended are forgotten: until init has asked how they ended
    they count among those that the user may have. False: they still do."""
    deadline = time.monotonic() + REAPING_SECONDS
    while _are_there(user()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _are_there(number: int | None) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == number:
                return True
    return False


def _die_with_parent() -> None:
    """Should unshare(1) be killed, --kill-child ends us; this is for one that is too old for it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _tasks_of_ours() -> int:
    """Those of our user: the kernel counts them all together."""
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == os.getuid():
                count += process.num_threads()
    return count
