# SPDX-License-Identifier: MIT
"""The CPU cost of a request, the results of `make cost`: one self-contained HTML file without a
script, and a Markdown document for docs/.

In a flame graph each function is as wide as its share of the time, below its caller. The idea is
Brendan Gregg's. This one grows from the top down, in the order of the calls. It is an SVG without a
script: the title of a box contains the function and its share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.readers import cost as reader
from bench.readers.console import Table
from bench.records.conditions import Conditions
from bench.records.figures import Frame, StackFigures
from bench.records.results import Results
from bench.records.words import connections
from bench.report.findings import cost as words
from bench.report.page.look import look, template_of

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
            title = frame_words(frame, stacks)
            text = short if room >= SHORTEST else ""
            yield FlameBox(round(x, 1), ROW * depth, round(width, 1), text, title, frame.of)
            yield from _boxes(frame.below, x, depth + 1, stacks)
        x += width


def frame_words(frame: Frame, stacks: StackFigures) -> str:
    """Return a function and its share of the time in words."""
    whose = {"server": "", "library": ", C library", "kernel": ", kernel"}[frame.of]
    return f"{frame.name}{whose}: {frame.count / stacks.count:.1%}"


def listed_frames(stacks: StackFigures, least: float) -> list[Item]:
    """Return a list of the functions with at least that share, below their callers."""
    return list(_items(stacks.frames, 0, least * stacks.count, stacks))


def _items(frames: list[Frame], depth: int, least: float, stacks: StackFigures) -> Iterator[Item]:
    for frame in frames:
        if frame.count >= least:
            yield Item(depth, frame_words(frame, stacks))
            yield from _items(frame.below, depth + 1, least, stacks)


def both(results: Results, page: Path) -> dict[Path, str]:
    """Return the texts of the page and of the Markdown document."""
    return {page: render(results), page.with_suffix(".md"): markdown(results)}


def markdown(results: Results) -> str:
    """Return the document; it has sums by place instead of flame graphs."""
    found = reader.lines(results)
    groups = list(words.by_conditions(found))
    tricks, experiments = reader.tricks(results), reader.experiments(results)
    blocks = [
        "# Where the microseconds of a request go",
        f"{words.headline(results)}.",
        f"Made by `{command(results)}` on {results.started:%Y-%m-%d}, on {words.measured(results)}",
        "\n".join(f"- {text}" for text in words.cautions(results)),
    ]
    if groups:
        blocks += ["## What a request costs", words.ABOUT_COST]
        for conditions, own in groups:
            blocks += [f"### {conditions.describe()}", words.cost_table(own).markdown()]
        blocks += ["## System calls of a request", words.ABOUT_CALLS]
        for conditions, own in groups:
            calls = words.calls_table(own)
            if calls.rows:
                blocks += [f"### System calls: {conditions.describe()}", calls.markdown()]
    if tricks:
        blocks += [
            "## Each optimisation switched off alone",
            words.ABOUT_TRICKS,
            words.brought(tricks),
        ]
        blocks.append(_explained(words.explained(tricks)))
        blocks.append(words.difference_table(words.TRICK_HEAD, tricks).markdown())
    if experiments:
        blocks += ["## Alternatives", words.ABOUT_EXPERIMENTS]
        blocks.append(_explained(words.explained(experiments)))
        blocks.append(words.difference_table(words.EXPERIMENT_HEAD, experiments).markdown())
    blocks += _flames(reader.flames(results))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _flames(found: Sequence[reader.Flame]) -> list[str]:
    if not found:
        return []
    blocks = [
        "## Where the time is spent",
        f"{words.sampled_how(found)} A system call includes all kernel work inside it. The page "
        "that `make cost` writes shows the functions as flame graphs.",
    ]
    for conditions, own in words.by_conditions(found):
        title = f"### Where the time is spent: {conditions.describe()}"
        blocks += [title, words.place_table(own).markdown()]
    return blocks


def _explained(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- `{name}`: {what}" for name, what in pairs)


COLOURS = {
    "f-server": ("#F5C58A", "#7A4A12"),
    "f-library": ("#D5DBE3", "#3C4654"),
    "f-kernel": ("#B9D3EC", "#2E5378"),
}
"""Colours of the boxes of a flame graph, light and dark."""
LISTED = 0.01
"""The list next to a flame graph contains functions with at least this share."""


def render(results: Results) -> str:
    """Return the page as HTML."""
    template = template_of(__file__, "cost.html.j2")
    return template.render(**_context(results)).lstrip()


def command(results: Results) -> str:
    """Return the command that repeats the measurement."""
    _, *rest = results.command or ["cost"]
    return f'make cost ARGS="{" ".join(rest)}"' if rest else "make cost"


def _context(results: Results) -> dict[str, object]:
    found = reader.lines(results)
    tricks, experiments = reader.tricks(results), reader.experiments(results)
    flames = reader.flames(results)
    return {
        "when": f"{results.started:%Y-%m-%d %H:%M}",
        "headline": words.headline(results),
        "measured": words.measured(results),
        "cautions": words.cautions(results),
        "words": words,
        "untold": any(line.cost and line.user is None for line in found),
        "groups": [_group(conditions, own) for conditions, own in words.by_conditions(found)],
        "tricks": words.difference_table(words.TRICK_HEAD, tricks),
        "brought": words.brought(tricks).replace("`", ""),
        "tricks_explained": words.explained(tricks),
        "experiments": words.difference_table(words.EXPERIMENT_HEAD, experiments),
        "experiments_explained": words.explained(experiments),
        "places": [
            (conditions, words.place_table(own)) for conditions, own in words.by_conditions(flames)
        ],
        "sampled": words.sampled_how(flames),
        "flames": [flame_shown(one) for one in flames],
        "command": command(results),
        **look([], COLOURS),
    }


@dataclass(frozen=True)
class CostGroup:
    """The tables and bars of one set of conditions."""

    title: str
    costs: Table
    bars: list[dict[str, float] | None]
    calls: Table


def _group(conditions: Conditions, found: list[reader.ServerCost]) -> CostGroup:
    most = max((line.cost.median for line in found if line.cost), default=1.0)
    bars = [_bar(line, most) for line in found]
    costs, calls = words.cost_table(found), words.calls_table(found)
    return CostGroup(conditions.describe(), costs, bars, calls)


def _bar(line: reader.ServerCost, most: float) -> dict[str, float] | None:
    """Return the server's cost, its user part and its baseline in per cent of the highest cost; -1
    if a value is unknown."""
    if line.cost is None:
        return None
    return {
        "all": round(100 * line.cost.median / most, 2),
        "user": -1 if line.user is None else round(100 * line.user / most, 2),
        "floor": round(100 * line.floor.median / most, 2) if line.floor else -1,
    }


@dataclass(frozen=True)
class ShownFlame:
    """A flame graph, as the template draws it."""

    title: str
    key: str
    count: str
    drawing: FlameGraph
    items: list[Item]


def flame_shown(one: reader.Flame) -> ShownFlame:
    """Return a flame graph with its title, its drawing and its list."""
    return ShownFlame(
        f"{one.subject}, {one.conditions.describe()}, {connections(one.concurrency)}",
        f"flame-{one.subject}-{one.conditions.slug()}-{one.concurrency}",
        f"{one.stacks.count:,} {one.stacks.unit} by {one.stacks.how}",
        drawing(one.stacks),
        listed_frames(one.stacks, LISTED),
    )
