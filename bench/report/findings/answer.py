# SPDX-License-Identifier: MIT
"""An answer to "which one should I choose?", and the servers that are excluded."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.readers.order import STALLS
from bench.records.words import listed, number_word
from bench.report.findings.findings import MOST_NAMED
from bench.report.study.study import Study


@dataclass
class Advice:
    """An answer to one question."""

    question: str
    answer: str
    """The servers, in a word or two."""
    because: str
    anchor: str
    """The anchor of its evidence on the page."""


def stalled(study: Study) -> set[str]:
    """Return the servers that a single silent client stops, if the results say so."""
    return {name for name, by in study.results.stalled_by.items() if by == "one"}


def but_stalled(names: Sequence[str]) -> str:
    """Return why these servers are not the answer, as the end of a sentence."""
    if not names:
        return ""
    return f". Not {listed(names)}, though the figures are as good or better: {STALLS['one']}"


def named(names: Sequence[str], total: int) -> str:
    """Return the names, or their number if there are many: "All of them", "Four of them"."""
    if len(names) == total > 1:
        return "Both of them" if total == 2 else "All of them"
    if len(names) > MOST_NAMED:
        return f"{number_word(len(names))} of them".capitalize()
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
