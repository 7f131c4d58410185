# SPDX-License-Identifier: MIT
"""Whether a run is valid, from ab's recorded output and invented ends of servers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.load.ab import abort_message, completed_before_abort, parse_report
from bench.load.open_loop import parse
from bench.load.outcome import Outcome
from bench.load.running import IdleReport
from bench.records.conditions import Conditions
from bench.records.figures import LittlesLaw, ServerStatistics, WrkFigures
from bench.records.plan import RunSpec
from bench.services.balancer import BalancerEnd
from bench.sweep.checks import Evidence, check_count, first_failure, judge
from bench.sweep.evidence import little_tolerance

RECORDED = Path(__file__).parents[1] / "recorded"


def counted(**responses: int) -> ServerStatistics:
    """Return what a server has counted: counted(ok=9, _5xx=1)."""
    names = {name.strip("_").replace("ok", "2xx"): count for name, count in responses.items()}
    return ServerStatistics(requests=sum(names.values()), responses=names)


def evidence(name: str, status: int = 0, asked: int = 2000, **other: Any) -> Evidence:
    """Return what is known of a run whose output of ab was recorded."""
    report = (RECORDED / f"{name}.txt").read_text()
    figures = parse_report(report)
    ab = Outcome(
        tool="ab",
        command=["ab"],
        status=status,
        figures=figures,
        completed=figures.complete if figures else completed_before_abort(report),
        message=abort_message((RECORDED / f"{name}.err").read_text()),
        report=report,
    )
    known = {
        "probe_status": 200,
        "died": "",
        "stopped": "",
        "statistics": counted(ok=asked + 41),
        "load": ab,
        "least_requests": asked + 41,
    }
    return Evidence(asked, 20, **{**known, **other})


def by_ab(seen: Evidence, **figures: Any) -> Evidence:
    """Return the evidence with other figures of ab."""
    return replace(
        seen, load=replace(seen.load, figures=seen.load.figures.model_copy(update=figures))
    )


def good(**other: Any) -> Evidence:
    return evidence("good", **other)


def redirected(**other: Any) -> Evidence:
    """Return a run of 500 redirects. ab calls them and errors alike "non-2xx"."""
    return evidence("redirect", asked=500, **{"probe_status": 302, "silent": True, **other})


RESET = evidence("exceptions", asked=5000)
EACH = redirected().load.figures.transferred_bytes // 500
LAW = LittlesLaw(concurrency=100, rate=8000, mean_ms=20, product=160, deviation=0.6)


def law(**other: Any) -> Evidence:
    return good(little=LAW.model_copy(update=other), little_tolerance=(0.5, 0.2))


def oha(name: str, asked: int = 500, page: int = 508, **other: Any) -> Evidence:
    """Return what is known of a run of the open loop."""
    figures, body = parse((RECORDED / f"oha_{name}.json").read_text(), 1000.0)
    done = figures.succeeded if figures else None
    came = Outcome(tool="oha", status=0, figures=figures, completed=done, body_bytes=body)
    seen = replace(good(), load=replace(came, **other))
    return replace(seen, asked=asked, page_bytes=page)


WRK = WrkFigures(
    seconds=4.4,
    unasked=0,
    transferred_bytes=1_278_000,
    statuses={"302": 2000},
    lengths={"240": 2000},
    closes=100,
    errors={"connect": 0, "read": 0},
)
LONGER = WRK.model_copy(update={"lengths": {"240": 1995, "241": 5}})


def wrk(figures: WrkFigures | None = WRK, **other: Any) -> Evidence:
    """Return what is known of a run of wrk."""
    page = {name: other.pop(name) for name in ("page_bytes", "any_length") if name in other}
    done = figures.complete if figures else None
    came = Outcome(tool="wrk", figures=figures, completed=done, **({"status": 0} | other))
    known = {"page_bytes": 240, "keep_alive": True, **page}
    return replace(good(statistics=counted(_3xx=2041)), load=came, probe_status=302, **known)


def wrk_saw(**figures: Any) -> Evidence:
    return wrk(WRK.model_copy(update=figures))


def nginx(errors: int, status: int) -> Evidence:
    end = BalancerEnd(errors=errors, last_error="connect() failed", status=status)
    return good(balancer=end)


FAILED = [
    # ab's own words
    (evidence("reset", 104), "reset", "Connection reset by peer (104), 998 of 2,000 completed"),
    (evidence("died", 111), "refused", "Connection refused (111), 1,525 of 2,000 completed"),
    (evidence("stalled", 119), "stalled", "has expired (70007), 700 of 2,000 completed"),
    (evidence("refused", 111), "refused", "of 2,000 requests an unknown number completed"),
    (evidence("descriptors", 24), "descriptors", "socket: Too many open files (24)"),
    (evidence("length"), "40 failed", "40 of 2,000 requests failed (length 40)"),
    (evidence("dropped"), "2 failed", "2 of 2,000 requests failed (length 2)"),
    (evidence("non_2xx"), "34 other", "34 of 2,000 responses were not 2xx"),
    (evidence("interrupted"), "incomplete", "700 of 2,000 completed"),
    (RESET, "29 failed", "29 of 5,000 requests failed (length 21, exceptions 8)"),
    # what the kernel has lost, with its fix
    (replace(RESET, forgotten=1234), "29 failed", "no room for 1,234 connections in TIME_WAIT"),
    (replace(RESET, forgotten=1234), "29 failed", "-w net.ipv4.tcp_max_tw_buckets=600000)"),
    (replace(RESET, overflows=77), "29 failed", "met a full accept queue 77 times"),
    (replace(RESET, overflows=77), "29 failed", "fix: sudo sysctl -w net.core.somaxconn=65535)"),
    (replace(RESET, overflows=77, own_backlog=10), "29 failed", "own of 10 (--backlog))"),
    # what ab does not see
    (evidence("dropped_with_l", page_bytes=1500, any_length=True), "cut off", "2,997,000 bytes"),
    (good(page_bytes=1501), "cut off", "3,000,000 bytes were received, 3,002,000 expected"),
    (good(page_bytes=1499), "too long", ""),
    (good(keep_alive=True), "closes", "only 0 of 2,000 responses kept the connection"),
    (by_ab(good(keep_alive=True), keep_alive=1899), "closes", ""),
    # what comes before what ab said
    (
        evidence("died", 111, died="ended with status 3"),
        "died",
        "server ended with status 3, 1,525",
    ),
    (replace(good(), load=replace(good().load, command=["ab", "-r", "-n", "2000"])), "ab -r", ""),
    # redirects, and errors in their place
    (redirected(probe_status=200), "500 other", ""),
    (evidence("non_2xx", probe_status=302), "", "1,966 of 2,000 responses were not 3xx"),
    (by_ab(redirected(page_bytes=0), html_bytes=5100), "too long", "5,100 bytes were received, 0"),
    (
        by_ab(redirected(page_bytes=0, answer_bytes=EACH), transferred_bytes=EACH * 500 - 34),
        "other answers",
        f"{EACH * 500 - 34:,} bytes with all heads, not {EACH * 500:,}",
    ),
    # the server's own count
    (good(statistics=counted(ok=2040)), "", "the server counted 2,040 requests, it was sent 2,041"),
    (good(statistics=counted(ok=2042)), "miscount", ""),
    (good(statistics=counted(ok=2038, _5xx=3)), "", "3 x 5xx"),
    (good(statistics=None), "no statistics", ""),
    (good(stopped="ended with status 4"), "", "the server ended with status 4"),
    # Redis, Little's law, idle connections, nginx
    *(
        (
            good(counts=(check_count("visitors", count, 2000, most),)),
            "miscount",
            f"2,000 visitors expected, {count:,} counted",
        )
        for count, most in ((1999, 2000), (2001, 2000), (2101, 2100))
    ),
    (law(), "impossible", "8,000 requests/s of 20.0 ms each are 160.0 at once, not 100"),
    (law(product=40, deviation=-0.6), "too little load", ""),
    (good(idle=IdleReport(1000, 900, 3, 1000, 0)), "not idle", ""),
    (good(idle=IdleReport(1000, 1000, 50_000, 51_000, 50_000)), "", "connections 50,000 times"),
    (nginx(errors=2, status=0), "2 by nginx", "from a server for 2 requests (connect() failed)"),
    (nginx(errors=0, status=-9), "nginx ended", ""),
    # oha
    (oha("died"), "250 failed", "240 x Connection refused (os error 111)"),
    (oha("dropped"), "5 failed", "closed before message completed; 495 of 500 completed"),
    (oha("errors"), "5 other", "5 x 500 and not 200"),
    (oha("good", asked=501), "incomplete", "500 of 501 completed"),
    (oha("good", page=509), "cut off", "254,000 bytes were received, 254,500 expected"),
    (oha("good", timed_out=True, status=-15), "timed out", "20 s, 500 of 500 completed"),
    (oha("good", status=3), "oha failed", "oha ended with status 3, 500 of 500 completed"),
    (oha("good", status=1, message="Too many open files"), "descriptors", "files, 500 of 500"),
    # wrk
    (wrk_saw(statuses={"302": 1999}), "incomplete", "1,999 of 2,000 completed"),
    (wrk_saw(unasked=1), "1 too many", "1 more responses than requests"),
    (wrk_saw(errors={"connect": 0, "read": 7}), "7 failed", "errors: read 7; 2,000 of 2,000"),
    (wrk_saw(statuses={"302": 1990, "301": 10}), "10 other", "10 of 2,000 responses were not 302"),
    (wrk_saw(statuses={"408": 2100}), "2,100 other", "of 2,100 responses were not 302 but"),
    (wrk_saw(lengths={"240": 1995, "239": 5}), "other length", "5 of 2,000 bodies do not have"),
    (wrk(LONGER), "other length", "5 of 2,000 bodies do not have"),
    (wrk_saw(closes=101), "closes", "only 1,899 of 2,000 responses kept the connection"),
    (wrk(None), "no report", "of 2,000 requests an unknown number completed"),
]
"""What is known of a run, the label of its reason, and a part of the reason's text."""

