# SPDX-License-Identifier: MIT
"""A configuration: a server under test, the conditions of the measurement, a concurrency level.

A condition is a field of Conditions and a row of ASPECTS. Command line, titles, file names, CSV and
exports are derived from these two; docs/how-to/extend-the-benchmark.md shows how to add one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
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
    toml_of,
    whole,
    yes_or_no,
)
from bench.records.words import of_a_core, plural

BASELINE_PREFIX = "baseline-"
PLAIN_PREFIX = "plain-"
SLUG_LENGTH = 50
"""The largest number of characters of a path in a file's name; the request has the whole path."""
Value = bool | int | float | str | None
"""The value of one condition."""

THROUGH: dict[Value, str] = {
    "none": "straight to the server",
    "close": "through nginx, connections closed",
    "keep": "through nginx, connections kept",
}
"""How requests reach the server: nginx keeps its connections to the server or closes each of them
after one request."""
SAID_OF_PROBES: dict[Value, str] = {
    "parked": "memory of connections that wait for their next request",
    "pending": "memory of connections that wait for Redis",
    "traced": "traced",
    "sampled": "sampled by a profiler",
    "counted": "instructions counted",
}


class Conditions(NamedTuple):
    """The conditions that all data points of one chart share: all but the server and the level."""

    workload: str
    """A name in `bench.records.workloads`, or a path."""
    keep_alive: bool = False
    idle: int = 0
    """Idle keep-alive connections that are held open during the load."""
    redis_delay_ms: float = 0.0
    """The delay of each reply of Redis."""
    mode: Mode = "closed"
    rate: float | None = None
    """The requested requests per second of the open loop."""
    instances: int = 1
    """Processes of the server that run at the same time."""
    balancer: Balancer = "none"
    """nginx in front of the instances: none, or closing or keeping its connections to them."""
    workers: int = 0
    """Workers of servers that have a fixed number; 0: the server's default."""
    quota: float = 0.0
    """CPU quota of each server process and its children: 0.2 is a fifth of a core. 0: no quota."""
    cores: Cores = "one"
    """The cores of its host on which a server may run."""
    generator: Generator = "ab"
    """The load generator of the closed loop."""
    without: str = ""
    """The optimisation that is switched off, see baselines/without.c; "": none."""
    change: str = ""
    """The experiment of course/experiments/ that is applied to the servers' sources; "": none."""

    @property
    def server_keeps(self) -> bool:
        """Return whether the connections to the server itself are kept."""
        return self.keep_alive if self.balancer == "none" else self.balancer == "keep"

    @property
    def rated(self) -> bool:
        """Return whether the result is a rate; memory and system calls have other figures."""
        return self.mode not in PROBES

    @property
    def asks_once(self) -> bool:
        """Return whether each connection sends only one request and its memory is measured."""
        return self.mode in ("parked", "pending")

    def describe(self) -> str:
        """Return a text: "guestbook, keep-alive, 1,000 idle connections"."""
        return ", ".join([self.workload, *self.particulars()])

    def particulars(self) -> list[str]:
        """Return texts for all conditions that are not the default, without the workload."""
        return [aspect.words(value) for aspect, value in self._unusual()]

    def slug(self) -> str:
        """Return a text for file names: "guestbook_keep-alive_idle1000"."""
        first = self.workload.strip("/").replace("/", "-")[:SLUG_LENGTH] or "root"
        return "_".join([first, *(a.slug.format(a.word(value)) for a, value in self._unusual())])

    def _unusual(self) -> list[tuple["Aspect", Value]]:
        usual = self._field_defaults
        pairs = [(aspect, getattr(self, aspect.name)) for aspect in ASPECTS]
        return [(aspect, value) for aspect, value in pairs if value != usual[aspect.name]]


def conditions_from(values: Mapping[str, Value]) -> Conditions:
    """Return conditions from values by name. Missing ones have their default."""
    return _CONDITIONS.validate_python(dict(values))


_CONDITIONS = TypeAdapter(Conditions)


class CellKey(NamedTuple):
    """The configuration that a run belongs to."""

    subject: str
    conditions: Conditions
    concurrency: int

    @property
    def baseline(self) -> "CellKey":
        """Return the configuration of the server's baseline under these conditions."""
        return self._replace(subject=BASELINE_PREFIX + self.subject)

    @property
    def is_baseline(self) -> bool:
        """Return whether the server under test is a baseline."""
        return self.subject.startswith(BASELINE_PREFIX)


