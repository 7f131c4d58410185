# SPDX-License-Identifier: MIT
"""The plan of a sweep, and its runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.records.conditions import CellKey, Conditions, Value
from bench.records.figures import Role

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
    workloads: tuple[str, ...] = (DEFAULT_WORKLOAD,)
    """Names of workloads, or paths."""
    varied: Varied = field(default_factory=dict)
    """The values of each condition by its name; missing conditions have their default. `rate` adds
    open loops to the closed loop."""
    subjects: tuple[str, ...] | None = None
    """Names of servers under test; None: the project's servers."""
    baselines: bool = False
    """Whether the baselines of these servers are also measured."""

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
        """Return the number of the run's connections to the servers (`at`: "server"), to nginx
        ("nginx") or to both (otherwise). All of them are closed. The warm-up is not counted."""
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
