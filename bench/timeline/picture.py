# SPDX-License-Identifier: MIT
"""The picture of a kept trace."""

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.timeline.recording import HEADING, Recording, Setting
from bench.timeline.story import tell
from bench.timeline.strace import Call, Source, parse, today


def picture(text: str) -> Recording:
    """The picture of a kept trace; its calls lead to the sources as they are now. Raises UserError
    if it is none."""
    heading, _, trace = text.partition("\n")
    try:
        if not heading.startswith(HEADING):
            raise ValueError
        setting = Setting.model_validate_json(heading.removeprefix(HEADING))
    except ValueError:
        raise UserError("this is no trace of ours: its first line is not '# {...}'") from None
    events = parse(trace)
    files: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, Call):
            event.stack = [found for one in event.stack if (found := _today(one, files))]
    return tell(events, setting)


def _today(source: Source, files: dict[str, list[str]]) -> Source | None:
    """Where the line stands now: the sources may have changed since the trace was recorded."""
    path = ROOT / source.file
    if source.file not in files:
        files[source.file] = path.read_text().splitlines() if path.exists() else []
    return today(source, files[source.file])
