# SPDX-License-Identifier: MIT
"""The Redis of the torture: one that may be killed, stopped and starved.

What it has answered it has handed to the kernel before (an append-only file, written without
waiting for the disk), so a remark that is not there after `kill -9` was never stored.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import redis

from bench.host.process import Helper
from bench.host.signals import SignalWatch
from bench.services.private_redis import PrivateRedis

KEPT = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": "0"}
LOAD_SECONDS = 10.0
REMARKS = "guestbook_remarks"


class OwnRedis(PrivateRedis):
    """Use in a `with` block. Everything may raise redis.RedisError."""

    def __init__(
        self, cpus: Sequence[int], watch: SignalWatch, settings: Mapping[str, str] = KEPT
    ) -> None:
        """Start it. Raises UserError if it does not come up, Interrupted on Ctrl-C."""
        super().__init__(cpus, watch, settings)
        self._watch = watch

    def kill(self) -> None:
        """It is gone at once, and its port is free."""
        self._server.send(signal.SIGKILL)

    def start_again(self) -> None:
        """After `kill`, with the data that it had. Raises UserError, or redis.RedisError if it
        has not loaded them within LOAD_SECONDS; may raise Interrupted."""
        self._server.start_again()
        deadline = time.monotonic() + LOAD_SECONDS
        while True:
            try:
                self._client.ping()
                return
            except redis.BusyLoadingError:
                if time.monotonic() > deadline:
                    raise
            self._watch.sleep(0.005)

    def stop(self) -> None:
        """It does nothing more, but its connections stay."""
        self._server.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """After `stop`."""
        self._server.send(signal.SIGCONT)

    def limit_clients(self, most: int) -> None:
        """Take no more than so many from now on. Those that are connected stay so."""
        self._client.config_set("maxclients", most)

    def clients_limit(self) -> int:
        """How many it takes."""
        return int(str(self._client.config_get("maxclients")["maxclients"]))

    def remarks(self) -> list[str]:
        """All of them, without the names."""
        found = self._client.lrange(REMARKS, 0, -1)
        return [bytes_of(remark).decode(errors="replace").split(" ")[0] for remark in found]


def bytes_of(value: bytes | str) -> bytes:
    """What Redis said, whether it was decoded or not."""
    return value.encode() if isinstance(value, str) else value


class LyingRedis(Helper):
    """A way to Redis that can begin to lie: see `bench.torture.liar`. `url` is for the server."""

    def __init__(self, url: str, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Before the Redis at `url`. Raises HelperError or Interrupted."""
        redis = urlsplit(url)
        where = [str(redis.hostname), str(redis.port)]
        super().__init__("bench.torture.liar", where, cpus, r"port (\d+)\n", watch)
        self.url = redis._replace(netloc=f"127.0.0.1:{self._ready[1]}").geturl()

    def lie(self) -> None:
        """From now on."""
        self._child.send(signal.SIGUSR1)

    def be_honest(self) -> None:
        """From now on."""
        self._child.send(signal.SIGUSR2)
