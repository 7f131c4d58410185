# SPDX-License-Identifier: MIT
"""Merge call stacks into a tree for a flame graph. Pure functions."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from bench.records.figures import Frame

SMALLEST = 0.004
"""A function with a smaller share is counted with its caller."""
STARTS = frozenset({"main", "start_thread"})
"""The first functions of a process and a thread; their callers are not part of the server."""
Owner = Literal["server", "library", "kernel"]


OWN_MEMORY = ("[vdso", "[vsyscall", "[heap", "[stack", "[unknown", "[anon")
"""The beginnings of bracketed file names that mean the process's own memory."""


class Function(NamedTuple):
    """A function and its owner."""

    name: str
    of: Owner = "server"


Stack = tuple[Function, ...]
"""The outermost first."""


def owner_of(place: str) -> Owner:
    """Return the owner of a function by its file, as named by perf or callgrind. Names in brackets
    are the kernel, its modules, and memory of the process without a file: the vdso, the heap."""
    if place.startswith("bpf_prog_"):
        return "kernel"
    if place.startswith("["):
        return "library" if place.startswith(OWN_MEMORY) else "kernel"
    return "library" if ".so" in place else "server"


def from_start(stack: Stack) -> Stack:
    """Return the stack from main() or a thread's start on; the whole stack if it has neither."""
    begin = next((i for i, one in enumerate(stack) if one.name in STARTS), 0)
    return stack[begin:]


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.below: dict[Function, _Node] = {}


def tree(stacks: Iterable[tuple[Stack, int]]) -> list[Frame]:
    """Return the merged stacks; functions that are too small are counted with their callers."""
    top = _Node()
    for stack, count in stacks:
        node = top
        node.count += count
        for function in from_start(stack):
            node = node.below.setdefault(function, _Node())
            node.count += count
    return _frames(top, SMALLEST * top.count)


def _frames(node: _Node, least: float) -> list[Frame]:
    kept = [(function, n) for function, n in node.below.items() if n.count >= least]
    ordered = sorted(kept, key=lambda one: (-one[1].count, one[0]))
    return [
        Frame(name=function.name, of=function.of, count=n.count, below=_frames(n, least))
        for function, n in ordered
    ]
