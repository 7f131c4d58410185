# SPDX-License-Identifier: MIT
"""The faults that the grader can name (texts in faults.toml), and the results of checks and stages:
failures, findings, proofs and the whole grade."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from bench.host.process import lines_at_ends
from bench.host.project import declaration

MOST_LINES = 8
MOST_COLUMNS = 110
MOST_OF_A_LINE = 200
TRACE = "a trace: process, seconds since the server was ready, call"
COMPILER = "output of the compiler"
SANITIZER = "output of the sanitizer"

OVER = "the time limit of the grading was reached"
"""The reason why a check was not run."""
HAS_ASSEMBLER = "the server has assembler code, which its author must be able to explain"
"""This remark costs no points. Assembler code may be the compiled code of another server."""
Came = Literal["right", "failed", "follows", "by nature", "not tried"]
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
    "resets", "drops-half-closed", "few-at-once", "no-descriptor-left",
    "thundering-herd", "unfair-order", "repeats-command",
]  # fmt: skip
"""mypy checks the names in the code against this list; `FaultFile` checks those in faults.toml."""
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
        """Return whether all faults of `broken_service` may be consequences of `fault`."""
        return "broken-service" in self.fault[fault].brings

    def may_cause(self, cause: FaultName, fault: FaultName) -> bool:
        """Return whether `fault` may be a consequence of `cause`."""
        listed = fault in self.fault[cause].brings
        return listed or (self.breaks_service(cause) and fault in self.broken_service)


TEXTS = Path(__file__).with_name("faults.toml")
FILE = declaration(FaultFile, TEXTS)
FAULTS = FILE.fault


@dataclass(eq=False)
class Failed(Exception):
    """A check has found a fault."""

    fault: FaultName
    seen: str  # The check's actions and their result, in a sentence.
    port: int = 0  # The client's port. It selects the client's calls in a trace.
    sure: bool = True
    """False: a busy machine may be the cause, so the check passes if a repeated attempt passes."""
    proof: tuple[str, Sequence[str]] = ("", ())
    """A proof other than the trace: its origin and its lines."""
    since: float = 0
    """Unix time when the server was ready. Earlier trace lines are proofs only of refused calls."""
    redis_port: int | None = None
    """The port of the server's Redis, to name the connections to Redis in a trace."""
    locked: Sequence[str] = ()
    """The threads that waited for the same lock when no response came (`kept_lock`)."""
    is_cut: bool = False  # Whether the head of the response arrived, but not the whole body.
    afterwards: bool = False
    """Whether the server failed after the check had passed, or also without the check's special
    conditions. Then a fault that an earlier check has found counts as a consequence."""

    def __str__(self) -> str:
        return self.seen


class NotHere(Exception):
    """This machine cannot run the check, whose points do not count; the message says why."""


class FaultFound(BaseModel):
    """A fault that was found, with its explanation and proof."""

    fault: str  # The short name of the fault.
    title: str
    meaning: str
    read: str
    seen: str
    proof: list[str] = []
    """Lines that prove the fault, e.g. of a trace, of /proc or of a compiler's output."""
    proof_kind: str = ""  # The origin of the lines of `proof`, in words.
    follows: str = ""
    """The short name of an earlier fault that may be the cause, or an empty string."""


class CheckOutcome(BaseModel):
    """The result of a check."""

    check: str
    points: int
    of: int
    came: Came
    note: str = ""  # The reason if the check was not run; otherwise a remark.
    finding: FaultFound | None = None


class StageOutcome(BaseModel):
    """The result of a stage."""

    stage: str
    title: str
    checks: list[CheckOutcome]

    @property
    def points(self) -> int:
        """Return the points of all checks of the stage."""
        return sum(check.points for check in self.checks)

    @property
    def of(self) -> int:
        """Return the maximum points of all checks of the stage."""
        return sum(check.of for check in self.checks)


