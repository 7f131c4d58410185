# SPDX-License-Identifier: MIT
"""The timeline reads recorded traces, makes a picture and a sentence of each, and writes the page
and a trace for Perfetto and speedscope."""

import json
import math
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import viztracer
from playwright.sync_api import Browser, Page, expect

from bench.host.project import ROOT
from bench.timeline import command
from bench.timeline.command import RECORDED, for_viewers, kept, make
from bench.timeline.page import picture_style
from bench.timeline.record import STRACE, Refused, require_tracing
from bench.timeline.scenarios import SCENARIOS
from bench.timeline.sentence import sentence
from bench.timeline.story import Bar, Kind, Lane, Recording, tell
from bench.timeline.strace import Call, Request, Source, TaskEnd, Trace, parse, today

from ..accessible import served

SERVERS = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")

PIECES = (ROOT / "tests" / "bench" / "recorded" / "strace_pieces.txt").read_text()


@pytest.fixture(scope="module", params=SERVERS)
def told(request: pytest.FixtureRequest) -> Recording:
    """Return the picture of each server's recorded trace."""
    return tell(kept([request.param], "eight")[0])


def test_pieces_of_a_call_are_put_together() -> None:
    place = Source("01_iterative/main.c", 54, "main")
    calls, ends = parse(PIECES, {" > /bin/iterative(main+0x5) [0x1a5]": [place]})
    accept, futex, receive, unfinished = calls
    assert (accept.task, accept.name, accept.returned) == (7, "accept4", 6)
    assert accept.end == pytest.approx(1795000000.2491)
    assert [call.stack for call in calls] == [[place], [], [], []]
    assert (futex.returned, unfinished.end) == (None, None)
    assert (receive.returned, receive.error) == (-1, "EAGAIN")
    assert ends == {7: TaskEnd(1795000000.29, "exited with 0")}


def test_every_request_is_accepted_received_sent_and_closed(told: Recording) -> None:
    bars = [bar for lane in told.lanes for bar in lane.bars]
    for request in told.requests:
        assert request.answer.startswith("200"), request
        kinds = {bar.kind for bar in bars if bar.request == request.number}
        assert {Kind.ACCEPT, Kind.RECEIVE, Kind.SEND, Kind.CLOSE} <= kinds, request


def test_the_slow_client_delays_others_only_in_01(told: Recording) -> None:
    """Later clients wait for the slow client only in 01, as the book says."""
    slow = next(request for request in told.requests if "stops" in request.what)
    behind = [request for request in told.requests if request.begin > slow.begin]
    overtaken = [request.end < slow.end - 50 for request in behind]
    assert len(overtaken) == 6
    assert (any if told.server == "iterative" else all)(overtaken) is (told.server != "iterative")


LANES = {
    "iterative": (1, set()),
    "forking": (9, {"fork"}),
    "preforking": (5, set()),
    "threading": (9, {"thread"}),
    "prethreading": (5, {"wake"}),
    "poll": (1, set()),
    "epoll": (1, set()),
}
"""The number of tasks, and the kinds of arrows between tasks."""
WAITS = {
    "iterative": "client 2, to send",
    "forking": "client 2, to send",
    "preforking": "the next client",
    "threading": "the next client",
    "prethreading": "a client in the queue",
}


def test_lanes_are_what_the_architecture_says(told: Recording) -> None:
    lanes, kinds = LANES[told.server]
    found = {arrow.kind for arrow in told.arrows} & {"fork", "thread", "wake"}
    assert len(told.lanes) == lanes
    assert found - ({"wake"} if told.server == "threading" else set()) == kinds


def test_a_sleep_says_for_whom(told: Recording) -> None:
    waits = {bar.waits_for for lane in told.lanes for bar in lane.bars if bar.waits_for}
    if told.server in WAITS:
        assert WAITS[told.server] in waits
        assert any(re.fullmatch(r"Redis, for client \d", who) for who in waits)
    else:
        assert {"any watched descriptor"} <= waits <= {"any watched descriptor", "the next client"}


