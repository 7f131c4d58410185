# SPDX-License-Identifier: MIT
"""Runs the commands of the book as a reader would, and holds what it promises against them.

What an exercise prints are lines `name: figure`. What its text promises stands in sentences such as
"`blocked` is at least 50 times `alone`" and "`forking` is 2".
"""

from __future__ import annotations

import re
import subprocess

import pytest

from bench.grade.sandbox import WAYS
from bench.host.project import ROOT

SECONDS = 120
_TIMES = re.compile(r"`(\w+)` is (at least|at most) ([\d.]+) times `(\w+)`")
_EXACTLY = re.compile(r"`(\w+)` is (\d+)\b(?! times)")
_FIGURE = re.compile(r"^(\w+): ([\d.]+)$", re.MULTILINE)
LOOPBACK = "ip link set lo up && exec 10< /dev/null && "


def run(script: str) -> str:
    """What a script writes to both outputs; in a network of its own, where every port is free, and
    with a table of processes that ends with it. Some terminals leave descriptors open, here
    10; a shell keeps its own in the next ones."""
    own = next((words for words in WAYS.values() if _works(words)), None)
    if own is None:
        pytest.skip("namespaces are refused here, and the commands of the book use fixed ports")
    done = subprocess.run(
        [*own, "--", "bash", "-c", LOOPBACK + script],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    return done.stdout


def _works(words: tuple[str, ...]) -> bool:
    return subprocess.run([*words, "--", "true"], capture_output=True, check=False).returncode == 0


def figures(text: str) -> dict[str, float]:
    """The figures in what was printed, by name."""
    return {name: float(figure) for name, figure in _FIGURE.findall(text)}


def promises(expect: str) -> int:
    """How many there are in a text."""
    return len(_TIMES.findall(expect)) + len(_EXACTLY.findall(expect))


def broken(expect: str, found: dict[str, float]) -> list[str]:
    """The promises of a text that figures break, each in words."""
    wrong = []
    for name, how, factor, other in _TIMES.findall(expect):
        if name not in found or other not in found:
            wrong.append(f"no figure for {name} or {other}")
            continue
        bound = float(factor) * found[other]
        if not (found[name] >= bound if how == "at least" else found[name] <= bound):
            wrong.append(f"{name} = {found[name]} is not {how} {factor} times {found[other]}")
    for name, figure in _EXACTLY.findall(expect):
        if found.get(name) != float(figure):
            wrong.append(f"{name} = {found.get(name)}, and not {figure}")
    return wrong
