# SPDX-License-Identifier: MIT
"""Servers in which a test can make system calls and allocations fail: see tests/faults/faults.c."""

import ctypes
import errno
import mmap
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from typing_extensions import Self

from bench.host.project import toml_of
from bench.host.sockets import LISTEN, tcp_sockets

from . import processes
from .harness import REPOSITORY, Server

LIBRARY = REPOSITORY / "build" / "faults.so"
SHORT = 0
"""Used instead of an errno: the call succeeds, but transfers only one byte."""


def faults(part: str) -> list[Any]:
    """Return the calls in the tables PART and shared_PART of faults.toml, each with its errors, as
    parameters of a test. Calls in shared_PART get the mark shared_code."""
    tables = toml_of(Path(__file__).parent / "limits" / "faults.toml")
    found = []
    for table, marks in ((part, ()), (f"shared_{part}", pytest.mark.shared_code)):
        for call, words in tables[table].items():
            errors = [SHORT if word == "SHORT" else getattr(errno, word) for word in words.split()]
            found.append(pytest.param(call, errors, marks=marks, id=call))
    return found


class Plan(ctypes.Structure):
    """The call that fails, in memory shared with the server: `struct plan` of faults.c. `seen`: how
    often the call was made; `crashes`: how many processes were killed by a signal such as SIGSEGV;
    `blocks`: the number of allocated blocks, only for a server without children."""

    _counts = ("nth", "error", "seen", "failed", "crashes", "blocks")
    _fields_ = (("call", ctypes.c_char * 32), *((name, ctypes.c_int64) for name in _counts))
    file: IO[bytes]

    @classmethod
    def new(cls) -> Self:
        file = tempfile.NamedTemporaryFile(prefix="zs-plan-")  # noqa: SIM115 - kept open
        file.truncate(4096)
        plan = cls.from_buffer(mmap.mmap(file.fileno(), 4096))
        plan.file = file
        return plan

    def arm(self, call: str, nth: int, error: int) -> None:
        """Let the `nth` next call of the function `call` fail with the errno `error`. If `error` is
        SHORT, the call transfers one byte. If `error` is a negative signal number, the call
        succeeds, and its caller gets the signal."""
        self.call = b""
        self.nth, self.error, self.seen, self.failed = nth, error, 0, 0
        self.call = call.encode()

    def disarm(self) -> bool:
        """Stop all faults; return whether one has happened."""
        self.call, failed = b"", self.failed > 0
        return failed

    def count(self, call: str) -> None:
        """Count the calls of this name in `seen`."""
        self.arm(call, 0, 0)


@dataclass
class FaultyServer(Server):
    """A server with the library of faults loaded before the C library."""

    plan: Plan = field(default_factory=Plan.new)

    def __post_init__(self) -> None:
        """Let env(1) load the library into the server only."""
        self.prefix = ("env", f"LD_PRELOAD={LIBRARY}", f"FAULTS={self.plan.file.name}")

    def open_sockets(self) -> int:
        """Return the number of the server's sockets, without listening sockets."""
        names = {name for pid in self.pids() for name in processes.descriptors(pid)}
        listening = {f"socket:[{one.inode}]" for one in tcp_sockets(self.port, states=LISTEN)}
        return sum(name.startswith("socket:") for name in names - listening)

    def files_opened_twice(self) -> list[str]:
        """Return the files of the site that a process of the server has open twice."""
        found = []
        for pid in self.pids():
            names = [n for n in processes.descriptors(pid) if n.startswith(str(self.root))]
            found += sorted({name for name in names if names.count(name) > 1})
        return found
