# SPDX-License-Identifier: MIT
"""Reading a JSON file that a stranger may have written."""

import json
import math
import re
from pathlib import Path
from typing import Any

from bench.records.errors import UserError

NOT_FOR_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters (those of a terminal among them), halves of characters, and what XML does not
allow either."""


def read(path: Path) -> Any:
    """Its content; in all texts a replacement character stands for each of NOT_FOR_TEXT. Raises
    UserError if it cannot be read, is no JSON, or has numbers that are none."""
    try:
        content = json.loads(path.read_text(), parse_constant=_refuse, parse_float=_finite)
        return _printable(content)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except RecursionError:
        raise UserError(f"cannot read {path}: it is nested too deeply") from None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return NOT_FOR_TEXT.sub("\ufffd", value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {_printable(name): _printable(one) for name, one in value.items()}
    return value
