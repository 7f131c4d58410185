# SPDX-License-Identifier: MIT
"""The new lines of a file compared with another, and two files side by side. Pure."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KEPT_AROUND = 2
"""Unchanged lines that are shown around a change; longer runs are folded."""


@dataclass(frozen=True)
class Pair:
    """A line of each file, to be shown side by side; None: no line on this side."""

    left: int | None
    right: int | None
    """Indices from 0."""
    same: bool


def _blocks(left: Sequence[str], right: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    one, other = ([line.strip() for line in lines] for lines in (left, right))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


def new_lines(before: Sequence[str], after: Sequence[str]) -> set[int]:
    """Return the numbers (from 1) of the lines of `after` that `before` does not have, without
    empty lines."""
    return {
        index + 1
        for kind, _, _, begin, end in _blocks(before, after)
        if kind != "equal"
        for index in range(begin, end)
        if after[index].strip()
    }


def side_by_side(left: Sequence[str], right: Sequence[str]) -> Iterator[list[Pair]]:
    """Return runs of pairs; a run has only equal pairs (to be folded if it is long), or only
    changed ones."""
    for kind, left_begin, left_end, right_begin, right_end in _blocks(left, right):
        count = max(left_end - left_begin, right_end - right_begin)
        yield [
            Pair(
                left_begin + offset if left_begin + offset < left_end else None,
                right_begin + offset if right_begin + offset < right_end else None,
                kind == "equal",
            )
            for offset in range(count)
        ]
