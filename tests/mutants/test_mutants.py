# SPDX-License-Identifier: MIT
"""The corpus fits the sources: each old text occurs once, and each mutant compiles. About 10 s."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.grade.faults import FAULTS
from bench.host.project import ROOT

from .corpus import KINDS, Mutant, mutants

CORPUS = list(mutants())
EXPECTED = {"memory-leak", "no-redis-timeout"}
"""Names that no fault of the grader has yet."""


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


@pytest.mark.parametrize("mutant", CORPUS, ids=lambda m: f"{m.kinds[0]}-{m.name}")
def test_the_text_occurs_once(mutant: Mutant) -> None:
    assert mutant.changed(ROOT) != (ROOT / mutant.file).read_text(encoding="utf-8")


def test_each_mutant_compiles(tmp_path: Path) -> None:
    def compiled(number: int) -> str:
        mutant = CORPUS[number]
        copy = tmp_path / f"{number}.c"
        copy.write_text(mutant.changed(ROOT), encoding="utf-8")
        words = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-w", "-I", str(ROOT / "lib")]
        words += ["-iquote", str((ROOT / mutant.file).parent), str(copy)]
        done = subprocess.run(words, capture_output=True, text=True)
        return done.stderr

    with ThreadPoolExecutor(2) as pool:
        wrong = [said for said in pool.map(compiled, range(len(CORPUS))) if said]
    assert not wrong, "\n".join(wrong)
