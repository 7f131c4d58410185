"""oha's output: recorded from real runs, good and failed (recorded/)."""

from pathlib import Path

import pytest

from bench.open_loop import OpenLoad, command, parse

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"oha_{name}.json").read_text()


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


def test_connections_that_were_dropped_are_errors() -> None:
    figures, _, _ = parse(recorded("dropped"), 1000.0)
    assert figures is not None
    assert figures.errors == {"connection closed before message completed": 500 - figures.succeeded}
    assert figures.succeeded < 500


def test_a_server_that_died() -> None:
    figures, latency, _ = parse(recorded("died"), 1000.0)
    assert figures is not None
    assert figures.succeeded == 250
    assert figures.errors["Connection refused (os error 111)"] == 240
    assert latency is not None
    assert latency.count == 250, "of those that were answered"


def test_other_statuses() -> None:
    figures, _, _ = parse(recorded("errors"), 1000.0)
    assert figures is not None
    assert figures.status_codes == {"200": 495, "500": 5}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"summary": 3}'])
def test_what_is_no_report(text: str) -> None:
    assert parse(text, 1.0) == (None, None, None)


def test_a_report_cut_off_at_any_byte_is_no_crash() -> None:
    text = recorded("good").rstrip()
    for length in range(0, len(text), 7):
        assert parse(text[:length], 1.0) == (None, None, None)


def test_it_corrects_and_follows_nothing() -> None:
    words = command(OpenLoad("http://h/", 500.0, 1000, 50, 20.0))
    assert "--latency-correction" in words
    assert "--disable-keepalive" in words
    assert words[words.index("--redirect") + 1] == "0"
    assert words[words.index("-q") + 1] == "500"
    kept = command(OpenLoad("http://h/", 500.0, 1000, 50, 20.0, keep_alive=True, form="a=b"))
    assert "--disable-keepalive" not in kept
    assert kept[kept.index("-d") + 1] == "a=b"
