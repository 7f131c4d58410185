# SPDX-License-Identifier: MIT
"""Whether a run is valid, from ab's recorded output and invented ends of servers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.load.ab import AbOutcome, abort_message, completed_before_abort, parse_report
from bench.load.idle import IdleReport
from bench.load.open_loop import OpenOutcome, parse
from bench.load.wrk import WrkOutcome
from bench.records.conditions import Conditions
from bench.records.figures import LittlesLaw, ServerStatistics, WrkFigures
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
    assert detail.endswith("fix: sudo sysctl -w net.ipv4.tcp_max_tw_buckets=600000)")
    detail = failure(replace(reset, overflows=77)).detail
    assert "met a full accept queue 77 times" in detail
    assert detail.endswith("fix: sudo sysctl -w net.core.somaxconn=65535)")
    detail = failure(replace(reset, overflows=77, own_backlog=10)).detail
    assert detail.endswith("fix: a larger backlog than the server's own of 10 (--backlog))")
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
    """An error with a page is not counted as a redirect without one. ab calls both "non-2xx", and a
    reference server does not print what it answered."""
    seen = replace(evidence(outcome("redirect"), asked=500), probe_status=302, silent=True)
    assert seen.ab
    assert seen.ab.figures
    seen = replace(seen, page_bytes=0)
    assert first_failure(judge(seen)) is None
    figures = seen.ab.figures.model_copy(update={"html_bytes": 34 * 150})
    found = failure(replace(seen, ab=replace(seen.ab, figures=figures)))
    assert (found.label, found.detail) == ("too long", "5,100 bytes came, 0 were due")


def test_errors_without_a_page_are_no_redirects_either() -> None:
    seen = replace(evidence(outcome("redirect"), asked=500), probe_status=302, silent=True)
    assert seen.ab
    assert seen.ab.figures
    each = seen.ab.figures.transferred_bytes // 500
    seen = replace(seen, page_bytes=0, answer_bytes=each)
    assert first_failure(judge(seen)) is None
    came = each * 500 - 34
    figures = seen.ab.figures.model_copy(update={"transferred_bytes": came})
    found = failure(replace(seen, ab=replace(seen.ab, figures=figures)))
    assert found.label == "other answers"
    assert found.detail.startswith(f"{came:,} bytes came with all heads, {each * 500:,} were due")


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
    assert found.detail == "8,000 requests/s of 20.0 ms each are 160.0 at once, not 100"
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
    assert seen.ab
    assert seen.ab.figures
    seen.ab.figures.keep_alive = 1899
    assert failure(seen).label == "closes"
    seen.ab.figures.keep_alive = 1900
    assert first_failure(judge(seen)) is None


def test_idle_connections_must_still_be_there() -> None:
    seen = replace(evidence(outcome("good")), idle=IdleReport(1000, 900, 3, 1000, 0))
    assert failure(seen).label == "not idle"
    assert first_failure(judge(replace(seen, idle=IdleReport(1000, 1000, 100, 1000, 0)))) is None
    own = ServerStatistics(requests=2041, responses={"2xx": 2000, "3xx": 41})
    fine = replace(seen, idle=IdleReport(1000, 980, 1000, 1000, 0), statistics=own)
    assert first_failure(judge(fine)) is None, "their requests are for a redirect"
    stream = replace(seen, idle=IdleReport(1000, 1000, 50_000, 51_000, 50_000))
    assert "closed idle connections 50,000 times" in failure(stream).detail


def open_loop(name: str, asked: int = 500) -> Evidence:
    figures, latency, body = parse((RECORDED / f"oha_{name}.json").read_text(), 1000.0)
    came = OpenOutcome(status=0, figures=figures, latency=latency, body_bytes=body)
    seen = replace(evidence(outcome("good")), ab=None, open_loop=came)
    return replace(seen, asked=asked, page_bytes=508)


@pytest.mark.parametrize(
    ("name", "label", "text"),
    [
        ("died", "250 failed", "240 x Connection refused (os error 111)"),
        ("dropped", "5 failed", "closed before message completed; 495 of 500 completed"),
        ("errors", "5 other", "5 x 500 and not 200"),
    ],
)
def test_what_went_wrong_in_the_open_loop(name: str, label: str, text: str) -> None:
    found = failure(open_loop(name))
    assert found.label == label
    assert text in found.detail


def test_the_open_loop_holds_where_all_of_it_came() -> None:
    good = open_loop("good")
    assert good.open_loop
    assert first_failure(judge(good)) is None
    assert failure(replace(good, asked=501)).detail == "500 of 501 completed"
    cut, long = failure(replace(good, page_bytes=509)), failure(replace(good, page_bytes=507))
    assert (cut.label, long.label) == ("cut off", "too long")
    assert cut.detail == "254,000 bytes came, 254,500 were due"
    assert first_failure(judge(replace(good, page_bytes=507, any_length=True))) is None
    assert failure(replace(good, page_bytes=509, any_length=True)).label == "cut off"
    all_of_them, no_more = "500 of 500 completed", "Too many open files"
    unknown = "of 500 requests an unknown number completed"
    for other, label, detail in (
        ({"timed_out": True, "status": -15}, "timed out", f"not done after 20 s, {all_of_them}"),
        ({"status": 3}, "oha failed", f"oha ended with status 3, {all_of_them}"),
        ({"status": 1, "message": no_more}, "descriptors", f"{no_more}, {all_of_them}"),
        ({"figures": None}, "no report", f"oha wrote no report, {unknown}"),
    ):
        found = failure(replace(good, open_loop=replace(good.open_loop, **other)))
        assert (found.label, found.detail) == (label, detail)


def by_wrk(figures: WrkFigures | None, **other: Any) -> Evidence:
    came = WrkOutcome(figures=figures, **({"status": 0} | other))
    own = ServerStatistics(requests=2041, responses={"3xx": 2041})
    seen = replace(evidence(outcome("good")), ab=None, wrk=came, statistics=own)
    return replace(seen, probe_status=302, page_bytes=240, keep_alive=True)


WRK = WrkFigures(
    seconds=4.4,
    unasked=0,
    transferred_bytes=1_278_000,
    statuses={"302": 2000},
    lengths={"240": 2000},
    closes=100,
    errors={"connect": 0, "read": 0},
)


@pytest.mark.parametrize(
    ("other", "label", "text"),
    [
        ({"statuses": {"302": 1999}}, "incomplete", "1,999 of 2,000 completed"),
        ({"unasked": 1}, "1 too many", "1 more answers than requests came"),
        ({"errors": {"connect": 0, "read": 7}}, "7 failed", "errors: read 7; 2,000 of 2,000"),
        (
            {"statuses": {"302": 1990, "301": 10}},
            "10 other",
            "10 of 2,000 responses were not 302 but 301",
        ),
        ({"statuses": {"408": 2100}}, "2,100 other", "2,100 of 2,100 responses were not 302 but"),
        ({"lengths": {"240": 1995, "239": 5}}, "other length", "5 of 2,000 bodies do not have"),
        ({"lengths": {"240": 1995, "241": 5}}, "other length", "5 of 2,000 bodies do not have"),
        ({"closes": 101}, "closes", "only 1,899 of 2,000 responses kept the connection"),
    ],
)
def test_all_that_wrk_has_noticed_counts(other: dict[str, Any], label: str, text: str) -> None:
    found = failure(by_wrk(WRK.model_copy(update=other)))
    assert found.label == label
    assert text in found.detail


def test_wrk_holds_where_all_of_it_came() -> None:
    assert first_failure(judge(by_wrk(WRK))) is None
    longer = WRK.model_copy(update={"lengths": {"240": 1995, "241": 5}})
    assert first_failure(judge(replace(by_wrk(longer), any_length=True))) is None
    assert first_failure(judge(replace(by_wrk(longer), page_bytes=None))) is None
    late = failure(by_wrk(WRK, timed_out=True, status=-15))
    assert late.detail == "not done after 20 s, 2,000 of 2,000 completed"
    ended = failure(by_wrk(None, status=1))
    assert ended.label == "wrk failed"
    assert ended.detail.startswith("wrk ended with status 1, of 2,000 requests an unknown")
    assert failure(by_wrk(None)).label == "no report"


def test_hidden_errors_are_no_success() -> None:
    """Hidden errors make a run invalid: with -r ab exits with 0 after any error."""
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
    assert found.detail == "nginx got no answer from a server for 2 requests (connect() failed)"
    ended = BalancerEnd(errors=0, last_error="", status=-9)
    assert failure(replace(seen, balancer=ended)).name == "nginx' end"
    fine = BalancerEnd(errors=0, last_error="", status=0)
    assert first_failure(judge(replace(seen, balancer=fine))) is None
