# SPDX-License-Identifier: MIT
"""How many instructions each function of a server takes: what valgrind's callgrind has counted.

User space alone, exactly, and no time; for hosts on which perf is not allowed. The server runs some
fifty times slower meanwhile, and writes down what was counted when it ends.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.records.figures import StackFigures
from bench.stations.profile_tree import STARTS, Function, Owner, Stack, owner_of, tree
from bench.subjects.running import CALLGRIND_FILE

BESIDE = frozenset({"server_start", "server_ready", "server_end"})
"""What happens once, before and after all requests."""


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
