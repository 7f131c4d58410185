# SPDX-License-Identifier: MIT
"""Idle connections beside a load, held by a process of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.host.process import Helper
from bench.host.signals import SignalWatch


@dataclass(frozen=True)
class IdleReport:
    """What became of the idle connections."""

    asked: int
    held: int
    """Open at the end."""
    reopened: int
    """Closed by the server meanwhile, and opened anew."""
    requests: int
    """Answered in all."""
    requests_during: int
    """Answered during the load."""


class IdleConnections(Helper):
    """So many connections held open. Use `end` after the load."""

    def __init__(self, url: str, count: int, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Open them, and ask for `url` on each. Raises HelperError or Interrupted."""
        self._count = count
        to = urlsplit(url)
        words = [to.hostname or "", str(to.port or 80), str(count), to.path]
        super().__init__("bench.load.idle_holder", words, cpus, watch)

    def end(self) -> IdleReport:
        """Let go of them."""
        self._child.end()
        said = [int(number) for number in self._child.stdout.split()[1:]]
        held, requests, reopened = said or (0, 0, 0)
        during = max(0, requests - self._first)
        return IdleReport(self._count, held, reopened, requests, during)
