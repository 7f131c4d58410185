# SPDX-License-Identifier: MIT
"""oha's output, recorded from real runs, good and failed (recorded/), and of oha itself if
installed."""

import csv
import sys
import time
from pathlib import Path

import pytest

from bench.host.process import Child
from bench.host.signals import SignalWatch
from bench.load.open_loop import Times, command, latency_of, parse, program, requests_in, run
from bench.load.outcome import Load
from bench.subjects.running import url_in

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"oha_{name}.json").read_text()


def url_of(server: Child) -> str:
    """Return its address after it has printed it."""
    deadline = time.monotonic() + 30
    while not (found := url_in(server.stdout)):
        assert server.running(), server.stderr
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_good_run() -> None:
    figures, latency, body = parse(recorded("good"), 1000.0)
    assert figures is not None
    assert (figures.sent, figures.succeeded, figures.errors) == (500, 500, {})
    assert figures.status_codes == {"200": 500}
    assert figures.rate_asked == 1000
    assert figures.rate_done == pytest.approx(500 / figures.seconds)
    assert body == 500 * 508
    assert latency is not None
    assert latency.count == 500
    assert 1 < latency.p50 < latency.p99 <= latency.p999 <= latency.max, "in milliseconds"


def test_a_server_that_died() -> None:
    figures, latency, _ = parse(recorded("died"), 1000.0)
    assert figures is not None
    assert figures.succeeded == 250
    assert figures.errors["Connection refused (os error 111)"] == 240
    assert latency is not None
    assert latency.count == 250, "of the answered requests"


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"summary": 3}'])
def test_what_is_no_report(text: str) -> None:
    assert parse(text, 1.0) == (None, None, None)


def test_a_report_cut_off_at_any_byte_is_no_crash() -> None:
    text = recorded("good").rstrip()
    for length in range(0, len(text), 7):
        assert parse(text[:length], 1.0) == (None, None, None)


def test_it_corrects_and_follows_nothing() -> None:
    database = Path("requests.sqlite")
    words = command(Load("http://h/", 1000, 50, 20.0, rate=500.0), database)
    assert "--latency-correction" in words
    assert "--disable-keepalive" in words
    assert words[words.index("--redirect") + 1] == "0"
    assert words[words.index("-q") + 1] == "500"
    kept = command(
        Load("http://h/", 1000, 50, 20.0, rate=500.0, keep_alive=True, form="a=b"), database
    )
    assert "--disable-keepalive" not in kept
    assert kept[kept.index("-d") + 1] == "a=b"


def stalled() -> list[Times]:
    """Yield the requests of oha_stalled.json: 500 a second for 0.6 s, with the server stopped for
    0.2 s."""
    with (RECORDED / "oha_stalled.csv").open() as file:
        return [Times(*map(float, row.values())) for row in csv.DictReader(file)]


def test_both_latencies_come_from_the_same_requests() -> None:
    figures, corrected, _ = parse(recorded("stalled"), 500.0)
    assert figures is not None
    assert corrected is not None
    rows = stalled()
    assert len(rows) == figures.succeeded == 300
    ours = latency_of([row.end - row.due for row in rows], corrected.source)
    assert ours == corrected, "from oha's database, as oha itself calculates it"
    uncorrected = latency_of([row.end - row.sent for row in rows], "")
    assert uncorrected is not None
    assert uncorrected.p90 < 3, "milliseconds: only ten connections were stuck"
    assert corrected.p90 > 100, "but all requests of that time were late"
    assert uncorrected.mean < corrected.mean / 5
    assert uncorrected.max <= corrected.max


def test_percentiles_of_few_and_of_none() -> None:
    assert latency_of([], "") is None
    single = latency_of([0.25], "x")
    assert single is not None
    assert (single.p50, single.p999, single.max, single.mean) == (250, 250, 250, 250)
    assert (single.count, single.source) == (1, "x")


def test_a_database_that_is_none(tmp_path: Path) -> None:
    assert requests_in(tmp_path / "missing") == []
    (tmp_path / "text").write_text("no database")
    assert requests_in(tmp_path / "text") == []


@pytest.mark.skipif(program() is None, reason="oha is not installed")
def test_a_real_run() -> None:
    script = Path(__file__).parents[1] / "broken_server.py"
    server = Child([sys.executable, str(script), "good", "0"])
    try:
        url = url_of(server)
        done = run(Load(url, 200, 5, 60.0, rate=400.0), (), SignalWatch())
    finally:
        server.end()
    assert done.status == 0
    assert done.message == "", "storing its results takes no time"
    assert str(Path("/tmp")) not in " ".join(done.command)
    assert done.figures is not None
    assert done.latency is not None
    assert done.figures.succeeded == 200
    sent = done.figures.uncorrected
    assert sent is not None
    assert sent.count == done.latency.count == 200
    assert sent.mean <= done.latency.mean
    assert sent.max <= done.latency.max
