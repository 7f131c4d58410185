# SPDX-License-Identifier: MIT
"""Figures and lists as a reader wants to see them. Pure functions."""

from collections.abc import Iterable, Sequence

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(value: float | None, unit: str = "") -> str:
    """A figure with about three digits that count, thousands separated: 11,767; 43.2; 0.061."""
    if value is None:
        return "–"
    return _digits(value) + (f"\N{NO-BREAK SPACE}{unit}" if unit else "")


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95 or value == int(value):
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.0995:
        return f"{value:.2f}"
    if size >= 0.001:
        return f"{value:.3f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(RAISED)}"


def times(ratio: float) -> str:
    """How many times as much: "1.3 times", "12 times"."""
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:,.0f} times"


def percent(share: float) -> str:
    """A share of 1 in per cent, without pretending to more than there is."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """`a`; `a and b`; `a, b and c`."""
    *first, last = names or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 level`, `3 levels`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def connections(number: int) -> str:
    """How many at a time: `1 connection`, `15,000 connections`."""
    return plural(number, "connection")


def number_word(number: int) -> str:
    """Small numbers as words."""
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else f"{number:,}"


def all_of(number: int) -> str:
    """`Both`, `All three`."""
    return "Both" if number == 2 else f"All {number_word(number)}"


def duration(ms: float) -> str:
    """A time given in milliseconds, in the unit in which it is read most easily."""
    return figure(ms / 1000, "s") if ms >= 9_950 else figure(ms, "ms")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], of_text: int) -> str:
    """A table in Markdown; so many columns `of_text` stand left, those of figures right."""
    ruler = ["---"] * of_text + ["--:"] * (len(head) - of_text)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ruler, *rows))


def of_a_core(share: float) -> str:
    """The slice of a core that each server had; 0: a whole one."""
    return f"{100 * share:g} % of a core each" if share else "a whole core each"


def lower_first(text: str) -> str:
    """For where a sentence goes on. Abbreviations stay as they are."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    """For the beginning of a sentence. Names of servers stay as they are."""
    return text[:1].upper() + text[1:]
