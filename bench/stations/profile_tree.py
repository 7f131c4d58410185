# SPDX-License-Identifier: MIT
"""Stacks of functions put together into a tree, as a flame graph shows it. Pure."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from bench.records.figures import Frame

SMALLEST = 0.004
"""A function with less than this share is counted with the one that called it."""
STARTS = frozenset({"main", "start_thread"})
"""Of a process and of a thread: what has called these says nothing of a server."""
Owner = Literal["server", "library", "kernel"]


OWN_MEMORY = ("[vdso", "[vsyscall", "[heap", "[stack", "[unknown", "[anon")
"""How a place in brackets begins that is the process's own."""


class Function(NamedTuple):
    """A function, and whose it is."""

    name: str
    of: Owner = "server"


Stack = tuple[Function, ...]
"""The outermost first."""


def owner_of(place: str) -> Owner:
    """By the file that it lies in, as perf and callgrind call it. In brackets are the kernel and
    its modules, and what of the process's own memory is no file: the vdso, the heap."""
    if place.startswith("bpf_prog_"):
        return "kernel"
    if place.startswith("["):
        return "library" if place.startswith(OWN_MEMORY) else "kernel"
    return "library" if ".so" in place else "server"


def from_start(stack: Stack) -> Stack:
    """From main(), or the start of a thread, on; all of it where there is neither."""
    begin = next((i for i, one in enumerate(stack) if one.name in STARTS), 0)
    return stack[begin:]


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.below: dict[Function, _Node] = {}


def tree(stacks: Iterable[tuple[Stack, int]]) -> list[Frame]:
    """The stacks put together; what is too small to be seen counts with its caller."""
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
