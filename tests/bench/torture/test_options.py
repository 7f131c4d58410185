# SPDX-License-Identifier: MIT
"""Wrong words on the command line of a robustness test are rejected at once, with the valid
ones."""

from pathlib import Path

import pytest

from bench.records.errors import UserError
from bench.torture.attacks import ATTACKS
from bench.torture.options import parse

from .conftest import subject


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--attacks", "connect-only,nice"], "unknown attack: nice. Known: connect-only, idle"),
        (["--attacks", "x", "y"], "unknown attacks: x, y."),
        (["--servers", "epol"], "unknown server: epol. Known: iterative"),
        (["--servers", "floor-epoll"], "baselines make no promises"),
        (["--seconds", "0"], "--seconds: '0' is not a number from 0.3 to 60"),
        (["--seconds", "nan"], "--seconds: 'nan' is not a number"),
        (["--minutes", "soon"], "--minutes: 'soon' is not a number from 0.1 to 1440"),
        (["--markdown", "/nowhere/at/all.md"], "the folder /nowhere/at does not exist"),
    ],
)
def test_wrong_words(words: list[str], told: str) -> None:
    subject("epoll")
    named = words if "--servers" in words else ["--servers", "epoll", *words]
    with pytest.raises(UserError) as error:
        parse(named)
    assert told in str(error.value)


def test_all_by_themselves() -> None:
    subject("epoll")
    options = parse(["--servers", "epoll", "epoll,poll"])
    assert [one.name for one in options.subjects] == ["epoll", "poll"]
    assert [one.name for one in options.attacks] == list(ATTACKS)
    assert options.minutes == 5
    assert options.results == Path(options.results).resolve()
    some = parse(["--servers", "poll", "--attacks", "flood,idle"]).attacks
    assert [one.name for one in some] == ["flood", "idle"]
