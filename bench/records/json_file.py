# SPDX-License-Identifier: MIT
"""Reading a JSON file that a stranger may have written."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from bench.records.errors import UserError, in_words

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""What JSON can say."""
NOT_FOR_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters (those of a terminal among them), halves of characters, and what XML does not
allow either."""


LARGEST = 1e30
"""No figure is as large, and sums and ratios of smaller ones are numbers, too."""


def read(path: Path) -> Json:
    """Its content; in all texts a replacement character stands for each of NOT_FOR_TEXT. Raises
    UserError if it cannot be read, is no JSON, or has numbers that are none."""
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
    """What this program has written. `what` it is; `newest`: its form today; `head`: what it must
    say of itself. Raises UserError if it is none, or of a newer form."""
    content = read(path)
    if not isinstance(content, dict) or any(content.get(key) != head[key] for key in head):
        raise UserError(f"{path} is no {what}")
    version = content.get("schema_version", 1)
    if isinstance(version, int) and version > newest:
        raise UserError(f"{path} was written by a newer version of this program")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} is no {what}: {in_words(error)}") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


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
