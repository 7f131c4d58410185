# SPDX-License-Identifier: MIT
"""How many instructions each function of a server takes: what valgrind's callgrind has counted.

User space alone, exactly, and no time; for hosts on which perf is not allowed. The server runs some
fifty times slower meanwhile, and writes down what was counted when it ends.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.records.figures import StackFigures
from bench.stations.profile_tree import STARTS, Stack, tree
from bench.subjects.running import CALLGRIND_FILE

BESIDE = ("server_start", "server_ready", "server_end")
"""What happens once, before and after all requests."""


def what_was_counted(folder: Path) -> StackFigures | None:
    """Of all processes that have left a file in a folder; None: none has."""
    stacks = [one for file in folder.glob(f"{CALLGRIND_FILE}*") for one in counts(file)]
    served = [(stack, count) for stack, count in stacks if _is_serving(stack)]
    if not served:
        return None
    return StackFigures(how="callgrind", kernel=False, frames=tree(served))


def counts(file: Path) -> Iterator[tuple[Stack, int]]:
    """The stacks in a file in which functions are told apart by all their callers, each with its
    own instructions. The form: valgrind's manual, "Callgrind Format Specification"."""
    names: dict[str, str] = {}
    stack: Stack = ()
    below = False  # the line behind "calls=" is the cost of what was called, which has its own
    with file.open(errors="replace") as lines:
        for line in lines:
            key, _, value = line.rstrip().partition("=")
            if key in ("fn", "cfn"):
                number, _, name = value.partition(" ")
                names.setdefault(number, name)
                if key == "fn":
                    stack = tuple(name.split("@")[0] for name in names[number].split("'"))[::-1]
            elif key == "calls":
                below = True
            elif line[0] in "0123456789+-*":
                if not below:
                    yield stack, int(line.split()[1])
                below = False


def _is_serving(stack: Stack) -> bool:
    return not STARTS.isdisjoint(stack) and not stack_has(stack, BESIDE)


def stack_has(stack: Stack, names: tuple[str, ...]) -> bool:
    """Whether one of these functions is in it."""
    return any(name in names for name in stack)
