# SPDX-License-Identifier: MIT
"""Read a recorded trace and return its picture."""

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.timeline.recording import HEADING, Recording, Setting
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
