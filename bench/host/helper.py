# SPDX-License-Identifier: MIT
"""Helpers that run beside a load as processes of their own."""

import re
import sys
import time
from collections.abc import Sequence
from typing import TypeVar

from bench.host.process import Child
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import NoFigure

START_SECONDS = 10.0


class HelperError(NoFigure):
    """A helper did not start; the message says why."""

    label = "no start"


Own = TypeVar("Own", bound="Helper")


class Helper:
    """A module of this package as a child process. Use in a `with` block."""

    def __init__(self, module: str, words: Sequence[str], cpus: Sequence[int]) -> None:
        self._child = Child([sys.executable, "-m", module, *words], cpus, cwd=ROOT)

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._child.end()

    def _await(self, pattern: str, watch: SignalWatch) -> re.Match[str]:
        """The line that says that it is ready. Raises HelperError or Interrupted."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = re.search(pattern, self._child.stdout)
            if found:
                return found
            if not self._child.running() or time.monotonic() > deadline:
                said = self._child.stderr.strip().splitlines() or ["it said nothing"]
                raise HelperError(f"{self._child.command[2]} did not start: {said[-1]}")
            watch.sleep(0.01)

    def demand_seconds(self) -> float | None:
        """For how long it has run or wanted to run."""
        return self._child.demand_seconds()
