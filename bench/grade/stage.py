# SPDX-License-Identifier: MIT
"""The results of checks and stages: failures, findings, the whole grade."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from bench.grade.faults import FaultKind

OVER = "the time limit of the grading was reached"
"""The reason why a check was not run."""
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
        """`seen`: the actions and their result, in a sentence. `port`: the client's, to search
        a trace; `proof`: lines that prove more than a trace, `proof_kind`: their origin. Not
        `sure`: a busy machine may be the cause, so the check is repeated."""
        super().__init__(seen)
        self.fault, self.seen, self.port, self.sure = fault, seen, port, sure
        self.proof, self.proof_kind = list(proof), proof_kind


class NotHere(Exception):
    """This machine cannot run the check; the message says why. Its points are not counted."""


class FaultFound(BaseModel):
    """A fault that was found, with its explanation and proof."""

    fault: str
    """Its short name."""
    title: str
    meaning: str
    read: str
    seen: str
    proof: list[str] = []
    """Lines of a trace, of /proc, or of a compiler's output."""
    proof_kind: str = ""
    """The origin of the lines of `proof`, in words."""
    follows: str = ""
    """The short name of an earlier fault that may be the cause; empty if there is none."""


class CheckOutcome(BaseModel):
    """The result of a check."""

    check: str
    points: int
    of: int
    came: Came
    note: str = ""
    """The reason if the check was not run; otherwise a remark."""
    finding: FaultFound | None = None


class StageOutcome(BaseModel):
    """The result of a stage."""

    stage: str
    title: str
    checks: list[CheckOutcome]

    @property
    def points(self) -> int:
        """Return the points of all its checks."""
        return sum(check.points for check in self.checks)

    @property
    def of(self) -> int:
        """Return the most points that its checks can give."""
        return sum(check.of for check in self.checks)


class Grade(BaseModel):
    """The whole grade, which --json prints."""

    schema_version: int = 1
    server: str
    points: int
    of: int
    seed: int
    """A grading with this seed repeats the same requests."""
    seconds: float
    isolation: list[str]
    """The parts of the sandbox that were in force, and those that were not."""
    stages: list[StageOutcome]
    faults: list[str]
    """The short names of all faults that were found."""