class Grade(BaseModel):
    """The whole grade, which --json prints."""

    schema_version: int = 1
    server: str
    points: int
    of: int
    seed: int  # A grading with the same seed uses the same files and requests.
    seconds: float
    isolation: list[str]
    """The parts of the sandbox that were in force, and the parts that were not."""
    stages: list[StageOutcome]
    faults: list[str]  # The short names of all faults that were found.

    @property
    def remarks(self) -> str:
        """Return the remarks for the lecturer, or an empty string."""
        left_out = sum(self.skipped.values())
        late = f"the time limit was reached before checks for {left_out} points"
        notes = [check.note for stage in self.stages for check in stage.checks]
        assembler = any(HAS_ASSEMBLER in note for note in notes)
        return "; ".join([late] * (left_out > 0) + [HAS_ASSEMBLER] * assembler)

    @property
    def skipped(self) -> dict[str, int]:
        """Return the points of the checks without a result because of the time limit, by stage."""
        points = {
            s.stage: sum(c.of for c in s.checks if c.note.startswith(OVER)) for s in self.stages
        }
        return {stage: most for stage, most in points.items() if most}


def finding(failed: Failed, trace: Sequence[str]) -> FaultFound:
    """Return the report of a failure. If the failure has no proof, `trace` is the proof."""
    kind, lines = failed.proof
    return FaultFound(
        fault=failed.fault,
        **FAULTS[failed.fault].model_dump(include={"title", "meaning", "read"}),
        seen=failed.seen,
        proof=shortened(lines) or list(trace),
        proof_kind=kind if lines else TRACE,
    )


def build_failure(fault: FaultName, output: str, how: str = "") -> Failed:
    """Return the failure of a build, with the first line of the output that names an error."""
    lines = output.splitlines()
    wrong = re.compile(r"error: (?!ld returned)|undefined reference|multiple definition")
    seen = next((line for line in lines if wrong.search(line)), lines[0])[:MOST_OF_A_LINE]
    return Failed(fault, f"{how}{seen}", proof=(COMPILER, lines))


def shortened(lines: Sequence[str]) -> list[str]:
    """Return the first MOST_LINES lines, each cut to MOST_OF_A_LINE characters."""
    return [line[:MOST_OF_A_LINE] for line in lines[:MOST_LINES]]


def excerpt(trace: Path, failed: Failed) -> list[str]:
    """Return the lines of a trace that prove a fault: lines with the client's port, otherwise lines
    that match `FaultKind.trace`. If there are too many, those in the middle are omitted."""
    whole = lines_at_ends(trace) if trace.exists() else []
    lines = [line for line in whole if _when(line) >= failed.since]
    about = [line for line in lines if failed.port and f":{failed.port}]" in line]
    if not about and (wanted := FAULTS[failed.fault].trace):
        about = [line for line in lines if wanted.search(line)]
        # The kernel may have refused a call earlier, when a thread started.
        about = about or [line for line in whole if "--- SIGSYS" in line]
    if len(about) > MOST_LINES:
        half = MOST_LINES // 2
        about = [*about[:half], f"... {len(about) - 2 * half} more ...", *about[-half:]]
    return [shorter(line, failed.since, failed.redis_port) for line in about]


def _when(line: str) -> float:
    """Return the time in a line of strace, or 0 if the line has none."""
    match = re.match(r"\d+ +(\d+\.\d+) ", line)
    return float(match[1]) if match else 0.0


def shorter(line: str, since: float, redis_port: int | None) -> str:
    """Return a line of strace with short names of sockets and files, and seconds after `since`."""
    line = re.sub(r"^(\d+) +\S+", rf"\1 {max(0.0, _when(line) - since):6.3f}", line)
    line = re.sub(rf"<TCP:\[[^\]>]*->[^\]>]*:{redis_port}\]>", "<Redis>", line)
    line = re.sub(r"<TCP:\[[^\]>]*:\d+->[^\]>]*:(\d+)\]>", r"<client \1>", line)
    line = re.sub(r"(--- SIGSYS) \{.*si_syscall=__NR_(\w+).*", r"\1: \2 was refused ---", line)
    line = re.sub(r"<TCP:\[\d+\]>", "<socket>", line)
    line = re.sub(r"<TCP:\[[^\]>]*\]>", "<listener>", line)
    line = re.sub(r"<[^>]*/public/([^>]*)>", r"<\1>", line)
    over = len(line) - MOST_COLUMNS
    return line if over <= 0 else f"{line[:70]} ... {line[75 + over :]}"
