# SPDX-License-Identifier: MIT
"""ab's output, recorded from real runs: good, failed and cut off (recorded/). Failed and
aborted runs are read in sweep/test_checks.py."""

from pathlib import Path

from bench.load.ab import parse_concurrency_ceiling, parse_percentile_file, parse_report
from bench.records.figures import AbFigures

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_good_run() -> None:
    figures = parse_report(recorded("good.txt"))
    percentiles = figures.percentiles_ms
    assert (len(percentiles), percentiles["50"], percentiles["100"]) == (9, 11, 20)
    assert figures == AbFigures(
        complete=2000,
        failed=0,
        concurrency=100,
        requests_per_second=8684.51,
        seconds=0.230,
        mean_ms=11.515,  # per request, not across all concurrent requests
        transferred_bytes=3_154_000,
        html_bytes=3_000_000,
        percentiles_ms=percentiles,
    )
    precise = parse_percentile_file(recorded("good.csv"))
    assert (len(precise), precise["99"], precise["100"]) == (101, 16.457, 20.263)


def test_a_report_cut_off_at_any_byte_is_no_crash() -> None:
    text = recorded("good.txt")
    for length in range(len(text)):
        figures = parse_report(text[:length])
        assert figures is None or figures.complete == 2000


def test_concurrency_ceiling() -> None:
    said = "ab: Invalid Concurrency [Range 0..20000]\nUsage: ab [options] ...\n"
    assert parse_concurrency_ceiling(said) == 20_000
    assert parse_concurrency_ceiling("ab: wrong number of arguments") is None
