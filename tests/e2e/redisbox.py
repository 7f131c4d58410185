# SPDX-License-Identifier: MIT
"""A private Redis that can be stopped and started, a client for it, and a false Redis."""

import contextlib
import select
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from typing_extensions import Self

from bench.host.process import Child

from .sockets import free_port
from .timing import TIMEOUT, wait_until


def encode(*words: str | bytes | int) -> bytes:
    """Return the bytes of a command for Redis (RESP)."""
    raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in raw)


class RedisClient(redis.Redis):
    """A client of one database, with one connection that it reopens if necessary."""

    do = redis.Redis.execute_command

    def __init__(self, port: int, database: int = 0) -> None:
        self.port = port
        self.database = database
        self.url = f"redis://127.0.0.1:{port}/{database}"
        # Try once more, without a pause. By default redis-py tries ten times more, with pauses.
        tries = Retry(NoBackoff(), 1)
        super().__init__(
            port=port,
            db=database,
            protocol=2,
            socket_timeout=TIMEOUT,
            driver_info=None,
            retry=tries,
        )

    def number(self, key: str) -> int:
        """Return the number at a key; 0 if the key does not exist."""
        return int(self.get(key) or 0)

    def remarks(self) -> list[bytes]:
        return self.lrange("guestbook_remarks", 0, -1)

    def connections(self) -> int:
        """Return the number of connections that this Redis has accepted."""
        return self.info("stats")["total_connections_received"]

    def connected(self) -> int:
        """Return the number of open connections of this Redis, without this client's."""
        return len(self.client_list()) - 1

    def commands(self) -> dict[str, int]:
        """Return how often each command ran since CONFIG RESETSTAT, without INFO, CONFIG and
        SELECT."""
        counts = {}
        for key, value in self.info("commandstats").items():
            name = key.removeprefix("cmdstat_")
            # "config|resetstat" since Redis 7, "config" before.
            if name.partition("|")[0] not in ("info", "config", "select"):
                counts[name] = value["calls"]
        return counts


class PrivateRedis:
    """A redis-server for tests, with a port and a Unix socket. By default it writes no file."""

    def __init__(self, *options: str) -> None:
        self.options = options
        self.port = free_port()
        self._numbers = iter(range(1, 4096))
        self._folder = tempfile.TemporaryDirectory(prefix="zs-redis-")
        self.socket_path = str(Path(self._folder.name) / "redis.sock")

    def unused(self) -> int:
        """Return the number of a database, from 1; each call returns another number."""
        return next(self._numbers)

    def url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def client(self, database: int = 0) -> RedisClient:
        """Return a client of a database (0 to 4095) of this Redis."""
        return RedisClient(self.port, database)

    def start(self) -> Self:
        """Start Redis, also again after kill(). Raise AssertionError if it does not start."""
        fixed = f"--port {self.port} --bind 127.0.0.1 --databases 4096 --tcp-backlog 511".split()
        place = ["--dir", self._folder.name, "--unixsocket", self.socket_path]
        quiet = ["--save", "", "--loglevel", "warning", "--daemonize", "no"]
        child = self._child = Child(["redis-server", *fixed, *place, *quiet, *self.options])
        wait_until(lambda: not child.running() or self._answers(), "redis-server answers")
        assert child.running(), f"redis-server does not start: {child.stdout}"
        return self

    def _answers(self) -> bool:
        client = RedisClient(self.port)
        try:
            return client.ping()
        except redis.AuthenticationError:
            return "--requirepass" in self.options
        except redis.RedisError:
            return False
        finally:
            client.close()

    def kill(self) -> None:
        """Kill Redis (SIGKILL); data that is not in a file is lost."""
        self._child.send(signal.SIGKILL)
        self._child.end()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop Redis with SIGSTOP for the `with` block: the kernel accepts connections, but Redis
        does not reply."""
        self._child.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._child.send(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()


class Conversation:
    """A client's connection to a FalseRedis. The script calls these methods."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pending = b""

    def receive(self) -> bool:
        """Wait for more data from the client; return False if the client has left."""
        try:
            data = self._connection.recv(65536)
        except OSError:
            return False
        self.pending += data
        return bool(data)

    def has_more(self, seconds: float | None = 0) -> bool:
        """Return whether the client has sent more data or has left. Wait up to `seconds` for this;
        None: without a limit."""
        return bool(self.pending or select.select([self._connection], [], [], seconds)[0])

    def next_command(self) -> list[bytes] | None:
        """Wait for a whole command and return its words; None if the client has left."""
        while True:
            words = self._cut_command()
            if words is not None:
                return words
            if not self.receive():
                return None

    def _cut_command(self) -> list[bytes] | None:
        lines = self.pending.split(b"\r\n")
        if len(lines) < 2 or not lines[0].startswith(b"*"):
            return None
        count = int(lines[0][1:])
        if len(lines) < 2 * count + 2:
            return None
        words = lines[2 : 2 * count + 2 : 2]
        self.pending = self.pending[len(encode(*words)) :]
        return words

    def send(self, data: bytes) -> bool:
        """Send data to the client; return False if the client has left."""
        try:
            self._connection.sendall(data)
        except OSError:
            return False
        return True


Script = Callable[[Conversation], None]


class FalseRedis:
    """A listening socket that runs a script for each connection, in a thread."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=511)
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            self.script(Conversation(connection))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def replying(reply: Callable[[list[bytes]], bytes], pause: float = 0) -> Script:
    """Return a script that answers each command with `reply`, after `pause` seconds."""

    def script(conversation: Conversation) -> None:
        while (words := conversation.next_command()) is not None:
            time.sleep(pause)
            conversation.send(reply(words))

    return script


def answering(replies: dict[str, bytes]) -> Script:
    """Return a script that answers each command with its reply in `replies`, or else with OK."""
    return replying(lambda words: replies.get(words[0].decode().upper(), b"+OK\r\n"))


def link(words: list[bytes]) -> bytes:
    """Return the reply to a GET of a short link, whose target is /NAME."""
    name = words[-1].removeprefix(b"link:")
    return b"$%d\r\n/%s\r\n" % (len(name) + 1, name)
