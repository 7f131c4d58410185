# SPDX-License-Identifier: MIT
"""Read the profiles that servers write at their end, for hosts on which perf is not allowed.

Valgrind's callgrind counts the instructions of each function exactly, but only in user space, and
without time. The server runs about fifty times slower.

A Go program can sample itself: its runtime takes 100 samples of each second of CPU time. The kernel
appears only as the function that makes the system call.
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
"""Functions that run once, before or after all requests."""
READ_SECONDS = 60.0
"""The time limit of pprof. Newer Go versions build pprof at its first use."""
CALLERS_OF_KERNEL = frozenset({"internal/runtime/syscall/linux.Syscall6", "runtime.futex"})
"""Functions with almost no instructions; their time is spent in the kernel."""
RULE = "-----------+-"
"""The line between the stacks in pprof's output."""


def what_was_counted(folder: Path) -> StackFigures | None:
    """Return the profile of all processes that have left a file in a folder. None: there is no
    file, or a file is truncated because its process was killed."""
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
    """Yield each stack of a callgrind file with its own instructions; functions are separated by
    their callers. The format: valgrind's manual, "Callgrind Format Specification"."""
    names: dict[str, str] = {}
    objects: dict[str, str] = {}
    owners: dict[str, Owner] = {}
    place: Owner = "server"
    found: list[tuple[list[str], int]] = []
    stack: list[str] = []
    below = False  # the line after "calls=" has the callee's cost, which is counted separately
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
    """Return the profile that a Go program has written. Raise StartError if it is not readable."""
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
        raise StartError(f"pprof has no samples: {last_line(done.stderr)}")
    return StackFigures(how="pprof", kernel=False, frames=tree(stacks))


def traces(lines: Iterable[str]) -> Iterator[tuple[Stack, int]]:
    """Yield the stacks in the output of `go tool pprof -traces`: after a rule a number, and one
    function in each line, the innermost first."""
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
