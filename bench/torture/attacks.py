# SPDX-License-Identifier: MIT
"""The attacks: what each does, to whom, and what is right while it lasts.

An attack is a context manager: it is on inside of its `with` block, and what it yields is called
again and again meanwhile. Every one is bounded, in number and in time.
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
from bench.torture.answers import Outcome, Page
from bench.torture.crowd import PIPELINED
from bench.torture.scene import AttackScene, LyingRedis, page

Again = Callable[[], None]
Run = Callable[[AttackScene], AbstractContextManager[Again]]

CROWD = 200
"""Clients of most crowds: twice as many as 03 and 05 have workers."""
DESCRIPTORS = 64
DATA_MB = 128
LIMITS = {
    "descriptors": f"--nofile={DESCRIPTORS}:{DESCRIPTORS}",
    "memory": f"--data={DATA_MB << 20}:{DATA_MB << 20}",
}
"""By setting: the option of prlimit(1) that the server is started with."""
REFILL_SECONDS = 0.3
RUSH = 30
FULL_REDIS = 12
"""Clients that Redis takes when it is short of them, our own among them: fewer than come at once,
and a tenth of the workers of 03 and 05."""
UNDER_WAY = 40
"""Requests that are under way when the server is told to stop: fewer than there are workers."""
ACCEPTED_SECONDS = 0.6
"""After which a server that can has accepted all of them. With the next it stays below the second
that a new connection to Redis may take."""
PAUSED_SECONDS = 0.2
"""For so long they go on waiting for Redis when the server has been told to stop."""
KILL_SECONDS = 0.05
DOWNLOADS = 8

REDIS_PAGES = frozenset({"guestbook", "sign"})


@dataclass(frozen=True)
class Attack:
    """One of the attacks."""

    name: str
    title: str
    what: str
    run: Run
    setting: str = ""
    """What the server must find at its start: "descriptors", "memory", "liar", "line"."""
    needs_redis: bool = False
    """It hits Redis: the rate is that of the visitors who need none."""
    rates_all: bool = False
    """Though it hits Redis the rate is that of all."""
    excused: tuple[Outcome, ...] = ()
    crowd_counts: bool = False
    crowd_promised: bool = False
    own_only: str = ""
    """Why strangers cannot take part."""
    needs_children: bool = False

    @property
    def rates_part(self) -> bool:
        """Whether only visitors who need no Redis are rated."""
        return self.needs_redis and not self.rates_all

    def facts(self) -> AttackFacts:
        """What a record says of it."""
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
        """The pages whose visitors are rated."""
        return [name for name in pages if not (self.rates_part and name in REDIS_PAGES)]

    def why_not(self, subject: Subject) -> str:
        """Why a subject cannot take part; an empty text if it can."""
        if self.own_only and subject.kind != "server":
            return self.own_only
        if self.needs_redis and not subject.serves("guestbook"):
            return "asks no Redis"
        return ""


def nothing() -> None:
    """What an attack does again that needs to be begun only."""


def usual_page(_: AttackScene) -> Page:
    """One that every subject has."""
    return page("redirect")


def dearest_page(scene: AttackScene) -> Page:
    """Of those that the subject has: one that waits for Redis, if any."""
    return page("guestbook" if scene.subject.serves("guestbook") else "small")


def longest_page(scene: AttackScene) -> Page:
    """Of those that the subject has."""
    return page("large" if scene.subject.serves("large") else "guestbook")


def _crowd(
    kind: str,
    count: int = CROWD,
    of: Callable[[AttackScene], Page] = usual_page,
    pause: float = 0.0,
    far: bool = False,
) -> Run:
    """A crowd at work; `of`: what it asks for; `far`: it comes through the slow line."""

    @contextlib.contextmanager
    def run(scene: AttackScene) -> Iterator[Again]:
        inside = scene.ground.far_end if far else ()
        with scene.crowd(kind, count, of(scene), inside=inside, pause=pause):
            yield nothing

    return run


def _until_over(begin: Callable[[AttackScene], None], end: Callable[[AttackScene], None]) -> Run:
    """Something that is done when the attack begins, and undone when it is over."""

    @contextlib.contextmanager
    def run(scene: AttackScene) -> Iterator[Again]:
        begin(scene)
        try:
            yield nothing
        finally:
            end(scene)

    return run


def _liar(scene: AttackScene) -> LyingRedis:
    """What stands between the server and Redis."""
    assert scene.liar is not None
    return scene.liar


redis_killed = _until_over(lambda one: one.redis.kill(), lambda one: one.redis.start_again())
"""SIGKILL; afterwards it is started again, with its data."""
redis_stopped = _until_over(lambda one: one.redis.stop(), lambda one: one.redis.go_on())
"""SIGSTOP; afterwards SIGCONT."""
redis_lying = _until_over(lambda one: _liar(one).lie(), lambda one: _liar(one).be_honest())


@contextlib.contextmanager
def redis_full(scene: AttackScene) -> Iterator[Again]:
    """Whoever is connected stays so; beyond few nobody is let in, and more guests come."""
    usual = scene.redis.clients_limit()
    scene.redis.limit_clients(FULL_REDIS)
    try:
        with _crowd("rush", RUSH, dearest_page, pause=0.1)(scene):
            yield nothing
    finally:
        scene.redis.limit_clients(usual)


@contextlib.contextmanager
def large_pages(scene: AttackScene) -> Iterator[Again]:
    """Remarks as long as the form allows make a large page, and a crowd asks for it and reads
    nothing. Visitors' remarks push them off the page, so they are stored again and again."""
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
    """SIGKILL to one child after another, chosen by lot; some have a client that they wait for."""
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
    """The server is told to stop while guests wait for Redis, which then goes on; when it has
    ended it is started again, as a supervisor would."""
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