@pytest.mark.parametrize(
    ("server", "call", "newer"),
    [("poll", "poll", "ppoll"), ("epoll", "epoll_wait", "epoll_pwait")],
)
def test_a_loop_is_one_where_linux_has_only_the_newer_call(
    server: str, call: str, newer: str
) -> None:
    """The timeline detects an event loop on ARM, where Linux has only the newer system calls."""
    [trace] = kept([server], "eight")
    usual = [(bar.kind, bar.request, bar.waits_for) for bar in tell(trace).lanes[0].bars]
    for one in trace.calls:
        one.name = newer if one.name == call else one.name
    bars = tell(trace).lanes[0].bars
    assert newer in {bar.call.name for bar in bars}
    assert [(bar.kind, bar.request, bar.waits_for) for bar in bars] == usual


def test_bars_lie_in_their_lane_and_lead_to_a_line(told: Recording) -> None:
    with_stack = 0
    for lane in told.lanes:
        for bar in lane.bars:
            assert 0 <= bar.begin <= bar.end <= told.length
            with_stack += bool(bar.call.stack)
            for source in bar.call.stack:
                assert source.line > 0
                assert (ROOT / source.file).exists()
    assert with_stack > 0.8 * sum(len(lane.bars) for lane in told.lanes)


def test_a_call_leads_to_its_line_after_the_source_has_changed() -> None:
    recorded = Source("lib/net/some.c", 2, "receive", "recv(a);")
    assert today(recorded, ["x", "    recv(a);", "y", "recv(a);"]) == recorded
    assert today(recorded, ["x", "new", "new", "  recv(a);"]) == recorded._replace(line=4)
    assert today(recorded, ["x", "recv(b);"]) is None


def test_a_server_named_by_its_folder_is_traced(tmp_path: Path) -> None:
    try:
        require_tracing(STRACE)
    except Refused as refused:
        pytest.skip(str(refused))
    page = make(["07_epoll"], "silent", tmp_path)
    assert "recorded" not in page.read_text().partition("</header>")[0]
    told = tell(Trace.model_validate_json((tmp_path / "silent-epoll.trace").read_bytes()))
    assert told.server == "epoll"
    assert [request.answer for request in told.requests] == ["200 OK"] * 8
    assert all(request.end - request.begin >= 400 for request in told.requests[:3])
    bars = {bar.kind: bar for bar in told.lanes[0].bars}
    assert {Kind.ACCEPT, Kind.RECEIVE, Kind.REDIS, Kind.SEND, Kind.WATCH} <= bars.keys()
    assert bars[Kind.ACCEPT].call.stack[0].function == "server_accept"


def test_without_the_right_to_trace_recorded_traces_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    page = make(["epoll"], "eight", tmp_path)
    assert "strace is not installed" in page.read_text()
    assert "Showing recorded traces instead" in capsys.readouterr().err


@pytest.mark.parametrize("server", ["forking", "preforking"])
def test_a_killed_agent_does_nothing_more_and_loses_one_answer(server: str) -> None:
    told = tell(kept([server], "child-killed")[0])
    killed = [lane for lane in told.lanes if lane.ended == "killed by SIGKILL"]
    assert len(killed) == 1
    assert all(bar.end <= killed[0].end for bar in killed[0].bars)
    assert [r.answer for r in told.requests].count("closed without an answer") == 1
    kind = "worker" if server == "preforking" else "child"
    assert all(lane.name.startswith(kind) for lane in told.lanes[1:])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_recorded_for_all_seven(scenario: str) -> None:
    assert [tell(trace).server for trace in kept(SERVERS, scenario)] == list(SERVERS)
    assert sum(path.stat().st_size for path in RECORDED.glob("*.trace.gz")) < 400_000


