# SPDX-License-Identifier: MIT
"""The commands in the book and in the opening comments of the servers show what the text says.

An exercise prints lines `name: figure`. The promises are sentences such as "`blocked` is at least
50 times `alone`" and "`forking` is 2".
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.grade.sandbox import WAYS
from bench.host.project import ROOT
from bench.records.values import toml_of
from bench.timeline.record import Refused, require_tracing
from tests.e2e.tracing import skip_unless_traceable

ATTEMPTS = 3
"""On a busy machine the server may read bytes late, and a ratio of times may be wrong by chance."""
RECIPES = toml_of(Path(__file__).with_name("recipes.toml"))
ACTIONS = """
small() { curl -s -o /dev/null localhost:8000/files/small.txt; }
leaves() { curl -0 -s -o /dev/null localhost:8000; sleep 0.3; }
half() {
    for i in $(seq $1); do
        exec {client}<> /dev/tcp/localhost/8000; printf 'GET /' >&$client
    done
    sleep 0.5
}
"""
"""Shell functions of clients; `half N` opens N connections and sends half a request on each."""
WAIT = "until (: <> /dev/tcp/localhost/8000) 2> /dev/null; do sleep 0.1; done; sleep 0.3"
"""Waits until the server listens. These test connections send no byte, so they get no response."""


SECONDS = 120
_TIMES = re.compile(r"`(\w+)` is (at least|at most) ([\d.]+) times `(\w+)`")
_EXACTLY = re.compile(r"`(\w+)` is (\d+)\b(?! times)")
_FIGURE = re.compile(r"^(\w+): ([\d.]+)$", re.MULTILINE)
LOOPBACK = "ip link set lo up && exec 10< /dev/null && "


def run(script: str) -> str:
    """Return what a script writes to standard output and standard error. The script has its own
    network, where every port is free, and its own PID namespace, so its processes end with it.
    Descriptor 10 is open, as in some terminals, so that bash must use higher descriptors."""
    own = next((words for words in WAYS.values() if _works(words)), None)
    if own is None:
        pytest.skip("the commands use fixed ports, and need a network namespace")
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
    """Return the printed figures by name."""
    return {name: float(figure) for name, figure in _FIGURE.findall(text)}


def promises(expect: str) -> int:
    return len(_TIMES.findall(expect)) + len(_EXACTLY.findall(expect))


def broken(expect: str, found: dict[str, float]) -> list[str]:
    """Return a sentence for each condition in `expect` that is false."""
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
            wrong.append(f"{name} = {found.get(name)} instead of {figure}")
    return wrong


def in_order(lines: list[str], patterns: Sequence[str]) -> str:
    """Return the first pattern that matches no line after the previous pattern's line; empty if all
    patterns match in this order."""
    rest = iter(lines)
    return next((one for one in patterns if not any(re.search(one, line) for line in rest)), "")


def comment_of(file: str) -> str:
    """Return the opening comment of a server, on one line."""
    text = (ROOT / file).read_text()
    comment = text[text.index("/*\n") : text.index(" */\n", text.index("/*\n"))]
    return " ".join(re.sub(r"(?m)^ \*", "", comment).split())


def skip_unless_straced() -> None:
    """Skip the test on the few machines where strace may not trace its own children."""
    try:
        require_tracing(["strace"])
    except Refused as refused:
        pytest.skip(str(refused))


@pytest.mark.parametrize("folder", RECIPES)
def test_a_recipe_shows_what_it_says(folder: str) -> None:
    recipe, comment = RECIPES[folder], comment_of(f"{folder}/main.c")
    line = re.search(r"To see it: `([^`]+)`", comment)
    assert line is not None, f"the opening comment of {folder} ends without a command"
    assert recipe["sentence"] in comment
    clients, seen = recipe.get("clients", ":"), recipe["seen"] * recipe.get("times", 1)
    tool, program = line[1].split()[0], folder.partition("_")[2]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if tool == "gdb":  # gdb attaches to the server; strace starts it
        skip_unless_traceable()
    if tool == "strace":
        skip_unless_straced()
        script = f"{line[1]} & {WAIT}; {clients}; sleep 0.3; kill -9 $(pgrep -x {program})"
    else:
        start = f"./{shlex.quote(program)} {recipe.get('options', '')} > /dev/null"
        script = f"{start} & {WAIT}; {clients}\n{line[1]}"
    for _ in range(ATTEMPTS):
        said = run(ACTIONS + script)
        missing = in_order(said.splitlines(), seen)
        if not missing:
            break
    assert not missing, f"no line matches {missing}\n{said[-6000:]}"
    if folder == "07_epoll":  # the first call adds the listening socket
        assert said.partition("stays")[0].count("EPOLL_CTL_ADD") == 1, said


def test_the_first_server_needs_seven_system_calls() -> None:
    told = (
        "`strace build/baselines/first 8000` shows each of them as it happens. (It also shows "
        "the calls that start any program, and two that only change settings: setsockopt and, for "
        "signal(), rt_sigaction.)"
    )
    assert told in comment_of("baselines/first.c")
    skip_unless_straced()
    said = run(
        f"strace build/baselines/first 8000 & {WAIT}; "
        "answer=$(curl -s -i http://localhost:8000/); sleep 0.3; "
        'kill -9 $(pgrep -x first); wait; echo "$answer"'
    )
    life = (r"socket\(", r"bind\(", r"listen\(", r"accept\(", r"read\(4, \"GET", r"write\(.* = 90$")
    assert not in_order(said.splitlines(), (*life, r"close\(4\)")), said
    assert "Hello!" in said
    calls = set(re.findall(r"^(\w+)\(", said[said.index("socket(AF_INET") :], re.MULTILINE))
    set_up = {"setsockopt", "rt_sigaction"}
    assert calls - set_up == {"socket", "bind", "listen", "accept", "read", "write", "close"}


TRY = re.compile(r"^## Try it\n.*?^```sh\n(.*?)^```\n(.*?)(?=^(?:#|:: |<details)|\Z)", re.M | re.S)
TRIES = {
    f"{chapter.stem}-{number}": exercise
    for chapter in sorted((ROOT / "docs" / "tutorial" / "book").glob("*.md"))
    for number, exercise in enumerate(TRY.findall(chapter.read_text()), 1)
}
"""The commands of each exercise, and the text after them, which promises results."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIES)
def test_an_exercise_shows_what_it_promises(name: str) -> None:
    commands, expected = TRIES[name]
    assert promises(expected) > 0, "the exercise has no promise"
    for _ in range(ATTEMPTS):
        said = run(commands)
        wrong = broken(expected, figures(said))
        if not wrong:
            return
    pytest.fail(f"{'; '.join(wrong)}\n{said}")


def test_each_server_has_a_recipe_and_01_to_07_have_an_exercise() -> None:
    assert set(RECIPES) == {folder.name for folder in ROOT.glob("[0-9][0-9]_*")}
    numbers = {name[:2] for name in TRIES}
    assert {folder.name[:2] for folder in ROOT.glob("0[1-7]_*")} <= numbers


def test_a_broken_promise_is_detected() -> None:
    text = "`a` is at least 2 times `b`, and `c` is 3: so it is."
    assert promises(text) == 2
    assert broken(text, {"a": 4, "b": 2, "c": 3}) == []
    assert len(broken(text, {"a": 3, "b": 2, "c": 2})) == 2
    assert len(broken(text, {})) == 2
