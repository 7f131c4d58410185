# SPDX-License-Identifier: MIT
"""Words of a command line as values. All raise UserError for a word that is none."""

import re
from collections.abc import Collection, Iterable, Sequence

from bench.records.errors import UserError

LONGEST_DELAY_MS = 1500
"""Redis is given up by the servers after 2 s."""
LEAST_QUOTA = 10
"""The kernel grants no less than a millisecond in each period, and a period is 10 ms."""


def words_of(values: Sequence[str] | None) -> list[str]:
    """Names or numbers, given as several words or with commas between them."""
    return [word for value in values or () for word in value.split(",") if word]


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """A whole number, 0 included."""
    if not text.isdecimal():
        raise UserError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def milliseconds(text: str) -> float:
    """A time of 0 to LONGEST_DELAY_MS milliseconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= LONGEST_DELAY_MS:
        raise UserError(f"{text!r} is not a number of milliseconds: 0 to {LONGEST_DELAY_MS:,}")
    return value


def quota(text: str) -> float:
    """A share of a core, from per cent: 0 or LEAST_QUOTA to 100."""
    number = text.removesuffix("%")
    if not (number == "0" or (number.isdecimal() and LEAST_QUOTA <= int(number) <= 100)):
        raise UserError(f"{text!r} is not a share of a core: 0, or {LEAST_QUOTA} to 100 per cent")
    return int(number) / 100


def yes_or_no(text: str) -> bool:
    """yes, no."""
    if text not in ("yes", "no"):
        raise UserError(f"{text!r} is neither yes nor no")
    return text == "yes"


def each_of(what: str, words: Iterable[str], known: Collection[str]) -> list[str]:
    """Some of the known words, each once, in their order; `what` they are."""
    each = list(dict.fromkeys(words))
    if unknown := [word for word in each if word not in known]:
        many = "s" if len(unknown) > 1 else ""
        raise UserError(f"unknown {what}{many}: {', '.join(unknown)}. Known: {', '.join(known)}")
    return each


def one_of(what: str, text: str, known: Collection[str]) -> str:
    """One of them."""
    return each_of(what, [text], known)[0]


def one_or_none(what: str, text: str, known: Collection[str]) -> str:
    """The same, or "none": empty."""
    return "" if text == "none" else one_of(what, text, known)


def path(text: str) -> str:
    """A path to ask for, with its query. Behind // would stand another host."""
    if not re.fullmatch(r"/(?!/)[^\s#]*", text) or not text.isprintable():
        raise UserError(f"{text!r} is not a path: it begins with one / and has no blanks, no #")
    return text
