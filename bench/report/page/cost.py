# SPDX-License-Identifier: MIT
"""The report on the CPU cost of a request, the results of `make cost`.

In a flame graph (invented by Brendan Gregg) each box is a function, as wide as its share of the
samples or instructions. A function is below its caller. The graph is an SVG without a script: the
title of a box contains the function and its share.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.readers import cost as words
from bench.readers.console import Field, Table
from bench.records.figures import Frame, StackFigures, grouped
from bench.records.results import Results
from bench.records.words import connections
from bench.report.page.look import Document, Drawing, Section, Terms, drawn, make_command

WIDTH, ROW = 1000, 17
LETTER = 6.3
"""The approximate width of a letter in a box."""
SHORTEST = 3
"""A box with space for fewer letters has no text."""
NARROWEST = 0.8


def drawing(stacks: StackFigures) -> dict[str, object]:
    """Return the boxes of a flame graph, callers first, in the units of the drawing. Boxes with
    `listed` are also in the text list, for readers who cannot see the drawing."""
    boxes = list(_boxes(stacks.frames, 0.0, 0, stacks))
    return {"height": max((box["y"] for box in boxes), default=0) + ROW, "boxes": boxes}


def _boxes(
    frames: list[Frame], x: float, depth: int, stacks: StackFigures
) -> Iterator[dict[str, Any]]:
    for frame in frames:
        share = frame.count / stacks.count
        width = WIDTH * frame.count / stacks.count
        if width >= NARROWEST:
            room = int((width - 4) / LETTER)
            short = frame.name if len(frame.name) <= room else f"{frame.name[: room - 1]}…"
            whose = {"server": "", "library": ", C library", "kernel": ", kernel"}[frame.of]
            yield {
                "x": round(x, 1),
                "y": ROW * depth,
                "width": round(width, 1),
                "text": short if room >= SHORTEST else "",
                "title": f"{frame.name}{whose}: {share:.1%}",
                "of": frame.of,
                "depth": depth,
                "listed": share >= LISTED,
            }
            yield from _boxes(frame.below, x, depth + 1, stacks)
        x += width


COLOURS = {
    "f-server": ("#F5C58A", "#7A4A12"),
    "f-library": ("#D5DBE3", "#3C4654"),
    "f-kernel": ("#B9D3EC", "#2E5378"),
}
"""Colours of the boxes of a flame graph, light and dark."""
LISTED = 0.01
"""The list below a flame graph contains functions with at least this share."""
FLAMES = [("of-server", "the server"), ("of-library", "C library"), ("of-kernel", "kernel")]
BARS = [("kernel", "kernel"), ("user", "user"), ("baseline", "the baseline")]
UNDIVIDED = ("both", "kernel and user together")
"""The CSS classes of the colours in the drawings, with the texts of their legends."""


def document(results: Results) -> Document:
    """Return the report. Only its HTML page has bars and flame graphs."""
    found, flames = words.lines(results), words.flames(results)
    costs, calls = [], []
    for conditions, own in grouped((line.conditions, line) for line in found).items():
        where = conditions.describe()
        costs.append(Section(where, [_with_bars(own)]))
        calls.append(Section(f"System calls: {where}", [words.calls_table(own)]))
    undivided = [UNDIVIDED] if any(line.cost and line.user is None for line in found) else []
    legend = Drawing(drawn("legend", colours=[*BARS, *undivided]))
    command = make_command("cost", results.command[1:])
    made = f"Made by `{command}` on {results.started:%Y-%m-%d}, on "
    sections = [
        Section("What a request costs", [words.ABOUT["cost"], legend, *costs], "costs"),
        Section("System calls of a request", [words.ABOUT["calls"], *calls], "calls"),
    ]
    sections = [*(sections if found else ()), *_changes(results), *_functions(flames)]
    return Document(
        "The CPU cost of a request",
        results.started,
        words.headline(results),
        [made + words.measured(results)],
        words.cautions(results),
        sections,
        COLOURS,
    )


def _changes(results: Results) -> Iterator[Section]:
    """Yield the sections about the measured optimisations and experiments."""
    kinds: tuple[tuple[str, str, words.DifferenceKind], ...] = (
        ("optimisations", "Each optimisation switched off alone", "without"),
        ("experiments", "Alternatives", "change"),
    )
    for key, title, how in kinds:
        if found := words.differences(results, how):
            gains = words.brought(found) if how == "without" else ""
            terms = Terms([(f"`{name}`", text) for name, text in words.explained(found)])
            table = words.difference_table(found)
            yield Section(title, [words.ABOUT[key], gains, terms, table], key)


def _functions(flames: Sequence[words.Flame]) -> Iterator[Section]:
    """Yield the section about the functions in which the time is spent."""
    if not flames:
        return
    about = f"{words.sampled_how(flames)} {words.ABOUT['functions']}"
    places = [
        Section(f"Where the time is spent: {conditions.describe()}", [words.place_table(own)])
        for conditions, own in grouped((flame.conditions, flame) for flame in flames).items()
    ]
    ends = (flames[0], flames[-1])
    drawings = [drawn("flame_graph", one=flame_shown(x), open=x in ends) for x in flames]
    graphs = [Drawing(html) for html in (drawn("legend", colours=FLAMES), *drawings)]
    as_graphs = Section("As flame graphs", graphs)
    yield Section("Where the time is spent", [about, *places, as_graphs], "flames")


def _with_bars(found: Sequence[words.ServerCost]) -> Table:
    """Return the table of costs with a bar for each server."""
    most = max((line.cost.median for line in found if line.cost), default=1.0)
    return words.cost_table(found, lambda line: Field(line.subject, drawing=_bar(line, most)))


def _bar(line: words.ServerCost, most: float) -> str:
    """Return the drawing of a bar, in per cent of the highest cost; -1 is an unknown value."""
    if line.cost is None:
        return ""
    return drawn(
        "bar",
        all=round(100 * line.cost.median / most, 2),
        user=-1 if line.user is None else round(100 * line.user / most, 2),
        baseline=round(100 * line.baseline.median / most, 2) if line.baseline else -1,
    )


def flame_shown(one: words.Flame) -> dict[str, object]:
    """Return a flame graph with its title, its drawing and its list."""
    return {
        "title": f"{one.subject}, {one.conditions.describe()}, {connections(one.concurrency)}",
        "key": f"flame-{one.subject}-{one.conditions.slug()}-{one.concurrency}",
        "count": f"{one.stacks.count:,} {one.stacks.unit} by {one.stacks.how}",
        "drawing": drawing(one.stacks),
    }
