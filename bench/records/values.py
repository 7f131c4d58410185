# SPDX-License-Identifier: MIT
"""Parse words of the command line, and read TOML files. An invalid word raises UserError."""

import argparse
import difflib
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from pydantic import BaseModel, TypeAdapter

from bench.records.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LONGEST_DELAY_MS = 1500
"""The longest delay of Redis' replies: shorter than the servers' timeout for Redis, 2 s."""
LEAST_QUOTA = 10
"""The least quota in per cent: the kernel accepts 1 ms or more, and the period is 10 ms."""


def toml_of(file: Path) -> dict[str, object]:
    """Return the content of a TOML file; empty if the file does not exist."""
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


Model = TypeVar("Model", bound=BaseModel)


def tables_of(model: type[Model], file: Path) -> dict[str, Model]:
    """Return the tables of a TOML file of the project by name, each as a model. The field `name` of
    the model is the name of the table."""
    tables = TypeAdapter(dict[str, dict[str, object]]).validate_python(toml_of(file))
    return {name: model.model_validate({"name": name, **said}) for name, said in tables.items()}


class Parser(argparse.ArgumentParser):
    """A parser of a command line that reports an error in one line, without all options."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; --help lists all options\n")


Read = TypeVar("Read")


def value_of(option: str, text: str, parse: Callable[[str], Read], example: str = "") -> Read:
    """Return the value of an option. Add the option and the example to a UserError of `parse`."""
    try:
        return parse(text)
    except UserError as error:
        more = f"; give e.g. {example}" if example else ""
        raise UserError(f"{option}: {error}{more}") from error


def add_value(
    parser: argparse.ArgumentParser,
    option: str,
    parse: Callable[[str], object],
    example: str,
    **more: object,
) -> None:
    """Add an option with one value to a command line; `value_of` reports a wrong value."""
    read = partial(value_of, option, parse=parse, example=example)
    parser.add_argument(option, type=read, **more)  # type: ignore[arg-type]


def add_size(
    parser: argparse.ArgumentParser,
    runs: int | None = None,
    requests: int | None = None,
    connections: int | None = None,
) -> None:
    """Add the options for the size of a measurement. A default of None: the study sets the size."""
    for option, default, what in (
        ("--runs", runs, "run each configuration N times"),
        ("--requests", requests, "send N requests in each run"),
        ("--concurrency", connections, "concurrent connections of ab"),
    ):
        text = f"{what} (default {default or 'as in the study'})"
        example = str(default or 100)
        add_value(parser, option, positive, example, default=default, metavar="N", help=text)


def add_results(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Add the option for the folder in which the folder of results is created."""
    where = "create the folder of results in DIR (default results/)"
    parser.add_argument("--results", type=Path, default=folder, metavar="DIR", help=where)


def words_of(values: Sequence[str] | None) -> list[str]:
    """Return names or numbers that are separated by spaces or commas."""
    return [word for value in values or () for word in value.replace(",", " ").split()]


def positive(text: str) -> int:
    """Return a whole number above 0."""
    if whole(text) == 0:
        raise UserError(f"{text!r} is not above 0")
    return int(text)


def whole(text: str) -> int:
    """Return a whole number, 0 included."""
    if text.isdecimal():
        return int(text)
    try:
        float(text)
    except ValueError:
        raise UserError(f"{text!r} is not a number") from None
    raise UserError(f"{text!r} is not a whole number")


def within(text: str, least: float, most: float) -> float:
    """Return a number from `least` to `most`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UserError(f"{text!r} is not a number from {least:g} to {most:g}")
    return value


def milliseconds(text: str) -> float:
    """Return a time from 0 to LONGEST_DELAY_MS milliseconds."""
    return within(text, 0, LONGEST_DELAY_MS)


def quota(text: str) -> float:
    """Return a share of a core. `text` is a percentage: 0, or LEAST_QUOTA to 100."""
    number = text.removesuffix("%")
    if not (number == "0" or (number.isdecimal() and LEAST_QUOTA <= int(number) <= 100)):
        raise UserError(f"{text!r} is not a share of a core: 0, or {LEAST_QUOTA} to 100 per cent")
    return int(number) / 100


def yes_or_no(text: str) -> bool:
    """Return True for "yes", False for "no"."""
    if text not in ("yes", "no"):
        raise UserError(f"{text!r} is neither yes nor no")
    return text == "yes"


SIMILAR = 0.7
"""A known word is suggested if its similarity (difflib) is at least this."""


def each_of(what: str, words: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the words, each once; all must be in `known`. `what`: their kind, for the error."""
    each = list(dict.fromkeys(words))
    if unknown := [word for word in each if word not in known]:
        many = "s" if len(unknown) > 1 else ""
        near = difflib.get_close_matches(unknown[0], known, 1, SIMILAR) if not many else []
        hint = f" Did you mean {near[0]}?" if near else ""
        all_known = ", ".join(known)
        raise UserError(f"unknown {what}{many}: {', '.join(unknown)}.{hint} Known: {all_known}")
    return each


def one_of(what: str, text: str, known: Collection[str]) -> str:
    """Return the word, which must be in `known`."""
    return each_of(what, [text], known)[0]


def path(text: str) -> str:
    """Return a path with its query. It must not begin with //: a host's name would follow."""
    if not re.fullmatch(r"/(?!/)[^\s#]*", text) or not text.isprintable():
        why = "a path begins with one / and has no blank and no #"
        raise UserError(f"{text!r} is not a path: {why}")
    return text
