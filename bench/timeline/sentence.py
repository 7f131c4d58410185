# SPDX-License-Identifier: MIT
"""One sentence about a recording: the slow operation, the clients that waited for it, and the
clients without a response.

Client A waited for client B while a task that serves A was in a call for B.
"""

from collections.abc import Iterator
from itertools import pairwise, takewhile

from bench.records.words import duration, listed, plural, upper_first
from bench.timeline.story import Bar, Kind, Recording
from bench.timeline.strace import Request

NOTABLE_MS = 50.0
"""Shorter operations are not reported as slow, because each reply of Redis takes 20 ms."""
WAITED_MS = 10.0
"""The minimum wait that counts: with strace, even a call that does not sleep takes about 1 ms."""
FOR_CLIENT = (Kind.RECEIVE, Kind.SEND)


def sentence(recording: Recording) -> str:
    """Return a sentence about the clients' waits, for example: "Client 2 was silent for 249 ms, and
    no other client waited for it."."""
    calls = _calls_for_clients(recording)
    connected = {request.number: request.begin for request in recording.requests}
    silent = {number: _silence(bars, connected[number]) for number, bars in calls.items()}
    slow = {number: _sending(bars) for number, bars in calls.items()}
    redis = max(_replies(recording), default=0.0)
    longest = max(redis, *silent.values(), *slow.values())
    if longest < NOTABLE_MS:
        late = max(recording.requests, key=lambda one: one.end - one.begin)
        cause = f"The response to client {late.number} took {duration(late.end - late.begin)}"
        waited = _waited(recording, {late.number}, "other client", "it")
    elif longest == redis:
        cause = f"Redis took {duration(longest)} for a reply"
        waited = _waited(recording, None, "client", "the reply to another client")
    else:
        found = silent if longest in silent.values() else slow
        names = [number for number, ms in found.items() if ms > longest / 2]
        was, upto, it = ("were", "up to ", "them") if names[1:] else ("was", "", "it")
        deed = f"{was} silent" if found is silent else "read slowly"
        cause = f"{upper_first(_clients(names))} {deed} for {upto}{duration(longest)}"
        waited = _waited(recording, set(names), "other client", it)
    return f"{cause}, and {waited}{_cut_off(recording)}."


def _waited(recording: Recording, served: set[int] | None, client: str, it: str) -> str:
    """Return how many clients waited, and the longest of their waits; for `served` see `_wait`."""
    times = [_wait(recording, request, served) for request in recording.requests]
    waits = [ms for ms in times if ms >= WAITED_MS]
    if not waits:
        return f"no {client} waited for {it}"
    most = f", the longest for {duration(max(waits))}" if waits[1:] else f" ({duration(waits[0])})"
    return f"{plural(len(waits), client)} waited for {it}{most}"


def _clients(numbers: list[int]) -> str:
    return f"client{'s' if numbers[1:] else ''} {listed([str(one) for one in numbers])}"


def _calls_for_clients(recording: Recording) -> dict[int, list[Bar]]:
    """Return the calls that receive from each client or send to it, in order of time."""
    calls: dict[int, list[Bar]] = {request.number: [] for request in recording.requests}
    for _, bar in recording.calls:
        if bar.kind in FOR_CLIENT and bar.request is not None:
            calls[bar.request].append(bar)
    return calls


def _silence(bars: list[Bar], connected: float) -> float:
    """Return the longest time between two parts of a request. A wait that ends without a part also
    counts.

    A client sends the first part when it connects. A busy server may receive that part later.
    """
    before_response = takewhile(lambda bar: bar.kind is Kind.RECEIVE, bars)
    parts = [bar.end for bar in before_response if (bar.call.returned or 0) > 0 or bar.waits_for]
    gaps = [after - before for before, after in pairwise(parts)]
    if gaps and gaps[0] >= NOTABLE_MS:
        gaps[0] = parts[1] - connected
    return max(gaps, default=0.0)


def _sending(bars: list[Bar]) -> float:
    sends = [bar for bar in bars if bar.kind is Kind.SEND]
    return sends[-1].end - sends[0].begin if sends else 0.0


def _replies(recording: Recording) -> Iterator[float]:
    """Yield the time of each reply of Redis, from the end of the send to the end of the receive."""
    for lane in recording.lanes:
        asked = None
        for bar in lane.bars:
            if bar.kind is not Kind.REDIS or (bar.call.returned or 0) <= 0:
                continue
            if bar.call.name.startswith("send"):
                asked = bar.end if asked is None else asked
            elif bar.call.name.startswith("recv") and asked is not None:
                yield bar.end - asked
                asked = None


def _wait(recording: Recording, request: Request, served: set[int] | None) -> float:
    """Return how long a client waited during its request, because its task served other clients of
    the set `served`. If `served` is None: because its task called Redis for other clients."""

    def for_others(bar: Bar) -> bool:
        if served is None:
            return bar.kind is Kind.REDIS and bar.request != request.number
        return bar.kind in FOR_CLIENT and bar.request in served - {request.number}

    return sum(
        max(0.0, min(bar.end, request.end) - max(bar.begin, request.begin))
        for lane in recording.lanes
        if any(bar.request == request.number for bar in lane.bars)
        for bar in lane.bars
        if for_others(bar)
    )


def _cut_off(recording: Recording) -> str:
    """Return the clients without a response and the tasks that were killed, or an empty text."""
    lost = [one.number for one in recording.requests if not one.answer[:1].isdigit()]
    killed = [lane.name for lane in recording.lanes if lane.ended.startswith("killed")]
    parts = [f"{listed(killed)} {'were' if killed[1:] else 'was'} killed"] if killed else []
    parts += [f"{_clients(lost)} got no response"] if lost else []
    return f"; {' and '.join(parts)}" if parts else ""
