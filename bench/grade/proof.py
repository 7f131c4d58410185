# SPDX-License-Identifier: MIT
"""What is told of a failure, and the lines of a trace that prove it."""

import re
from collections.abc import Sequence
from pathlib import Path

from bench.grade.stage import Failed, FaultFound

MOST_LINES = 8
MOST_COLUMNS = 110
MOST_OF_A_LINE = 200


TRACE = "a trace: process, seconds since it served, call"
COMPILER = "what the compiler printed"
SANITIZER = "what the sanitizer printed"


def finding(failed: Failed, trace: Sequence[str]) -> FaultFound:
    """What is reported of a failure; `trace`: the proof of one that has none of its own."""
    fault = failed.fault
    return FaultFound(
        fault=fault.name,
        title=fault.title,
        meaning=fault.meaning,
        read=fault.read,
        seen=failed.seen,
        proof=failed.proof or list(trace),
        proof_kind=failed.proof_kind if failed.proof else TRACE,
    )


def mistake(lines: Sequence[str]) -> str:
    """The line of a compiler's or a linker's that says what is wrong: the first that does."""
    wrong = re.compile(r"error: (?!ld returned)|undefined reference|multiple definition")
    return next((line for line in lines if wrong.search(line)), lines[0])[:MOST_OF_A_LINE]


def shortened(lines: Sequence[str]) -> list[str]:
    """The first of them, each cut where nobody reads on."""
    return [line[:MOST_OF_A_LINE] for line in lines[:MOST_LINES]]


def excerpt(trace: Path, failed: Failed, since: float) -> list[str]:
    """The lines of a trace that prove a fault: those that concern the client, or show what the
    fault is known by; the first and the last of them. `since`: seconds of the system's clock."""
    text = trace.read_text(errors="replace") if trace.exists() else ""
    lines = [line for line in text.splitlines() if _when(line) >= since]
    about = [line for line in lines if failed.port and f":{failed.port}]" in line]
    if not about and failed.fault.trace:
        wanted = re.compile(failed.fault.trace)
        about = [line for line in lines if wanted.search(line)]
        # What a thread may not do it may not do at its beginning, either.
        about = about or [line for line in text.splitlines() if "--- SIGSYS" in line]
    if len(about) > MOST_LINES:
        half = MOST_LINES // 2
        about = [*about[:half], f"... {len(about) - 2 * half} more ...", *about[-half:]]
    return [shorter(line, since) for line in about]


def _when(line: str) -> float:
    """The time in a line of strace; 0: there is none."""
    match = re.match(r"\d+ +(\d+\.\d+) ", line)
    return float(match[1]) if match else 0.0


def shorter(line: str, since: float) -> str:
    """A line of strace without what nobody reads; its time in seconds `since` then."""
    line = re.sub(r"^(\d+) +\S+", rf"\1 {max(0.0, _when(line) - since):6.3f}", line)
    line = re.sub(r"<TCP:\[[^\]>]*:\d+->[^\]>]*:(\d+)\]>", r"<client \1>", line)
    line = re.sub(r"(--- SIGSYS) \{.*si_syscall=__NR_(\w+).*", r"\1: \2 was refused ---", line)
    line = re.sub(r"<TCP:\[\d+\]>", "<socket>", line)
    line = re.sub(r"<TCP:\[[^\]>]*\]>", "<listener>", line)
    line = re.sub(r"<[^>]*/public/([^>]*)>", r"<\1>", line)
    over = len(line) - MOST_COLUMNS
    return line if over <= 0 else f"{line[:70]} ... {line[75 + over :]}"
