# SPDX-License-Identifier: MIT
"""The timeline's reader and its picture of recorded traces; no privilege is needed."""

import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from bench.records.errors import UserError
from bench.timeline.command import RECORDED, kept, make
from bench.timeline.page import picture, picture_style
from bench.timeline.record import STRACE, Refused, require_tracing
from bench.timeline.recording import Kind, Recording
from bench.timeline.scenarios import SCENARIOS
from bench.timeline.strace import Source, TaskEnd, parse, today

REPOSITORY = Path(__file__).resolve().parents[3]
SERVERS = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")

PIECES = (REPOSITORY / "tests" / "bench" / "recorded" / "strace_pieces.txt").read_text()


@pytest.fixture(scope="module", params=SERVERS)
def told(request: pytest.FixtureRequest) -> Recording:
    """Return the picture of each server's recorded trace."""
    return picture(kept([request.param], "eight")[0])


def test_pieces_of_a_call_are_put_together() -> None:
    accept, futex, receive, unfinished, ended = parse(PIECES)
    assert (accept.task, accept.name, accept.returned) == (7, "accept4", 6)
    assert accept.end == pytest.approx(1795000000.2491)
    (place,) = accept.stack
    assert (place.file, place.line, place.function) == ("01_iterative/main.c", 54, "main")
    assert (futex.returned, unfinished.end) == (None, None)
    assert (receive.returned, receive.error) == (-1, "EAGAIN")
    assert ended == TaskEnd(7, 1795000000.29, "exited with 0")


def test_every_request_is_accepted_received_sent_and_closed(told: Recording) -> None:
    bars = [bar for lane in told.lanes for bar in lane.bars]
    for request in told.requests:
        assert request.answer.startswith("200"), request
        kinds = {bar.kind for bar in bars if bar.request == request.number}
        assert {Kind.ACCEPT, Kind.RECEIVE, Kind.SEND, Kind.CLOSE} <= kinds, request


def test_the_slow_client_delays_nobody_but_in_01(told: Recording) -> None:
    """The slow client delays only 01, as the book says. Traces of a busy machine do not show it."""
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
"""The number of tasks, and what leads from one to another."""
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
    [("poll", "poll(", "ppoll("), ("epoll", "epoll_wait(", "epoll_pwait(")],
)
def test_a_loop_is_one_where_linux_has_only_the_newer_call(
    server: str, call: str, newer: str
) -> None:
    """An event loop is detected on ARM, where Linux has only the newer call."""
    [text] = kept([server], "eight")
    assert f" {call}" in text
    usual, told = (
        [(bar.kind, bar.request, bar.waits_for) for bar in picture(one).lanes[0].bars]
        for one in (text, text.replace(f" {call}", f" {newer}"))
    )
    assert told == usual


def test_bars_lie_in_their_lane_and_lead_to_a_line(told: Recording) -> None:
    with_stack = 0
    for lane in told.lanes:
        for bar in lane.bars:
            assert 0 <= bar.begin <= bar.end <= told.length
            with_stack += bool(bar.stack)
            for file, line, _ in bar.stack:
                assert line > 0
                assert (REPOSITORY / file).exists()
    assert with_stack > 0.8 * sum(len(lane.bars) for lane in told.lanes)


@pytest.mark.parametrize("text", ["", "7 1.0 accept4() = 3\n", "# no json\n"])
def test_a_file_that_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        picture(text)


def test_a_call_leads_to_its_line_after_the_source_has_changed() -> None:
    recorded = Source("lib/net/some.c", 2, "receive", "recv(a);")
    assert today(recorded, ["x", "    recv(a);", "y", "recv(a);"]) == recorded
    assert today(recorded, ["x", "new", "new", "  recv(a);"]) == replace(recorded, line=4)
    assert today(recorded, ["x", "recv(b);"]) is None
    call = parse("7 1.0 close(3) = 0 <0.1>\n > lib/net/some.c:2 receive| recv(a);\n")[0]
    assert call.stack == [recorded]


def test_a_server_named_by_its_folder_is_traced(tmp_path: Path) -> None:
    try:
        require_tracing(STRACE)
    except Refused as refused:
        pytest.skip(str(refused))
    page = make(["07_epoll"], "silent", tmp_path)
    assert "recorded" not in page.read_text().partition("</header>")[0]
    told = picture((tmp_path / "silent-epoll.trace").read_text())
    assert told.server == "epoll"
    assert [request.answer for request in told.requests] == ["200 OK"] * 8
    assert all(request.end - request.begin >= 400 for request in told.requests[:3])
    kinds = {bar.kind for bar in told.lanes[0].bars}
    assert {Kind.ACCEPT, Kind.RECEIVE, Kind.REDIS, Kind.SEND, Kind.WATCH} <= kinds


def test_where_nobody_may_be_traced_recorded_ones_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    page = make(["epoll"], "eight", tmp_path)
    assert "strace is not installed" in page.read_text()
    assert "Showing recorded traces instead" in capsys.readouterr().err


@pytest.mark.parametrize("server", ["forking", "preforking"])
def test_who_is_killed_does_nothing_more_and_loses_one_answer(server: str) -> None:
    told = picture(kept([server], "child-killed")[0])
    killed = [lane for lane in told.lanes if lane.ended == "killed by SIGKILL"]
    assert len(killed) == 1
    assert all(bar.end <= killed[0].end for bar in killed[0].bars)
    assert [r.answer for r in told.requests].count("closed without an answer") == 1
    kind = "worker" if server == "preforking" else "child"
    assert all(lane.name.startswith(kind) for lane in told.lanes[1:])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_recorded_for_all_seven(scenario: str) -> None:
    assert [picture(text).server for text in kept(SERVERS, scenario)] == list(SERVERS)
    assert sum(path.stat().st_size for path in RECORDED.glob("*.trace.gz")) < 400_000


SEEN = {
    "by most": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "without red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "without blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
"""How an eye without one kind of cones sees red, green and blue light: Machado and others, 2009."""
TOLD_APART = 15
"""A distance in CIELAB. The nearest two colours of the usual palette for colour-blind people are 16
apart."""


def lab(colour: str, eyes: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Return a colour in CIELAB as a viewer with a colour deficiency sees it."""
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
def test_clients_are_told_apart_by_colour_blind_people(eyes: str, scheme: str) -> None:
    light, dark = (
        dict(re.findall(r"--(c\d|sleep): (#\w{6})", part))
        for part in picture_style().split("prefers-color-scheme: dark")
    )
    colours = light if scheme == "light" else light | dark
    assert len(colours) == 10
    for (one, seen), (other, also) in combinations(colours.items(), 2):
        far = math.dist(lab(seen, SEEN[eyes]), lab(also, SEEN[eyes]))
        assert far >= TOLD_APART, f"{one} and {other} are {far:.0f} apart"