VALID = {
    "good": good(),
    "connections forgotten": good(forgotten=9),
    "redirects": evidence("redirect", 0, 500, probe_status=302, statistics=counted(ok=0, _3xx=541)),
    "redirects without a page": redirected(page_bytes=0),
    "redirects of one length": redirected(page_bytes=0, answer_bytes=EACH),
    "length": good(page_bytes=1500),
    "length within the slack": good(page_bytes=1499, slack=2),
    "any length": good(page_bytes=1499, any_length=True),
    "count within the slack": good(statistics=counted(ok=2042), slack=1),
    "no count": good(statistics=None, silent=True),
    "visitors": good(counts=(check_count("visitors", 2000, 2000, 2000),)),
    "visitors within the slack": good(counts=(check_count("visitors", 2100, 2000, 2100),)),
    "visitors of others": good(counts=(check_count("visitors", 9999, 2000, None),)),
    "Little's law": law(product=95, deviation=-0.05),
    "kept": by_ab(good(keep_alive=True), keep_alive=1900),
    "idle": good(idle=IdleReport(1000, 1000, 100, 1000, 0)),
    "idle, with redirects": good(
        idle=IdleReport(1000, 980, 1000, 1000, 0), statistics=counted(ok=2000, _3xx=41)
    ),
    "nginx": nginx(errors=0, status=0),
    "oha": oha("good"),
    "wrk": wrk(),
    "wrk, any length": wrk(LONGER, any_length=True),
    "wrk, no length": wrk(LONGER, page_bytes=None),
}


