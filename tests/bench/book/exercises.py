# SPDX-License-Identifier: MIT
"""Run the commands of the book as a reader would, and check the promises of its text.

An exercise prints lines `name: figure`. The promises are sentences such as "`blocked` is at least
50 times `alone`" and "`forking` is 2".
"""

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
    """Return what a script writes to both outputs. It has its own network, where every port is
    free, and its own PID namespace, which ends its processes. Some terminals leave descriptors
    open, here 10; a shell uses the next ones."""
    own = next((words for words in WAYS.values() if _works(words)), None)
    if own is None:
        pytest.skip("no namespaces here, and the commands of the book use fixed ports")
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
    """Return the figures in what was printed, by name."""
    return {name: float(figure) for name, figure in _FIGURE.findall(text)}


def promises(expect: str) -> int:
    """Return the number of promises in a text."""
    return len(_TIMES.findall(expect)) + len(_EXACTLY.findall(expect))


def broken(expect: str, found: dict[str, float]) -> list[str]:
    """Return the promises of a text that figures break, each as a sentence."""
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
