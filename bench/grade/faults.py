# SPDX-License-Identifier: MIT
"""The faults that the grader can name: their names, and their texts from faults.toml."""

import re
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from bench.host.project import declaration

FaultName = Literal[
    "does-not-compile",
    "never-serves", "child-accepts", "ignores-end", "lock-kept", "lost-wakeup",
    "one-redis-question", "never-closes", "one-recv", "short-write", "fixed-answer",
    "no-answer", "wrong-answer", "bad-head", "wrong-length", "not-kept", "no-redis",
    "redis-leak", "redis-made-anew", "believes-anything", "loses-pipelined", "sigpipe", "crash",
    "one-stops-all", "by-nature", "says-one", "no-timeout", "restarted-timeout",
    "no-send-timeout", "cuts-slow-reader", "descriptor-leak", "closes-twice", "zombies",
    "workers-pile-up", "workers-end", "not-joined", "dies-at-limit", "spins", "redis-stops-all",
    "redis-not-back", "wrong-reply", "cuts-off", "deaf", "bad-status", "orphans",
    "fails-under-load", "dear", "data-race", "sanitizer-error", "not-sanitized",
    "unlisted-call", "memory-leak", "worker-not-replaced", "takes-memory", "too-slow",
    "another-program", "workers-stuck", "miscounts", "interrupted-call",
    "cuts-early", "no-408", "keeps-at-end", "keeps-too-long",
    "no-restart", "delays", "state-left", "wrong-log", "ends-at-hangup", "wrong-options",
]  # fmt: skip
"""mypy checks each name in the code against these, and `FaultFile` those of the file."""
Text = Annotated[str, Field(min_length=1), AfterValidator(lambda text: " ".join(text.split()))]


class FaultKind(BaseModel):
    """The texts of a fault; the head of faults.toml explains them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: Text
    meaning: Text
    read: Text
    trace: re.Pattern[str] | None = None
    brings: tuple[FaultName | Literal["broken-service"], ...] = ()


class FaultFile(BaseModel):
    """The content of faults.toml."""

    model_config = ConfigDict(extra="forbid")
    broken_service: tuple[FaultName, ...] = Field(alias="broken-service")
    fault: dict[FaultName, FaultKind]

    @model_validator(mode="after")
    def _is_complete(self) -> "FaultFile":
        if missing := {*get_args(FaultName)} - {*self.fault}:
            raise ValueError(f"there is no entry for {', '.join(sorted(missing))}")
        return self

    def breaks_service(self, fault: FaultName) -> bool:
        """Return whether all faults of `broken_service` may be consequences of this one."""
        return "broken-service" in self.fault[fault].brings

    def may_cause(self, cause: FaultName, fault: FaultName) -> bool:
        """Return whether a fault may be a consequence of another; then it costs no points."""
        listed = fault in self.fault[cause].brings
        return listed or (self.breaks_service(cause) and fault in self.broken_service)


TEXTS = Path(__file__).with_name("faults.toml")
FILE = declaration(FaultFile, TEXTS)
FAULTS = FILE.fault
