# SPDX-License-Identifier: MIT
"""Exceptions that end a command or a run of a sweep; their messages are for the user."""

import signal

from pydantic import ValidationError


class UserError(Exception):
    """An error that the user can fix. The message says what is wrong and what to do."""


class Interrupted(Exception):
    """A signal interrupted the command; `bench.host.process.SignalWatch` raises this error."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_status(self) -> int:
        """Return the exit status that shells use for this signal, e.g. 130 for Ctrl-C."""
        return 128 + self.number


class NoFigure(Exception):
    """The run produced no valid result; the message gives the reason."""

    label = "failed"
    """The reason in one or two words, for a table."""

    def __init__(self, text: str, label: str = "") -> None:
        super().__init__(text)
        self.label = label or self.label


def in_words(error: ValidationError) -> str:
    """Return the place and text of the first error, and the number of the others. The values are
    left out, because they may be secret."""
    first, more = error.errors(include_input=False)[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    text = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    return (f"{place}: " if place else "") + text + (f" (and {more} more)" if more else "")
