# SPDX-License-Identifier: MIT
"""Starts and ends crowds. Each crowd is a process of `bench.load.crowd`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.host.process import Helper, HelperError, last_line
from bench.host.signals import SignalWatch
from bench.load.crowd import RUSH_SECONDS, CrowdOrder, Page

CROWD_SECONDS = 3 * RUSH_SECONDS
"""The time within which a crowd must end."""


class RunningCrowd(Helper):
    """A running crowd. Use it in a `with` block, and read its tally afterwards."""

    def __init__(
        self, order: CrowdOrder, cpus: Sequence[int], watch: SignalWatch, inside: Sequence[str] = ()
    ) -> None:
        """Start the crowd; `inside`: see `Helper`. Raises HelperError or Interrupted."""
        super().__init__("bench.load.crowd", [order.words()], cpus, watch, inside)

    def close(self) -> None:
        """End the crowd."""
        self.end(CROWD_SECONDS)

    def tally(self) -> dict[str, Any]:
        """Return the fields of the crowd's `Tally`. Raises HelperError if it is missing."""
        try:
            found: dict[str, Any] = json.loads(self.stdout.splitlines()[1])
        except (IndexError, ValueError) as error:  # the crowd was killed too early
            said = last_line(self.stderr) or "it printed nothing"
            raise HelperError(f"the crowd failed: {said}") from error
        return found


@dataclass(frozen=True)
class IdleReport:
    """The counts of the idle connections; `held`, `reopened` and `requests` as in `Tally`."""

    asked: int
    held: int
    reopened: int
    requests: int
    requests_during: int
    """The number of requests that were answered during the load."""


class IdleConnections(RunningCrowd):
    """Idle connections that stay open during a load. Call `report` after the load."""

    def __init__(self, url: str, count: int, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Open `count` connections and request `url` on each. Raises HelperError or Interrupted."""
        self._count = count
        to = urlsplit(url)
        page = Page("idle", to.path)
        order = CrowdOrder("kept", to.hostname or "", to.port or 80, count, (page,))
        super().__init__(order, cpus, watch)

    def report(self) -> IdleReport:
        """Close all connections and return the counts. Raises HelperError."""
        self.close()
        counts = self.tally()
        requests = counts["requests"]
        during = max(0, requests - self.first)
        return IdleReport(self._count, counts["held"], counts["reopened"], requests, during)
