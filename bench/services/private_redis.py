# SPDX-License-Identifier: MIT
"""The Redis of a run and its data: a private Redis that ends with the run, or an existing Redis.

In an existing Redis nothing is deleted or overwritten; only the pages change it: a visit to the
guestbook increments `visitor_count`.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import redis

from bench.host.accounting import CpuTime
from bench.host.signals import SignalWatch
from bench.records.errors import UserError
from bench.services.redis_server import RedisServer, connect, without_password

FIRST_VISITOR = 1_000_000
"""The visitor count before each run. Its number of digits stays constant, and so does the length of
the page: only then can ab distinguish a truncated response from a complete one."""

REMARKS = (
    "Good morning from a train between Porto and Lisbon. The tunnel ate my first attempt. - Inês",
    "I came for the penguin and stayed for the event loop. - Samuel",
    "Our class measured all of you today. Nobody had guessed the winner. - Room 204",
    'What does "backlog" mean? Asking for a friend who refuses to queue. - Noor',
    "Tidy little site. Loads faster than my kettle. - Grandpa Willem",
    "Fork me once, shame on you; fork me ten thousand times, shame on me. - Tomasz",
    "1 < 2 && 3 > 2, and this page survived my saying so. - Yuki",
    "Read the source on a Sunday afternoon, as promised on the tin. It was raining anyway. - Aoife",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. - Jürgen",
    "First! Or am I? The number above says a million others were here. - Amara",
)
"""A realistic guestbook, oldest remark first, so that the page has a defined size."""

LONGEST_REMARK = '"' * 1000 + " - " + '"' * 100
"""The longest remark that the form accepts (GUEST_REMARKS_LIMIT, GUEST_NAME_LIMIT in lib/config.h).
In the page each character is `&quot;`."""
REMARKS_SHOWN = 50

LINK = ("link:guestbook", "/guestbook")
"""A short link: /go/guestbook redirects to the guestbook."""


LOAD_SECONDS = 10.0
"""The time limit for a restarted Redis to load its data."""

Own = TypeVar("Own", bound="RunRedis")


class RunRedis:
    """The Redis of a run, on any host. Use in a `with` block; the servers use `url`."""

    def __init__(self, url: str, private: bool) -> None:
        """`private`: whether it was started for this run, so its data may be changed."""
        self.url, self.private = url, private
        self._client = connect(url)

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def shown(self) -> str:
        """The text for results and messages: its URL without a password, or "private"."""
        return "private" if self.private else without_password(self.url)

    def prepare(self) -> None:
        """Write the data with which each measurement starts, if this Redis is private."""
        if not self.private:
            return
        with self._client.pipeline() as pipeline:
            pipeline.delete("guestbook_remarks")
            pipeline.rpush("guestbook_remarks", *REMARKS)
            pipeline.set("visitor_count", FIRST_VISITOR)
            pipeline.set(*LINK)
            pipeline.execute()

    def counts(self) -> tuple[int, int]:
        """Return the numbers of visitors and remarks so far."""
        value = self._client.get("visitor_count")
        visitors = int(value) if value is not None and value.isdigit() else 0
        return visitors, int(self._client.llen("guestbook_remarks"))

    def hold(self, milliseconds: int) -> None:
        """Pause all replies for so many milliseconds. Unlike SIGSTOP this ends by itself, even if
        this process is killed."""
        self._client.client_pause(milliseconds, all=True)

    def use(self) -> CpuTime:
        """Return the CPU time that it reports for itself so far."""
        said = self._client.info("cpu")
        return CpuTime(float(said["used_cpu_user"]) * 1e6, float(said["used_cpu_sys"]) * 1e6)

    def describe(self) -> dict[str, str | int | None]:
        """Return its settings that matter to a benchmark; None for those that it does not give."""
        found: dict[str, str | int | None] = {}
        for name in ("save", "appendonly", "maxclients", "tcp-backlog"):
            try:
                found[name] = self._client.config_get(name).get(name)
            except redis.RedisError:
                found[name] = None
        return found

    def version(self) -> str:
        """Return the version that the running server reports."""
        return str(self._client.info("server")["redis_version"])


class PrivateRedis(RunRedis):
    """A Redis on this machine that ends with the `with` block; tests can kill, stop and limit it.
    All its methods may raise redis.RedisError."""

    def __init__(
        self, cpus: Sequence[int], watch: SignalWatch, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it; `settings` are added to its configuration. Raises UserError if it does not
        start, Interrupted on Ctrl-C."""
        self._watch, self._server = watch, RedisServer(cpus, watch, settings=settings)
        super().__init__(self._server.url, private=True)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)
        self._server.end()

    def kill(self) -> None:
        """Kill it at once with SIGKILL; its port is free afterwards."""
        self._server.send(signal.SIGKILL)

    def start_again(self) -> None:
        """Restart it after `kill`, with the data that its settings made it keep. Raises UserError,
        Interrupted, or redis.RedisError if it has not loaded them within LOAD_SECONDS."""
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
        """Stop it with SIGSTOP; its connections stay open."""
        self._server.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue it after `stop`."""
        self._server.send(signal.SIGCONT)

    def limit_clients(self, most: int) -> None:
        """Limit the number of its clients; clients that are connected stay connected."""
        self._client.config_set("maxclients", most)

    def clients_limit(self) -> int:
        """Return the limit of its clients."""
        return int(str(self._client.config_get("maxclients")["maxclients"]))

    def fill_page(self) -> None:
        """Store as many of the longest remarks as a page shows."""
        self._client.rpush("guestbook_remarks", *[LONGEST_REMARK] * REMARKS_SHOWN)

    def empty_page(self) -> None:
        """Remove the remarks of `fill_page`, and no others."""
        self._client.lrem("guestbook_remarks", 0, LONGEST_REMARK)

    def remarks(self) -> list[str]:
        """Return all remarks without the names."""
        found = self._client.lrange("guestbook_remarks", 0, -1)
        texts = (one if isinstance(one, str) else one.decode(errors="replace") for one in found)
        return [text.split(" ")[0] for text in texts]


class ExistingRedis(RunRedis):
    """An existing Redis; its data are kept."""

    def __init__(self, url: str) -> None:
        """Connect. Raises UserError if nothing answers there."""
        try:
            super().__init__(url, private=False)
            self._client.ping()
        except (redis.RedisError, ValueError) as error:
            raise UserError(f"no Redis answers at {without_password(url)}: {error}") from error
