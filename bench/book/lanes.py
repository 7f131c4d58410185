# SPDX-License-Identifier: MIT
"""A timeline in words, for readers who do not see its colours."""

from html import escape

from bench.timeline.recording import Bar, Lane, Recording


def in_words(recording: Recording) -> str:
    """Return a paragraph of HTML: for each lane its clients and its longest wait."""
    lanes = "; ".join(escape(_lane(lane)) for lane in recording.lanes)
    return f'<p class="words">In words: {lanes}.</p>'


def _lane(lane: Lane) -> str:
    clients = sorted({bar.request for bar in lane.bars if bar.request})
    names = ", ".join(map(str, clients))
    served = f"client{'s' if clients[1:] else ''} {names}" if clients else "no client"
    waits = [bar for bar in lane.bars if bar.waits_for]
    if not waits:
        return f"{lane.name}: {served}"
    longest = max(waits, key=_length)
    wait = f"{_length(longest):.0f} ms in {longest.name} for {longest.waits_for}"
    return f"{lane.name}: {served}, longest wait {wait}"


def _length(bar: Bar) -> float:
    return bar.end - bar.begin
