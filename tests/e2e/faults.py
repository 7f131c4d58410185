# SPDX-License-Identifier: MIT
"""Servers in which a test can make system calls fail: see tests/faults/faults.c."""

import errno
import mmap
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.host.project import toml_of
from bench.host.sockets import LISTEN, tcp_sockets

from . import processes
from .harness import REPOSITORY, Server

LIBRARY = REPOSITORY / "build" / "faults.so"
SHORT = 0
"""Used instead of an errno: the call succeeds, with one byte."""


def faults(part: str) -> list[Any]:
    """Return the calls in a part of faults.toml, each with its errors, as parameters of a test.
    Calls in the part shared_... get the mark shared_code."""
    tables = toml_of(Path(__file__).parent / "limits" / "faults.toml")
    found = []
    for table, marks in ((part, ()), (f"shared_{part}", pytest.mark.shared_code)):
        for call, words in tables[table].items():
            errors = [SHORT if word == "SHORT" else getattr(errno, word) for word in words.split()]
            found.append(pytest.param(call, errors, marks=marks, id=call))
    return found


class Plan:
    """The call that fails, in memory shared with the server: `struct plan` of faults.c."""

    _order = struct.Struct("=32sqq")
    _counts = struct.Struct("=qqqq")

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="zs-plan-")  # noqa: SIM115 - kept open
        self._file.truncate(4096)
        self.path = self._file.name
        self._memory = mmap.mmap(self._file.fileno(), 4096)

    def arm(self, call: str, nth: int, error: int) -> None:
        """Let the `nth` next call of the function `call` fail with the errno `error`. If `error` is
        SHORT, the call transfers one byte. If `error` is a negative signal number, the call
        succeeds, and its caller gets the signal."""
        self._memory[:32] = bytes(32)
        self._counts.pack_into(self._memory, self._order.size, 0, 0, self.crashes, self.blocks)
        self._order.pack_into(self._memory, 0, call.encode(), nth, error)

    def disarm(self) -> bool:
        """Stop all faults; return whether one has happened."""
        failed = self._count(1) > 0
        self._memory[:32] = bytes(32)
        return failed

    def count(self, call: str) -> None:
        """Count the calls of this name; `seen` is their number."""
        self.arm(call, 0, 0)

    @property
    def seen(self) -> int:
        return self._count(0)

    def _count(self, index: int) -> int:
        return int(self._counts.unpack_from(self._memory, self._order.size)[index])

    @property
    def crashes(self) -> int:
        """Return how many processes of the server were killed by a signal such as SIGSEGV."""
        return self._count(2)

    @property
    def blocks(self) -> int:
        """Return the number of allocated blocks; only for a server without children."""
        return self._count(3)


@dataclass
class FaultyServer(Server):
    """A server with the library of faults loaded before the C library."""

    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        """Let env(1) load the library into the server only."""
        self.prefix = ("env", f"LD_PRELOAD={LIBRARY}", f"FAULTS={self.plan.path}")

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
