# SPDX-License-Identifier: MIT
"""The files of a timeline: the page, and the trace for Perfetto and speedscope."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from bench.host.project import ROOT
from bench.timeline import command
from bench.timeline.command import for_viewers, kept, make
from bench.timeline.page import picture, viewer_trace
from bench.timeline.recording import Recording
from bench.timeline.scenarios import SCENARIOS

INSTALL = "npm install --prefix build/tools speedscope@1.25.0"
SPEEDSCOPE = ROOT / "build/tools/node_modules/speedscope/dist/release/index.html"


def test_a_further_server_does_not_replace_the_page_of_the_seven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that is not traced by default gets files of its own, and its sentence. 0.5 s."""
    every = make(None, "eight", tmp_path, recorded=True)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {every, for_viewers(every)} < before.keys()
    known = command.server_names
    trace = kept(["epoll"], "eight")[0].replace('"server":"epoll"', '"server":"mine"')
    monkeypatch.setattr(command, "server_names", lambda names: names or known(None))
    monkeypatch.setattr(command, "record", lambda *_: [trace])
    capsys.readouterr()
    page = make(["mine"], "eight", tmp_path)
    made = {path.name for path in tmp_path.iterdir() if path not in before}
    assert made == {page.name, for_viewers(page).name, "eight-mine.trace"}
    assert before == {path: path.read_bytes() for path in before}
    [said] = capsys.readouterr().out.splitlines()
    assert said.startswith("mine: Client 2 was silent")
    assert said.removeprefix("mine: ") in page.read_text()


def test_only_the_traces_of_this_run_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces of earlier runs in the same folder are not. 10 ms."""
    monkeypatch.setattr(command, "RECORDED", tmp_path)
    for name in ("epoll", "mine"):
        (tmp_path / f"eight-{name}.trace").write_text("# {}\n")
    command.keep(tmp_path, "eight", ["epoll", "poll"])
    assert [path.name for path in tmp_path.glob("*.gz")] == ["eight-epoll.trace.gz"]


@pytest.fixture(scope="module", params=SCENARIOS)
def exported(request: pytest.FixtureRequest) -> tuple[list[Recording], list[dict[str, Any]]]:
    """Return the recordings of a scenario and their events for trace viewers."""
    recordings = [picture(text) for text in kept(None, request.param)]
    trace = json.loads(viewer_trace(recordings))
    assert list(trace) == ["traceEvents"]
    return recordings, trace["traceEvents"]


Exported = tuple[list[Recording], list[dict[str, Any]]]


def test_each_event_has_the_fields_of_the_format(exported: Exported) -> None:
    """The fields and types that the Trace Event Format demands. 0.2 s for each scenario."""
    recordings, events = exported
    number = (int, float)
    fields: dict[str, dict[str, Any]] = {
        "M": {"name": str, "pid": int, "tid": int, "args": dict},
        "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": number, "dur": number},
        "s": {"name": str, "cat": str, "pid": int, "tid": int, "ts": number, "id": int},
    }
    fields["X"] |= {"args": dict}
    fields["f"] = fields["s"] | {"bp": str}
    for event in events:
        wanted = fields[event["ph"]]
        assert event.keys() - {"ph"} == wanted.keys(), event
        assert all(isinstance(event[name], kind) for name, kind in wanted.items()), event
        assert min(event.get("ts", 0), event.get("dur", 0)) >= 0
        assert all(isinstance(fact, (str, int)) for fact in event.get("args", {}).values())
    lanes = [lane for one in recordings for lane in one.lanes]
    assert len([e for e in events if e["ph"] == "X"]) == sum(len(lane.bars) for lane in lanes)
    threads = [e["tid"] for e in events if e["name"] == "thread_name"]
    assert len({*threads}) == len(threads) == len(lanes), "Perfetto names a thread by its tid alone"


def test_calls_do_not_overlap_and_hold_the_ends_of_arrows(exported: Exported) -> None:
    """Viewers nest overlapping calls, and drop arrows outside of calls. 0.2 s for each scenario."""
    recordings, events = exported
    calls: dict[int, list[tuple[float, float]]] = {}
    for event in (e for e in events if e["ph"] == "X"):
        calls.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for own in calls.values():
        assert all(one[1] <= other[0] + 0.001 for one, other in pairwise(own))
    begins, ends = ([e for e in events if e["ph"] == phase] for phase in "sf")
    assert [e["id"] for e in begins] == [e["id"] for e in ends]
    assert len({e["id"] for e in begins}) == len(begins)
    assert len(begins) >= 0.9 * sum(len(one.arrows) for one in recordings)
    for begin, end in zip(begins, ends, strict=True):
        assert begin["ts"] < end["ts"]
        for event in (begin, end):
            assert any(one <= event["ts"] <= other for one, other in calls[event["tid"]]), event


@pytest.mark.browser
@pytest.mark.skipif(not SPEEDSCOPE.exists(), reason=f"speedscope is not installed: {INSTALL}")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_speedscope_shows_each_task(browser: Browser, scenario: str, tmp_path: Path) -> None:
    """Real speedscope finds a profile for each task that has calls. 2 s for each scenario."""
    viewers = for_viewers(make(None, scenario, tmp_path, recorded=True))
    events = json.loads(viewers.read_text())["traceEvents"]
    tasks = {event["tid"] for event in events if event["ph"] == "X"}
    page = browser.new_page()
    page.goto(f"{SPEEDSCOPE.as_uri()}#")
    page.set_input_files("input[type=file]", viewers)
    expect(page).to_have_title(f"{viewers.name} - speedscope")
    expect(page.get_by_text(f"(1/{len(tasks)})")).to_be_visible()
    page.close()


def test_speedscope_does_not_take_the_file_for_another_format(tmp_path: Path) -> None:
    """speedscope reads a file `*.chrome.json` as a CPU profile, and fails. 1 ms."""
    assert for_viewers(tmp_path / "eight.html").name == "eight.trace.json"
