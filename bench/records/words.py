# SPDX-License-Identifier: MIT
"""Format figures and lists for readers."""

from collections.abc import Sequence

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(value: float | None, unit: str = "") -> str:
    """Return a figure with few decimals: 11,767; 43.2; 0.061."""
    if value is None:
        return "–"
    least = ((99.95, 0), (9.995, 1), (0.0995, 2), (0.001, 3))
    decimals = next((number for size, number in least if abs(value) >= size), None)
    if value == int(value):
        decimals = 0
    mantissa, exponent = f"{value:.1e}".split("e")
    small = f"{mantissa}·10{str(int(exponent)).translate(RAISED)}"
    digits = small if decimals is None else f"{value:,.{decimals}f}"
    return digits + (f"\N{NO-BREAK SPACE}{unit}" if unit else "")


def times(ratio: float) -> str:
    """Return a ratio as "1.3 times" or "12 times"."""
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:,.0f} times"


def percent(share: float) -> str:
    """Return a share (1 is the whole) in per cent, with one decimal only below 10 %."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """Return e.g. `a`, `a and b`, or `a, b and c`."""
    *first, last = names or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return e.g. `1 level` or `3 levels`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def connections(number: int) -> str:
    """Return e.g. `1 connection` or `15,000 connections`."""
    return plural(number, "connection")


def number_word(number: int) -> str:
    """Return numbers up to nine as words, others in digits."""
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else f"{number:,}"


def all_of(number: int) -> str:
    """Return `Both`, or e.g. `All three`."""
    return "Both" if number == 2 else f"All {number_word(number)}"


def duration(ms: float) -> str:
    """Return a time in milliseconds as ms, or as seconds if it is 9.95 s or more."""
    return figure(ms / 1000, "s") if ms >= 9_950 else figure(ms, "ms")


def of_a_core(share: float) -> str:
    """Return the CPU quota of each server as text; 0: a whole core."""
    return f"{100 * share:g} % of a core each" if share else "a whole core each"


def lower_first(text: str) -> str:
    """Return a text for the middle of a sentence. Abbreviations keep their capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    """Return a text for the beginning of a sentence."""
    return text[:1].upper() + text[1:]
