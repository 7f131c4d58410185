# SPDX-License-Identifier: MIT
"""Run a slow Redis in front of another Redis, as a separate process."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from bench.host.process import Helper
from bench.host.signals import SignalWatch
from bench.records.errors import UserError


class SlowRedis(Helper):
    """A Redis whose replies have a fixed delay; the servers use `url`."""

    def __init__(
        self,
        url: str,
        delay_ms: float,
        cpus: Sequence[int],
        watch: SignalWatch,
        address: str = "127.0.0.1",
        *,
        split: bool = False,
    ) -> None:
        """Start it; it listens on a port of `address`. `split`: the last byte of a reply comes a
        little later than the others. Raises HelperError, Interrupted, or
        UserError for a Redis on a Unix socket."""
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise UserError("a slow Redis needs TCP: give --redis redis://host:port")
        target = [parts.hostname, str(parts.port or 6379)]
        words = [address, *target, f"{delay_ms:g}", *(["split"] if split else [])]
        super().__init__("bench.services.slow_proxy", words, cpus, watch)
        password = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{password}{address}:{self._first}"))
