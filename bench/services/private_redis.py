# SPDX-License-Identifier: MIT
"""The Redis of a run and the data in it: a private one that is thrown away, or one that is there.

Of one that is there nothing is ever deleted or overwritten; only what the pages themselves do to
it happens: a visit to the guestbook raises its `visitor_count`.
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
"""The visitor count before each run. A count that keeps its number of digits keeps the length of
the page, and only then can ab tell a cut-off response from a whole one."""

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
"""A guestbook as it might be, oldest first, so that the page has a defined and likely size."""

LONGEST_REMARK = '"' * 1000 + " - " + '"' * 100
"""As long as the form takes (GUEST_REMARKS_LIMIT, GUEST_NAME_LIMIT in lib/config.h). In the page
each character is `&quot;`."""
REMARKS_SHOWN = 50

LINK = ("link:guestbook", "/guestbook")
"""A short link: /go/guestbook leads to the guestbook."""


LOAD_SECONDS = 10.0
"""How long one that was started again may take to load what it has kept."""

Own = TypeVar("Own", bound="RunRedis")


class RunRedis:
    """The Redis of a run, on whichever host. Use in a `with` block; `url` is for the servers."""

    def __init__(self, url: str, private: bool) -> None:
        """`private`: it is ours, and so are its data."""
        self.url, self.private = url, private
        self._client = connect(url)

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def shown(self) -> str:
        """For results and messages: its URL without a password; or that it is private."""
        return "private" if self.private else without_password(self.url)

    def prepare(self) -> None:
        """Put the data into the state in which every measurement starts, if they are ours."""
        if not self.private:
            return
        with self._client.pipeline() as pipeline:
            pipeline.delete("guestbook_remarks")
            pipeline.rpush("guestbook_remarks", *REMARKS)
            pipeline.set("visitor_count", FIRST_VISITOR)
            pipeline.set(*LINK)
            pipeline.execute()

    def counts(self) -> tuple[int, int]:
        """Visitors and remarks so far; 0 visitors if nobody was counted yet."""
        value = self._client.get("visitor_count")
        visitors = int(value) if value is not None and value.isdigit() else 0
        return visitors, int(self._client.llen("guestbook_remarks"))

    def hold(self, milliseconds: int) -> None:
        """Let it answer nobody for so long. Unlike SIGSTOP this ends by itself, whatever becomes
        of us."""
        self._client.client_pause(milliseconds, all=True)

    def use(self) -> CpuTime:
        """What it says that it has used so far."""
        said = self._client.info("cpu")
        return CpuTime(float(said["used_cpu_user"]) * 1e6, float(said["used_cpu_sys"]) * 1e6)

    def describe(self) -> dict[str, str | int | None]:
        """Its settings that matter to a benchmark; None for those that it will not tell."""
        found: dict[str, str | int | None] = {}
        for name in ("save", "appendonly", "maxclients", "tcp-backlog"):
            try:
                found[name] = self._client.config_get(name).get(name)
            except redis.RedisError:
                found[name] = None
        return found

    def version(self) -> str:
        """The version that the running server states."""
        return str(self._client.info("server")["redis_version"])


class PrivateRedis(RunRedis):
    """One of our own on this machine, that ends with the `with` block; meanwhile it may be killed,
    stopped and starved. All that it is asked may raise redis.RedisError."""

    def __init__(
        self, cpus: Sequence[int], watch: SignalWatch, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it; `settings`: of its configuration, beside ours. Raises UserError if it does not
        come up, Interrupted on Ctrl-C."""
        self._watch, self._server = watch, RedisServer(cpus, watch, settings=settings)
        super().__init__(self._server.url, private=True)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)
        self._server.end()

    def kill(self) -> None:
        """It is gone at once, and its port is free."""
        self._server.send(signal.SIGKILL)

    def start_again(self) -> None:
        """After `kill`, with the data that its settings made it keep. Raises UserError, or
        redis.RedisError if it has not loaded them within LOAD_SECONDS; may raise Interrupted."""
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

    def fill_page(self) -> None:
        """Store the longest remarks that the form takes, as many as a page shows."""
        self._client.rpush("guestbook_remarks", *[LONGEST_REMARK] * REMARKS_SHOWN)

    def empty_page(self) -> None:
        """Take them out again, and no others."""
        self._client.lrem("guestbook_remarks", 0, LONGEST_REMARK)

    def remarks(self) -> list[str]:
        """All of them, without the names."""
        found = self._client.lrange("guestbook_remarks", 0, -1)
        texts = (one if isinstance(one, str) else one.decode(errors="replace") for one in found)
        return [text.split(" ")[0] for text in texts]


class ExistingRedis(RunRedis):
    """One that is there, and that stays as it is."""

    def __init__(self, url: str) -> None:
        """Connect. Raises UserError if nothing answers there."""
        try:
            super().__init__(url, private=False)
            self._client.ping()
        except (redis.RedisError, ValueError) as error:
            raise UserError(f"no Redis answers at {without_password(url)}: {error}") from error
