"""Helpers that run beside a load: the slow Redis, and the idle connections."""

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from bench.errors import UserError
from bench.process import Child
from bench.servers import ROOT
from bench.signals import SignalWatch

START_SECONDS = 10.0


class HelperError(Exception):
    """A helper did not start; the message says why."""


class _Helper:
    """A module of this package as a child process. Use in a `with` block."""

    def __init__(self, module: str, words: Sequence[str], cpus: Sequence[int]) -> None:
        self._child = Child([sys.executable, "-m", module, *words], cpus, cwd=ROOT)

    def __enter__(self) -> "_Helper":
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


class SlowRedis(_Helper):
    """Redis with every reply a fixed time later; `url` is for the servers."""

    def __init__(
        self,
        url: str,
        delay_ms: float,
        cpus: Sequence[int],
        watch: SignalWatch,
        address: str = "127.0.0.1",
    ) -> None:
        """Start it; it listens on a port of `address`. Raises HelperError, UserError for a Redis
        that it cannot reach (a Unix socket), Interrupted."""
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise UserError("Redis can be slowed over TCP only: give --redis redis://host:port")
        target = [parts.hostname, str(parts.port or 6379)]
        super().__init__("bench.slow_redis", [address, *target, f"{delay_ms:g}"], cpus)
        try:
            port = self._await(r"port (\d+)\n", watch)[1]
        except BaseException:
            self._child.end()
            raise
        password = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{password}{address}:{port}"))


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


class IdleConnections(_Helper):
    """So many connections held open. Use `end` after the load."""

    def __init__(self, url: str, count: int, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Open them, and ask for `url` on each. Raises HelperError or Interrupted."""
        self._count = count
        to = urlsplit(url)
        words = [to.hostname or "", str(to.port or 80), str(count), to.path]
        super().__init__("bench.idle_holder", words, cpus)
        try:
            self._at_first = int(self._await(r"holding \d+ requests (\d+)\n", watch)[1])
        except BaseException:
            self._child.end()
            raise

    def end(self) -> IdleReport:
        """Let go of them."""
        self._child.end()
        found = re.search(r"^held (\d+) requests (\d+) reopened (\d+)$", self._child.stdout, re.M)
        held, requests, reopened = (int(n) for n in found.groups()) if found else (0, 0, 0)
        during = max(0, requests - self._at_first)
        return IdleReport(self._count, held, reopened, requests, during)
