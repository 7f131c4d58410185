# SPDX-License-Identifier: MIT
"""For hosts on which perf is not allowed: what is written down when a server ends.

Valgrind's callgrind counts how many instructions each function takes: of user space alone, exactly,
and no time. The server runs some fifty times slower meanwhile.

A program of Go can take samples of itself: its runtime looks at each thread a hundred times a
second of its CPU time, and sees the kernel only as the function that makes a system call.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.host.process import StartError, last_line
from bench.host.programs import find_program, search_path
from bench.records.figures import StackFigures
from bench.stations.profile_tree import STARTS, Function, Owner, Stack, owner_of, tree
from bench.subjects.running import CALLGRIND_FILE

BESIDE = frozenset({"server_start", "server_ready", "server_end"})
"""What happens once, before and after all requests."""
READ_SECONDS = 60.0
"""A newer Go builds its pprof when it is first asked for."""
CALLERS_OF_KERNEL = frozenset({"internal/runtime/syscall/linux.Syscall6", "runtime.futex"})
"""They have next to no instructions of their own: their time is the kernel's."""
RULE = "-----------+-"
"""Between the stacks that pprof prints."""


def what_was_counted(folder: Path) -> StackFigures | None:
    """Of all processes that have left a file in a folder; None: none has, or one is cut short,
    since the process was killed while it wrote."""
    files = list(folder.glob(f"{CALLGRIND_FILE}*"))
    if not all(map(_is_whole, files)):
        return None
    stacks = [one for file in files for one in counts(file)]
    served = [(stack, count) for stack, count in stacks if _is_serving(stack)]
    if not served:
        return None
    return StackFigures(how="callgrind", kernel=False, frames=tree(served))


def _is_whole(file: Path) -> bool:
    return "\ntotals: " in file.read_text(errors="replace")[-100:]


def counts(file: Path) -> Iterator[tuple[Stack, int]]:
    """The stacks in a file in which functions are told apart by all their callers, each with its
    own instructions. The form: valgrind's manual, "Callgrind Format Specification"."""
    names: dict[str, str] = {}
    objects: dict[str, str] = {}
    owners: dict[str, Owner] = {}
    place: Owner = "server"
    found: list[tuple[list[str], int]] = []
    stack: list[str] = []
    below = False  # the line behind "calls=" is the cost of what was called, which has its own
    with file.open(errors="replace") as lines:
        for line in lines:
            key, _, value = line.rstrip().partition("=")
            number, _, name = value.partition(" ")
            if key == "ob":
                place = owner_of(objects.setdefault(number, name))
            elif key in ("fn", "cfn"):
                names.setdefault(number, name)
                if key == "fn":
                    stack = [one.split("@")[0] for one in names[number].split("'")][::-1]
                    owners[stack[-1]] = place
            elif key == "calls":
                below = True
            elif line[0] in "0123456789+-*":
                if not below:
                    found.append((stack, int(line.split()[1])))
                below = False
    for called, count in found:
        yield tuple(Function(name, owners.get(name, "server")) for name in called), count


def _is_serving(stack: Stack) -> bool:
    names = {function.name for function in stack}
    return not STARTS.isdisjoint(names) and BESIDE.isdisjoint(names)


def what_it_wrote(file: Path) -> StackFigures:
    """The profile that a program has written. Raises StartError where it cannot be read."""
    go = find_program("go") or "go"
    try:
        done = subprocess.run(
            [go, "tool", "pprof", "-symbolize=none", "-sample_index=samples", "-traces", str(file)],
            capture_output=True,
            text=True,
            timeout=READ_SECONDS,
            cwd=file.parent,
            env={**os.environ, "PATH": search_path()},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"go tool pprof cannot read the profile: {error}") from None
    stacks = list(traces(done.stdout.splitlines()))
    if done.returncode != 0 or not stacks:
        raise StartError(f"pprof saw nothing: {last_line(done.stderr)}")
    return StackFigures(how="pprof", kernel=False, frames=tree(stacks))


def traces(lines: Iterable[str]) -> Iterator[tuple[Stack, int]]:
    """The stacks in what `go tool pprof -traces` prints: behind a rule a number, and one function
    in a line, the innermost first."""
    found: list[Function] = []
    count = 0
    for line in lines:
        if line.startswith(RULE):
            if found:
                yield tuple(reversed(found)), count
            found, count = [], -1
        elif count:
            number, name = line[:10].strip(), line[10:].strip().removesuffix(" (inline)")
            if count < 0:
                count = int(number)
            found.append(Function(name, "kernel" if name in CALLERS_OF_KERNEL else "server"))
