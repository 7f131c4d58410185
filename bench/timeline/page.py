# SPDX-License-Identifier: MIT
"""Write a timeline as an HTML page that needs no network, and as a file for trace viewers."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from bench.records.store import Json
from bench.report.page.look import template_of
from bench.timeline.scenarios import named
from bench.timeline.sentence import sentence
from bench.timeline.story import Bar, Kind, Recording
from bench.timeline.strace import lines_of

TEMPLATES = Path(__file__).parent / "template"
PX_PER_MS = 2.4
"""The largest initial scale; the page's script fits the picture to the window, and can zoom."""
FIGURE_PX = 940.0
"""The width of a picture that `figure` makes for another page."""
ROW, LANE, GAP, AXIS = 11.0, 26.0, 4.0, 18.0
"""Heights in pixels: a client's row, a lane, the gap between lanes, the time axis."""
LETTER, AROUND = 5.2, 8.0
"""The average width of a letter, and the margins of a label, in pixels."""
TICK_MS = 50
MORE = Markup('<span class="more">Scroll sideways for the rest \u2192</span>')
"""The style sheet of the picture shows this text only on a narrow screen."""
UPPER = (Kind.RECEIVE, Kind.SEND, Kind.FILE)
"""Kinds in the upper half of a lane. Redis is in the lower half; other kinds have the whole
height."""


def _drawing(recording: Recording) -> dict[str, object]:
    """Return the recording, its sentence, and the vertical places of lanes and calls in pixels."""
    first = AXIS + ROW * len(recording.requests) + 2 * GAP
    tops = {lane.task: first + at * (LANE + GAP) for at, lane in enumerate(recording.lanes)}
    return {
        "recording": recording,
        "sentence": sentence(recording),
        "tops": tops,
        "height": first + len(tops) * (LANE + GAP),
        "boxes": [_box(bar, tops[task]) for task, bar in recording.calls],
    }


def _box(bar: Bar, lane: float) -> dict[str, object]:
    """Return the position and the CSS classes of a call; its lane begins at the height `lane`."""
    lower = bar.kind is Kind.REDIS
    half = lower or bar.kind in UPPER
    look = "waits" if bar.waits_for else bar.kind.name.lower()
    return {
        "bar": bar,
        "top": lane + (LANE / 2 if lower else 0),
        "height": LANE / (1 + half),
        "style": f"r{bar.request or 0} {look}",
    }


def render(recordings: Sequence[Recording], note: str = "", viewers: str = "") -> str:
    """Return the page of one scenario. `note`: a warning at its top, e.g. about traces of another
    machine. `viewers`: the name of the file for trace viewers."""
    length = max(recording.length for recording in recordings)
    bars = [[bar for _, bar in recording.calls] for recording in recordings]
    files = {source.file for each in bars for bar in each for source in bar.call.stack}
    data = {
        "length": length,
        "servers": [
            {"name": one.server, "bars": [*map(_details, each)]}
            for one, each in zip(recordings, bars, strict=True)
        ],
        "sources": {name: lines for name in sorted(files) if (lines := lines_of(name))},
    }
    return template_of(__file__, "timeline.html.j2").render(
        scenario=named(recordings[0].scenario),
        drawings=[_drawing(recording) for recording in recordings],
        **_axis(length),
        note=note,
        viewers=viewers,
        more=MORE,
        data=Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")),
        style=Markup(picture_style() + (TEMPLATES / "timeline.css").read_text()),
        script=Markup((TEMPLATES / "timeline.js").read_text()),
    )


def _details(bar: Bar) -> list[Json]:
    """Return the data of a call for the page's script."""
    stack: list[Json] = [[one.file, one.line, one.function] for one in bar.call.stack]
    return [bar.begin, bar.end, bar.text, bar.waits_for, bar.request, stack]


def figure(recording: Recording) -> str:
    """Return a picture with its caption for another page, which must include `picture_style`. A
    wide picture scrolls, also by keyboard."""
    picture = template_of(__file__, "picture.html.j2")
    drawing = _drawing(recording)
    axis = _axis(recording.length) | {"scale": FIGURE_PX / recording.length}
    made = picture.render(drawing=drawing, recording=recording, **axis)
    words = f"{recording.server}: {named(recording.scenario).title}. {drawing['sentence']}"
    caption = f"<figcaption>{words} {MORE}</figcaption>"
    return f'<figure class="timeline" tabindex="0">{caption}{made}</figure>'


def picture_style() -> str:
    """Return the style sheet of the picture alone."""
    return (TEMPLATES / "picture.css").read_text()


def _axis(length: float) -> dict[str, object]:
    """Return those variables of the picture's template that all pictures of a page share."""
    return {
        "length": length,
        "scale": PX_PER_MS,
        "ticks": range(0, int(length - TICK_MS / 2), TICK_MS),
        "sizes": {"row": ROW, "lane": LANE, "axis": AXIS, "letter": LETTER, "around": AROUND},
    }


def viewer_trace(recordings: Sequence[Recording]) -> str:
    """Return the recordings in the Trace Event Format of Perfetto and speedscope; times in us.

    Perfetto accepts only numbers as the `id` of an arrow. Perfetto attaches each end of an arrow to
    the call at that time. So an arrow ends at the first call that begins after the arrow's start.
    """
    events: list[dict[str, Json]] = []
    for place, recording in enumerate(recordings, 1):
        process = place * 1000
        threads = {lane.task: process + at for at, lane in enumerate(recording.lanes)}
        begins = {lane.task: [bar.begin for bar in lane.bars] for lane in recording.lanes}
        events.append(_named("process_name", process, process, recording.server))
        for lane in recording.lanes:
            events.append(_named("thread_name", process, threads[lane.task], lane.name))
            events += [_complete(process, threads[lane.task], bar) for bar in lane.bars]
        for number, arrow in enumerate(recording.arrows, process):
            after = [begin for begin in begins[arrow.to_task] if begin > arrow.from_time]
            if not after:
                continue
            kind: dict[str, Json] = {"name": arrow.kind, "cat": arrow.kind}
            common = kind | {"id": number, "pid": process}
            begin, end = threads[arrow.from_task], threads[arrow.to_task]
            events.append(common | {"ph": "s", "tid": begin, "ts": _us(arrow.from_time)})
            events.append(common | {"ph": "f", "bp": "e", "tid": end, "ts": _us(min(after))})
    return json.dumps({"traceEvents": events})


def _us(ms: float) -> float:
    return round(ms * 1000, 3)


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Json]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(process: int, thread: int, bar: Bar) -> dict[str, Json]:
    facts = {"waits for": bar.waits_for, "client": bar.request, "call": bar.text}
    return {
        "ph": "X",
        "name": bar.call.name,
        "cat": bar.kind.value,
        "pid": process,
        "tid": thread,
        "ts": _us(bar.begin),
        "dur": _us(bar.end - bar.begin),
        "args": {what: fact for what, fact in facts.items() if fact},
    }
