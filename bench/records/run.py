# SPDX-License-Identifier: MIT
"""The stored data of one run: conditions, figures and checks."""

from datetime import datetime
from typing import Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from bench.records.conditions import CellKey, Conditions
from bench.records.figures import (
    QUIET,
    AbFigures,
    Bottleneck,
    CallFigures,
    HostFigures,
    Kind,
    Latency,
    LittlesLaw,
    MemoryFigures,
    OpenLoopFigures,
    OtherProcess,
    ProcessFigures,
    ServerStatistics,
    StackFigures,
    WrkFigures,
)

Held = Literal["held", "failed", "skipped"]
OLD_WORKLOADS = {"/guestbook": "guestbook", "/redirect": "redirect", "/sorted": "sorted"}
"""Paths that name a workload in files of version 1."""


class Check(BaseModel):
    """A check of a run and its result."""

    name: str
    holds: bool
    label: str = ""
    """The failure in one or two words, for the table."""
    detail: str = ""
    """The failure in a sentence."""


class Reason(BaseModel):
    """The reason why there is no valid result."""

    label: str
    """The reason in one or two words, for a table."""
    text: str
    """The reason in a sentence."""


class Run(BaseModel):
    """One run of a configuration. A run that is not valid has no rate."""

    model_config = ConfigDict(populate_by_name=True)

    subject: str = Field(validation_alias=AliasChoices("subject", "server"))
    """The name of the server under test, e.g. "epoll", "baseline-epoll" or "nginx"."""
    kind: Kind = "server"
    architecture: str | None = None
    """The server that has this architecture: "epoll" for epoll and for baseline-epoll."""
    conditions: Conditions
    """In a file each condition is a field of the run."""
    concurrency: int = Field(gt=0)
    """Concurrent connections; in the open loop their maximum."""
    run: int
    """The run's number, from 1."""
    state: Held
    reason: Reason | None = None
    outlier: bool = False
    """Whether the rate differs much from the other runs' rates; an outlier still counts."""
    requests: int = Field(gt=0)
    """The planned number of requests."""
    started: datetime | None = None
    seconds: float = 0.0
    """The run's duration in seconds, with start and end of the servers, without `waited`."""
    waited: float = 0.0
    """Additional seconds until older connections left TIME_WAIT, see `bench.host.sockets`."""
    probe_status: int | None = None
    idle_reopened: int | None = None
    """How many times the server closed an idle connection; a new one replaced it each time."""
    ab_command: list[str] = []
    """The load generator's command line, also for other generators than ab."""
    ab: AbFigures | None = None
    wrk: WrkFigures | None = None
    open_loop: OpenLoopFigures | None = None
    latency: Latency | None = None
    process: ProcessFigures | None = None
    memory: MemoryFigures | None = None
    """Only in the modes "parked" and "pending"."""
    calls: CallFigures | None = None
    """Only in the mode "traced"."""
    stacks: StackFigures | None = None
    """Only in the modes "sampled" and "counted"."""
    load_process: OtherProcess | None = None
    redis_process: OtherProcess | None = None
    nginx_process: OtherProcess | None = None
    hosts: list[HostFigures] = []
    """The hosts during the load; empty if everything ran on one machine."""
    bottleneck: Bottleneck | None = None
    """The program or host at its limit; "none": none was at its limit. None: unknown."""
    bottleneck_host: str | None = None
    """The name of the host at its limit; None: no host, or everything ran on one machine."""
    lower_bound: bool = False
    """True: the load generator was at its limit, the server was not. The server may be faster."""
    littles_law: LittlesLaw | None = None
    server_statistics: ServerStatistics | None = None
    """The server's own counts; reference servers and baselines print none."""
    checks: list[Check] = []

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: object) -> object:
        """Build `conditions` from the fields of a file."""
        if not isinstance(data, dict) or "conditions" in data:
            return data
        rest = dict(data)
        found = {name: rest.pop(name) for name in Conditions._fields if name in rest}
        workload = str(found.get("workload"))
        found["workload"] = OLD_WORKLOADS.get(workload, workload)
        return rest | {"conditions": found}

    @model_serializer(mode="wrap")
    def _spread(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in handler(self).items():
            found |= self.conditions._asdict() if name == "conditions" else {name: value}
        return found

    @property
    def key(self) -> CellKey:
        """Return the configuration of the run."""
        return CellKey(self.subject, self.conditions, self.concurrency)

    @property
    def disturbed_by(self) -> float | None:
        """Return the share of the server's CPU that other processes used. None: the share is
        unknown, or the server used up its quota and so was not disturbed."""
        if self.process is None or (self.conditions.quota and self.bottleneck == "server"):
            return None
        return self.process.foreign_share

    @property
    def disturbed(self) -> bool:
        """Return whether other programs used much of the server's CPU."""
        return (self.disturbed_by or 0) > QUIET

    @property
    def requests_per_second(self) -> float | None:
        """Return the rate; None if the run is not valid, or has no rate."""
        if self.state != "held" or not self.conditions.rated:
            return None
        tool = self.wrk or self.ab
        rate = tool.requests_per_second if tool else 0.0
        rate = self.open_loop.rate_done if self.open_loop else rate
        return rate if rate > 0 else None
