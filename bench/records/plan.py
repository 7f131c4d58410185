"""What a sweep was asked for, and the runs that it consists of."""

from dataclasses import dataclass

from bench.records.conditions import CellKey, Conditions
from bench.records.figures import Balancer, Role

DEFAULT_WORKLOAD = "guestbook"


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
    keep_alive: tuple[bool, ...] = (False,)
    idle: tuple[int, ...] = (0,)
    redis_delays_ms: tuple[float, ...] = (0.0,)
    rates: tuple[float, ...] = ()
    """Requests per second of the open loop, which is measured beside the closed one."""
    instances: tuple[int, ...] = (1,)
    balancers: tuple[Balancer, ...] = ("none",)
    workers: int | None = None
    """Of the servers that have a fixed number; None: their own default."""


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
