# SPDX-License-Identifier: MIT
"""Servers that break a promise are detected, with real processes and a real Redis. The good server
is the control: nothing is detected in it, or the others prove nothing."""

import re

import pytest

from bench.records.torture import TortureCell, broken
from bench.torture.attacks import ATTACKS
from bench.torture.cell import measure
from bench.torture.ground import Ground

from .conftest import faulty


def tortured(mode: str, ground: Ground) -> tuple[TortureCell, str]:
    """Return what is detected in a server with a fault."""
    attack = ATTACKS["slow-heads"]
    cell = measure(faulty(mode), attack, ground, 3.0)
    assert cell.reason is None
    return cell, "; ".join(broken(cell, attack.facts()))


def test_the_good_one_breaks_none(ground: Ground) -> None:
    cell, found = tortured("good", ground)
    assert found == ""
    assert cell.remarks.answered > 0
    assert cell.crowd.opened >= 200
    assert len(cell.course) * 0.1 > cell.attack_to_s > cell.attack_from_s > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("dies", "ended with status 3"),
        ("leaks", "connections? left over"),
        ("litters", "process(es)? left over"),
        ("forgets", "are not in Redis"),
        ("repeats", "more than once"),
        ("spoils", "complete but wrong"),
        ("ends-badly", "ended with status 7"),
        pytest.param("hangs", "had not recovered 15 s after", marks=pytest.mark.waits),
    ],
)
def test_a_fault_is_found(mode: str, words: str, ground: Ground) -> None:
    assert re.search(words, tortured(mode, ground)[1])
