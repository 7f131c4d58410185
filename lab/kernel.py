# SPDX-License-Identifier: MIT
"""System calls that a lab needs and Python 3.11 lacks, texts for their errors, child processes."""

import ctypes
import errno
import os
import re
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from lab.plan import LabError

NEW_MOUNTS = 0x00020000
NEW_HOST_NAME = 0x04000000
NEW_IPC = 0x08000000
NEW_PROCESSES = 0x20000000
NEW_NETWORK = 0x40000000
"""Kinds of namespaces, for `unshare` and `enter`: unshare(2), setns(2)."""

READ_ONLY = 0x0001
NO_SET_UID = 0x0002
NO_DEVICES = 0x0004
NO_EXEC = 0x0008
REMOUNT = 0x0020
BIND = 0x1000
RECURSIVE = 0x4000
PRIVATE = 0x40000
"""Flags for `mount`: mount(2)."""

_SET_DEATH_SIGNAL = 1

_libc = ctypes.CDLL(None, use_errno=True)


class KernelRefusal(OSError):
    """A system call of this module failed; `filename` describes the attempt."""

    def __init__(self, number: int, what: str, file_system: str = "") -> None:
        """`number`: an errno; `file_system`: the type that mount(2) tried to mount."""
        super().__init__(number, os.strerror(number), what)
        self.file_system = file_system


def in_words(error: Exception) -> str:
    """Return the text of an error. If a system call is not allowed, add a likely fix."""
    if not isinstance(error, OSError):
        return str(error)
    what = str(error.filename or "the kernel")
    if isinstance(error, KernelRefusal) and error.errno == errno.ENODEV and error.file_system:
        return f"this kernel lacks the file system {error.file_system} (module {error.file_system})"
    if isinstance(error, KernelRefusal) and error.errno in (errno.EPERM, errno.EACCES):
        return f"{what} is not allowed here: start the container with --privileged"
    return f"{what}: {error.strerror or error}"


def unshare(kinds: int) -> None:
    """Give this process new namespaces. A new PID namespace applies only to later children."""
    _check(_libc.unshare(kinds), "unshare")


def enter(descriptor: int, kinds: int) -> None:
    """Move this process into a namespace; for a pidfd, into the namespaces of its process."""
    _check(_libc.setns(descriptor, kinds), "setns")


def mount(
    source: str | Path, target: str | Path, kind: str = "", flags: int = 0, options: str = ""
) -> None:
    """Mount a file system, or change a mount: mount(2)."""
    words = (os.fsencode(word) or None for word in (source, target, kind))
    result = _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) or None)
    _check(result, f"mount {kind or source} on {target}", kind)


def bind(source: str | Path, target: str | Path, flags: int = 0) -> None:
    """Mount a file or folder at a second place, with these flags."""
    mount(source, target, flags=BIND)
    mount("none", target, flags=REMOUNT | BIND | flags)


class Mounted(NamedTuple):
    """A mount of this namespace."""

    path: Path
    kind: str  # The type of the file system.
    options: str


def mounts() -> Iterator[Mounted]:
    """Yield the mounts of this namespace (/proc/self/mountinfo)."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        # A space in a path is written as \040.
        path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), before.split()[4])
        kind, _, options = after.split(" ", 2)
        yield Mounted(Path(path), kind, options)


def set_domain(name: str) -> None:
    """Set the NIS domain name of this UTS namespace, which few programs use."""
    raw = name.encode()
    _check(_libc.setdomainname(raw, ctypes.c_size_t(len(raw))), "setdomainname")


def domain() -> str:
    """Return the NIS domain name of this UTS namespace."""
    return Path("/proc/sys/kernel/domainname").read_text().rstrip("\n")


def in_a_chroot() -> bool:
    """Return whether `/` is not the root of this mount namespace. Raises OSError if setns(2) fails.

    The function compares `/` before and after setns(2), which moves a process out of a chroot, to
    the root of the mount namespace. Other signs are not reliable: in a chroot `/` may be a mount,
    and in a container /proc/1/root may be unreadable. A missing /proc also makes a difference.
    """
    show = ["sh", "-c", "exec 3</; cat /proc/self/fdinfo/3; stat -c %d:%i /"]
    enter_again = ["nsenter", "--mount=/proc/self/ns/mnt", "--", *show]
    here, there = (
        subprocess.run(words, capture_output=True, text=True) for words in (show, enter_again)
    )
    if there.stderr.startswith("nsenter:"):
        raise KernelRefusal(errno.EPERM, "setns")
    return here.stdout != there.stdout


def run(words: Sequence[str | Path], text: str = "", what: str = "") -> None:
    """Run a program with `text` as its input. Raise LabError if the program fails. `what`: the
    beginning of the message (default: the program)."""
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"{what or words[0]}: {first_line(done.stderr)}")


def first_line(text: str) -> str:
    """Return the first line of a program's errors, or a text if there is none."""
    return next(iter(text.strip().splitlines()), "failed without a message")


def number_outside() -> int:
    """Return this process's PID in the PID namespace of /proc."""
    return int(Path("/proc/self").readlink().name)


def die_with_parent(signal_number: int) -> None:
    """Make the kernel send a signal to this process when its parent ends; 0: no signal."""
    _check(_libc.prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal_number)), "prctl")


class LabProcess:
    """A forked process, the first of a new PID namespace, which sends its parent one report."""

    def __init__(self, name: str, run: Callable[[Connection], None]) -> None:
        """Fork a child, which calls `run` with its side of the connection and then ends. If `run`
        raises an error, the child sends the error to the parent, with `name` in front if given."""
        self._name = name
        self._line, theirs = Pipe()
        with theirs, Path("/proc/self/ns/pid").open("rb", buffering=0) as own:
            unshare(NEW_PROCESSES)
            try:
                self.pid = os.fork()
                if self.pid == 0:  # the child must not execute the `finally` below
                    self._line.close()
                    _run(name, run, theirs)
            finally:
                enter(own.fileno(), NEW_PROCESSES)

    def report(self, seconds: float | None = None) -> Any:
        """Return the child's report. Raise LabError if the child reports an error or ends, or after
        `seconds`."""
        try:
            if not self._line.poll(seconds):
                raise LabError(f"not ready after {seconds:.0f} s")
            report = self._line.recv()
        except (EOFError, ConnectionError) as error:
            name = self._name or "the keeper of the lab"
            raise LabError(f"{name} ended without a message") from error
        if isinstance(report, LabError):
            raise report
        return report


def _run(name: str, run: Callable[[Connection], None], line: Connection) -> NoReturn:
    try:
        run(line)
    except Exception as error:
        if not isinstance(error, (LabError, OSError)):
            traceback.print_exc()
        prefix = f"{name}: " if name else ""
        line.send(LabError(f"{prefix}{in_words(error)}"))
    finally:
        os._exit(1)


def _check(result: int, what: str, file_system: str = "") -> None:
    if result == -1:
        raise KernelRefusal(ctypes.get_errno(), what, file_system)
