# SPDX-License-Identifier: MIT
"""Collect the present activity of servers, at most twice a second, while a page is open."""

import math
import threading
import time
from collections import deque
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from bench.live import tasks, waits
from bench.live.clients import VISITOR_EVERY, Clients
from bench.live.tasks import Counters, Task
from bench.live.verdict import RECENT_SECONDS, Tasks, verdict
from bench.records.store import Json

EVERY_SECONDS = 0.5
SHARE_OF_TIME = 0.1
"""The share of one processor that the observations may use. Slow observations, e.g. of a thousand
processes, are less frequent, but LONGEST_PAUSE is the longest pause, in seconds."""
LONGEST_PAUSE = 3.0
FORGOTTEN_SECONDS = 5 * LONGEST_PAUSE
"""If the last observation is older than this (no page was open), no rate is calculated from it."""
RATES_SHOWN = 80


@dataclass
class Look:
    """Observes one server, and stores the beginning of each wait."""

    name: str
    summary: str  # The server's description of itself.
    url: str
    pid: int
    redis_url: str
    redis_is_ours: bool
    """Whether only this server uses its Redis; if so, a button may slow Redis down."""
    _since: dict[Task, float] = field(default_factory=dict)
    """When each task was first seen in its present sleep."""
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_SHOWN))
    _before: tuple[int, float] = (0, -math.inf)  # The last count of requests, and its time.
    _tasks: Tasks = field(default_factory=Tasks)

    def __post_init__(self) -> None:
        self._ports = [urlsplit(url).port or 0 for url in (self.url, self.redis_url)]
        self.clients = Clients(self.url, self.redis_url if self.redis_is_ours else None)
        self._counters = Counters(self.pid)

    def look(self, now: float) -> dict[str, Json]:
        """Return the present activity of the server."""
        said: dict[str, Json] = {"name": self.name, "pid": self.pid, "gone": False}
        said |= self.clients.shown()
        seen = waits.look_at_sockets(*self._ports)
        found = tasks.look(self.pid)
        if not found:
            return said | {"gone": True}
        seen.known = self.clients.names()
        # If a task has slept since the last observation, its two Task objects are equal.
        self._since = {one: self._since.get(one, now) if one.ran_ns else now for one in found}
        processes = len({task.process for task in found})
        groups = waits.groups_of_tasks(found, seen, self._since, now)
        clients = waits.groups_of_connections(seen, now)
        waited = self.clients.waits(RECENT_SECONDS)
        self._tasks = Tasks(
            self._tasks.alone and len(found) == 1,
            self._tasks.has_loop or any(group.kind == "all" for group in groups),
            "threads" if processes < len(found) else self._tasks.kind,
        )
        return said | {
            "processes": processes,
            "threads": len(found),
            "groups": [asdict(group) for group in groups],
            "clients": [asdict(group) for group in clients],
            "verdict": verdict(groups, waited, self._tasks),
            "connections": seen.states,
            "queue": {"waiting": seen.queue, "room": seen.room, "unread": seen.unread},
            "rate": self._rate(now),
        }

    def _rate(self, now: float) -> dict[str, Json]:
        total = self._counters.requests()
        if total is None:
            return {"now": None, "total": None, "past": []}
        before, then = self._before
        if 0 < now - then < FORGOTTEN_SECONDS:
            self._rates.append((total - before) / (now - then))
        self._before = (total, now)
        past = [round(rate, 1) for rate in self._rates]
        return {"now": past[-1] if past else 0, "total": total, "past": past}


class Watch:
    """Observes all servers repeatedly and starts visitors, while a page is open."""

    def __init__(self, looks: list[Look]) -> None:
        self.looks = looks
        self.pages = 0
        """The number of open pages."""
        self._lock = threading.Lock()
        self._next = 0.0
        """The time of the next observation."""
        self._latest: dict[str, Json] = {}
        self._over = threading.Event()
        self._visitors = threading.Thread(target=self._send_visitors, daemon=True)
        self._visitors.start()

    def close(self) -> None:
        """End the observations, also for open pages, and start no more visitors."""
        self._over.set()
        self._visitors.join()

    def events(self) -> Generator[dict[str, Json], None, None]:
        """Yield observations for an open page, until `close`. The first thread that needs a new
        observation makes it for all pages. When the last page is closed, the effects of all buttons
        end."""
        with self._lock:
            self.pages += 1
        try:
            while not self._over.wait(max(0.0, self._next - time.monotonic())):
                with self._lock:
                    if time.monotonic() >= self._next:
                        self._observe()
                    latest = self._latest
                yield latest
        finally:
            with self._lock:
                self.pages -= 1
                for look in self.looks if not self.pages else ():
                    look.clients.stop()

    def now(self) -> list[dict[str, Json]]:
        """Observe all servers now and return the results, also if no page is open."""
        with self._lock:
            return [look.look(time.monotonic()) for look in self.looks]

    def _observe(self) -> None:
        begin = time.thread_time()
        servers: list[Json] = [look.look(time.monotonic()) for look in self.looks]
        took = time.thread_time() - begin
        pause = min(max(EVERY_SECONDS, took / SHARE_OF_TIME), LONGEST_PAUSE)
        cost: Json = {"ms": round(took * 1000, 1), "every": round(pause, 1)}
        self._latest = {"servers": servers, "look": cost}
        self._next = time.monotonic() + pause

    def _send_visitors(self) -> None:
        while not self._over.wait(VISITOR_EVERY):
            for look in self.looks if self.pages else ():
                look.clients.visit()
