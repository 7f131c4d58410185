# SPDX-License-Identifier: MIT
"""The visitors, and the clients that the page's buttons start, on real sockets.

This module limits the number of clients and their time, also if the page requests more.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

import redis

from bench.load.client import Client, NoAnswer, request
from bench.records.store import Json
from bench.services.redis_server import connect

SILENT_MOST = 200
"""The largest number of silent clients: twice the default number of workers of 03 and 05."""
SILENT_SECONDS = 30.0
"""The longest life of a silent client; longer than the servers' timeout for a request (10 s)."""
HALF_A_REQUEST = b"GET /guestbook HTTP/1.1\r\nHost: live\r\nX-Half-A-Requ"

VISITOR_EVERY = 0.45
"""The seconds between visitors: not a multiple of the observation interval, so the page shows
visitors at all stages."""
VISITORS_MOST = 30
"""The largest number of visitors that wait at once. With so many, no other visitor starts."""
VISITOR_TIMEOUT = 15.0
VISITS_SHOWN_SECONDS = 40.0
FILE, GUESTBOOK = "/files/small.txt", "/guestbook"

BURST_REQUESTS = 300
BURST_AT_ONCE = 30

SLOW_SECONDS = 20.0
SLOW_PAUSE_MS = 400


class Title(NamedTuple):
    """The name of a client, a process or a thread, in the singular and the plural."""

    one: str
    many: str = ""
    number: int = 0

    @property
    def words(self) -> str:
        """Return the singular, followed by `number` if it is not 0."""
        return f"{self.one} {self.number}" if self.number else self.one


SILENT = Title("silent client", "silent clients")
VISITOR = Title("visitor", "visitors")
BURST = Title("client of the burst", "clients of the burst")
OTHER = Title("a client", "clients")


@dataclass(eq=False)
class OwnClient:
    """A client of this program, with its request and result. Times are from time.monotonic()."""

    who: Title  # SILENT, VISITOR or BURST.
    number: int  # The number of the client among the clients of its kind, from 1.
    path: str  # The path of the request.
    begin: float
    connection: Client | None = None  # The connection while it is open.
    end: float | None = None  # The end of the wait; None: the client still waits.
    answer: str = ""  # The status, or the reason why there is no status.
    good: bool = False

    def seconds(self, now: float) -> float:
        """Return how long the client has waited."""
        return (now if self.end is None else self.end) - self.begin


class Burst(NamedTuple):
    """The state of the last burst: the numbers of planned requests, ended requests, and responses
    with status 200."""

    asked: int
    done: int
    good: int
    longest: float  # The longest wait for a response of the burst, in seconds.
    ended: float  # The seconds since the burst ended; 0 while it runs.


class Waits(NamedTuple):
    """The longest waits of visitors in seconds, and the activity of other clients."""

    page: float  # The longest wait for the guestbook.
    file: float  # The longest wait for a file.
    still: float  # The longest wait of a visitor that still waits.
    silent: int  # The number of silent clients.
    redis_is_slow: bool
    failed: int = 0  # The number of visitors that got an error or no response.
    burst: Burst | None = None


