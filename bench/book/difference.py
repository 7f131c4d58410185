# SPDX-License-Identifier: MIT
"""The new lines of a file compared with another, and two files side by side. Pure."""

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest

KEPT_AROUND = 2
"""Unchanged lines that are shown around a change; longer runs are folded."""


Pair = tuple[int | None, int | None]
"""The indices of a line of each file, to be shown side by side; None: no line on this side."""


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


def side_by_side(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[bool, list[Pair]]]:
    """Yield runs of pairs, each with whether the lines are equal (and folded if there are many)."""
    for kind, *ends in _blocks(left, right):
        begin, end, begin_right, end_right = ends
        yield kind == "equal", [*zip_longest(range(begin, end), range(begin_right, end_right))]
