# SPDX-License-Identifier: MIT
"""What came of checks and stages: failures, findings, the whole grade."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from bench.grade.faults import FaultKind

OVER = "the minute was over"
"""Why a check was not tried."""
Came = Literal["right", "failed", "follows", "by nature", "not tried"]


class Failed(Exception):
    """A check has found a fault."""

    def __init__(
        self,
        fault: FaultKind,
        seen: str,
        port: int = 0,
        sure: bool = True,
        proof: Sequence[str] = (),
        proof_kind: str = "",
    ) -> None:
        """`seen`: what was done and what came of it, in a sentence. `port`: the client's, by which
        a trace is searched; `proof`: one that is better than a trace, `proof_kind` what it is. Not
        `sure`: a busy machine could be to blame; it is tried again."""
        super().__init__(seen)
        self.fault, self.seen, self.port, self.sure = fault, seen, port, sure
        self.proof, self.proof_kind = list(proof), proof_kind


class NotHere(Exception):
    """This machine cannot tell; the message says why. The points are not counted."""


class FaultFound(BaseModel):
    """A fault, named and proven."""

    fault: str
    """Its short name."""
    title: str
    meaning: str
    read: str
    seen: str
    proof: list[str] = []
    """A piece of a trace, or what /proc or a compiler printed."""
    proof_kind: str = ""
    """What the lines of `proof` are, in words."""
    follows: str = ""
    """The short name of an earlier fault that may be the cause; empty if there is none."""


class CheckOutcome(BaseModel):
    """What came of a check."""

    check: str
    points: int
    of: int
    came: Came
    note: str = ""
    """Of one that was not tried why; of others what is worth knowing."""
    finding: FaultFound | None = None


class StageOutcome(BaseModel):
    """What came of a stage."""

    stage: str
    title: str
    checks: list[CheckOutcome]

    @property
    def points(self) -> int:
        """Those it got."""
        return sum(check.points for check in self.checks)

    @property
    def of(self) -> int:
        """Those it could have got."""
        return sum(check.of for check in self.checks)


class Grade(BaseModel):
    """The whole of it; what --json prints."""

    schema_version: int = 1
    server: str
    points: int
    of: int
    seed: int
    """With the same seed the same is asked again."""
    seconds: float
    isolation: list[str]
    """What stood between this machine and the graded program, and what did not."""
    stages: list[StageOutcome]
    faults: list[str]
    """The short names of all that were found."""