OTHERS_STOP = "stops in a way of its own"
ATTACKS = {
    attack.name: attack
    for attack in (
        Attack(
            "connect-only",
            "Connections without a request",
            f"{CROWD} clients connect and send nothing: the kernel does not show such connections "
            "to the server (TCP_DEFER_ACCEPT). For half a request, see slow-heads",
            _crowd("connect-only"),
        ),
        Attack(
            "idle",
            "Idle clients",
            f"{CROWD} clients ask once, keep the connection and say no more",
            _crowd("idle"),
        ),
        Attack(
            "slow-heads",
            "Slow heads",
            f"{CROWD} clients send the head of a request, ten bytes a second, without end",
            _crowd("slow-heads"),
        ),
        Attack(
            "slow-readers",
            "Slow readers",
            f"{CROWD} clients ask {PIPELINED} times for the longest page and read nothing",
            _crowd("slow-readers", of=longest_page),
        ),
        Attack(
            "large-pages",
            "Large pages, not read",
            f"{CROWD} clients ask for a guestbook of 333 KB and read nothing; each process of the "
            f"server may have {DATA_MB} MB of data (prlimit)",
            large_pages,
            setting="memory",
            needs_redis=True,
            excused=("unavailable",),
            own_only="may need more memory to begin with",
        ),
        Attack(
            "flood",
            "A flood of connections",
            "connect, ask, reset, as fast as one core can",
            _crowd("flood", 1),
        ),
        Attack(
            "few-descriptors",
            "Few descriptors",
            f"{DESCRIPTORS} descriptors from the start (prlimit); {CROWD} guests come at the same "
            "moment, again and again",
            _crowd("rush", CROWD, dearest_page, pause=0.2),
            setting="descriptors",
            crowd_counts=True,
        ),
        Attack(
            "redis-killed",
            "Redis killed",
            "kill -9; afterwards it is started again with its data",
            redis_killed,
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-stopped",
            "Redis stopped",
            "it takes commands and answers none (SIGSTOP); afterwards it goes on",
            redis_stopped,
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-lying",
            "Redis lying",
            "replies of a wrong type, one reply too many, errors, HTTP, half a reply; nothing is "
            "stored",
            redis_lying,
            setting="liar",
            needs_redis=True,
            excused=("unavailable",),
        ),
        Attack(
            "redis-full",
            "Redis out of clients",
            f"it takes {FULL_REDIS} clients and no more (maxclients); {RUSH} guests come at the "
            "same moment, again and again",
            redis_full,
            needs_redis=True,
            rates_all=True,
            crowd_counts=True,
        ),
        Attack(
            "children-killed",
            "Children killed",
            "kill -9 to a child, twenty times a second",
            children_killed,
            needs_children=True,
        ),
        Attack(
            "sigterm",
            "SIGTERM under load",
            f"{UNDER_WAY} guests wait for Redis when the server is told to stop; then it is "
            "started again",
            sigterm,
            excused=("refused",),
            crowd_promised=True,
            own_only=OTHERS_STOP,
        ),
        Attack(
            "slow-line",
            "A slow line",
            f"{DOWNLOADS} clients download the longest page, again and again, through a line of "
            "8 Mbit/s",
            _crowd("rush", DOWNLOADS, longest_page, far=True),
            setting="line",
            crowd_counts=True,
        ),
    )
}


def select(names: list[str]) -> list[Attack]:
    """The named ones in the order given, each once; all for no names. Raises UserError."""
    return [ATTACKS[name] for name in each_of("attack", names or ATTACKS, ATTACKS)]
