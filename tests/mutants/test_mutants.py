# SPDX-License-Identifier: MIT
"""The corpus fits the sources: each old text occurs once, and each mutant compiles. Takes 10 s."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.grade.findings import FAULTS
from bench.host.project import ROOT

from .corpus import KINDS, mutants

CORPUS = list(mutants())
PROPOSED = {
    *("chunks", "head-with-body", "no-continue"),
    *("no-redis-timeout", "reply-in-pieces"),
}
"""Names of faults in the corpus that the grader does not know."""


def test_each_kind_has_enough_mutants() -> None:
    for kind in KINDS:
        of = [mutant for mutant in CORPUS if kind in mutant.kinds]
        own = [mutant for mutant in of if len(mutant.kinds) < len(KINDS)]
        assert len(of) >= 60
        assert len(own) > len(of) / 2


def test_names_are_unique() -> None:
    for kind in KINDS:
        names = [mutant.name for mutant in CORPUS if kind in mutant.kinds]
        assert len(names) == len(set(names))


def test_no_fault_is_in_the_corpus_twice() -> None:
    changes = [
        (mutant.server_of(kind), mutant.changed(ROOT)) for mutant in CORPUS for kind in mutant.kinds
    ]
    assert len(changes) == len(set(changes))


def test_names_of_faults_are_known() -> None:
    named = {name for mutant in CORPUS for name in mutant.named}
    assert named - set(FAULTS) <= PROPOSED


def test_each_text_occurs_once() -> None:
    for mutant in CORPUS:
        assert mutant.changed(ROOT) != (ROOT / mutant.file).read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_mutant_compiles() -> None:
    def compiled(number: int) -> str:
        mutant = CORPUS[number]
        words = [
            *("cc", "-x", "c", "-", "-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-w"),
            *("-Werror=implicit-function-declaration", "-I", str(ROOT / "lib")),
        ]
        done = subprocess.run(
            words,
            input=mutant.changed(ROOT),
            cwd=(ROOT / mutant.file).parent,
            capture_output=True,
            text=True,
        )
        return f"{mutant.name}: {done.stderr}" if done.stderr else ""

    with ThreadPoolExecutor(2) as pool:
        wrong = [said for said in pool.map(compiled, range(len(CORPUS))) if said]
    assert not wrong, "\n".join(wrong)