@pytest.mark.parametrize(("seen", "label", "text"), FAILED, ids=range(len(FAILED)))
def test_a_failed_run_says_why(seen: Evidence, label: str, text: str) -> None:
    found = first_failure(judge(seen))
    assert found.label == (label or found.label)
    assert text in found.detail


@pytest.mark.parametrize("seen", VALID.values(), ids=VALID)
def test_a_valid_run(seen: Evidence) -> None:
    assert first_failure(judge(seen)) is None


def test_what_is_checked() -> None:
    assert [check.name for check in judge(good())] == [
        *("server alive", "in time", "ab's status", "ab without -r", "completed", "none failed"),
        *("all sent", "status class", "server's count"),
        *("server's classes", "server's end"),
    ]


def test_what_the_kernel_lost_is_named_only_where_it_may_be_the_cause() -> None:
    found = first_failure(judge(evidence("non_2xx", forgotten=9)))
    assert "TIME_WAIT" not in found.detail


def test_one_late_answer_leaves_the_others_done_before_the_end() -> None:
    spec = RunSpec("epoll", Conditions("small"), 20, 1, 600, 60.0)
    even, most = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.0)
    assert even < 0.6
    late, _ = little_tolerance(spec, wall=0.5, longest=0.4, foreign=0.0)
    assert late == 1.0, "the last four fifths of the run had one request"
    busy, above = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.9)
    assert busy == 1.0, "ab had the CPU for a tenth of the time"
    assert above == most, "more than all cannot be under way on any machine"
