# SPDX-License-Identifier: MIT
"""ab's output, recorded from real runs: good, failed and cut off (recorded/). The figures of runs
with failures are read in sweep/test_checks.py."""

from pathlib import Path

import pytest

from bench.load.ab import (
    abort_message,
    completed_before_abort,
    parse_concurrency_ceiling,
    parse_percentile_file,
    parse_report,
)

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_good_run() -> None:
    figures = parse_report(recorded("good.txt"))
    assert figures is not None
    assert (figures.complete, figures.failed, figures.non_2xx) == (2000, 0, 0)
    assert figures.concurrency == 100
    assert figures.requests_per_second == 8684.51
    assert figures.seconds == 0.230
    assert figures.mean_ms == 11.515, "per request, not across all concurrent requests"
    assert (figures.transferred_bytes, figures.html_bytes) == (3_154_000, 3_000_000)
    assert figures.percentiles_ms["50"] == 11
    assert figures.percentiles_ms["100"] == 20
    assert len(figures.percentiles_ms) == 9


def test_percentile_file_has_fractions_of_milliseconds() -> None:
    precise = parse_percentile_file(recorded("good.csv"))
    assert precise["99"] == 16.457
    assert precise["100"] == 20.263
    assert len(precise) == 101


@pytest.mark.parametrize(
    ("name", "message", "completed"),
    [
        ("reset", "apr_socket_recv: Connection reset by peer (104)", 998),
        ("died", "apr_socket_recv: Connection refused (111)", 1525),
        ("stalled", "apr_pollset_poll: The timeout specified has expired (70007)", 700),
        ("refused", "apr_socket_recv: Connection refused (111)", None),
        ("descriptors", "socket: Too many open files (24)", None),
    ],
)
def test_aborted_run(name: str, message: str, completed: int | None) -> None:
    assert parse_report(recorded(f"{name}.txt")) is None
    assert abort_message(recorded(f"{name}.err")) == message
    assert completed_before_abort(recorded(f"{name}.txt")) == completed


def test_a_report_cut_off_at_any_byte_is_no_crash() -> None:
    text = recorded("good.txt")
    for length in range(len(text)):
        figures = parse_report(text[:length])
        assert figures is None or figures.complete == 2000


def test_concurrency_ceiling() -> None:
    said = "ab: Invalid Concurrency [Range 0..20000]\nUsage: ab [options] ...\n"
    assert parse_concurrency_ceiling(said) == 20_000
    assert parse_concurrency_ceiling("ab: wrong number of arguments") is None
