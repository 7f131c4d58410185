# SPDX-License-Identifier: MIT
"""Write a timeline as an HTML page that needs no network, and for trace viewers; read a recorded
trace."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.store import Json
from bench.report.page.look import template_of
from bench.timeline.recording import HEADING, Bar, Kind, Lane, Recording, Setting
from bench.timeline.scenarios import named
from bench.timeline.sentence import sentence
from bench.timeline.story import tell
from bench.timeline.strace import Call, Source, parse, today


def picture(text: str) -> Recording:
    """Return the picture of a recorded trace, with source lines as they are now. Raises UserError
    if the text is not such a trace."""
    heading, _, trace = text.partition("\n")
    try:
        if not heading.startswith(HEADING):
            raise ValueError
        setting = Setting.model_validate_json(heading.removeprefix(HEADING))
    except ValueError:
        raise UserError("not a recorded trace: its first line is not '# {...}'") from None
    events = parse(trace)
    files: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, Call):
            event.stack = [found for one in event.stack if (found := _today(one, files))]
    return tell(events, setting)


def _today(source: Source, files: dict[str, list[str]]) -> Source | None:
    """Return the line's position now: the sources may have changed since the recording."""
    path = ROOT / source.file
    if source.file not in files:
        files[source.file] = path.read_text().splitlines() if path.exists() else []
    return today(source, files[source.file])


TEMPLATES = Path(__file__).parent / "template"
PX_PER_MS = 2.4
"""The scale at first; the reader can zoom."""
FIGURE_PX = 940.0
"""The width of a picture in another page."""
ROW, LANE, GAP, AXIS = 11.0, 26.0, 4.0, 18.0
"""Heights in pixels: a client's row, a lane, the gap between lanes, the time axis."""
LETTER, AROUND = 5.2, 8.0
"""Pixels of a label's letter on average, and of its margins; the page's script measures them."""
TICK_MS = 50
MORE = Markup('<span class="more">Scroll sideways for the rest \u2192</span>')
"""Shown only if the picture is on a narrow screen, by its style sheet."""
UPPER = (Kind.RECEIVE, Kind.SEND, Kind.FILE)
"""Kinds in the upper half of a lane; Redis is in the lower half; others have the whole height."""


@dataclass(frozen=True)
class DrawnBar:
    """A bar with its vertical position and its number in the recording."""

    bar: Bar
    top: float
    height: float
    number: int
    task: int

    @property
    def style(self) -> str:
        """Return its CSS classes."""
        colour = f"r{self.bar.request}" if self.bar.request else "r0"
        return f"{colour} {'waits' if self.bar.waits_for else self.bar.kind.name.lower()}"


@dataclass(frozen=True)
class DrawnLane:
    """A lane with its vertical position."""

    lane: Lane
    top: float


class DrawnTimeline:
    """A recording with the positions of its lanes, bars and arrows."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.sentence = sentence(recording)
        first = AXIS + ROW * len(recording.requests) + 2 * GAP
        self.rows = [
            DrawnLane(lane, first + position * (LANE + GAP))
            for position, lane in enumerate(recording.lanes)
        ]
        self.height = first + len(self.rows) * (LANE + GAP)
        self.boxes = self._boxes()
        self._middle = {row.lane.task: row.top + LANE / 2 for row in self.rows}

    def _boxes(self) -> list[DrawnBar]:
        """Return the bars in order of time, in which the reader steps through them."""
        found = []
        for row in self.rows:
            for bar in row.lane.bars:
                lower = bar.kind is Kind.REDIS
                half = lower or bar.kind in UPPER
                found.append((bar, row.top + (LANE / 2 if lower else 0), LANE / (1 + half), row))
        found.sort(key=lambda one: one[0].begin)
        return [
            DrawnBar(bar, top, height, number, row.lane.task)
            for number, (bar, top, height, row) in enumerate(found)
        ]

    def arrows(self) -> list[dict[str, str | float]]:
        """Return both ends of each arrow, in milliseconds and pixels."""
        return [
            {
                "kind": arrow.kind,
                "x1": arrow.from_time,
                "y1": self._middle[arrow.from_task],
                "x2": arrow.to_time,
                "y2": self._middle[arrow.to_task],
            }
            for arrow in self.recording.arrows
        ]

    def data(self) -> list[list[Json]]:
        """Return the data of each bar for the page's script; source files are given by name."""
        return [
            [
                b.bar.begin,
                b.bar.end,
                b.bar.text,
                b.bar.waits_for,
                b.bar.request,
                b.bar.stack,
                b.task,
            ]
            for b in self.boxes
        ]


