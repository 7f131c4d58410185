# SPDX-License-Identifier: MIT
"""Servers with one fault each: the skeleton's solution, or one of the seven servers, and a patch
of faults.diff."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.host.project import ROOT

WHOLE = "course/own/solution.c"
SKELETON = "course/own/main.c"
INCLUDE = "#include <poll.h>\n"
MORE = INCLUDE + "#include <string.h>\n#include <sys/wait.h>\n"


class Patch(NamedTuple):
    """A fault, the stage that must find it, and the changes that make it."""

    fault: str = ""
    stage: str = ""
    base: str = WHOLE
    changes: tuple[tuple[str, str], ...] = ()

    def apply(self, folder: Path) -> Path:
        """Return a folder of a server that has the fault."""
        server = folder / "08_patched"
        server.mkdir()
        text = "\n" + (ROOT / self.base).read_text()
        name = "NAME" if self.base.startswith("course") else self.base.split("/")[0][3:]
        more = ((INCLUDE, MORE),) if self.base == WHOLE else ()
        for before, after in (*self.changes, *more):
            assert text.count(f"\n{before}") == 1, f"{self.base} has {before!r} not once"
            text = text.replace(f"\n{before}", f"\n{after}")
        (server / "main.c").write_text(text.replace(f'.name = "{name}"', '.name = "patched"')[1:])
        return server


def _change(hunk: str) -> tuple[str, str]:
    """Return the lines of a hunk without those that it adds, and without those that it removes."""
    lines = hunk.splitlines(keepends=True)
    before, after = ([one[1:] or "\n" for one in lines if one[0] != sign] for sign in "+-")
    return "".join(before), "".join(after)


def _patches() -> Iterator[Patch]:
    for part in Path(__file__).with_name("faults.diff").read_text().split("=== ")[1:]:
        head, *hunks = part.split("@@\n")
        yield Patch(*head.split(), tuple(map(_change, hunks)))


GROWING_POOL, *PATCHES = _patches()
"""The first has no fault: socket pairs made at the start, and a thread for each client up to a
limit."""
