# SPDX-License-Identifier: MIT
"""The output of wrk.lua is parsed, and a real server counts as many requests as wrk."""

import shutil
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.load import wrk
from bench.load.outcome import Load
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, server_subject

SAID = (Path(__file__).parents[1] / "recorded" / "wrk.txt").read_text()
"""Output for epoll, with a connection for each request."""


def test_what_it_says_is_read() -> None:
    figures, latency = wrk.parse(SAID)
    assert (figures.complete, figures.statuses) == (3000, {"302": 3000})
    assert figures.requests_per_second == pytest.approx(3000 / 4.405304)
    assert (latency.p50, latency.p999, latency.max) == (71.061, 742.039, 742.101)
    assert "correction" in latency.source


@pytest.mark.parametrize("text", ["", "unable to connect", "JSON {", "JSON"])
def test_where_it_says_nothing_there_are_no_figures(text: str) -> None:
    assert wrk.parse(text) == (None, None)


def test_its_command_line() -> None:
    words = wrk.command(Load("http://h/x", 500, 20, 3.0, keep_alive=False, form="a=b"), Path())
    assert words[:5] == ["wrk", "-t1", "-c", "20", "-d"]
    assert "Connection: close" in words
    assert words[-4:] == ["http://h/x", "--", "500", "a=b"]
    kept = Load("http://h/x", 500, 20, 3.0, keep_alive=True)
    assert "Connection: close" not in wrk.command(kept, Path())


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
@pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll")
@pytest.mark.parametrize("keep_alive", [False, True])
def test_it_asks_for_exactly_as_many(tmp_path: Path, keep_alive: bool) -> None:
    """wrk sends exactly as many requests as the server counts, and each gets a response."""
    watch = SignalWatch()
    server = server_subject("epoll", ROOT / "epoll")
    running = RunningServer(server, Place("redis://127.0.0.1:1", tmp_path), (), watch)
    try:
        load = Load(running.url + "redirect", 1234, 17, 60.0, keep_alive=keep_alive)
        done = wrk.WRK.run(load, (), watch)
    finally:
        ended = running.stop()
    assert done.status == 0
    assert done.figures.statuses == {"302": 1234}
    assert done.figures.closes == (0 if keep_alive else 1234)
    assert not any(done.figures.errors.values())
    assert ended.statistics.requests == 1234
