# SPDX-License-Identifier: MIT
"""Stacks of functions put together into a tree, as a flame graph shows it. Pure."""

from collections.abc import Iterable

from bench.records.figures import Frame

SMALLEST = 0.004
"""A function with less than this share is counted with the one that called it."""
STARTS = frozenset({"main", "start_thread"})
"""Of a process and of a thread: what has called these says nothing of a server."""
Stack = tuple[str, ...]
"""Functions, the outermost first."""


def from_start(stack: Stack) -> Stack:
    """From main(), or the start of a thread, on; all of it where there is neither."""
    begin = next((i for i, name in enumerate(stack) if name in STARTS), 0)
    return stack[begin:]


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.below: dict[str, _Node] = {}


def tree(stacks: Iterable[tuple[Stack, int]]) -> list[Frame]:
    """The stacks put together; what is too small to be seen counts with its caller."""
    top = _Node()
    for stack, count in stacks:
        node = top
        node.count += count
        for name in from_start(stack):
            node = node.below.setdefault(name, _Node())
            node.count += count
    return _frames(top, SMALLEST * top.count)


def _frames(node: _Node, least: float) -> list[Frame]:
    kept = [(name, n) for name, n in node.below.items() if n.count >= least]
    ordered = sorted(kept, key=lambda one: (-one[1].count, one[0]))
    return [Frame(name=name, count=n.count, below=_frames(n, least)) for name, n in ordered]
