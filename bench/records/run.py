# SPDX-License-Identifier: MIT
"""One run as it is kept: what was measured, what came of it, what was checked."""

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


class Check(BaseModel):
    """One thing that must be so."""

    name: str
    holds: bool
    label: str = ""
    """If it does not hold: in a word or two, for the table."""
    detail: str = ""
    """If it does not hold: in a sentence."""


Held = Literal["held", "failed", "skipped"]


OLD_WORKLOADS = {"/guestbook": "guestbook", "/redirect": "redirect", "/sorted": "sorted"}
"""Paths that stand for a workload in files of version 1."""


class Reason(BaseModel):
    """Why there is no figure."""

    label: str
    """A word or two, for a table."""
    text: str
    """A sentence."""


class Run(BaseModel):
    """One run of a cell. A run that does not hold has no figure, whatever was printed."""

    model_config = ConfigDict(populate_by_name=True)

    subject: str = Field(validation_alias=AliasChoices("subject", "server"))
    """What was measured: a server ("epoll"), a floor ("floor-epoll"), a stranger ("nginx")."""
    kind: Kind = "server"
    architecture: str | None = None
    """The server whose architecture the subject has: "epoll" for epoll and for floor-epoll."""
    conditions: Conditions
    """In the file they stand beside the others, under their own names."""
    concurrency: int = Field(gt=0)
    """Connections at once; in the open loop the most that may be open."""
    run: int
    """Counted from 1."""
    state: Held
    reason: Reason | None = None
    outlier: bool = False
    """Far from the other runs of its cell; it still counts."""
    requests: int = Field(gt=0)
    """As asked for."""
    started: datetime | None = None
    seconds: float = 0.0
    """The whole run: start of the server, warm-up, load, end of the server."""
    waited: float = 0.0
    """Seconds, beside those, until the kernel had room for what it leaves, see
    `bench.host.kernel`."""
    probe_status: int | None = None
    idle_reopened: int | None = None
    """How many of the idle connections the server closed during the load; they were opened anew."""
    ab_command: list[str] = []
    """The load generator's command line, also where it is not ab."""
    ab: AbFigures | None = None
    wrk: WrkFigures | None = None
    open_loop: OpenLoopFigures | None = None
    latency: Latency | None = None
    process: ProcessFigures | None = None
    memory: MemoryFigures | None = None
    """Of a run that looks at memory."""
    calls: CallFigures | None = None
    """Of a run that is traced."""
    stacks: StackFigures | None = None
    """Of a run that is sampled or counted."""
    load_process: OtherProcess | None = None
    redis_process: OtherProcess | None = None
    nginx_process: OtherProcess | None = None
    hosts: list[HostFigures] = []
    """The hosts during the load; empty where everything ran on one machine."""
    bottleneck: Bottleneck | None = None
    """Who was at the limit of what it had: "none" where all had time to spare."""
    bottleneck_host: str | None = None
    """By name; None where everything ran on one machine, or nobody was at the limit."""
    lower_bound: bool = False
    """The load generator was at its limit and the server was not: it could have done more."""
    littles_law: LittlesLaw | None = None
    server_statistics: ServerStatistics | None = None
    """What the server itself printed at its end; strangers and floors print nothing."""
    checks: list[Check] = []

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: object) -> object:
        """The conditions from among the fields of a file."""
        if not isinstance(data, dict) or "conditions" in data:
            return data
        rest = dict(data)
        found = {name: rest.pop(name) for name in Conditions._fields if name in rest}
        workload = str(found.get("workload"))
        found["workload"] = OLD_WORKLOADS.get(workload, workload)
        return rest | {"conditions": found}

    @model_serializer(mode="wrap")
    def _spread(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        kept: dict[str, object] = handler(self)
        if "conditions" not in kept:
            return kept
        at = list(kept).index("conditions")
        pairs = list(kept.items())
        return dict([*pairs[:at], *self.conditions._asdict().items(), *pairs[at + 1 :]])

    @property
    def key(self) -> CellKey:
        """The cell it belongs to."""
        return CellKey(self.subject, self.conditions, self.concurrency)

    @property
    def disturbed_by(self) -> float | None:
        """How much of the server's CPU others used, where that took something from it: not from one
        that got all of its quota. None: not known."""
        if self.process is None or (self.conditions.quota and self.bottleneck == "server"):
            return None
        return self.process.foreign_share

    @property
    def requests_per_second(self) -> float | None:
        """The figure; None if the run does not hold, or gives none."""
        if self.state != "held" or not self.conditions.rated:
            return None
        rate = 0.0
        if self.open_loop:
            rate = self.open_loop.rate_done
        elif self.wrk:
            rate = self.wrk.requests_per_second
        elif self.ab:
            rate = self.ab.requests_per_second
        return rate if rate > 0 else None

    @property
    def cost(self) -> float | None:
        """The figure of a run that gives no rate: bytes of a connection, or system calls of a
        request. Less is better. None: it has none, or does not hold."""
        if self.state != "held":
            return None
        if self.memory:
            return self.memory.per_connection
        return self.calls.total if self.calls else None
