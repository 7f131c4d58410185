# SPDX-License-Identifier: MIT
"""What a sweep was asked for, and the runs that it consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.records.conditions import CellKey, Conditions, Value
from bench.records.figures import Role

DEFAULT_WORKLOAD = "guestbook"
COUNTED_REQUESTS, COUNTED_CONNECTIONS = 100, 4


@dataclass(frozen=True)
class Plan:
    """What was asked for. None: what the ladder says."""

    full: bool = False
    levels: tuple[int, ...] | None = None
    requests: int | None = None
    runs: int | None = None
    timeout: float | None = None
    workloads: tuple[str, ...] = (DEFAULT_WORKLOAD,)
    """By name, or paths."""
    varied: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """By the name of a condition the values that it shall have; as usual for those not in it. The
    rates are those of the open loop, which is measured beside the closed one."""

    def values(self, name: str) -> tuple[Value, ...]:
        """Those of one condition."""
        return self.varied.get(name) or (Conditions._field_defaults[name],)

    @property
    def rates(self) -> tuple[Value, ...]:
        """Of the open loop, in requests per second."""
        return self.varied.get("rate", ())


@dataclass(frozen=True)
class Part:
    """A plan for some subjects. A sweep has one or several."""

    plan: Plan = field(default_factory=Plan)
    subjects: tuple[str, ...] | None = None
    """By name; None: the project's servers."""
    floors: bool = False
    """And the floors of the servers among them."""


def counted_parts(servers: Sequence[str], workloads: tuple[str, ...]) -> list[Part]:
    """Parts in which callgrind counts instructions, which takes fifty times as long: few requests.
    Connections are kept where they can be: a process for each would leave a file each."""
    closing = tuple(name for name in servers if name == "iterative")
    keeping = tuple(name for name in servers if name not in closing)
    return [
        Part(
            Plan(
                levels=(COUNTED_CONNECTIONS,),
                requests=COUNTED_REQUESTS,
                runs=1,
                workloads=workloads,
                varied={"mode": ("counted",), "keep_alive": (kept,)},
            ),
            names,
        )
        for names, kept in ((keeping, True), (closing, False))
        if names
    ]


@dataclass(frozen=True)
class RunSpec:
    """One run to be made: run number `run` of a cell."""

    subject: str
    conditions: Conditions
    concurrency: int
    run: int
    requests: int
    timeout: float

    @property
    def connections(self) -> int:
        """How many the server holds at once: those of the load, and the idle ones."""
        return self.concurrency + self.conditions.idle

    @property
    def of_ab(self) -> int:
        """How many of them ab opens; 0 where somebody else makes the load."""
        asked = self.conditions
        other = asked.generator != "ab" or asked.mode == "open" or asked.asks_once
        return 0 if other else self.concurrency

    def ended_connections(self, at: Role | None = None) -> int:
        """How many come to their end in it at the servers, or at nginx; None: at both. All but
        those of the warm-up."""
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
        """The cell it belongs to."""
        return CellKey(self.subject, self.conditions, self.concurrency)
