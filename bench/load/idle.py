# SPDX-License-Identifier: MIT
"""Idle connections during a load, held open by a separate process."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.host.process import Helper
from bench.host.signals import SignalWatch


@dataclass(frozen=True)
class IdleReport:
    """The counts of the idle connections."""

    asked: int
    held: int
    """Open at the end."""
    reopened: int
    """Closed by the server during the load, and opened again."""
    requests: int
    """All answered requests."""
    requests_during: int
    """Requests answered during the load."""


class IdleConnections(Helper):
    """Connections held open during a load. Call `end` after the load."""

    def __init__(self, url: str, count: int, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Open `count` connections and request `url` on each. Raises HelperError or Interrupted."""
        self._count = count
        to = urlsplit(url)
        words = [to.hostname or "", str(to.port or 80), str(count), to.path]
        super().__init__("bench.load.idle_holder", words, cpus, watch)

    def end(self) -> IdleReport:
        """Close all connections and return the counts."""
        self._child.end()
        said = [int(number) for number in self._child.stdout.split()[1:]]
        held, requests, reopened = said or (0, 0, 0)
        during = max(0, requests - self._first)
        return IdleReport(self._count, held, reopened, requests, during)