class Clients:
    """All clients of one server. Several threads may use this object."""

    def __init__(self, url: str, redis_url: str | None) -> None:
        """`url`: the server's URL; `redis_url`: the URL of a Redis that may be slowed down, or
        None."""
        to = urlsplit(url)
        self._address = (to.hostname or "127.0.0.1", to.port or 80)
        self._redis_url = redis_url
        self._lock = threading.RLock()
        self._visits: list[OwnClient] = []
        self._silent: list[OwnClient] = []
        self._burst: list[OwnClient] = []
        """The started requests of the last burst; empty: no burst, or it was stopped."""
        self._visit_numbers, self._silent_numbers = count(1), count(1)
        self._cut_off = 0
        self._slow_until, self._slow_error = 0.0, ""

    # ---- The actions of the buttons ----

    def silent(self, more: int) -> None:
        """Add up to `more` clients that send half a request and then nothing."""
        for _ in range(more):
            if len(self._silent) >= SILENT_MOST:
                return
            try:
                connection = Client(self._address, 2)
                connection.send(HALF_A_REQUEST)
            except OSError:
                return
            with self._lock:
                number = next(self._silent_numbers)
                one = OwnClient(SILENT, number, GUESTBOOK, time.monotonic(), connection)
                self._silent.append(one)

    def burst(self) -> None:
        """Send BURST_REQUESTS requests, BURST_AT_ONCE at a time, unless a burst is running."""
        with self._lock:
            last = self._burst_so_far()
            if last and last.done < last.asked:
                return
            self._burst = []
            for _ in range(BURST_AT_ONCE):
                _start(self._part_of_burst, self._burst)

    def slow_redis(self) -> None:
        """Make Redis slow for SLOW_SECONDS: send CLIENT PAUSE every SLOW_PAUSE_MS."""
        with self._lock:
            if self._redis_url is None or self.is_redis_slow:
                return
            self._slow_until, self._slow_error = time.monotonic() + SLOW_SECONDS, ""
        _start(self._pause_redis, self._redis_url)

    def stop(self) -> None:
        """End the effects of all buttons."""
        with self._lock:
            self._slow_until = 0.0
            _hang_up([*self._silent, *self._burst])
            self._silent, self._burst = [], []

    def close(self) -> None:
        """End the effects of all buttons, and stop the visitors."""
        self.stop()
        with self._lock:
            _hang_up(self._visits)

    def visit(self) -> None:
        """Start the next visitor, unless VISITORS_MOST wait. Visitors request a file and the
        guestbook in turn, so every second visitor needs Redis."""
        now = time.monotonic()
        with self._lock:
            if sum(visit.end is None for visit in self._visits) >= VISITORS_MOST:
                return
            number = next(self._visit_numbers)
            visit = OwnClient(VISITOR, number, FILE if number % 2 else GUESTBOOK, now)
            self._visits.append(visit)
            since = now - VISITS_SHOWN_SECONDS
            self._visits = [one for one in self._visits if one.end is None or one.end >= since]
        _start(self._ask, visit)

    # ---- The data for the page ----

    @property
    def is_redis_slow(self) -> bool:
        """Return whether Redis is slowed down now."""
        return time.monotonic() < self._slow_until

    def waits(self, recent: float) -> Waits:
        """Return the longest waits of visitors that wait now or were served in the last `recent`
        seconds. While Redis is slow, `page` and `file` count only visitors that started after it
        became slow."""
        now = time.monotonic()
        with self._lock:
            since = self._slow_until - SLOW_SECONDS if self.is_redis_slow else 0.0
            visits = [v for v in self._visits if v.end is None or v.end > now - recent]
            took = [(v.path, v.seconds(now)) for v in visits if v.begin >= since]
            return Waits(
                max((seconds for path, seconds in took if path == GUESTBOOK), default=0.0),
                max((seconds for path, seconds in took if path == FILE), default=0.0),
                max((v.seconds(now) for v in visits if v.end is None), default=0.0),
                len(self._silent),
                self.is_redis_slow,
                sum(v.end is not None and not v.good for v in visits),
                self._burst_so_far(),
            )

    def names(self) -> dict[int, OwnClient]:
        """Return this program's connected clients by port."""
        with self._lock:
            every = [*self._visits, *self._silent, *self._burst]
            return {open_.port: one for one in every if (open_ := one.connection)}

    def shown(self) -> dict[str, Json]:
        """Return the clients' activity for the page. The times of visits are ages in seconds."""
        now = time.monotonic()
        with self._lock:
            self._close_ended_silent(now)
            oldest = min((one.begin for one in self._silent), default=now)
            burst = self._burst_so_far()
            return {
                "visits": [
                    [v.number, v.path, _age(now, v.begin), _age(now, v.end), v.answer, v.good]
                    for v in self._visits
                ],
                "silent": {
                    "count": len(self._silent),
                    "seconds": round(now - oldest, 1),
                    "cut_off": self._cut_off,
                },
                "burst": burst._asdict() if burst else None,
                "slow": round(max(0.0, self._slow_until - now), 1),
                "can_slow": self._redis_url is not None,
                "slow_error": self._slow_error,
            }

    def _burst_so_far(self) -> Burst | None:
        if not self._burst:
            return None
        now = time.monotonic()
        done = [one for one in self._burst if one.end is not None]
        ended = max(one.end or 0.0 for one in done) if len(done) == BURST_REQUESTS else now
        return Burst(
            BURST_REQUESTS,
            len(done),
            sum(one.good for one in done),
            max(one.seconds(now) for one in self._burst),
            now - ended,
        )

    def _close_ended_silent(self, now: float) -> None:
        """Close the silent clients that the server disconnected, or whose time has expired."""
        watch = select.poll()
        sockets = {one.connection.socket.fileno(): one for one in self._silent if one.connection}
        for descriptor in sockets:
            watch.register(descriptor, select.POLLIN | select.POLLRDHUP)
        ended = [sockets[descriptor] for descriptor, _ in watch.poll(0)]
        self._cut_off += len(ended)
        ended += [one for one in self._silent if now - one.begin > SILENT_SECONDS]
        _hang_up(ended)
        self._silent = [one for one in self._silent if one not in ended]

    # ---- Threads ----

    def _ask(self, one: OwnClient) -> None:
        try:
            with Client(self._address, VISITOR_TIMEOUT) as client:
                one.connection = client
                response = client.ask(request("GET", one.path, "Connection: close"))
            one.good = response.status == HTTPStatus.OK
            one.answer = response.head.split(b"\r\n")[0].decode("latin-1").partition(" ")[2]
        except (OSError, NoAnswer) as error:
            late = isinstance(error, TimeoutError) or not getattr(error, "in_time", True)
            why = f"no answer within {VISITOR_TIMEOUT:.0f} s" if late else str(error)
            one.answer = why or type(error).__name__
        finally:
            one.end, one.connection = time.monotonic(), None

    def _part_of_burst(self, begun: list[OwnClient]) -> None:
        """Send one request after another until the burst is complete or stopped."""
        while True:
            with self._lock:
                if self._burst is not begun or len(begun) == BURST_REQUESTS:
                    return
                one = OwnClient(BURST, len(begun) + 1, FILE, time.monotonic())
                begun.append(one)
            self._ask(one)

    def _pause_redis(self, url: str) -> None:
        try:
            with connect(url) as client:
                while time.monotonic() < self._slow_until:
                    client.client_pause(SLOW_PAUSE_MS, all=True)
                    time.sleep(SLOW_PAUSE_MS / 1000)
        except redis.RedisError as error:
            self._slow_until, self._slow_error = 0.0, str(error)


def _start(run: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=run, args=arguments, daemon=True).start()


def _hang_up(clients: Iterable[OwnClient]) -> None:
    for one in clients:
        if connection := one.connection:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            if one.who is SILENT:  # threads close the connections of other clients
                connection.close()


def _age(now: float, when: float | None) -> float | None:
    return None if when is None else round(now - when, 3)
