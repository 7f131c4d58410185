# SPDX-License-Identifier: MIT
"""The Redis of a run and its data: a private Redis that ends with the run, or an existing Redis. A
proxy in front of Redis can send slow or false replies.

A run deletes and overwrites nothing in an existing Redis. Only the servers change data there: they
increment `visitor_count` at each visit to the guestbook, and store new remarks.
"""

import contextlib
import ipaddress
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import redis

from bench.host.accounting import CpuTime
from bench.host.process import Child, Helper, SignalWatch, last_line, on_free_port
from bench.host.project import require
from bench.records.errors import UserError

START_SECONDS = 10.0
"""The time limit for Redis to start, and to load its data from the disk."""
FIRST_VISITOR = 1_000_000
"""The visitor count before each run. Its number of digits stays constant during a run, so all pages
have the same length, and ab can detect a truncated response."""

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
"""The remarks of a realistic guestbook, the oldest first. They determine the page's size."""

LONGEST_REMARK = '"' * 1000 + " - " + '"' * 100
"""The longest remark that the form accepts (GUEST_REMARKS_LIMIT, GUEST_NAME_LIMIT in lib/config.h).
In the page each quotation mark is `&quot;`."""
REMARKS_SHOWN = 50
LINK = ("link:guestbook", "/guestbook")
"""A short link: /go/guestbook redirects to the guestbook."""

Own = TypeVar("Own", bound="RunRedis")


class RunRedis:
    """The Redis of a run, on any host. Use in a `with` block; the servers use `url`."""

    def __init__(self, url: str, private: bool) -> None:
        """`private`: whether this Redis belongs to the run, so that its data may be changed."""
        self.url, self.private = url, private
        self._client = connect(url)

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def shown(self) -> str:
        """Return the URL without its password for results and messages, or "private"."""
        return "private" if self.private else without_password(self.url)

    def prepare(self) -> None:
        """If this Redis is private, write the data with which each measurement starts."""
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
        visitors = self._client.get("visitor_count") or b""
        remarks = int(self._client.llen("guestbook_remarks"))
        return int(visitors) if visitors.isdigit() else 0, remarks

    def hold(self, milliseconds: int) -> None:
        """Pause all replies. Unlike SIGSTOP, the pause ends by itself if this process is killed."""
        self._client.client_pause(milliseconds, all=True)

    def use(self) -> CpuTime:
        """Return the CPU time that Redis reports."""
        said = self._client.info("cpu")
        return CpuTime(float(said["used_cpu_user"]) * 1e6, float(said["used_cpu_sys"]) * 1e6)

    def describe(self) -> dict[str, str | int | None]:
        """Return the settings of Redis that affect a benchmark, by name; None: unknown."""
        names = ("save", "appendonly", "maxclients", "tcp-backlog")
        found: dict[str, str | int | None] = dict.fromkeys(names)
        for name in names:
            with contextlib.suppress(redis.RedisError):
                found[name] = self._client.config_get(name).get(name)
        return found

    def version(self) -> str:
        """Return the version that the running server reports."""
        return str(self._client.info("server")["redis_version"])


