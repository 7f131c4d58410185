# SPDX-License-Identifier: MIT
"""A flame graph: each function as wide as its share of the time, below the one that called it.

The idea is Brendan Gregg's; here it grows from the top down, so that it is read as the program
runs. It is drawn as SVG and needs no script: what a box is, and how much, is its title.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.records.figures import Frame, StackFigures

WIDTH, ROW = 1000, 17
LETTER = 6.3
"""How wide a letter of the boxes' font is, about."""
SHORTEST = 3
"""Fewer letters of a name say nothing."""
NARROWEST = 0.8


@dataclass(frozen=True)
class FlameBox:
    """A function, in the units of the drawing."""

    x: float
    y: int
    width: float
    text: str
    """What there is room for of its name."""
    title: str
    of: str


@dataclass(frozen=True)
class FlameGraph:
    """All of them."""

    height: int
    boxes: list[FlameBox]


@dataclass(frozen=True)
class Item:
    """A function in a list of them, for who cannot see the drawing."""

    depth: int
    words: str


def drawing(stacks: StackFigures) -> FlameGraph:
    """The boxes, the widest first among those side by side."""
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
    """A function and its share."""
    whose = {"server": "", "library": ", C library", "kernel": ", kernel"}[frame.of]
    return f"{frame.name}{whose}: {frame.count / stacks.count:.1%}"


def listed(stacks: StackFigures, least: float) -> list[Item]:
    """The same as a list: functions with at least that share, below those that called them."""
    return list(_items(stacks.frames, 0, least * stacks.count, stacks))


def _items(frames: list[Frame], depth: int, least: float, stacks: StackFigures) -> Iterator[Item]:
    for frame in frames:
        if frame.count >= least:
            yield Item(depth, words(frame, stacks))
            yield from _items(frame.below, depth + 1, least, stacks)
