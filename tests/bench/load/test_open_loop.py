# SPDX-License-Identifier: MIT
"""oha's output, recorded from real runs, good and failed (recorded/), and of oha itself if
installed."""

import csv
from itertools import pairwise
from pathlib import Path

import pytest

from bench.host.signals import SignalWatch
from bench.load.open_loop import DATABASE, OHA, Times, command, latency_of, parse, requests_in
from bench.load.outcome import Load
from bench.records.figures import Latency

from ..measuring import broken_server

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"oha_{name}.json").read_text()


def test_good_run() -> None:
    figures, latency, body = parse(recorded("good"), 1000.0)
    assert (figures.sent, figures.succeeded, figures.errors) == (500, 500, {})
    assert (figures.status_codes, figures.rate_asked, body) == ({"200": 500}, 1000, 500 * 508)
    assert figures.rate_done == pytest.approx(500 / figures.seconds)
    assert latency.count == 500
    assert 1 < latency.p50 < latency.p99 <= latency.p999 <= latency.max, "in milliseconds"


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"summary": 3}'])
def test_what_is_no_report(text: str) -> None:
    assert parse(text, 1.0) == (None, None, None)


def test_a_report_cut_off_at_any_byte_is_no_crash() -> None:
    text = recorded("good").rstrip()
    for length in range(0, len(text), 7):
        assert parse(text[:length], 1.0) == (None, None, None)


def test_it_corrects_and_follows_nothing() -> None:
    words, kept = (
        command(Load("http://h/", 1000, 50, 20.0, rate=500.0, **more), Path())
        for more in ({}, {"keep_alive": True, "form": "a=b"})
    )
    assert {"--latency-correction", "--disable-keepalive"} < set(words)
    assert {("--redirect", "0"), ("-q", "500")} < set(pairwise(words))
    assert "--disable-keepalive" not in kept
    assert {("-d", "a=b"), ("--db-url", DATABASE)} < set(pairwise(kept))


def stalled() -> list[Times]:
    """Yield the requests of oha_stalled.json: 500 a second for 0.6 s, with the server stopped for
    0.2 s."""
    with (RECORDED / "oha_stalled.csv").open() as file:
        return [Times(*map(float, row.values())) for row in csv.DictReader(file)]


def test_both_latencies_come_from_the_same_requests() -> None:
    figures, corrected, _ = parse(recorded("stalled"), 500.0)
    rows = stalled()
    assert len(rows) == figures.succeeded == 300
    ours = latency_of([row.end - row.due for row in rows], corrected.source)
    assert ours == corrected, "from oha's database, as oha itself calculates it"
    uncorrected = latency_of([row.end - row.sent for row in rows], "")
    assert uncorrected.p90 < 3, "milliseconds: only ten connections were stuck"
    assert corrected.p90 > 100, "but all requests of that time were late"
    assert uncorrected.mean < corrected.mean / 5
    assert uncorrected.max <= corrected.max


def test_percentiles_of_few_and_of_none() -> None:
    assert latency_of([], "") is None
    same = dict.fromkeys(("p50", "p90", "p99", "p999", "max", "mean"), 250)
    assert latency_of([0.25], "x") == Latency(**same, count=1, source="x")


def test_a_database_that_is_none(tmp_path: Path) -> None:
    assert requests_in(tmp_path / "missing") == []
    (tmp_path / "text").write_text("no database")
    assert requests_in(tmp_path / "text") == []


@pytest.mark.skipif(OHA.version() is None, reason="oha is not installed")
def test_a_real_run() -> None:
    with broken_server("good") as url:
        done = OHA.run(Load(url, 200, 5, 60.0, rate=400.0), (), SignalWatch())
    assert done.status == 0
    assert done.message == "", "storing its results takes no time"
    assert str(Path("/tmp")) not in " ".join(done.command)
    assert done.latency is not None
    assert done.figures.succeeded == 200
    sent = done.figures.uncorrected
    assert sent.count == done.latency.count == 200
    assert sent.mean <= done.latency.mean
    assert sent.max <= done.latency.max
