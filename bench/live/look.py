# SPDX-License-Identifier: MIT
"""Collect the present activity of servers, at most twice a second, while a page is open."""

import math
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from bench.live import tasks, waits
from bench.live.clients import VISITOR_EVERY, Clients
from bench.live.tasks import Counters
from bench.live.verdict import RECENT_SECONDS, Tasks, verdict
from bench.live.waits import Sleep
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
    summary: str
    """The server's description of itself."""
    url: str
    pid: int
    redis_url: str
    redis_is_ours: bool
    """Whether only this server uses its Redis; if so, a button may slow Redis down."""
    _sleeps: dict[int, Sleep] = field(default_factory=dict)
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_SHOWN))
    _before: tuple[int, float] = (0, -math.inf)
    """The last count of requests, and its time."""
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
        self._sleeps = waits.sleeps_of(found, self._sleeps, now)
        processes = len({task.process for task in found})
        groups = waits.groups_of_tasks(found, seen, self._sleeps, now)
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
    """Observes all servers repeatedly in a thread; `next` returns the results. A second thread
    starts visitors."""

    def __init__(self, looks: list[Look]) -> None:
        self.looks = looks
        self._changed = threading.Condition()
        self._watchers = 0
        self._latest: tuple[float, dict[str, Json]] = (0.0, {})
        self._over = False
        self._looking = threading.Lock()
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._run, self._send_visitors)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the observations, and end all calls of `next`."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def watch(self, by: int) -> None:
        """Count an opened page (1) or a closed page (-1). While no page is open, the servers are
        not observed, and the clients of the buttons are stopped."""
        with self._changed:
            self._watchers += by
            left = self._watchers == 0
            self._changed.notify_all()
        for look in self.looks if left else ():
            look.clients.stop()

    def next(self, after: float) -> tuple[float, dict[str, Json]] | None:
        """Wait for the first observation after the time `after`. Return its time and its result for
        the page; None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._latest[0] > after)
            return None if self._over else self._latest

    def now(self) -> list[dict[str, Json]]:
        """Observe all servers now and return the results, also if no page is open."""
        with self._looking:
            return [look.look(time.monotonic()) for look in self.looks]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._watchers > 0)
                if self._over:
                    return
            begin, now = time.thread_time(), time.monotonic()
            servers = self.now()
            took = time.thread_time() - begin
            pause = min(max(EVERY_SECONDS, took / SHARE_OF_TIME), LONGEST_PAUSE)
            cost: Json = {"ms": round(took * 1000, 1), "every": round(pause, 1)}
            with self._changed:
                self._latest = (now, {"servers": servers, "look": cost})
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._over, pause)

    def _send_visitors(self) -> None:
        with self._changed:
            while not self._over:
                for look in self.looks if self._watchers else ():
                    look.clients.visit()
                self._changed.wait_for(lambda: self._over, VISITOR_EVERY)
