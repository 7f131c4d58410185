# SPDX-License-Identifier: MIT
"""The attacks: what each does, which servers take part, and which failures are excused.

An attack is a context manager that lasts as long as its `with` block. It yields a function that is
called repeatedly meanwhile. Every attack is limited in number and in time.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psutil

from bench.records.torture import AttackFacts
from bench.records.values import each_of
from bench.subjects.subject import Subject
from bench.torture.crowd import PIPELINED
from bench.torture.scene import AttackScene, LyingRedis, page
from bench.torture.visitors import Outcome, Page

Again = Callable[[], None]
Run = Callable[[AttackScene], AbstractContextManager[Again]]

CROWD = 200
"""The clients of most crowds: twice the workers of 03 and 05."""
DESCRIPTORS = 64
DATA_MB = 128
LIMITS = {
    "descriptors": f"--nofile={DESCRIPTORS}:{DESCRIPTORS}",
    "memory": f"--data={DATA_MB << 20}:{DATA_MB << 20}",
}
"""The option of prlimit(1) for the server, by setting."""
REFILL_SECONDS = 0.3
RUSH = 30
FULL_REDIS = 12
"""The clients that the limited Redis accepts, including the test's own connection: fewer than a
rush has, and a tenth of the workers of 03 and 05."""
UNDER_WAY = 40
"""Requests that are under way when SIGTERM is sent: fewer than there are workers."""
ACCEPTED_SECONDS = 0.6
"""The time for a server to accept all of them. Together with PAUSED_SECONDS it is below the second
that a new connection to Redis may take."""
PAUSED_SECONDS = 0.2
"""The time for which Redis stays stopped after SIGTERM."""
KILL_SECONDS = 0.05
DOWNLOADS = 8

REDIS_PAGES = frozenset({"guestbook", "sign"})


@dataclass(frozen=True)
class Attack:
    """An attack, and the rules for its result."""

    name: str
    title: str
    what: str
    run: Run
    setting: str = ""
    """The condition at the server's start: "descriptors", "memory", "liar", "line"."""
    needs_redis: bool = False
    """The attack disturbs Redis: only visitors who need no Redis are rated."""
    rates_all: bool = False
    """All visitors are rated although the attack disturbs Redis."""
    excused: tuple[Outcome, ...] = ()
    crowd_counts: bool = False
    crowd_promised: bool = False
    own_only: str = ""
    """The reason why only the project's own servers take part; empty if all do."""
    needs_children: bool = False

    @property
    def rates_part(self) -> bool:
        """Return whether only visitors who need no Redis are rated."""
        return self.needs_redis and not self.rates_all

    def facts(self) -> AttackFacts:
        """Return the attack's description for a record."""
        return AttackFacts(
            name=self.name,
            title=self.title,
            what=self.what,
            rated="visitors who need no Redis" if self.rates_part else "all visitors",
            excused=list(self.excused),
            crowd_counts=self.crowd_counts or self.crowd_promised,
            crowd_promised=self.crowd_promised,
        )

    def rated(self, pages: list[str]) -> list[str]:
        """Return the pages whose visitors are rated."""
        return [name for name in pages if not (self.rates_part and name in REDIS_PAGES)]

    def why_not(self, subject: Subject) -> str:
        """Return why a server cannot take part, or an empty string if it can."""
        if self.own_only and subject.kind != "server":
            return self.own_only
        if self.needs_redis and not subject.serves("guestbook"):
            return "does not use Redis"
        return ""


def nothing() -> None:
    """Do nothing: an attack yields this if it has nothing to repeat."""


def usual_page(_: AttackScene) -> Page:
    """Return a page that every server has."""
    return page("redirect")


def dearest_page(scene: AttackScene) -> Page:
    """Return a page of the server that waits for Redis, or a small file if it has none."""
    return page("guestbook" if scene.subject.serves("guestbook") else "small")


def longest_page(scene: AttackScene) -> Page:
    """Return the longest page of the server."""
    return page("large" if scene.subject.serves("large") else "guestbook")


def _crowd(
    kind: str,
    count: int = CROWD,
    of: Callable[[AttackScene], Page] = usual_page,
    pause: float = 0.0,
    far: bool = False,
) -> Run:
    """Return an attack by a crowd; `of` selects its page; `far`: it uses the slow line."""

    @contextlib.contextmanager
    def run(scene: AttackScene) -> Iterator[Again]:
        inside = scene.ground.far_end if far else ()
        with scene.crowd(kind, count, of(scene), inside=inside, pause=pause):
            yield nothing

    return run


def _until_over(begin: Callable[[AttackScene], None], end: Callable[[AttackScene], None]) -> Run:
    """Return an attack that calls `begin` at its start and `end` at its end."""

    @contextlib.contextmanager
    def run(scene: AttackScene) -> Iterator[Again]:
        begin(scene)
        try:
            yield nothing
        finally:
            end(scene)

    return run


def _liar(scene: AttackScene) -> LyingRedis:
    """Return the proxy between the server and Redis."""
    assert scene.liar is not None
    return scene.liar


redis_killed = _until_over(lambda one: one.redis.kill(), lambda one: one.redis.start_again())
"""Kill Redis with SIGKILL; afterwards start it again with its data."""
redis_stopped = _until_over(lambda one: one.redis.stop(), lambda one: one.redis.go_on())
"""Stop Redis with SIGSTOP; afterwards continue it with SIGCONT."""
redis_lying = _until_over(lambda one: _liar(one).lie(), lambda one: _liar(one).be_honest())


