# SPDX-License-Identifier: MIT
"""Models of a configuration (a server under test, conditions, and a number of connections), and of
the plan and the runs of a sweep. Each condition is a field of Conditions; conditions.toml has a
table for each field except the workload. The class and the file define options, titles, file names
and columns, see docs/how-to/extend-the-benchmark.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from bench.records import values as parsers
from bench.records.values import one_of, tables_of, toml_of

Generator = Literal["ab", "wrk", "wrk-pipelined"]
"""The load generator of the closed loop: ab with HTTP/1.0, the other two with HTTP/1.1."""
Cores = Literal["one", "all"]
"""The cores of a server: its own core, or all cores, shared with other processes."""
Balancer = Literal["none", "close", "keep"]
Role = Literal["load", "nginx", "server", "redis"]
Mode = Literal["closed", "open", "parked", "pending", "traced", "sampled", "counted"]
"""The method that measures a server. closed: a client sends its next request after the previous
answer. open: requests are sent at a constant rate. parked: each connection gets one answer and
stays open. pending: each connection sends one request, but Redis is paused, so no request is
answered. The other modes use the load of the closed loop. traced: strace counts system calls.
sampled: a profiler takes samples. counted: callgrind counts instructions."""
PROBES: tuple[Mode, ...] = ("parked", "pending", "traced", "sampled", "counted")
"""The modes that measure other figures than a rate."""
BASELINE_PREFIX = "baseline-"
PLAIN_PREFIX = "plain-"
SLUG_LENGTH = 50
"""A file's name has at most this number of characters of a requested path."""
Value = bool | int | float | str | None
"""The value of one condition."""


class Conditions(NamedTuple):
    """The conditions that all data points of one chart share: everything but server and level."""

    workload: str  # A name in `bench.records.workloads`, or a path.
    keep_alive: bool = False
    idle: int = 0  # Idle keep-alive connections that are held open during the load.
    redis_delay_ms: float = 0.0  # The delay of each reply of Redis.
    mode: Mode = "closed"
    rate: float | None = None  # The rate of the open loop, in requests per second.
    instances: int = 1
    """The number of instances of the server; nginx shares the requests among them."""
    balancer: Balancer = "none"
    """Whether nginx is in front of the instances, and closes or keeps its connections to them."""
    workers: int = 0  # The value of --workers; 0: the server's default.
    quota: float = 0.0
    """CPU quota of each server process and its children: 0.2 is a fifth of a core. 0: no quota."""
    cores: Cores = "one"
    """The cores on which the server may run: one core, or all cores of its host."""
    generator: Generator = "ab"  # The load generator of the closed loop.
    without: str = ""  # The optimisation that is switched off, see baselines/without.c; "": none.
    change: str = ""
    """The experiment of course/experiments/ that is applied to the servers' sources; "": none."""

    @property
    def server_keeps(self) -> bool:
        """Return whether the server itself has persistent connections."""
        return self.keep_alive if self.balancer == "none" else self.balancer == "keep"

    @property
    def rated(self) -> bool:
        """Return whether the result is a rate, not e.g. memory or a number of system calls."""
        return self.mode not in PROBES

    @property
    def asks_once(self) -> bool:
        """Return whether each connection sends only one request and its memory is measured."""
        return self.mode in ("parked", "pending")

    def describe(self) -> str:
        """Return a text, e.g. "guestbook, keep-alive, 1,000 idle connections"."""
        return ", ".join([self.workload, *self.particulars()])

    def particulars(self) -> list[str]:
        """Return texts for all conditions that are not the default, without the workload."""
        return [aspect.text(value) for aspect, value in self._unusual()]

    def slug(self) -> str:
        """Return a text for file names, e.g. "guestbook_keep-alive_idle1000"."""
        first = self.workload.strip("/").replace("/", "-")[:SLUG_LENGTH] or "root"
        return "_".join([first, *(a.slug.format(a.word(value)) for a, value in self._unusual())])

    def _unusual(self) -> list[tuple["Aspect", Value]]:
        usual = self._field_defaults
        pairs = [(aspect, getattr(self, aspect.name)) for aspect in ASPECTS]
        return [(aspect, value) for aspect, value in pairs if value != usual[aspect.name]]


FROM_VALUES = TypeAdapter(Conditions)
"""Makes conditions from a dictionary, name -> value. Missing conditions have their default."""


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


SWITCHES = TypeAdapter(dict[str, dict[str, str]]).validate_python(
    toml_of(Path(__file__).with_name("switches.toml"))
)
OPTIMISATIONS, CHANGES = SWITCHES["optimisations"], SWITCHES["changes"]
"""The effects of the optimisations that can be switched off, and of the experiments, by name."""


