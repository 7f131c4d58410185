# SPDX-License-Identifier: MIT
"""How many requests a server has answered, without asking it.

The servers count in memory that all their processes share (lib/ops.h), and print the
sums when they end. A user who may trace a process may read its memory; this does not stop it. Which
of its shared pieces of memory holds the counters, they show themselves: in each counter the
requests are the sum of its responses.
"""

import os
import re
import struct
from pathlib import Path

COUNTER = struct.Struct("<Q6QQ")
"""requests, responses by the first digit of their status (none, 1xx, ..., 5xx), bytes."""
_SHARED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .* /dev/zero \(deleted\)$", re.MULTILINE)
LONGEST = 10_000 * COUNTER.size
"""For so many workers there are counters at most: WORKERS_LIMIT in lib/config.h."""


class Counters:
    """The counters of one server; a server without these counters has no figures."""

    def __init__(self, pid: int) -> None:
        """`pid`: its first process."""
        self._folder = Path("/proc", str(pid))
        self._place: tuple[int, int] | None = None

    def requests(self) -> int | None:
        """Return the requests so far; None if memory is not readable or no counter has counted."""
        try:
            places = [self._place] if self._place else self._places()
            memory = os.open(self._folder / "mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            for place in places:
                cells = cells_in(os.pread(memory, place[1], place[0]))
                if self._place or are_counters(cells):
                    self._place = place
                    return sum(cell[0] for cell in cells)
        except OSError:
            return None
        finally:
            os.close(memory)
        return None

    def _places(self) -> list[tuple[int, int]]:
        """Address and length of what it shares with its children."""
        text = (self._folder / "maps").read_text()
        ends = [(int(begin, 16), int(end, 16)) for begin, end in _SHARED.findall(text)]
        return [(begin, end - begin) for begin, end in ends if end - begin <= LONGEST + 4096]


def cells_in(memory: bytes) -> list[tuple[int, ...]]:
    """The numbers of each counter."""
    return list(COUNTER.iter_unpack(memory))


def are_counters(cells: list[tuple[int, ...]]) -> bool:
    """Return whether the numbers are counters, and at least one has counted."""
    sums_agree = all(
        requests == sum(responses) and not none for requests, none, _, *responses, _bytes in cells
    )
    return sums_agree and any(cell[0] for cell in cells)
