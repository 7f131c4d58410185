# SPDX-License-Identifier: MIT
"""Each "try it" of the book does what it promises."""

import re

import pytest

from bench.host.project import ROOT

from .exercises import broken, figures, promises, run

TRY = re.compile(r"^## Try it\n.*?^```sh\n(.*?)^```\n(.*?)(?=^(?:#|:: |<details)|\Z)", re.M | re.S)
TRIES = {
    f"{chapter.stem}-{number}": exercise
    for chapter in sorted((ROOT / "docs" / "tutorial" / "book").glob("*.md"))
    for number, exercise in enumerate(TRY.findall(chapter.read_text()), 1)
}
"""The commands and the expectation of each exercise."""
ATTEMPTS = 3
"""Ratios of times: on a busy machine one may be wrong by chance, but not three."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIES)
def test_an_exercise_shows_what_it_promises(name: str) -> None:
    commands, expected = TRIES[name]
    assert promises(expected) > 0, "it has no promise"
    for _ in range(ATTEMPTS):
        said = run(commands)
        wrong = broken(expected, figures(said))
        if not wrong:
            return
    pytest.fail(f"{'; '.join(wrong)}\n{said}")


def test_each_of_the_seven_has_an_exercise() -> None:
    numbers = {name[:2] for name in TRIES}
    assert {folder.name[:2] for folder in ROOT.glob("0[1-7]_*")} <= numbers


def test_a_broken_promise_is_seen() -> None:
    text = "`a` is at least 2 times `b`, and `c` is 3: so it is."
    assert promises(text) == 2
    assert broken(text, {"a": 4, "b": 2, "c": 3}) == []
    assert len(broken(text, {"a": 3, "b": 2, "c": 2})) == 2
    assert len(broken(text, {})) == 2
