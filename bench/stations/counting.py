# SPDX-License-Identifier: MIT
"""Read the profiles that servers write at their end, for hosts on which perf is not allowed.

Valgrind's callgrind counts the instructions of each function exactly, but only in user space, and
without time. The server runs about fifty times slower.

A Go program can sample itself: its runtime takes 100 samples of each second of CPU time. The kernel
appears only as the function that makes the system call.

`tree` merges call stacks into a tree for a flame graph; `sampling` uses it, too.
"""

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bench.host.process import StartError, last_line
from bench.host.programs import completed
from bench.records.figures import Frame, StackFigures
from bench.subjects.running import CALLGRIND_FILE

SMALLEST = 0.004
"""A function with a smaller share is counted with its caller."""
STARTS = frozenset({"main", "start_thread"})
"""The first functions of a process and a thread; their callers are not part of the server."""
Owner = Literal["server", "library", "kernel"]


OWN_MEMORY = ("[vdso", "[vsyscall", "[heap", "[stack", "[unknown", "[anon")
"""The beginnings of bracketed file names that mean the process's own memory."""


class Function(NamedTuple):
    """A function and its owner."""

    name: str
    of: Owner = "server"


Stack = tuple[Function, ...]
"""The outermost first."""


def owner_of(place: str) -> Owner:
    """Return the owner of a function by its file, as named by perf or callgrind. Names in brackets
    are the kernel, its modules, and memory of the process without a file: the vdso, the heap."""
    if place.startswith("bpf_prog_"):
        return "kernel"
    if place.startswith("["):
        return "library" if place.startswith(OWN_MEMORY) else "kernel"
    return "library" if ".so" in place else "server"


def from_start(stack: Stack) -> Stack:
    """Return the stack from main() or a thread's start on; the whole stack if it has neither."""
    begin = next((i for i, one in enumerate(stack) if one.name in STARTS), 0)
    return stack[begin:]


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.below: dict[Function, _Node] = {}


def tree(stacks: Iterable[tuple[Stack, int]]) -> list[Frame]:
    """Return the merged stacks; functions that are too small are counted with their callers."""
    top = _Node()
    for stack, count in stacks:
        node = top
        node.count += count
        for function in from_start(stack):
            node = node.below.setdefault(function, _Node())
            node.count += count
    return _frames(top, SMALLEST * top.count)


def _frames(node: _Node, least: float) -> list[Frame]:
    kept = [(function, n) for function, n in node.below.items() if n.count >= least]
    ordered = sorted(kept, key=lambda one: (-one[1].count, one[0]))
    return [
        Frame(name=function.name, of=function.of, count=n.count, below=_frames(n, least))
        for function, n in ordered
    ]


START_AND_END = frozenset({"server_start", "server_ready", "server_end"})
"""Functions that run once, before or after all requests."""
READ_SECONDS = 60.0
"""The time limit of perf script and of pprof. Newer Go versions build pprof at its first use."""
CALLERS_OF_KERNEL = frozenset({"internal/runtime/syscall/linux.Syscall6", "runtime.futex"})
"""Functions with almost no instructions; their time is spent in the kernel."""
RULE = "-----------+-"
"""The line between the stacks in pprof's output."""


def what_was_counted(folder: Path) -> StackFigures | None:
    """Return the profile of all processes that have left a file in a folder. None: there is no
    file, or a file is truncated because its process was killed."""
    files = list(folder.glob(f"{CALLGRIND_FILE}*"))
    if not all("\ntotals: " in file.read_text(errors="replace")[-100:] for file in files):
        return None
    stacks = [one for file in files for one in counts(file)]
    served = [(stack, count) for stack, count in stacks if _is_serving(stack)]
    if not served:
        return None
    return StackFigures(how="callgrind", kernel=False, frames=tree(served))


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
    return not STARTS.isdisjoint(names) and START_AND_END.isdisjoint(names)


def what_it_wrote(file: Path) -> StackFigures:
    """Return the profile that a Go program has written. Raise StartError if it is not readable."""
    pprof = ["go", "tool", "pprof", "-symbolize=none", "-sample_index=samples", "-traces"]
    stacks = stacks_by([*pprof, str(file)], traces)
    return StackFigures(how="pprof", kernel=False, frames=tree(stacks))


def stacks_by(
    command: Sequence[str], read: Callable[[Iterable[str]], Iterable[tuple[Stack, int]]]
) -> list[tuple[Stack, int]]:
    """Return the stacks in the output of a tool; `read` parses its lines. Raise StartError if there
    are none."""
    try:
        done = completed(command, READ_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"{command[0]} cannot read the profile: {error}") from None
    stacks = list(read(done.stdout.splitlines()))
    if done.returncode != 0 or not stacks:
        raise StartError(f"{command[0]} found no samples: {last_line(done.stderr)}")
    return stacks


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
