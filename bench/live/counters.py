# SPDX-License-Identifier: MIT
"""How many requests a server has answered, without asking it.

The servers count in memory that all their processes share (lib/net/statistics.h), and tell the sums
when they end. Who may trace a process may read its memory, and the process does not notice. Which
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
    """Of one server. Nothing is known of one that keeps no such counters."""

    def __init__(self, pid: int) -> None:
        """`pid`: its first process."""
        self._folder = Path("/proc", str(pid))
        self._place: tuple[int, int] | None = None

    def requests(self) -> int | None:
        """So many so far; None: it may not be read, or there is no counter that has counted."""
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
    """Whether that is what they are, and somebody has counted."""
    sums_agree = all(
        requests == sum(responses) and not none for requests, none, _, *responses, _bytes in cells
    )
    return sums_agree and any(cell[0] for cell in cells)
