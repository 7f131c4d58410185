# SPDX-License-Identifier: MIT
"""The data model of a trace, and the parser that makes it from `strace -f -ttt -T -yy -k`.

A line of strace begins with the number of the process or thread and the time. strace may print a
call that sleeps in two parts ("<unfinished ...>", "<... resumed>"), which the parser joins. The
lines of a call's stack follow the call. `sources_of` finds the source lines of each line of a
stack, with their text. If a source has changed since the trace, `today` finds a line by its text.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from bench.host.project import ROOT

_LINE = re.compile(r"(?P<task>\d+) +(?P<time>\d+\.\d+) (?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*?)(?: <(?P<took>[\d.]+)>)?")
_BEGUN = re.compile(r"(?P<name>\w+)\((?P<arguments>.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_ENDED = re.compile(r"\+\+\+ (?P<how>exited with \d+|killed by SIG\w+).*\+\+\+")
_RETURNED = re.compile(r"(?P<number>-?\d+|0x[0-9a-f]+)(?:<.*?>)?(?: (?P<error>E[A-Z]+))?")
_STACK = re.compile(r" > (?P<file>\S+?)\(.*\) \[(?P<address>0x[0-9a-f]+)\]")
_PLACE = re.compile(
    r"^(?P<function>.+)\n(?:.*/)?(?P<file>(?:\d\d_[^/]+|lib|ops)/.*\.[ch]):(?P<line>\d+)", re.M
)
"""A function with its file and line, as addr2line prints them, in the project's sources."""


class Source(NamedTuple):
    """A line of the project's sources that made a call."""

    file: str  # Relative to the project's top folder.
    line: int
    function: str
    text: str = ""  # The text of the line without its indent.


@dataclass
class Call:
    """A system call. Times are seconds since the epoch."""

    task: int  # The number of the process or thread.
    begin: float
    end: float | None  # None: the call had not returned at the end of the trace.
    name: str
    arguments: str
    result: str = ""
    stack: list[Source] = field(default_factory=list)  # Innermost first.

    @property
    def returned(self) -> int | None:
        """Return the call's result as a number; None if the call never returned."""
        match = _RETURNED.match(self.result)
        return int(match["number"], 0) if match else None

    @property
    def error(self) -> str | None:
        """Return the name of the error, e.g. EAGAIN."""
        match = _RETURNED.match(self.result)
        return match["error"] if match else None


class TaskEnd(NamedTuple):
    """The time and the reason of the end of a task."""

    time: float
    how: str


class Request(BaseModel):
    """A client's request and its result. Times are milliseconds since the scenario's start."""

    number: int  # Counted from 1.
    port: int  # The client's port, which identifies the request in the trace.
    what: str  # The method and the path, for example "GET /guestbook".
    begin: float
    end: float
    answer: str  # The status, or the reason why there is no status.


class Trace(BaseModel):
    """The calls of one server in a scenario, and the results of the clients."""

    server: str
    summary: str  # The server's one-line description.
    scenario: str
    first: int  # The PID of the server's first process.
    redis_port: int
    origin: float  # The scenario's start in seconds since the epoch.
    requests: list[Request]
    calls: list[Call]  # In order of their start.
    ends: dict[int, TaskEnd]  # The ends of tasks, by number.


def parse(
    text: str, sources: Mapping[str, Sequence[Source]] = {}
) -> tuple[list[Call], dict[int, TaskEnd]]:
    """Return all calls in order of their start, and the ends of tasks. Lines in other formats are
    ignored. `sources`: the result of `sources_of`."""
    calls: list[Call] = []
    ends: dict[int, TaskEnd] = {}
    begun: dict[int, Call] = {}
    stack: list[Source] = []
    for line in text.splitlines():
        stack += sources.get(line, ())
        if not (found := _LINE.fullmatch(line)):
            continue
        task, time, rest = int(found["task"]), float(found["time"]), found["rest"]
        stack = []
        if match := _ENDED.fullmatch(rest):
            ends[task] = TaskEnd(time, match["how"])
        elif match := _BEGUN.fullmatch(rest):
            begun[task] = Call(task, time, None, match["name"], match["arguments"])
        elif (match := _RESUMED.fullmatch(rest)) and task in begun:
            call = begun.pop(task)
            calls.append(_finished(call, f"{call.name}({call.arguments}{match['rest']}", stack))
        elif match := _CALL.fullmatch(rest):
            calls.append(_finished(Call(task, time, None, match["name"], ""), rest, stack))
    return sorted([*calls, *begun.values()], key=lambda call: call.begin), ends


def _finished(call: Call, text: str, stack: list[Source]) -> Call:
    """Complete the call with the arguments, result and duration of its line. The caller adds the
    lines of its stack."""
    call.stack = stack
    match = _CALL.fullmatch(text)
    if match:
        call.arguments, call.result = match["arguments"], match["result"]
        if match["took"]:
            call.end = call.begin + float(match["took"])
    return call


def today(source: Source, lines: Sequence[str]) -> Source | None:
    """Return the nearest line of the current file with the same text; None if there is none."""
    same = [number for number, line in enumerate(lines, 1) if line.strip() == source.text]
    if not same or not source.text:
        return None
    return source._replace(line=min(same, key=lambda number: abs(number - source.line)))


@cache
def lines_of(file: str) -> list[str]:
    """Return the lines of a source file of the project; empty if the file does not exist."""
    path = ROOT / file
    return path.read_text().splitlines() if path.exists() else []


def sources_of(text: str, executable: Path) -> dict[str, list[Source]]:
    """Return for each line of a stack in the executable the project's source lines, innermost first
    if functions are inlined.

    addr2line(1) finds the lines. Raises OSError if addr2line is not installed.
    """
    ours = {
        match[0]: match["address"]
        for match in map(_STACK.fullmatch, text.splitlines())
        if match and Path(match["file"]).name == executable.name
    }
    # A stack has return addresses; the byte before a return address belongs to the call.
    asked = "".join(f"{int(address, 16) - 1:#x}\n" for address in ours.values())
    command = ["addr2line", "-e", str(executable), "-a", "-f", "-i"]
    said = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    blocks = re.split(r"^0x.*\n", said, flags=re.MULTILINE)[1:]  # -a prints the addresses
    found = ([*map(_source, _PLACE.finditer(block))] for block in blocks)
    return dict(zip(ours, found, strict=True))


def _source(place: re.Match[str]) -> Source:
    file, line = place["file"], int(place["line"])
    return Source(file, line, place["function"], lines_of(file)[line - 1].strip())
