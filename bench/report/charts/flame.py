# SPDX-License-Identifier: MIT
"""A flame graph: each function is as wide as its share of the time, below its caller.

The idea is Brendan Gregg's. This one grows from the top down, in the order of the calls. It is an
SVG without a script: the title of a box contains the function and its share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.records.figures import Frame, StackFigures

WIDTH, ROW = 1000, 17
LETTER = 6.3
"""The approximate width of a letter in a box."""
SHORTEST = 3
"""A box with space for fewer letters has no text."""
NARROWEST = 0.8


@dataclass(frozen=True)
class FlameBox:
    """A function, in the units of the drawing."""

    x: float
    y: int
    width: float
    text: str
    """The part of its name that fits into the box."""
    title: str
    of: str


@dataclass(frozen=True)
class FlameGraph:
    """All boxes of a flame graph, and its height."""

    height: int
    boxes: list[FlameBox]


@dataclass(frozen=True)
class Item:
    """A function in a list, for readers who cannot see the drawing."""

    depth: int
    words: str


def drawing(stacks: StackFigures) -> FlameGraph:
    """Return the boxes of a flame graph, callers first."""
    boxes = list(_boxes(stacks.frames, 0.0, 0, stacks))
    return FlameGraph(max((box.y for box in boxes), default=0) + ROW, boxes)


def _boxes(frames: list[Frame], x: float, depth: int, stacks: StackFigures) -> Iterator[FlameBox]:
    for frame in frames:
        width = WIDTH * frame.count / stacks.count
        if width >= NARROWEST:
            room = int((width - 4) / LETTER)
            short = frame.name if len(frame.name) <= room else f"{frame.name[: room - 1]}…"
            title = words(frame, stacks)
            text = short if room >= SHORTEST else ""
            yield FlameBox(round(x, 1), ROW * depth, round(width, 1), text, title, frame.of)
            yield from _boxes(frame.below, x, depth + 1, stacks)
        x += width


def words(frame: Frame, stacks: StackFigures) -> str:
    """Return a function and its share of the time in words."""
    whose = {"server": "", "library": ", C library", "kernel": ", kernel"}[frame.of]
    return f"{frame.name}{whose}: {frame.count / stacks.count:.1%}"


def listed(stacks: StackFigures, least: float) -> list[Item]:
    """Return a list of the functions with at least that share, below their callers."""
    return list(_items(stacks.frames, 0, least * stacks.count, stacks))


def _items(frames: list[Frame], depth: int, least: float, stacks: StackFigures) -> Iterator[Item]:
    for frame in frames:
        if frame.count >= least:
            yield Item(depth, words(frame, stacks))
            yield from _items(frame.below, depth + 1, least, stacks)
