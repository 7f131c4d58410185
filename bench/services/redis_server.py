# SPDX-License-Identifier: MIT
"""Run a private Redis server, and a slow one in front of another. Both end with the run. The server
stores nothing on disk.

It listens on a free port of one address. If this is not a loopback address (127.0.0.1), a random
password protects it; the servers get it in their URL.
"""

import contextlib
import ipaddress
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import redis

from bench.host.process import Child, Helper, free_port, last_line
from bench.host.programs import require
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


START_SECONDS = 5.0
ATTEMPTS = 5


class RedisServer:
    """A running Redis server; its clients use `url`. End it with `end`."""

    def __init__(
        self,
        cpus: Sequence[int],
        watch: SignalWatch,
        address: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; `settings` replace or extend its configuration. Raises UserError if it does not
        start, Interrupted on Ctrl-C."""
        self._program = require("redis-server", shutil.which("redis-server"), "bench")
        self._cpus, self._watch = cpus, watch
        self._settings = dict(settings or {})
        self._folder = tempfile.mkdtemp(prefix="zerohttpd-redis-")
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self.url = self._start(address)
            undo.pop_all()

    def send(self, number: int) -> None:
        """Send a signal to it."""
        self._child.send(number)

    def start_again(self) -> None:
        """Restart it with the same address and its folder's data. Raises UserError if it does not
        start, Interrupted on Ctrl-C."""
        self._child.end()
        if not self._comes_up(self.url):
            raise self._failure()

    def demand_seconds(self) -> float | None:
        """Return how many seconds its main thread has run or was runnable."""
        return self._child.demand_seconds()

    def end(self) -> None:
        """End it. May be called twice."""
        self._child.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, address: str) -> str:
        password = "" if is_loopback(address) else secrets.token_urlsafe(24)
        for _ in range(ATTEMPTS):
            # If another process has taken the free port in the meantime, Redis ends at once and
            # the next attempt uses another port.
            port = free_port(address)
            text = configuration(address, port, self._folder, password, self._settings)
            self._file.write_text(text)
            url = f"redis://{f':{password}@' if password else ''}{address}:{port}/0"
            if self._comes_up(url):
                return url
        raise self._failure()

    @property
    def _file(self) -> Path:
        return Path(self._folder, "redis.conf")  # all users can read a command line

    def _failure(self) -> UserError:
        said = last_line(self._child.stdout)
        return UserError(f"the private Redis server did not start: {said or 'no error message'}")

    def _comes_up(self, url: str) -> bool:
        """Start it and return whether it answers; end it if not."""
        self._child = Child([self._program, str(self._file)], self._cpus)
        with contextlib.ExitStack() as undo:
            undo.callback(self._child.end)
            if self._await_answer(url):
                undo.pop_all()
                return True
        return False

    def _await_answer(self, url: str) -> bool:
        def answers() -> bool:
            try:
                # Another Redis may have taken the port, so compare the PID.
                return bool(client.info("server")["process_id"] == self._child.pid)
            except redis.RedisError:
                return False

        with connect(url) as client:
            return bool(self._child.until(answers, START_SECONDS, self._watch))


def configuration(
    address: str, port: int, folder: str, password: str, more: Mapping[str, str] | None = None
) -> str:
    """Return the configuration of a Redis server that stores no data; `more` replaces or extends
    its settings."""
    settings = {
        "port": str(port),
        "bind": address,
        "save": '""',
        "appendonly": "no",
        "daemonize": "no",
        "dir": f'"{folder}"',
        "logfile": '""',
        # As high as the descriptors allow (Redis lowers both itself), so that they do not limit a
        # server that opens one connection for each of its workers.
        "maxclients": "100000",
        "tcp-backlog": "65535",
    }
    if password:
        settings["requirepass"] = password
    settings |= more or {}
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def connect(url: str) -> redis.Redis:
    """Return a client for a URL in the servers' format. It does not connect yet. May raise
    ValueError."""
    if url.startswith("unix:") and not url.startswith("unix://"):
        url = "unix://" + url.removeprefix("unix:")
    return redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)


def without_password(url: str) -> str:
    """Return the URL with stars instead of a password, for messages and results."""
    url = re.sub(r"(?<=[?&]password=)[^&]*", "***", url)  # redis-py accepts it there, too
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{parts.netloc.split('@')[-1]}"))
