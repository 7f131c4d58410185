# SPDX-License-Identifier: MIT
"""Network namespaces for tests: ip-netns(8), setns(2). Only root may make them."""

import contextlib
import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_NUMBERS = itertools.count()


def run(command: str) -> None:
    """Run a command, given as words with spaces between; raise OSError with what it prints."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{command}: {done.stderr.strip()}")


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[str]]:
    """Yield the names of so many new namespaces with nothing but a loopback that is down."""
    with contextlib.ExitStack() as stack:
        names = [f"zs-{os.getpid()}-{next(_NUMBERS)}" for _ in range(count)]
        for name in names:
            run(f"ip netns add {name}")
            stack.callback(run, f"ip netns del {name}")
        yield names


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0) < 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Run the calling thread, and what it starts, in that namespace within the block."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(Path("/run/netns", name), os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(here)
        os.close(here)
        os.close(there)
