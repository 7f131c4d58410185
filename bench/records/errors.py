# SPDX-License-Identifier: MIT
"""The one kind of error that is meant for the person at the keyboard."""

from pydantic import ValidationError


class UserError(Exception):
    """Something that the user can put right. The message says what is wrong and what to do."""


class NoFigure(Exception):
    """A run comes to no figure; the message says why."""

    label = "failed"
    """The same in a word or two, for a table."""


def in_words(error: ValidationError) -> str:
    """Where the first mistake is and what it is, without the value: it may be a secret."""
    first, more = error.errors(include_input=False)[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ")
    return (f"{place}: " if place else "") + text + (f" (and {more} more)" if more else "")