class PrivateRedis(RunRedis):
    """A Redis on this machine that ends with the `with` block; tests can kill, stop and limit it.
    By default it stores nothing on disk. It listens on a free port of one address; except for a
    loopback address, the URL has a random password. All methods may raise redis.RedisError."""

    def __init__(
        self,
        cpus: Sequence[int],
        watch: SignalWatch,
        settings: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        database: int = 0,
    ) -> None:
        """Start Redis. `settings` replace or extend the configuration; `database`: the number in
        the URL. Raises Interrupted, and UserError if Redis does not start."""
        program = require("redis-server", "bench")
        self._cpus, self._watch = cpus, watch
        self._folder = Path(tempfile.mkdtemp(prefix="zerohttpd-redis-"))
        file = self._folder / "redis.conf"  # all users can read a command line
        self._command = [program, str(file)]
        password = "" if is_loopback(address) else secrets.token_urlsafe(24)
        user = f":{password}@" if password else ""

        def start(port: int) -> bool:
            file.write_text(configuration(address, port, self._folder, password, settings))
            url = f"redis://{user}{address}:{port}/{database}"
            super(PrivateRedis, self).__init__(url, private=True)
            return self._comes_up()

        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            if not on_free_port(address, start):
                raise self._failure()
            undo.pop_all()

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)
        self.end()

    def end(self) -> None:
        """End this Redis. May be called twice."""
        self._child.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def demand_seconds(self) -> float | None:
        """Return the seconds for which the busiest thread of Redis ran or waited for a CPU."""
        return self._child.demand_seconds()

    def kill(self) -> None:
        """Kill Redis with SIGKILL, and wait until the process has ended."""
        self._child.end(number=signal.SIGKILL)

    def start_again(self) -> None:
        """Restart Redis after `kill`, and wait until it has loaded its data from the disk. Raises
        Interrupted or UserError."""
        self._child.end()
        if not self._comes_up():
            raise self._failure()

    def stop(self) -> None:
        """Stop Redis with SIGSTOP; its connections stay open."""
        self._child.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue Redis after `stop`."""
        self._child.send(signal.SIGCONT)

    def limit_clients(self, most: int) -> None:
        """Limit the number of clients of Redis; connected clients stay connected."""
        self._usual = self.clients_limit()
        self._client.config_set("maxclients", most)

    def lift_limit(self) -> None:
        """Restore the limit of clients that `limit_clients` has changed."""
        self._client.config_set("maxclients", self._usual)

    def clients_limit(self) -> int:
        """Return the maximum number of clients of Redis."""
        return int(str(self._client.config_get("maxclients")["maxclients"]))

    def fill_page(self) -> None:
        """Store the longest remark as often as a page shows remarks."""
        self._client.rpush("guestbook_remarks", *[LONGEST_REMARK] * REMARKS_SHOWN)

    def empty_page(self) -> None:
        """Remove only the remarks that `fill_page` has stored."""
        self._client.lrem("guestbook_remarks", 0, LONGEST_REMARK)

    def remarks(self) -> list[str]:
        """Return the first word of each remark."""
        found = self._client.lrange("guestbook_remarks", 0, -1)
        texts = (one if isinstance(one, str) else one.decode(errors="replace") for one in found)
        return [text.split(" ")[0] for text in texts]

    def _failure(self) -> UserError:
        said = last_line(self._child.stdout)
        return UserError(f"the private Redis server did not start: {said or 'no error message'}")

    def _comes_up(self) -> bool:
        """Start Redis. Return whether it answers and has loaded its data; if not, end it."""

        def answers() -> bool:
            try:
                # Compare the PID, because another Redis may have taken the port.
                seen = self._client.info()
                return bool(seen["process_id"] == self._child.pid and not seen["loading"])
            except redis.RedisError:
                return False

        self._child = Child(self._command, self._cpus)
        with contextlib.ExitStack() as undo:
            undo.callback(self._child.end)
            if self._child.until(answers, START_SECONDS, self._watch):
                undo.pop_all()
                return True
        return False


class ExistingRedis(RunRedis):
    """An existing Redis, whose data must not be changed."""

    def __init__(self, url: str) -> None:
        """Connect to the Redis at `url`. Raises UserError if Redis does not answer."""
        try:
            super().__init__(url, private=False)
            self._client.ping()
        except (redis.RedisError, ValueError) as error:
            raise UserError(f"no Redis answers at {without_password(url)}: {error}") from error


class SlowRedis(Helper):
    """A proxy that delays the replies of Redis, and can send false replies; servers use `url`."""

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
        """Start the proxy, which listens on a port of `address`. `split`: see redis_proxy. Raises
        HelperError or Interrupted, and UserError if Redis is on a Unix socket."""
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise UserError("a slow Redis needs TCP: give --redis redis://host:port")
        target = [parts.hostname, str(parts.port or 6379)]
        words = [address, *target, f"{delay_ms:g}", *(["split"] if split else [])]
        super().__init__("bench.services.redis_proxy", words, cpus, watch)
        password = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{password}{address}:{self.first}"))

    def lie(self) -> None:
        """Begin to send false replies."""
        self.send(signal.SIGUSR1)

    def be_honest(self) -> None:
        """Send the replies of Redis again."""
        self.send(signal.SIGUSR2)


def configuration(
    address: str, port: int, folder: Path, password: str, more: Mapping[str, str] | None = None
) -> str:
    """Return a configuration without storage on disk, with the settings in `more`."""
    settings = {
        "port": str(port),
        "bind": address,
        "save": '""',
        "appendonly": "no",
        "daemonize": "no",
        "dir": f'"{folder}"',
        "logfile": '""',
        # The next two limits allow a connection for each worker of a server. Redis lowers
        # maxclients if it has too few descriptors, and the kernel limits tcp-backlog.
        "maxclients": "100000",
        "tcp-backlog": "65535",
        **({"requirepass": password} if password else {}),
        **(more or {}),
    }
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def connect(url: str) -> redis.Redis:
    """Return a client for a URL, which connects at the first command. May raise ValueError."""
    if url.startswith("unix:") and not url.startswith("unix://"):
        url = "unix://" + url.removeprefix("unix:")
    # Without driver_info=None redis-py reads its version from a file for each connection.
    return redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, driver_info=None)


def without_password(url: str) -> str:
    """Return the URL for messages and results, with stars instead of a password."""
    url = re.sub(r"(?<=[?&]password=)[^&]*", "***", url)  # redis-py accepts ?password=, too
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{parts.netloc.split('@')[-1]}"))
