# SPDX-License-Identifier: MIT
"""Findings: the report of a failed check, and the lines of a trace that prove its fault."""

import re
from collections.abc import Sequence
from pathlib import Path

from bench.grade.stage import Failed, FaultFound
from bench.host.process import lines_at_ends

MOST_LINES = 8
MOST_COLUMNS = 110
MOST_OF_A_LINE = 200


TRACE = "a trace: process, seconds since the server was ready, call"
COMPILER = "output of the compiler"
SANITIZER = "output of the sanitizer"


def finding(failed: Failed, trace: Sequence[str]) -> FaultFound:
    """Return the report of a failure; `trace` is its proof if the failure has none of its own."""
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
    """Return the first line of a compiler's or linker's output that names an error."""
    wrong = re.compile(r"error: (?!ld returned)|undefined reference|multiple definition")
    return next((line for line in lines if wrong.search(line)), lines[0])[:MOST_OF_A_LINE]


def shortened(lines: Sequence[str]) -> list[str]:
    """Return the first MOST_LINES lines, each cut to MOST_OF_A_LINE characters."""
    return [line[:MOST_OF_A_LINE] for line in lines[:MOST_LINES]]


def excerpt(trace: Path, failed: Failed, since: float) -> list[str]:
    """Return the lines of a trace that prove a fault: those with the client's port, otherwise those
    that match `FaultKind.trace`. Long results are cut in the middle. `since`: Unix time."""
    whole = lines_at_ends(trace) if trace.exists() else []
    lines = [line for line in whole if _when(line) >= since]
    about = [line for line in lines if failed.port and f":{failed.port}]" in line]
    if not about and failed.fault.trace:
        wanted = re.compile(failed.fault.trace)
        about = [line for line in lines if wanted.search(line)]
        # A refused call may come before `since`, when a thread starts.
        about = about or [line for line in whole if "--- SIGSYS" in line]
    if len(about) > MOST_LINES:
        half = MOST_LINES // 2
        about = [*about[:half], f"... {len(about) - 2 * half} more ...", *about[-half:]]
    return [shorter(line, since) for line in about]


def _when(line: str) -> float:
    """Return the time in a line of strace, or 0 if the line has none."""
    match = re.match(r"\d+ +(\d+\.\d+) ", line)
    return float(match[1]) if match else 0.0


def shorter(line: str, since: float) -> str:
    """Return a line of strace with short names of sockets and files, and seconds after `since`."""
    line = re.sub(r"^(\d+) +\S+", rf"\1 {max(0.0, _when(line) - since):6.3f}", line)
    line = re.sub(r"<TCP:\[[^\]>]*:\d+->[^\]>]*:(\d+)\]>", r"<client \1>", line)
    line = re.sub(r"(--- SIGSYS) \{.*si_syscall=__NR_(\w+).*", r"\1: \2 was refused ---", line)
    line = re.sub(r"<TCP:\[\d+\]>", "<socket>", line)
    line = re.sub(r"<TCP:\[[^\]>]*\]>", "<listener>", line)
    line = re.sub(r"<[^>]*/public/([^>]*)>", r"<\1>", line)
    over = len(line) - MOST_COLUMNS
    return line if over <= 0 else f"{line[:70]} ... {line[75 + over :]}"