def as_typed(value: Value) -> str:
    """Return a condition's value as a word of the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Aspect:
    """The form of a condition on the command line, in titles and in file names."""

    name: str
    """The name of the field."""
    parse: Callable[[str], Value]
    """Parses a word of the command line. Raises UserError."""
    help: str
    words: Callable[[Value], str]
    """The text in a title, used for values other than the default."""
    slug: str = "{}"
    """The text in a file's name; {} is `word`."""
    metavar: str = "N"
    word: Callable[[Value], str] = as_typed
    """The word that `parse` reads."""
    typed: str = ""
    """The name of the option, if it is not that of the field."""

    @property
    def option(self) -> str:
        """Return the option of the command line."""
        return f"--{(self.typed or self.name).replace('_', '-')}"


SWITCHES = TypeAdapter(dict[str, dict[str, str]]).validate_python(
    toml_of(Path(__file__).with_name("switches.toml"))
)
OPTIMISATIONS, CHANGES = SWITCHES["optimisations"], SWITCHES["changes"]
"""The optimisations that can be switched off, and the experiments, with their effects by name."""

ASPECTS = (
    Aspect(
        "generator",
        lambda word: one_of("load generator", word, GENERATORS),
        "load generator: ab with HTTP/1.0, wrk with HTTP/1.1, or wrk-pipelined, which sends 8 "
        "requests at once on kept connections (default ab)",
        "load by {}".format,
        metavar="PROGRAM",
    ),
    Aspect(
        "without",
        lambda word: one_or_none("optimisation", word, OPTIMISATIONS),
        f"disable an optimisation of the servers: {', '.join(OPTIMISATIONS)} (default none)",
        "without {}".format,
        "without-{}",
        metavar="NAME",
    ),
    Aspect(
        "change",
        lambda word: one_or_none("experiment", word, CHANGES),
        f"apply the change of an experiment to the servers: {', '.join(CHANGES)} (default none)",
        "changed: {}".format,
        "changed-{}",
        metavar="NAME",
    ),
    Aspect(
        "keep_alive",
        yes_or_no,
        "no: a connection for each request; yes: connections are kept; both (default no)",
        "keep-alive".format,
        "keep-alive",
        metavar="HOW",
    ),
    Aspect(
        "idle",
        whole,
        "hold N idle connections open during the load (default 0)",
        "{:,} idle connections".format,
        "idle{}",
    ),
    Aspect(
        "redis_delay_ms",
        milliseconds,
        "delay each reply of Redis by MS milliseconds (default 0)",
        "Redis {:g} ms slower".format,
        "redis{}ms",
        metavar="MS",
        typed="redis_delay",
    ),
    Aspect(
        "mode",
        lambda word: one_of("probe", word, ("closed", *PROBES)),
        "closed: requests per second; parked, pending: memory of connections; traced: system "
        "calls; sampled: functions by perf (or Go's pprof); counted: functions by callgrind "
        "(default closed)",
        lambda mode: SAID_OF_PROBES.get(mode, "open loop"),
        metavar="HOW",
        typed="probe",
    ),
    Aspect(
        "rate",
        lambda word: float(positive(word)),
        "also measure an open loop with N requests per second, by oha (default none)",
        "{:,.0f} requests/s".format,
    ),
    Aspect(
        "instances",
        positive,
        "start N processes of a server (default 1)",
        "{} instances".format,
        "x{}",
    ),
    Aspect(
        "balancer",
        lambda word: one_of("balancer", word, BALANCERS),
        "nginx in front of the servers: none; close: a new connection to a server for each "
        "request; keep: connections to the servers are kept (default none)",
        lambda how: THROUGH[how],
        "nginx-{}",
        metavar="HOW",
    ),
    Aspect(
        "workers",
        positive,
        "start N processes of preforking and multicore, threads of prethreading (default: the "
        "server's own)",
        lambda number: plural(int(number or 0), "worker"),
        "workers{}",
    ),
    Aspect(
        "quota",
        quota,
        "limit a server to this share of a core by a control group; 0: no limit (default 0; 20 in "
        "the default sweep if this machine supports quotas)",
        lambda share: of_a_core(float(share or 0)),
        "quota{}",
        metavar="PERCENT",
        word=lambda share: f"{100 * float(share or 0):g}",
    ),
    Aspect(
        "cores",
        lambda word: one_of("share of the cores", word, CORES),
        "one: a server has its own core; all: it may use every core of its host, on one machine "
        "those of the load, too (default one)",
        "all cores".format,
        "cores-{}",
        metavar="WHICH",
    ),
)
