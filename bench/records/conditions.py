# SPDX-License-Identifier: MIT
"""What a cell is: a subject, the conditions it is measured under, a level. Pure.

A condition is a field of Conditions and a row of ASPECTS. Command line, titles, file names, CSV and
exports follow from these two; docs/extending.md adds one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import TypeAdapter

from bench.records.figures import (
    BALANCERS,
    CORES,
    GENERATORS,
    PROBES,
    Balancer,
    Cores,
    Generator,
    Mode,
)
from bench.records.values import (
    milliseconds,
    one_of,
    one_or_none,
    positive,
    quota,
    whole,
    yes_or_no,
)
from bench.records.words import of_a_core, plural

FLOOR_PREFIX = "floor-"
SLUG_LENGTH = 50
"""Characters of a path in a file's name; a longer path is asked for all the same."""
Value = bool | int | float | str | None
"""Of one condition."""

THROUGH: dict[Value, str] = {
    "none": "straight to the server",
    "close": "through nginx, connections closed",
    "keep": "through nginx, connections kept",
}
"""How requests come to the server; behind nginx over connections that it keeps for many requests,
or closes after each."""
SAID_OF_PROBES: dict[Value, str] = {
    "parked": "memory of connections that wait for their next request",
    "pending": "memory of connections that wait for Redis",
    "traced": "traced",
    "sampled": "sampled by a profiler",
    "counted": "instructions counted",
}


class Conditions(NamedTuple):
    """What all cells of one chart have in common: everything but the subject and the level."""

    workload: str
    """By name, as `bench.records.workloads` has them; or a path."""
    keep_alive: bool = False
    idle: int = 0
    """Idle keep-alive connections held open beside the load."""
    redis_delay_ms: float = 0.0
    """By which each reply of Redis comes later."""
    mode: Mode = "closed"
    rate: float | None = None
    """Requests per second asked for in the open loop."""
    instances: int = 1
    """Processes of the server that are started side by side."""
    balancer: Balancer = "none"
    """nginx before them: none, or closing or keeping its connections to them."""
    workers: int = 0
    """Of the servers that have a fixed number; 0: their own default."""
    quota: float = 0.0
    """CPU time per time that each process of a server may use with its children: 0.2 is a fifth of
    a core. 0: as much as there is."""
    cores: Cores = "one"
    """On which cores of its host a server may run."""
    generator: Generator = "ab"
    """Who asks, in the closed loop."""
    without: str = ""
    """A trick of the servers that is switched off, see floors/without.c; "": none."""
    change: str = ""
    """An experiment of course/experiments/ whose change the servers' sources have; "": none."""

    @property
    def server_keeps(self) -> bool:
        """Whether the connections that the server itself sees are to be kept."""
        return self.keep_alive if self.balancer == "none" else self.balancer == "keep"

    @property
    def rated(self) -> bool:
        """Whether a rate comes of it: those of memory and of system calls have other figures."""
        return self.mode not in PROBES

    @property
    def asks_once(self) -> bool:
        """Whether there is no load: each connection asks once, and its memory is looked at."""
        return self.mode in ("parked", "pending")

    def describe(self) -> str:
        """In words: "guestbook, keep-alive, 1,000 idle connections"."""
        return ", ".join([self.workload, *self.particulars()])

    def particulars(self) -> list[str]:
        """In words what is not as usual, apart from the workload."""
        return [aspect.words(value) for aspect, value in self._unusual()]

    def slug(self) -> str:
        """For file names: "guestbook_keep-alive_idle1000"."""
        first = self.workload.strip("/").replace("/", "-")[:SLUG_LENGTH] or "root"
        return "_".join([first, *(aspect.slug(value) for aspect, value in self._unusual())])

    def _unusual(self) -> list[tuple["Aspect", Value]]:
        usual = self._field_defaults
        pairs = [(aspect, getattr(self, aspect.name)) for aspect in ASPECTS]
        return [(aspect, value) for aspect, value in pairs if value != usual[aspect.name]]


def conditions_from(values: Mapping[str, Value]) -> Conditions:
    """By name. What is missing is as usual."""
    return _CONDITIONS.validate_python(dict(values))


_CONDITIONS = TypeAdapter(Conditions)


class CellKey(NamedTuple):
    """Which cell a run belongs to."""

    subject: str
    conditions: Conditions
    concurrency: int


def as_typed(value: Value) -> str:
    """A value of most conditions as a word of the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Aspect:
    """One of the conditions: how it is asked for, and how it is said where it is not as usual."""

    name: str
    """Of the field."""
    option: str
    parse: Callable[[str], Value]
    """A word of the command line. Raises UserError."""
    help: str
    words: Callable[[Value], str]
    """In a title."""
    slug: Callable[[Value], str]
    """In a file's name."""
    metavar: str = "N"
    word: Callable[[Value], str] = as_typed
    """What `parse` reads."""


