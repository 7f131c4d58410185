# SPDX-License-Identifier: MIT
"""ab's output, recorded from real runs: good, failed and cut off (recorded/)."""

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


def test_redirects_are_counted_as_non_2xx() -> None:
    figures = parse_report(recorded("redirect.txt"))
    assert figures is not None
    assert (figures.complete, figures.failed, figures.non_2xx) == (500, 0, 500)


@pytest.mark.parametrize(("name", "failed"), [("length", 40), ("dropped", 2)])
def test_failures_by_kind(name: str, failed: int) -> None:
    figures = parse_report(recorded(f"{name}.txt"))
    assert figures is not None
    assert figures.complete == 2000
    assert figures.failed == failed
    assert figures.failures == {"connect": 0, "receive": 0, "length": failed, "exceptions": 0}


def test_clients_that_were_reset_while_they_read() -> None:
    figures = parse_report(recorded("exceptions.txt"))
    assert figures is not None
    assert (figures.complete, figures.failed) == (5000, 29)
    assert figures.failures == {"connect": 0, "receive": 0, "length": 21, "exceptions": 8}


def test_the_option_l_hides_dropped_connections() -> None:
    """The option -l hides dropped connections, so ab.command does not use it: this run has no
    failure."""
    figures = parse_report(recorded("dropped_with_l.txt"))
    assert figures is not None
    assert figures.failed == 0
    assert figures.html_bytes == 1998 * 1500, "two of 2,000 pages of 1,500 bytes are missing"


def test_errors_of_the_server() -> None:
    figures = parse_report(recorded("non_2xx.txt"))
    assert figures is not None
    assert (figures.failed, figures.non_2xx) == (0, 34)


def test_interrupted_run_reports_what_was_done() -> None:
    figures = parse_report(recorded("interrupted.txt"))
    assert figures is not None
    assert figures.complete == 700


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
