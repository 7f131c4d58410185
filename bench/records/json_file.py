# SPDX-License-Identifier: MIT
"""Reads JSON files from untrusted sources."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from bench.records.errors import UserError, in_words

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""
NOT_FOR_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters (e.g. of a terminal), surrogates, and others that XML does not allow."""


LARGEST = 1e30
"""Numbers must be smaller, so that their sums and ratios are finite."""


def read(path: Path) -> Json:
    """Return a file's content; each character of NOT_FOR_TEXT is replaced by U+FFFD. Raises
    UserError if the file cannot be read, is not JSON, or has invalid numbers."""
    try:
        content = json.loads(
            path.read_text(), parse_constant=_refuse, parse_float=_number, parse_int=_whole
        )
        return _printable(content)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except RecursionError:
        raise UserError(f"cannot read {path}: it is nested too deeply") from None


Model = TypeVar("Model", bound=BaseModel)


def record(model: type[Model], path: Path, what: str, newest: int, **head: str) -> Model:
    """Return a record of this program from a file. `what`: its name in errors; `head`: fields that
    it must have. Raises UserError if it is another file or newer than version `newest`."""
    content = read(path)
    if not isinstance(content, dict) or any(content.get(key) != head[key] for key in head):
        raise UserError(f"{path} is not a {what}")
    version = content.get("schema_version", 1)
    if isinstance(version, int) and version > newest:
        raise UserError(f"{path} was written by a newer version of this program")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} is not a {what}: {in_words(error)}") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _number(text: str) -> float:
    number = float(text)
    return number if abs(number) < LARGEST else _refuse(text)


def _whole(text: str) -> int:
    return int(text) if abs(float(text)) < LARGEST else _refuse(text)


def _printable(value: Json) -> Json:
    if isinstance(value, str):
        return NOT_FOR_TEXT.sub("\ufffd", value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {NOT_FOR_TEXT.sub("\ufffd", name): _printable(one) for name, one in value.items()}
    return value
