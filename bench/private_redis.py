"""The Redis server of a run: a private one that is thrown away, or one that is there.

The private one listens on a free port of 127.0.0.1, stores nothing on disk and ends with the run.
Of one that is there nothing is ever deleted or overwritten; only what the pages themselves do to
it happens: a visit to the guestbook raises its `visitor_count`.
"""

import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import redis

from bench.errors import UserError
from bench.process import Child
from bench.server_process import last_line
from bench.signals import SignalWatch

START_SECONDS = 5.0
ATTEMPTS = 5

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

LINK = ("link:guestbook", "/guestbook")
"""A short link: /go/guestbook leads to the guestbook."""


class RedisUse(NamedTuple):
    """What a Redis server has used since its start, in seconds."""

    user: float
    system: float
    demand: float | None
    """For how long its main thread has run or wanted to run; None if it is not ours to ask."""

    def __sub__(self, other: "RedisUse") -> "RedisUse":
        known = self.demand is not None and other.demand is not None
        demand = self.demand - other.demand if known else None  # type: ignore[operator]
        return RedisUse(self.user - other.user, self.system - other.system, demand)


class PrivateRedis:
    """A throw-away Redis server. Use in a `with` block; `url` is for the servers."""

    private = True

    def __init__(self, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Start it. Raises UserError if it does not come up, Interrupted on Ctrl-C."""
        program = shutil.which("redis-server")
        if program is None:
            raise UserError("redis-server is not installed. Run: scripts/setup.sh bench")
        self._folder = tempfile.mkdtemp(prefix="zerohttpd-redis-")
        self._child: Child | None = None
        try:
            self.url = self._start(program, cpus, watch)
        except BaseException:
            self._end()
            raise
        self._client = connect(self.url)

    def __enter__(self) -> "PrivateRedis":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._end()

    def _start(self, program: str, cpus: Sequence[int], watch: SignalWatch) -> str:
        for _ in range(ATTEMPTS):
            # The port was free a moment ago; should somebody have taken it, Redis ends at once
            # and the next attempt finds another.
            port = free_port()
            self._child = Child(redis_command(program, port, self._folder), cpus)
            url = f"redis://127.0.0.1:{port}/0"
            if self._await_answer(url, watch):
                return url
            said = last_line(self._child.stdout)
            self._child.end()
        raise UserError(f"the private Redis server did not start: {said or 'it did not say why'}")

    def _await_answer(self, url: str, watch: SignalWatch) -> bool:
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        with connect(url) as client:
            while self._child.running() and time.monotonic() < deadline:
                try:
                    # Somebody else's Redis may have taken the port: is it really ours?
                    if client.info("server")["process_id"] == self._child.pid:
                        return True
                except redis.RedisError:
                    pass
                watch.sleep(0.01)
        return False

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self) -> None:
        """Put the data into the state in which every measurement starts."""
        with self._client.pipeline() as pipeline:
            pipeline.delete("guestbook_remarks")
            pipeline.rpush("guestbook_remarks", *REMARKS)
            pipeline.set("visitor_count", FIRST_VISITOR)
            pipeline.set(*LINK)
            pipeline.execute()

    def visitor_count(self) -> int:
        """The visitors counted so far."""
        return visitor_count(self._client)

    def counts(self) -> tuple[int, int]:
        """Visitors and remarks so far."""
        return counts(self._client)

    def use(self) -> RedisUse:
        """What it has used so far."""
        return use(self._client, self._child.demand_seconds() if self._child else None)

    def describe(self) -> dict[str, Any]:
        """Its settings that matter to a benchmark."""
        return describe(self._client)

    def version(self) -> str:
        """The version that the running server states."""
        return str(self._client.info("server")["redis_version"])


class ExistingRedis:
    """A Redis server that is there, and that stays as it is."""

    private = False

    def __init__(self, url: str) -> None:
        """Connect. Raises UserError if nothing answers there."""
        self.url = url
        try:
            self._client = connect(url)
            self._client.ping()
        except (redis.RedisError, ValueError) as error:
            raise UserError(f"no Redis answers at {without_password(url)}: {error}") from error

    def __enter__(self) -> "ExistingRedis":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def prepare(self) -> None:
        """Nothing: these data are not ours."""

    def visitor_count(self) -> int:
        """The visitors counted so far; 0 if nobody was counted yet."""
        return visitor_count(self._client)

    def counts(self) -> tuple[int, int]:
        """Visitors and remarks so far."""
        return counts(self._client)

    def use(self) -> RedisUse:
        """What it has used so far."""
        return use(self._client, None)

    def describe(self) -> dict[str, Any]:
        """Its settings that matter to a benchmark."""
        return describe(self._client)

    def version(self) -> str:
        """The version that the running server states."""
        return str(self._client.info("server")["redis_version"])


RunRedis = PrivateRedis | ExistingRedis


def redis_for(url: str | None, cpus: Sequence[int], watch: SignalWatch) -> RunRedis:
    """The Redis at `url`, or a private one for None."""
    return ExistingRedis(url) if url else PrivateRedis(cpus, watch)


def redis_command(program: str, port: int, folder: str) -> list[str]:
    """The command line of a Redis server that leaves nothing behind."""
    settings = {
        "port": str(port),
        "bind": "127.0.0.1",
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "dir": folder,
        "logfile": "",
        # As high as the descriptors allow (Redis lowers both by itself): neither of the two shall
        # be what stops a server that opens one connection for each of its workers.
        "maxclients": "100000",
        "tcp-backlog": "65535",
    }
    return [program, *(word for key, value in settings.items() for word in (f"--{key}", value))]


def connect(url: str) -> redis.Redis:
    """A client for a URL as the servers take it. Does not connect yet. May raise ValueError."""
    if url.startswith("unix:") and not url.startswith("unix://"):
        url = "unix://" + url.removeprefix("unix:")
    return redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)


def visitor_count(client: redis.Redis) -> int:
    """The count of the guestbook page; 0 if it is missing or no number."""
    value = client.get("visitor_count")
    return int(value) if value is not None and value.isdigit() else 0


def counts(client: redis.Redis) -> tuple[int, int]:
    """Visitors and remarks so far."""
    return visitor_count(client), int(client.llen("guestbook_remarks"))


def use(client: redis.Redis, demand: float | None) -> RedisUse:
    """What a server says that it has used."""
    said = client.info("cpu")
    return RedisUse(float(said["used_cpu_user"]), float(said["used_cpu_sys"]), demand)


def describe(client: redis.Redis) -> dict[str, Any]:
    """Settings that matter to a benchmark; None for those that it will not tell."""
    found: dict[str, Any] = {}
    for name in ("save", "appendonly", "maxclients", "tcp-backlog"):
        try:
            found[name] = client.config_get(name).get(name)
        except redis.RedisError:
            found[name] = None
    return found


def without_password(url: str) -> str:
    """The URL with stars in place of a password, for messages and results."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{parts.netloc.split('@')[-1]}"))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses right now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