class Aspect(BaseModel):
    """The form of a condition on the command line, in titles and in file names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str  # The name of the field in Conditions.
    about: str = Field(alias="help")  # The help of the option; {known}: the known words.
    kind: str = ""  # The kind of value, for error messages: "unknown optimisation: x".
    read: str = ""
    """The parser of a word, in `bench.records.values`; empty: `known` has all valid words."""
    words: str | dict[str, str]
    """The text in titles, or a text for each word. {} is the value, {word} the word."""
    slug: str = "{}"  # The text in a file's name; {}: the word.
    metavar: str = "N"
    typed: str = ""  # The name of the option, if it differs from the name of the field.

    @property
    def option(self) -> str:
        """Return the option of the command line."""
        return f"--{(self.typed or self.name).replace('_', '-')}"

    @property
    def known(self) -> tuple[str, ...]:
        """Return the valid words of an option whose `read` is empty. The mode "open" is left out,
        because --rate sets it."""
        if switches := {"without": OPTIMISATIONS, "change": CHANGES}.get(self.name):
            return tuple(switches)
        words = get_args(get_type_hints(Conditions)[self.name])
        return tuple(word for word in words if word != "open")

    @property
    def help(self) -> str:
        """Return the help of the option."""
        return self.about if self.read else self.about.format(known=", ".join(self.known))

    def parse(self, word: str) -> Value:
        """Return the value of a word of the command line. Raises UserError."""
        if self.read:
            value: Value = getattr(parsers, self.read)(word)
            return value
        if word == "none" and Conditions._field_defaults[self.name] == "":
            return ""
        return one_of(self.kind, word, self.known)

    def word(self, value: Value) -> str:
        """Return a value as the word that `parse` reads; a quota is in per cent."""
        return as_typed(100 * float(value or 0) if self.read == "quota" else value)

    def text(self, value: Value) -> str:
        """Return the text of a value in a title."""
        word = self.word(value)
        texts = {"other": self.words} if isinstance(self.words, str) else self.words
        return texts[word if word in texts else "other"].format(value, word=word)


BY_NAME = tables_of(Aspect, Path(__file__).with_name("conditions.toml"))
ASPECTS = tuple(BY_NAME.values())


def way_in_words(balancer: Balancer) -> str:
    """Return how requests reach the server."""
    return BY_NAME["balancer"].text(balancer)


# ---- The plan of a sweep, and its runs ----

DEFAULT_WORKLOAD = "guestbook"

Varied = Mapping[str, tuple[Value, ...]]
"""The values of conditions by their names."""


@dataclass(frozen=True)
class Plan:
    """A part of a sweep: what is measured, and how. None: the default of `bench.studies.runs`."""

    full: bool = False
    levels: tuple[int, ...] | None = None
    requests: int | None = None
    runs: int | None = None
    timeout: float | None = None
    workloads: tuple[str, ...] = (DEFAULT_WORKLOAD,)  # Names of workloads, or paths.
    varied: Varied = field(default_factory=dict)
    """The values of each condition by its name; missing conditions have their default. `rate` adds
    open loops to the closed loop."""
    subjects: tuple[str, ...] | None = None
    """Names of servers under test; None: the project's servers."""
    baselines: bool = False  # Whether the baselines of these servers are also measured.

    def values(self, name: str) -> tuple[Value, ...]:
        """Return the values of one condition."""
        return self.varied.get(name) or (Conditions._field_defaults[name],)

    @property
    def rates(self) -> tuple[Value, ...]:
        """Return the rates of the open loop, in requests per second."""
        return self.varied.get("rate", ())


@dataclass(frozen=True)
class RunSpec:
    """One planned run: run number `run` of a configuration."""

    subject: str
    conditions: Conditions
    concurrency: int
    run: int
    requests: int
    timeout: float

    @property
    def connections(self) -> int:
        """Return the clients' number of concurrent connections, idle ones included."""
        return self.concurrency + self.conditions.idle

    @property
    def of_ab(self) -> int:
        """Return the number of connections that ab opens; 0 for other load generators."""
        asked = self.conditions
        other = asked.generator != "ab" or asked.mode == "open" or asked.asks_once
        return 0 if other else self.concurrency

    def ended_connections(self, at: Role | None = None) -> int:
        """Return how many connections end in the run, without the warm-up: to the servers (`at`:
        "server"), to nginx ("nginx"), or to both (otherwise)."""
        conditions = self.conditions
        of_clients = self.connections
        if not conditions.keep_alive:
            of_clients = self.requests + conditions.idle
        if conditions.balancer == "none":
            return 0 if at == "nginx" else of_clients
        of_servers = self.connections if conditions.server_keeps else self.requests
        return {"nginx": of_clients, "server": of_servers}.get(at or "", of_clients + of_servers)

    @property
    def key(self) -> CellKey:
        """Return the configuration of the run."""
        return CellKey(self.subject, self.conditions, self.concurrency)