TRICKS = {
    "more": "the end of a connection rides on the last bytes, a file's first bytes on the head "
    "(MSG_MORE, TCP_CORK)",
    "cork": "of these TCP_CORK alone: the end of a connection rides on the last bytes of a file",
    "defer": "a connection is shown when its first bytes are there (TCP_DEFER_ACCEPT)",
    "inherit": "three options of a connection are inherited from the listener, and not set by a "
    "call each",
    "at-once": "an event loop reads right behind accept(), and watches only who has not asked yet",
    "gather": "head and body leave in one write (sendmsg)",
    "send": "what is in one piece leaves by send(), and not by sendmsg()",
    "sendfile": "a large file goes from the page cache into the socket (sendfile)",
    "nodelay": "what is written leaves at once (TCP_NODELAY)",
    "cache": "files and templates are kept, small ones in memory, others open: one look says "
    "whether one has changed",
    "date": "the field Date is made once a second, and not for each response",
    "pipeline": "all commands to Redis of an event loop's round leave in one write",
    "control": "nothing is switched off: so much is noise, or the preloaded library's own",
}
"""Those that floors/without.c can switch off, and what each of them does."""

CHANGES = {
    "accept-one": "one connection is accepted in each round, and not all that wait",
    "edge": "epoll tells of a change only (EPOLLET), and not as long as there is something",
    "interest": "a client is not watched while it waits for Redis, and then watched again",
    "lock": "each thread accepts for itself behind a lock, and there is no queue",
    "one-write": "the three commands to Redis are one script: one write, one reply",
}
"""The experiments of course/experiments/, and what each of them does otherwise."""

ASPECTS = (
    Aspect(
        "generator",
        "--generator",
        lambda word: one_of("load generator", word, GENERATORS),
        "who asks: ab, over HTTP/1.0; wrk, over HTTP/1.1 (ab)",
        lambda who: f"asked by {who}",
        str,
        metavar="WHO",
    ),
    Aspect(
        "without",
        "--without",
        lambda word: one_or_none("trick", word, TRICKS),
        f"switch a trick of the servers off: {', '.join(TRICKS)} (none)",
        lambda trick: f"without {trick}",
        lambda trick: f"without-{trick}",
        metavar="TRICK",
    ),
    Aspect(
        "change",
        "--change",
        lambda word: one_or_none("experiment", word, CHANGES),
        f"with the change of an experiment: {', '.join(CHANGES)} (none)",
        lambda name: f"changed: {name}",
        lambda name: f"changed-{name}",
        metavar="NAME",
    ),
    Aspect(
        "keep_alive",
        "--keep-alive",
        yes_or_no,
        "no: a connection for each request; yes: connections that are kept; both (no)",
        lambda _: "keep-alive",
        lambda _: "keep-alive",
        metavar="HOW",
    ),
    Aspect(
        "idle",
        "--idle",
        whole,
        "hold so many idle connections open (0)",
        lambda number: f"{number:,} idle connections beside",
        lambda number: f"idle{number}",
    ),
    Aspect(
        "redis_delay_ms",
        "--redis-delay",
        milliseconds,
        "delay each reply of Redis (0)",
        lambda ms: f"Redis {ms:g} ms slower",
        lambda ms: f"redis{ms:g}ms",
        metavar="MS",
    ),
    Aspect(
        "mode",
        "--probe",
        lambda word: one_of("probe", word, ("closed", *PROBES)),
        "closed: ab's load; parked, pending: the memory of so many connections; traced: count "
        "system calls; sampled, counted: functions, by perf (or Go's pprof) or callgrind (closed)",
        lambda mode: SAID_OF_PROBES.get(mode, "open loop"),
        str,
        metavar="HOW",
    ),
    Aspect(
        "rate",
        "--rate",
        lambda word: float(positive(word)),
        "and an open loop of N requests a second, by oha",
        lambda rate: f"{rate:,.0f} requests/s",
        lambda rate: f"{rate:g}",
    ),
    Aspect(
        "instances",
        "--instances",
        positive,
        "so many processes of a server (1)",
        lambda number: f"{number} instances",
        lambda number: f"x{number}",
    ),
    Aspect(
        "balancer",
        "--balancer",
        lambda word: one_of("balancer", word, BALANCERS),
        "nginx before them: none; close: a new connection to a server for each request; keep: "
        "connections to the servers are kept (none)",
        lambda how: THROUGH[how],
        lambda how: f"nginx-{how}",
        metavar="HOW",
    ),
    Aspect(
        "workers",
        "--workers",
        positive,
        "processes of preforking, threads of prethreading (their own default)",
        lambda number: plural(int(number or 0), "worker"),
        lambda number: f"workers{number}",
    ),
    Aspect(
        "quota",
        "--quota",
        quota,
        "give a server so many per cent of a core, by a control group; 0: a whole one (0; the "
        "ladder as it is, under usual conditions on this machine: 20 where that can be done)",
        lambda share: of_a_core(float(share or 0)),
        lambda share: f"quota{100 * float(share or 0):g}",
        metavar="PERCENT",
        word=lambda share: f"{100 * float(share or 0):g}",
    ),
    Aspect(
        "cores",
        "--cores",
        lambda word: one_of("share of the cores", word, CORES),
        "one: a server has a core of its own; all: it may use every core of its host, those of the "
        "load too, where they are one machine (one)",
        lambda _: "all cores",
        lambda which: f"cores-{which}",
        metavar="WHICH",
    ),
)