@contextlib.contextmanager
def redis_full(scene: AttackScene) -> Iterator[Again]:
    """Limit the clients of Redis to FULL_REDIS, and let a crowd come; old connections stay."""
    usual = scene.redis.clients_limit()
    scene.redis.limit_clients(FULL_REDIS)
    try:
        with _crowd("rush", RUSH, dearest_page, pause=0.1)(scene):
            yield nothing
    finally:
        scene.redis.limit_clients(usual)


@contextlib.contextmanager
def large_pages(scene: AttackScene) -> Iterator[Again]:
    """Fill the guestbook with the longest remarks, and let a crowd request it and read nothing.
    Visitors' remarks push them off the page, so they are stored again and again."""
    due = time.monotonic() + REFILL_SECONDS

    def refill() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + REFILL_SECONDS
            scene.redis.fill_page()

    scene.redis.fill_page()
    try:
        with scene.crowd("slow-readers", CROWD, page("guestbook")):
            yield refill
    finally:
        scene.redis.empty_page()


@contextlib.contextmanager
def children_killed(scene: AttackScene) -> Iterator[Again]:
    """Kill random child processes with SIGKILL; some of them wait for a client."""
    due = time.monotonic()

    def kill() -> None:
        nonlocal due
        children = scene.children()
        if children and time.monotonic() >= due:
            due = time.monotonic() + KILL_SECONDS
            with contextlib.suppress(psutil.Error):
                random.choice(children).kill()
                scene.killed += 1

    with scene.crowd("slow-heads", RUSH, page("redirect")):
        yield kill


@contextlib.contextmanager
def sigterm(scene: AttackScene) -> Iterator[Again]:
    """Send SIGTERM while clients wait for a stopped Redis, then continue Redis. After the server
    has ended, start it again, as a supervisor would."""
    scene.redis.stop()
    try:
        with scene.crowd("rush", UNDER_WAY, page("guestbook"), rounds=1):
            scene.await_accepted(UNDER_WAY, ACCEPTED_SECONDS)
            scene.server.ask_to_stop()
            scene.watch.sleep(PAUSED_SECONDS)
            scene.redis.go_on()
    finally:
        scene.redis.go_on()
    scene.restart()
    yield nothing


OTHERS_STOP = "its shutdown has other rules"
ATTACKS = {
    attack.name: attack
    for attack in (
        Attack(
            "connect-only",
            "Connections without a request",
            f"{CROWD} clients connect and send nothing. The kernel does not pass such connections "
            "to the server (TCP_DEFER_ACCEPT). For incomplete requests, see slow-heads",
            _crowd("connect-only"),
        ),
        Attack(
            "idle",
            "Idle clients",
            f"{CROWD} clients send one request, keep the connection open and send nothing more",
            _crowd("idle"),
        ),
        Attack(
            "slow-heads",
            "Slow heads",
            f"{CROWD} clients send an endless request head, ten bytes a second",
            _crowd("slow-heads"),
        ),
        Attack(
            "slow-readers",
            "Slow readers",
            f"{CROWD} clients request the longest page {PIPELINED} times and read nothing",
            _crowd("slow-readers", of=longest_page),
        ),
        Attack(
            "large-pages",
            "Large pages, not read",
            f"{CROWD} clients request a guestbook of 333 KB and read nothing; each process of the "
            f"server may have {DATA_MB} MB of data (prlimit)",
            large_pages,
            setting="memory",
            needs_redis=True,
            excused=("unavailable",),
            own_only="may need more memory even without clients",
        ),
        Attack(
            "flood",
            "A flood of connections",
            "one client connects, sends a request and resets, as fast as one core can",
            _crowd("flood", 1),
        ),
        Attack(
            "few-descriptors",
            "Few descriptors",
            f"the server may have {DESCRIPTORS} descriptors (prlimit); {CROWD} clients come at "
            "the same time, again and again",
            _crowd("rush", CROWD, dearest_page, pause=0.2),
            setting="descriptors",
            crowd_counts=True,
        ),
        Attack(
            "redis-killed",
            "Redis killed",
            "Redis is killed (kill -9) and later started again with its data",
            redis_killed,
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-stopped",
            "Redis stopped",
            "Redis is stopped (SIGSTOP): the kernel takes commands, but no reply comes; later it "
            "continues",
            redis_stopped,
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-lying",
            "Redis lying",
            "Redis sends replies of a wrong type, one reply too many, errors, HTTP or half a "
            "reply, and stores nothing",
            redis_lying,
            setting="liar",
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-full",
            "Redis out of clients",
            f"Redis accepts at most {FULL_REDIS} clients (maxclients); {RUSH} clients connect to "
            "the server at the same time, again and again",
            redis_full,
            needs_redis=True,
            rates_all=True,
            crowd_counts=True,
        ),
        Attack(
            "children-killed",
            "Children killed",
            "a child process is killed (kill -9) twenty times a second",
            children_killed,
            needs_children=True,
        ),
        Attack(
            "sigterm",
            "SIGTERM under load",
            f"the server gets SIGTERM while {UNDER_WAY} clients wait for Redis; later it is "
            "started again",
            sigterm,
            excused=("refused",),
            crowd_promised=True,
            own_only=OTHERS_STOP,
        ),
        Attack(
            "slow-line",
            "A slow line",
            f"{DOWNLOADS} clients download the longest page, again and again, over a line of "
            "8 Mbit/s",
            _crowd("rush", DOWNLOADS, longest_page, far=True),
            setting="line",
            crowd_counts=True,
        ),
    )
}


def select(names: list[str]) -> list[Attack]:
    """Return the named attacks in this order, each once; all if none is named. Raises UserError."""
    return [ATTACKS[name] for name in each_of("attack", names or ATTACKS, ATTACKS)]
