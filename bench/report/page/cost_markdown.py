# SPDX-License-Identifier: MIT
"""The cost report as a Markdown document, for docs/."""

from collections.abc import Sequence
from pathlib import Path

from bench.readers import cost as reader
from bench.records.results import Results
from bench.records.words import markdown_table
from bench.report.findings import cost as words
from bench.report.findings.cost import TextTable
from bench.report.page.cost import command, render


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
            blocks += [f"### {conditions.describe()}", _table(words.cost_table(own))]
        blocks += ["## System calls of a request", words.ABOUT_CALLS]
        for conditions, own in groups:
            calls = words.calls_table(own)
            if calls.rows:
                blocks += [f"### System calls: {conditions.describe()}", _table(calls)]
    if tricks:
        blocks += [
            "## Each optimisation switched off alone",
            words.ABOUT_TRICKS,
            words.brought(tricks),
        ]
        blocks.append(_explained(words.explained(tricks)))
        blocks.append(_table(words.difference_table(words.TRICK_HEAD, tricks), 2))
    if experiments:
        blocks += ["## Alternatives", words.ABOUT_EXPERIMENTS]
        blocks.append(_explained(words.explained(experiments)))
        blocks.append(_table(words.difference_table(words.EXPERIMENT_HEAD, experiments), 2))
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
        blocks += [title, _table(words.place_table(own))]
    return blocks


def _explained(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- `{name}`: {what}" for name, what in pairs)


def _table(table: TextTable, of_text: int = 1) -> str:
    return markdown_table(table.head, table.rows, of_text)
