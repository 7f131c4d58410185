# SPDX-License-Identifier: MIT
"""Whether a run is a figure, on ab's recorded output and made-up ends of servers."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.load.ab import AbOutcome
from bench.load.ab_output import abort_message, completed_before_abort, parse_report
from bench.load.idle import IdleReport
from bench.records.conditions import Conditions
from bench.records.figures import LittlesLaw, ServerStatistics
from bench.records.plan import RunSpec
from bench.records.run import Check
from bench.services.balancer import BalancerEnd
from bench.sweep.checks import Count, Evidence, first_failure, judge
from bench.sweep.evidence import little_tolerance

RECORDED = Path(__file__).parents[1] / "recorded"


def outcome(name: str, status: int = 0, timed_out: bool = False) -> AbOutcome:
    report = (RECORDED / f"{name}.txt").read_text()
    figures = parse_report(report)
    return AbOutcome(
        command=["ab"],
        status=status,
        timed_out=timed_out,
        figures=figures,
        completed=figures.complete if figures else completed_before_abort(report),
        message=abort_message((RECORDED / f"{name}.err").read_text()),
        report=report,
    )


def evidence(ab: AbOutcome, asked: int = 2000) -> Evidence:
    own = ServerStatistics(requests=asked + 41, responses={"2xx": asked + 41, "4xx": 0, "5xx": 0})
    return Evidence(
        asked, 20, 200, died="", stopped="", statistics=own, ab=ab, least_requests=asked + 41
    )


def failure(seen: Evidence) -> Check:
    found = first_failure(judge(seen))
    assert found is not None
    return found


def test_good_run_holds() -> None:
    checks = judge(evidence(outcome("good")))
    assert first_failure(checks) is None
    assert [check.name for check in checks] == [
        *("server alive", "in time", "ab's status", "ab without -r", "completed", "none failed"),
        *("all sent", "status class", "server's count"),
        *("server's classes", "server's end"),
    ]


@pytest.mark.parametrize(
    ("name", "status", "label", "text"),
    [
        ("reset", 104, "reset", "Connection reset by peer (104), 998 of 2,000 completed"),
        ("died", 111, "refused", "Connection refused (111), 1,525 of 2,000 completed"),
        ("stalled", 119, "stalled", "has expired (70007), 700 of 2,000 completed"),
        ("refused", 111, "refused", "of 2,000 requests an unknown number completed"),
        ("descriptors", 24, "descriptors", "socket: Too many open files (24)"),
        ("length", 0, "40 failed", "40 of 2,000 requests failed (length 40)"),
        ("dropped", 0, "2 failed", "2 of 2,000 requests failed (length 2)"),
        ("non_2xx", 0, "34 other", "34 of 2,000 responses were not 2xx"),
        ("interrupted", 0, "incomplete", "700 of 2,000 completed"),
    ],
)
def test_failed_run_says_why(name: str, status: int, label: str, text: str) -> None:
    found = failure(evidence(outcome(name, status)))
    assert found.label == label
    assert text in found.detail


def test_what_the_kernel_lost_is_named_where_it_may_be_the_cause() -> None:
    reset = evidence(outcome("exceptions"), asked=5000)
    assert failure(reset).detail == "29 of 5,000 requests failed (length 21, exceptions 8)"
    detail = failure(replace(reset, forgotten=1234)).detail
    assert "no room for 1,234 connections in TIME_WAIT" in detail
    assert detail.endswith("cure: sudo sysctl -w net.ipv4.tcp_max_tw_buckets=600000)")
    detail = failure(replace(reset, overflows=77)).detail
    assert "met a full accept queue 77 times" in detail
    assert detail.endswith("cure: sudo sysctl -w net.core.somaxconn=65535)")
    detail = failure(replace(reset, overflows=77, own_backlog=10)).detail
    assert detail.endswith("cure: a larger backlog than the server's own of 10 (--backlog))")
    assert "TIME_WAIT" not in failure(replace(evidence(outcome("non_2xx")), forgotten=9)).detail
    assert first_failure(judge(replace(evidence(outcome("good")), forgotten=9))) is None


def test_dropped_responses_are_found_where_ab_hides_them() -> None:
    seen = replace(evidence(outcome("dropped_with_l")), page_bytes=1500, any_length=True)
    assert failure(seen).detail == "2,997,000 bytes came, at least 3,000,000 were due"


def test_our_own_timeout_comes_before_what_ab_said_when_ended() -> None:
    found = failure(evidence(outcome("interrupted", status=1, timed_out=True)))
    assert found.label == "timed out"
    assert found.detail == "not done after 20 s, 700 of 2,000 completed"


def test_a_dead_server_comes_first() -> None:
    seen = replace(evidence(outcome("died", 111)), died="ended with status 3")
    assert failure(seen).detail == "the server ended with status 3, 1,525 of 2,000 completed"


def test_redirects_are_right_where_the_probe_was_redirected() -> None:
    own = ServerStatistics(requests=541, responses={"2xx": 0, "3xx": 541})
    seen = replace(evidence(outcome("redirect"), asked=500), probe_status=302, statistics=own)
    assert first_failure(judge(seen)) is None
    assert failure(replace(seen, probe_status=200)).label == "500 other"


def test_errors_with_a_page_are_no_redirects_without_one() -> None:
    """ab calls both "non-2xx", and a stranger does not say what it answered."""
    seen = replace(evidence(outcome("redirect"), asked=500), probe_status=302, silent=True)
    assert seen.ab
    assert seen.ab.figures
    seen = replace(seen, page_bytes=0)
    assert first_failure(judge(seen)) is None
    figures = seen.ab.figures.model_copy(update={"html_bytes": 34 * 150})
    found = failure(replace(seen, ab=replace(seen.ab, figures=figures)))
    assert (found.label, found.detail) == ("too long", "5,100 bytes came, 0 were due")


def test_fewer_redirects_than_requests_are_found() -> None:
    seen = replace(evidence(outcome("non_2xx")), probe_status=302)
    assert failure(seen).detail == "1,966 of 2,000 responses were not 3xx"


def test_the_bytes_of_all_pages_are_those_of_the_first() -> None:
    good = evidence(outcome("good"))
    assert first_failure(judge(replace(good, page_bytes=1500))) is None
    cut = failure(replace(good, page_bytes=1501))
    assert (cut.label, cut.detail) == ("cut off", "3,000,000 bytes came, 3,002,000 were due")
    assert failure(replace(good, page_bytes=1499)).label == "too long"
    assert first_failure(judge(replace(good, page_bytes=1499, slack=2))) is None


def test_the_servers_own_count_is_held_against_abs() -> None:
    good = evidence(outcome("good"))
    few = ServerStatistics(requests=2040, responses={"2xx": 2040})
    said = "the server counted 2,040 requests, it was sent 2,041"
    assert failure(replace(good, statistics=few)).detail == said
    many = ServerStatistics(requests=2042, responses={"2xx": 2042})
    assert failure(replace(good, statistics=many)).label == "miscount"
    assert first_failure(judge(replace(good, statistics=many, slack=1))) is None
    bad = ServerStatistics(requests=2041, responses={"2xx": 2038, "5xx": 3})
    assert "3 x 5xx" in failure(replace(good, statistics=bad)).detail
    assert failure(replace(good, statistics=None)).label == "no statistics"
    assert first_failure(judge(replace(good, statistics=None, silent=True))) is None


@pytest.mark.parametrize(
    ("count", "holds"),
    [
        (Count("c", "visitors", 2000, 2000), True),
        (Count("c", "visitors", 2000, 1999), False),
        (Count("c", "visitors", 2000, 2001), False),
        (Count("c", "visitors", 2000, 2100, slack=100), True),
        (Count("c", "visitors", 2000, 2101, slack=100), False),
        (Count("c", "visitors", 2000, 9999, or_more=True), True),
    ],
)
def test_redis_must_have_counted_what_was_served(count: Count, holds: bool) -> None:
    found = first_failure(judge(replace(evidence(outcome("good")), counts=(count,))))
    assert (found is None) == holds
    if found:
        assert found.detail == f"2,000 visitors were due, {count.got:,} were counted"


def test_littles_law() -> None:
    law = LittlesLaw(concurrency=100, rate=8000, mean_ms=20, product=160, deviation=0.6)
    seen = replace(evidence(outcome("good")), little=law, little_tolerance=(0.5, 0.2))
    found = failure(seen)
    assert found.label == "impossible"
    assert found.detail == "8,000 requests/s of 20.0 ms each are 160.0 at once, and not 100"
    lazy = law.model_copy(update={"product": 40, "deviation": -0.6})
    assert failure(replace(seen, little=lazy)).label == "too little load"
    fine = law.model_copy(update={"product": 95, "deviation": -0.05})
    assert first_failure(judge(replace(seen, little=fine))) is None


def test_one_late_answer_leaves_the_others_done_before_the_end() -> None:
    spec = RunSpec("epoll", Conditions("small"), 20, 1, 600, 60.0)
    even, most = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.0)
    assert even < 0.6
    late, _ = little_tolerance(spec, wall=0.5, longest=0.4, foreign=0.0)
    assert late == 1.0, "the last four fifths of the run had one request"
    busy, above = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.9)
    assert busy == 1.0, "ab had the CPU for a tenth of the time"
    assert above == most, "more than all cannot be under way on any machine"


def test_a_server_that_keeps_no_connection_has_no_keep_alive_figure() -> None:
    seen = replace(evidence(outcome("good")), keep_alive=True)
    assert failure(seen).detail == "only 0 of 2,000 responses kept the connection"


def test_idle_connections_must_still_be_there() -> None:
    seen = replace(evidence(outcome("good")), idle=IdleReport(1000, 900, 3, 1000, 0))
    assert failure(seen).label == "not idle"
    assert first_failure(judge(replace(seen, idle=IdleReport(1000, 1000, 100, 1000, 0)))) is None
    stream = replace(seen, idle=IdleReport(1000, 1000, 50_000, 51_000, 50_000))
    assert "closed idle connections 50,000 times" in failure(stream).detail


def test_hidden_errors_are_no_success() -> None:
    """With -r ab ends well whatever has happened."""
    hidden = replace(outcome("good"), command=["ab", "-r", "-n", "2000"])
    assert failure(evidence(hidden)).label == "ab -r"


def test_a_bad_end_after_a_good_run() -> None:
    seen = replace(evidence(outcome("good")), stopped="ended with status 4")
    assert failure(seen).detail == "the server ended with status 4"


def test_what_nginx_answers_by_itself_is_no_answer() -> None:
    seen = replace(
        evidence(outcome("good")),
        balancer=BalancerEnd(errors=2, last_error="connect() failed", status=0),
    )
    found = failure(seen)
    assert found.label == "2 by nginx"
    assert found.detail == "nginx had no answer of a server for 2 requests (connect() failed)"
    ended = BalancerEnd(errors=0, last_error="", status=-9)
    assert failure(replace(seen, balancer=ended)).name == "nginx' end"
    fine = BalancerEnd(errors=0, last_error="", status=0)
    assert first_failure(judge(replace(seen, balancer=fine))) is None
