# SPDX-License-Identifier: MIT
"""An answer to "which one should I choose?", and who can never be one."""

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
    """Who, in a word or two."""
    because: str
    anchor: str
    """Where on the page it can be seen."""


def stalled(study: Study) -> set[str]:
    """Whom a single silent client stops, as far as the results say."""
    return {name for name, by in study.results.stalled_by.items() if by == "one"}


def but_stalled(names: Sequence[str]) -> str:
    """Why these are not the answer, as the end of a sentence."""
    if not names:
        return ""
    return f". Not {listed(names)}, though the figures are as good or better: {STALLS['one']}"


def named(names: Sequence[str], total: int) -> str:
    """Some of so many, in a word or two."""
    if len(names) == total > 1:
        return "Both of them" if total == 2 else "All of them"
    if len(names) > MOST_NAMED:
        return f"{number_word(len(names))} of them".capitalize()
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
