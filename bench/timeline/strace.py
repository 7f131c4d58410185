# SPDX-License-Identifier: MIT
"""Parse the output of `strace -f -ttt -T -yy -k`.

A line begins with the number of the process or thread and the time. strace may print a call that
sleeps in two parts ("<unfinished ...>", "<... resumed>"), which this module joins. The lines of a
call's stack follow the call. Lines of the project's sources are kept, with the text of the source:

    ` > lib/net/blocking.c:70 receive| recv(conn->client->socket, room, size, 0);`

`with_sources` makes these lines from strace's addresses and the traced program. If the source has
changed since the trace, `today` finds the line by its text.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

_LINE = re.compile(r"(?P<task>\d+) +(?P<time>\d+\.\d+) (?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*?)(?: <(?P<took>[\d.]+)>)?")
_BEGUN = re.compile(r"(?P<name>\w+)\((?P<arguments>.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_ENDED = re.compile(r"\+\+\+ (?P<how>exited with \d+|killed by SIG\w+).*\+\+\+")
_RETURNED = re.compile(r"(?P<number>-?\d+|0x[0-9a-f]+)(?:<.*?>)?(?: (?P<error>E[A-Z]+))?")
_STACK = re.compile(r" > (?P<file>\S+?)\(.*\) \[(?P<address>0x[0-9a-f]+)\]")
_SOURCE = re.compile(r" > (?P<file>\S+):(?P<line>\d+) (?P<function>[^\s|]+)(?:\| (?P<text>.*))?")
_OURS = re.compile(r"(?:.*/)?(?P<file>(?:\d\d_[^/]+|lib|ops)/.*\.[ch])")


@dataclass(frozen=True)
class Source:
    """A line of the project's sources that made a call."""

    file: str
    """Relative to the project's top folder."""
    line: int
    function: str
    text: str = ""
    """The text of the line without its indent."""


@dataclass
class Call:
    """A system call. Times are seconds since the epoch."""

    task: int
    """The number of the process or thread."""
    begin: float
    end: float | None
    """None: the call had not returned at the end of the trace."""
    name: str
    arguments: str
    result: str = ""
    stack: list[Source] = field(default_factory=list)
    """Innermost first."""

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


@dataclass(frozen=True)
class TaskEnd:
    """The end of a task."""

    task: int
    time: float
    how: str


Event = Call | TaskEnd


def parse(text: str) -> list[Event]:
    """Return all events in order of their start. Lines in other formats are ignored."""
    return sorted(
        _events(text.splitlines()), key=lambda one: one.begin if isinstance(one, Call) else one.time
    )


def _events(lines: Iterable[str]) -> Iterator[Event]:
    begun: dict[int, Call] = {}
    stack: list[Source] = []
    for text in lines:
        if source := _SOURCE.fullmatch(text):
            place = source["file"], int(source["line"]), source["function"]
            stack.append(Source(*place, source["text"] or ""))
        elif line := _LINE.fullmatch(text):
            event = _event(int(line["task"]), float(line["time"]), line["rest"], begun)
            stack = event.stack if isinstance(event, Call) else []
            if event is not None:
                yield event
    yield from begun.values()


def _event(task: int, time: float, rest: str, begun: dict[int, Call]) -> Event | None:
    if match := _ENDED.fullmatch(rest):
        return TaskEnd(task, time, match["how"])
    if match := _BEGUN.fullmatch(rest):
        begun[task] = Call(task, time, None, match["name"], match["arguments"])
        return None
    if match := _RESUMED.fullmatch(rest):
        call = begun.pop(task, None)
        return _finished(call, f"{call.name}({call.arguments}{match['rest']}") if call else None
    if match := _CALL.fullmatch(rest):
        return _finished(Call(task, time, None, match["name"], ""), rest)
    return None


def _finished(call: Call, text: str) -> Call:
    """Complete the call with the arguments, result and duration of its line."""
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
    return replace(source, line=min(same, key=lambda number: abs(number - source.line)))


@cache
def lines_of(file: Path) -> list[str]:
    """Return the lines of a source file; empty if the file does not exist."""
    return file.read_text().splitlines() if file.exists() else []


def with_sources(text: str, executable: Path, root: Path) -> str:
    """Return the trace with source lines below `root` in place of addresses, without other frames.

    addr2line(1) finds the lines. Raises OSError if addr2line is not installed.
    """
    stacks = {match["address"] for match in map(_STACK.fullmatch, text.splitlines()) if match}
    known = _look_up(sorted(stacks), executable)
    kept = []
    for line in text.splitlines():
        match = _STACK.fullmatch(line)
        if match is None:
            kept.append(line)
        elif Path(match["file"]).name == executable.name:
            for source in known.get(match["address"], []):
                code = lines_of(root / source.file)[source.line - 1].strip()
                kept.append(f" > {source.file}:{source.line} {source.function}| {code}")
    return "\n".join(kept) + "\n"


def _look_up(addresses: list[str], executable: Path) -> dict[str, list[Source]]:
    """Return the project's source lines by address, innermost first if functions are inlined."""
    # A stack has return addresses; the byte before a return address belongs to the call.
    asked = "".join(f"{int(address, 16) - 1:#x}\n" for address in addresses)
    said = subprocess.run(
        ["addr2line", "-e", str(executable), "-a", "-f", "-i"],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    found: dict[str, list[Source]] = {}
    current: list[Source] = []
    lines = iter(said)
    for first in lines:  # an address; or a function's name, then in `lines` its file and line
        if first.startswith("0x"):
            current = found.setdefault(f"{int(first, 16) + 1:#x}", [])
            continue
        file, _, line = next(lines).partition(" ")[0].rpartition(":")
        ours = _OURS.fullmatch(file)
        if ours and line.isdigit():
            current.append(Source(ours["file"], int(line), first))
    return found
