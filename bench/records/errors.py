# SPDX-License-Identifier: MIT
"""What ends a command, or a run of a sweep, before its time; in words for the person at the
keyboard."""

import signal

from pydantic import ValidationError


class UserError(Exception):
    """Something that the user can put right. The message says what is wrong and what to do."""


class Interrupted(Exception):
    """It was asked to end by the signal `number`, which a `bench.host.signals.SignalWatch` saw."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_status(self) -> int:
        """What a shell expects of a program that ended because of a signal: 130 for Ctrl-C."""
        return 128 + self.number


class NoFigure(Exception):
    """A run comes to no figure; the message says why."""

    label = "failed"
    """The same in a word or two, for a table."""


def in_words(error: ValidationError) -> str:
    """Where the first mistake is and what it is, without the value: it may be a secret."""
    first, more = error.errors(include_input=False)[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    text = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    return (f"{place}: " if place else "") + text + (f" (and {more} more)" if more else "")
