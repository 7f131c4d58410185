# SPDX-License-Identifier: MIT
"""The attacks: the actions of each, the servers that take part, and the failures that are allowed.

attacks.toml has a table for each attack: a crowd, something that happens `during` the attack (a key
of DURING), or both. Every attack is limited in number and in time.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, model_validator

from bench.load.crowd import Outcome, Page
from bench.records.torture import AttackFacts
from bench.records.values import each_of, tables_of
from bench.services.redis_server import SlowRedis
from bench.subjects.subject import Subject
from bench.torture.scene import AttackScene, page

Again = Callable[[], None]
FILE = Path(__file__).with_name("attacks.toml")
REFILL_SECONDS = 0.3
FULL_REDIS = 12
"""The clients that the limited Redis accepts, including the test's own connection."""
UNDER_WAY = 40
"""Requests that are under way when SIGTERM is sent: fewer than there are workers."""
ACCEPTED_SECONDS = 0.6
"""The time for a server to accept all of them. Together with PAUSED_SECONDS it is below the second
that a new connection to Redis may take."""
PAUSED_SECONDS = 0.2
"""The time that Redis stays stopped after SIGTERM."""
KILL_SECONDS = 0.05
REDIS_PAGES = frozenset({"guestbook", "sign"})


class Attackers(BaseModel):
    """The crowd of an attack."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    """A key of `bench.load.crowd.KINDS`."""
    count: int = 200
    """The default is twice the workers of 03 and 05."""
    page: Literal["usual", "dearest", "longest"] = "usual"
    """usual: every server has it; dearest: it waits for Redis if the server uses Redis."""
    pause: float = 0.0
    far: bool = False
    """The crowd uses the slow line."""

    def wants(self, subject: Subject) -> Page:
        """Return the page that the crowd requests from a server."""
        if self.page == "longest":
            return page("large" if subject.serves("large") else "guestbook")
        if self.page == "dearest":
            return page("guestbook" if subject.serves("guestbook") else "small")
        return page("redirect")


class Attack(AttackFacts):
    """An attack, and the rules for its result."""

    model_config = ConfigDict(extra="forbid")

    crowd: Attackers | None = None
    during: str = ""
    limit: str = ""
    """A limit of the server's processes, as an option of prlimit(1) without the hyphens."""
    needs_redis: bool = False
    """The attack disturbs Redis: servers without Redis cannot take part."""
    excused: Sequence[Outcome] = []
    own_only: str = ""
    """The reason why only the project's own servers take part; empty if all do."""
    needs_children: bool = False

    @property
    def far(self) -> bool:
        """Return whether the crowd uses the slow line."""
        return bool(self.crowd and self.crowd.far)

    @model_validator(mode="after")
    def _says_how_many(self) -> "Attack":
        self.what = self.what.format(count=self.crowd and self.crowd.count)
        return self

    def rated_pages(self, pages: list[str]) -> list[str]:
        """Return the pages whose visitors are rated."""
        every = self.rated == "all visitors"
        return [name for name in pages if every or name not in REDIS_PAGES]

    def why_not(self, subject: Subject) -> str:
        """Return the reason why a server cannot take part, or an empty string if it can."""
        if self.own_only and subject.kind != "server":
            return self.own_only
        if self.needs_redis and not subject.serves("guestbook"):
            return "does not use Redis"
        return ""

    @contextlib.contextmanager
    def run(self, scene: AttackScene) -> Iterator[Again]:
        """Attack as long as the `with` block; yield a function to be called repeatedly."""
        with contextlib.ExitStack() as stack:
            again = stack.enter_context(DURING[self.during](scene)) if self.during else nothing
            if who := self.crowd:
                inside = scene.ground.far_end if who.far else ()
                of = who.wants(scene.subject)
                crowd = scene.crowd(who.kind, who.count, of, inside=inside, pause=who.pause)
                stack.enter_context(crowd)
            yield again


def nothing() -> None:
    """Do nothing: an attack yields this if it has nothing to repeat."""


def every(seconds: float, act: Again) -> Again:
    """Return a function that calls `act` if its last call was so many seconds ago."""
    due = 0.0

    def again() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            act()

    return again


Happens = Callable[[AttackScene], AbstractContextManager[Again]]


def until_over(begin: Callable[[AttackScene], None], end: Callable[[AttackScene], None]) -> Happens:
    """Return an action that calls `begin` at the start of an attack and `end` at its end."""

    @contextlib.contextmanager
    def run(scene: AttackScene) -> Iterator[Again]:
        begin(scene)
        try:
            yield nothing
        finally:
            end(scene)

    return run


def liar_of(scene: AttackScene) -> SlowRedis:
    """Return the proxy between the server and Redis."""
    assert scene.liar is not None
    return scene.liar


@contextlib.contextmanager
def large_pages(scene: AttackScene) -> Iterator[Again]:
    """Fill the guestbook with the longest remarks, again and again, because visitors' remarks push
    them off the page."""
    refill = every(REFILL_SECONDS, scene.redis.fill_page)
    refill()
    try:
        yield refill
    finally:
        scene.redis.empty_page()


@contextlib.contextmanager
def children_killed(scene: AttackScene) -> Iterator[Again]:
    """Kill random child processes with SIGKILL; some of them wait for a client."""

    def kill() -> None:
        if children := scene.children():
            with contextlib.suppress(psutil.Error):
                random.choice(children).kill()
                scene.killed += 1

    yield every(KILL_SECONDS, kill)


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


DURING: dict[str, Happens] = {
    "redis_killed": until_over(lambda one: one.redis.kill(), lambda one: one.redis.start_again()),
    "redis_stopped": until_over(lambda one: one.redis.stop(), lambda one: one.redis.go_on()),
    "redis_lying": until_over(lambda one: liar_of(one).lie(), lambda one: liar_of(one).be_honest()),
    "redis_full": until_over(
        lambda one: one.redis.limit_clients(FULL_REDIS), lambda one: one.redis.lift_limit()
    ),
    "large_pages": large_pages,
    "children_killed": children_killed,
    "sigterm": sigterm,
}


ATTACKS = tables_of(Attack, FILE)


def select(names: list[str]) -> list[Attack]:
    """Return the named attacks in this order, each once; all if none is named. Raises UserError."""
    return [ATTACKS[name] for name in each_of("attack", names or ATTACKS, ATTACKS)]
