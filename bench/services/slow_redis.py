# SPDX-License-Identifier: MIT
"""A slow Redis before another one, as a process of its own."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from bench.host.process import Helper
from bench.host.signals import SignalWatch
from bench.records.errors import UserError


class SlowRedis(Helper):
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
        words = [address, *target, f"{delay_ms:g}"]
        super().__init__("bench.services.slow_proxy", words, cpus, watch)
        password = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{password}{address}:{self._first}"))