SEEN = {
    "by most": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "without red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "without blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
"""How eyes with all cones or without one kind see red, green and blue (Machado et al., 2009)."""
TOLD_APART = 15
"""The required CIELAB distance of two colours; usual palettes for colour-blind people reach 16."""


def lab(colour: str, eyes: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Return a colour in CIELAB as it is seen with these eyes (a value of SEEN)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    mixed = (sum(a * b for a, b in zip(row, light, strict=True)) for row in eyes)
    r, g, b = (min(max(value, 0.0), 1.0) for value in mixed)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colour_blind_readers_can_distinguish_the_clients(eyes: str, scheme: str) -> None:
    light, dark = (
        dict(re.findall(r"--(c\d|sleep): (#\w{6})", part))
        for part in picture_style().split("prefers-color-scheme: dark")
    )
    colours = light if scheme == "light" else light | dark
    assert len(colours) == 10
    for (one, seen), (other, also) in combinations(colours.items(), 2):
        far = math.dist(lab(seen, SEEN[eyes]), lab(also, SEEN[eyes]))
        assert far >= TOLD_APART, f"{one} and {other} are {far:.0f} apart"


LATE_MS = 100.0
"""The least delay of a client that waits for client 2; the noise of strace is smaller."""
RECEIVE, SEND, REDIS = Kind.RECEIVE, Kind.SEND, Kind.REDIS


def recorded(scenario: str) -> list[Recording]:
    return [*map(tell, kept(None, scenario))]


@pytest.mark.parametrize("scenario", ["eight", "slow-reader"])
def test_it_counts_the_clients_that_were_late(scenario: str) -> None:
    """The page counts late clients by the calls of the server, this test by the clients' times."""
    pictures = recorded(scenario)
    prompt = [one.end - one.begin for one in pictures[-1].requests]
    for one in pictures:
        took = [request.end - request.begin for request in one.requests]
        late = [ms for ms, usual in zip(took, prompt, strict=True) if ms > usual + LATE_MS]
        match = re.search(r"and (\d) other .* for (\d+).ms\.", sentence(one))
        assert int(match[1] if match else 0) == len(late), one.server
        assert (float(match[2]) if match else 0) <= max(late, default=0), one.server
        assert (one.server == "iterative") is bool(match)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_names_the_clients_that_got_no_response(scenario: str) -> None:
    for one in recorded(scenario):
        lost = [request.number for request in one.requests if request.answer.startswith("closed")]
        match = re.search(r"was killed and client (\d) got no response", sentence(one))
        assert [int(match[1])] == lost if match else lost == []


def bar(begin: float, end: float, kind: Kind, client: int | None, returned: int | None = 9) -> Bar:
    waits = "a client" if returned is None else ""
    name = "sendto" if kind is SEND else "recvfrom"
    result = "?" if returned is None else str(returned)
    return Bar(Call(1, begin, end, name, "", result), begin, end, kind, client, waits)


def ask(begin: float, end: float, client: int | None) -> list[Bar]:
    """Return the bars of a command to Redis and of its reply."""
    command, reply = bar(begin, begin + 1, REDIS, client), bar(begin + 1, end, REDIS, client)
    command.call.name = "sendto"
    return [command, reply]


PARTS = [bar(0, 1, RECEIVE, 1), bar(2, 202, RECEIVE, 1)]
"""Client 1 sends the second half of its request about 200 ms after the first half."""
OTHERS = [bar(203, 204, RECEIVE, 2), bar(205, 206, RECEIVE, 3)]
CASES = {
    "Client 1 was silent for 202 ms, and 2 other clients waited for it, the longest for 197 ms.": [
        [*PARTS, *OTHERS]
    ],
    "Client 1 was silent for 202 ms, and 1 other client waited for it (197 ms).": [
        [*PARTS, OTHERS[0]],
        [OTHERS[1]],
    ],
    "Client 1 was silent for 202 ms, and no other client waited for it.": [PARTS, OTHERS],
    "Clients 1 and 2 were silent for up to 202 ms, and no other client waited for them.": [
        PARTS,
        [bar(1, 2, RECEIVE, 2), bar(3, 152, RECEIVE, 2)],
    ],
    "Client 1 was silent for 150 ms, and no other client waited for it.": [
        [bar(0, 1, RECEIVE, 1), bar(2, 150, RECEIVE, 1, None)]  # never returned
    ],
    "Client 1 read slowly for 300 ms, and 1 other client waited for it (100 ms).": [
        [bar(0, 1, SEND, 1), bar(200, 300, SEND, 1), bar(301, 302, RECEIVE, 2)]
    ],
    "Redis took 99 ms for a reply, and 1 client waited for the reply to another client (95 ms).": [
        [*ask(0, 100, 1), *ask(100, 105, 2)]
    ],
    "Client 2 was silent for 150 ms, and 1 other client waited for it (74 ms).": [
        [bar(0, 1, RECEIVE, 1), bar(80, 81, RECEIVE, 2), bar(82, 155, RECEIVE, 2)]  # 2 came late
    ],
    "The response to client 3 took 390 ms, and no other client waited for it.": [ask(0, 20, 1)],
}
"""Lanes of calls; client N connects after 5 N - 5 ms, and client 3 is the last to end."""


@pytest.mark.parametrize("words", CASES)
def test_it_is_computed_from_the_calls(words: str) -> None:
    """The timeline computes its sentence from calls, even if a loop blocks or a call never ends."""
    requests = [
        Request(
            number=n, port=n, what="", begin=5.0 * n - 5, end=[350, 360, 400][n - 1], answer="200"
        )
        for n in (1, 2, 3)
    ]
    lanes = [Lane(task, 0.0, 400.0, bars=bars) for task, bars in enumerate(CASES[words])]
    found = sentence(Recording("mine", "", "eight", 400.0, requests, lanes, []))
    assert found.replace("\N{NO-BREAK SPACE}", " ") == words


INSTALL = "npm install --prefix build/tools speedscope@1.25.0"
SPEEDSCOPE = ROOT / "build/tools/node_modules/speedscope/dist/release/index.html"
PERFETTO = Path(viztracer.__file__).with_name("web_dist")
"""The user interface of Perfetto 52, with its parser."""


def test_a_further_server_does_not_replace_the_page_of_the_seven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The timeline of another server has its own files, and replaces no file. 0.5 s."""
    every = make(None, "eight", tmp_path, recorded=True)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {every, for_viewers(every)} < before.keys()
    # speedscope would take a file `*.chrome.json` for a CPU profile.
    assert for_viewers(every).name == "eight.trace.json"
    known = command.server_names
    trace = kept(["epoll"], "eight")[0].model_copy(update={"server": "mine"})
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
    monkeypatch.setattr(command, "RECORDED", tmp_path)
    for name in ("epoll", "mine"):
        (tmp_path / f"eight-{name}.trace").write_text("# {}\n")
    command.keep(tmp_path, "eight", ["epoll", "poll"])
    assert [path.name for path in tmp_path.glob("*.gz")] == ["eight-epoll.trace.gz"]


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


PARSED = """async (queries) => {
    const texts = {};
    for (const [name, sql] of Object.entries(queries)) {
        texts[name] = [];
        const rows = (await app.trace.engine.query(sql)).iter({ text: "str" });
        for (; rows.valid(); rows.next()) texts[name].push(rows.text);
    }
    return texts;
}"""
CALLS = (
    "select thread.name || ' in ' || process.name || ': ' || slice.name as text from `slice`"
    " join thread_track on slice.track_id = thread_track.id join thread using (utid)"
    " join process using (upid)"
)
QUERIES = {
    "calls": CALLS,
    "nested": f"{CALLS} where slice.depth > 0",
    "arrows": "select printf('%d', id) as text from flow",
    "errors": "select name as text from stats where value > 0 and severity != 'info'",
}


@pytest.fixture(scope="module")
def perfetto(browser: Browser) -> Iterator[Page]:
    """Yield the page of Perfetto, which needs more time to start than to read a trace."""
    with served(PERFETTO) as url:
        page = browser.new_page()
        page.goto(url)
        yield page
        page.close()


@pytest.mark.browser
@pytest.mark.xdist_group("perfetto")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_perfetto_has_each_call_and_each_arrow(
    perfetto: Page, scenario: str, tmp_path: Path
) -> None:
    """Real Perfetto finds each call in its lane, and at least nine tenths of the arrows."""
    viewers = for_viewers(make(None, scenario, tmp_path, recorded=True))
    recordings = [*map(tell, kept(command.server_names(None), scenario))]
    perfetto.evaluate("window.before = window.app?.trace")
    perfetto.set_input_files("input.trace_file", viewers)
    perfetto.wait_for_function("window.app?.trace?.engine && app.trace !== window.before")
    found = perfetto.evaluate(PARSED, QUERIES)
    assert sorted(found["calls"]) == sorted(
        f"{lane.name} in {one.server}: {bar.call.name}"
        for one in recordings
        for lane in one.lanes
        for bar in lane.bars
    )
    assert found["nested"] == found["errors"] == []
    assert len(found["arrows"]) >= 0.9 * sum(len(one.arrows) for one in recordings)