def render(recordings: Sequence[Recording], note: str = "", viewers: str = "") -> str:
    """Return the page of one scenario. `note`: a warning at its top, e.g. that the traces are of
    another machine. `viewers`: the name of the file for trace viewers."""
    drawings = [DrawnTimeline(recording) for recording in recordings]
    length = max(recording.length for recording in recordings)
    data = {
        "length": length,
        "servers": [{"name": one.recording.server, "bars": one.data()} for one in drawings],
        "sources": _sources(recordings),
    }
    return template_of(__file__, "timeline.html.j2").render(
        scenario=named(recordings[0].scenario),
        drawings=drawings,
        **_axis(length),
        note=note,
        viewers=viewers,
        more=MORE,
        data=Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")),
        style=Markup(picture_style() + (TEMPLATES / "timeline.css").read_text()),
        script=Markup((TEMPLATES / "timeline.js").read_text()),
    )


def figure(recording: Recording) -> str:
    """Return the picture alone for another page, which needs `picture_style`. It scrolls if it is
    too wide, by keyboard too."""
    picture = template_of(__file__, "picture.html.j2")
    drawing = DrawnTimeline(recording)
    axis = _axis(recording.length) | {"scale": FIGURE_PX / recording.length}
    made = picture.render(drawing=drawing, recording=recording, **axis)
    words = f"{recording.server}: {named(recording.scenario).title}. {drawing.sentence}"
    caption = f"<figcaption>{words} {MORE}</figcaption>"
    return f'<figure class="timeline" tabindex="0">{caption}{made}</figure>'


def picture_style() -> str:
    """Return the style sheet of the picture alone."""
    return (TEMPLATES / "picture.css").read_text()


def _axis(length: float) -> dict[str, object]:
    """Return the variables of the picture's template, except the drawing."""
    return {
        "length": length,
        "scale": PX_PER_MS,
        "ticks": range(0, int(length - TICK_MS / 2), TICK_MS),
        "sizes": {"row": ROW, "lane": LANE, "axis": AXIS, "letter": LETTER, "around": AROUND},
    }


def _sources(recordings: Sequence[Recording]) -> dict[str, list[str]]:
    """Return the lines of each source file in a stack; missing files are left out."""
    names = {
        file
        for recording in recordings
        for lane in recording.lanes
        for bar in lane.bars
        for file, _, _ in bar.stack
    }
    return {
        name: (ROOT / name).read_text().splitlines()
        for name in sorted(names)
        if (ROOT / name).exists()
    }


def viewer_trace(recordings: Sequence[Recording]) -> str:
    """Return the Trace Event Format of Perfetto and speedscope; times in microseconds.

    Perfetto accepts only numbers as the `id` of an arrow. It attaches each end to the call that is
    open at that time, so an arrow leads to the first call after it.
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
            common: dict[str, Json] = {
                "id": number,
                "name": arrow.kind,
                "cat": arrow.kind,
                "pid": process,
            }
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
        "name": bar.name,
        "cat": bar.kind.value,
        "pid": process,
        "tid": thread,
        "ts": _us(bar.begin),
        "dur": _us(bar.end - bar.begin),
        "args": {what: fact for what, fact in facts.items() if fact},
    }
