# SPDX-License-Identifier: MIT
"""The sweep decides whether a load is valid, here with recorded output of ab and oha and invented
figures of wrk. It decides whether a run is valid, here with invented counts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.host.kernel import TcpCounters
from bench.host.machine import HostCount
from bench.load.generators import AB, OHA
from bench.load.running import IdleReport, Load, Outcome
from bench.records.conditions import Conditions, RunSpec
from bench.records.figures import LittlesLaw, Run, ServerStatistics, WrkFigures
from bench.services.balancer import BalancerEnd
from bench.stations.footprint import Stopped
from bench.subjects.running import Ended
from bench.sweep.checks import Asked, asked, first_failure, judge, little_tolerance, load_checks
from bench.sweep.run_figures import Evidence

from .test_run_figures import OUTCOME, REQUESTS, USUAL, entered, evidence_of, seen, use

RECORDED = Path(__file__).parents[1] / "recorded"
LOAD, NOWHERE = Load("", 1, 1, 20.0, rate=1000.0), Path("/nowhere")

Made = tuple[Asked, Outcome]
"""A load and its outcome."""


def recorded(
    name: str, status: int = 0, requests: int = 2000, first: int = 200, **asked: Any
) -> Made:
    """Return a load with output of ab, its exit `status`, and the `first` response's status."""
    report, errors = ((RECORDED / f"{name}.{kind}").read_text() for kind in ("txt", "err"))
    ran = Outcome(tool="ab", command=["ab"], status=status, message=errors, report=report)
    return Asked(requests, 20, first, **({"body_bytes": 1500} | asked)), AB.read(ran, LOAD, NOWHERE)


def by_ab(made: Made, **figures: Any) -> Made:
    asked, ran = made
    return asked, replace(ran, figures=ran.figures.model_copy(update=figures))


def good(**asked: Any) -> Made:
    return recorded("good", **asked)


def redirected(first: int = 302, **asked: Any) -> Made:
    """Return a load of 500 redirects, which ab counts as "non-2xx" like errors."""
    return recorded("redirect", 0, 500, first, body_bytes=0, **asked)


EACH = redirected()[1].figures.transferred_bytes // 500


def oha(name: str, requests: int = 500, page: int = 508, **other: Any) -> Made:
    ran = Outcome(tool="oha", status=0, report=(RECORDED / f"oha_{name}.json").read_text())
    return Asked(requests, 20, 200, page), replace(OHA.read(ran, LOAD, NOWHERE), **other)


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


def wrk(figures: WrkFigures | None = WRK, any_length: bool = False, **other: Any) -> Made:
    done = figures.complete if figures else None
    came = Outcome(tool="wrk", figures=figures, completed=done, **({"status": 0} | other))
    return Asked(2000, 20, 302, 240, any_length=any_length, keep_alive=True), came


def wrk_saw(**figures: Any) -> Made:
    return wrk(WRK.model_copy(update=figures))


INTERRUPTED, EXCEPTIONS = recorded("interrupted"), recorded("exceptions", requests=5000)
TIMED_OUT = INTERRUPTED[0], replace(INTERRUPTED[1], status=1, timed_out=True)
FAILED = [
    # ab's own words
    (recorded("reset", 104), "reset", "Connection reset by peer (104), 998 of 2,000 completed"),
    (recorded("died", 111), "refused", "Connection refused (111), 1,525 of 2,000 completed"),
    (recorded("stalled", 119), "stalled", "has expired (70007), 700 of 2,000 completed"),
    (recorded("refused", 111), "refused", "of 2,000 requests an unknown number completed"),
    (recorded("descriptors", 24), "descriptors", "socket: Too many open files (24)"),
    (recorded("length"), "40 failed", "40 of 2,000 requests failed (40 x length)"),
    (recorded("dropped"), "2 failed", "2 of 2,000 requests failed (2 x length)"),
    (recorded("non_2xx"), "34 other", "34 of 2,000 responses were not 2xx"),
    (INTERRUPTED, "incomplete", "700 of 2,000 completed"),
    (EXCEPTIONS, "29 failed", "29 of 5,000 requests failed (21 x length, 8 x exceptions)"),
    # faults that ab does not report
    (recorded("dropped_with_l", any_length=True), "cut off", "2,997,000 bytes"),
    (good(body_bytes=1501), "cut off", "3,000,000 bytes were received, 3,002,000 expected"),
    (good(body_bytes=1499), "too long", ""),
    (good(keep_alive=True), "closes", "only 0 of 2,000 responses kept the connection"),
    (by_ab(good(keep_alive=True), keep_alive=1899), "closes", ""),
    # reasons that replace ab's reasons
    (TIMED_OUT, "timed out", "not done after 20 s, 700 of 2,000 completed"),
    ((good()[0], replace(good()[1], command=["ab", "-r", "-n", "2000"])), "ab -r", ""),
    # redirects, and errors instead of redirects
    (redirected(200), "500 other", ""),
    (recorded("non_2xx", first=302), "", "1,966 of 2,000 responses were not 3xx"),
    (by_ab(redirected(), html_bytes=5100), "too long", "5,100 bytes were received, 0"),
    (
        by_ab(redirected(answer_bytes=EACH), transferred_bytes=EACH * 500 - 34),
        "other answers",
        f"{EACH * 500 - 34:,} bytes with all heads, not {EACH * 500:,}",
    ),
    # oha
    (oha("died"), "250 failed", "240 x Connection refused (os error 111)"),
    (oha("dropped"), "5 failed", "closed before message completed; 495 of 500 completed"),
    (oha("errors"), "5 other", "5 of 500 responses were 500, not 200"),
    (oha("good", requests=501), "incomplete", "500 of 501 completed"),
    (oha("good", page=509), "cut off", "254,000 bytes were received, 254,500 expected"),
    (oha("good", timed_out=True, status=-15), "timed out", "20 s, 500 of 500 completed"),
    (oha("good", status=3), "oha failed", "oha ended with status 3, 500 of 500 completed"),
    (oha("good", status=1, message="Too many open files"), "descriptors", "files, 500 of 500"),
    # wrk
    (wrk_saw(statuses={"302": 1999}), "incomplete", "1,999 of 2,000 completed"),
    (wrk_saw(unasked=1), "1 too many", "1 more responses than requests"),
    (wrk_saw(errors={"connect": 0, "read": 7}), "7 failed", "errors: 7 x read; 2,000 of 2,000"),
    (
        wrk_saw(statuses={"302": 1990, "301": 10}),
        "10 other",
        "10 of 2,000 responses were 301, not 302",
    ),
    (wrk_saw(statuses={"408": 2100}), "2,100 other", "of 2,100 responses were 408, not 302"),
    (wrk_saw(lengths={"240": 1995, "239": 5}), "other length", "5 of 2,000 bodies do not have"),
    (wrk(LONGER), "other length", "5 of 2,000 bodies do not have"),
    (wrk_saw(closes=101), "closes", "only 1,899 of 2,000 responses kept the connection"),
    (wrk(None), "no report", "of 2,000 requests an unknown number completed"),
]
"""A load, the label of its reason, and a part of the reason's text."""

VALID = {
    "good": good(),
    "redirects": redirected(),
    "redirects of one length": redirected(answer_bytes=EACH),
    "length within the slack": good(body_bytes=1499, slack=2),
    "kept": by_ab(good(keep_alive=True), keep_alive=1900),
    "oha": oha("good"),
    "wrk": wrk(),
    "wrk, any length": wrk(LONGER, any_length=True),
}


@pytest.mark.parametrize(("made", "label", "text"), FAILED, ids=range(len(FAILED)))
def test_a_failed_load_says_why(made: Made, label: str, text: str) -> None:
    found = first_failure(list(load_checks(*made)))
    assert found.label == (label or found.label)
    assert text in found.detail


@pytest.mark.parametrize("made", VALID.values(), ids=VALID)
def test_a_valid_load(made: Made) -> None:
    assert first_failure(list(load_checks(*made))) is None


def test_one_late_answer_leaves_the_others_done_before_the_end() -> None:
    spec = RunSpec("epoll", Conditions("small"), 20, 1, 600, 60.0)
    even, most = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.0)
    assert even < 0.6
    late, _ = little_tolerance(spec, wall=0.5, longest=0.4, foreign=0.0)
    assert late == 1.0, "one request took four fifths of the run"
    busy, above = little_tolerance(spec, wall=2.0, longest=0.02, foreign=0.9)
    assert busy == 1.0, "ab had the CPU for a tenth of the time"
    assert above == most, "on any machine, at most all connections are busy"


# ---- Runs ----


Found = tuple[Run, Evidence]


def gathered(conditions: Conditions = USUAL, **other: Any) -> Found:
    """Return a run of 4,000 redirects with its evidence. The server has counted 4,100 requests: the
    first request, 99 requests to warm up, and the run."""
    kind, law = other.pop("kind", "server"), other.pop("law", None)
    ended = Stopped(servers=other.pop("ended", [end()]), balancer=other.pop("nginx", None))
    host = HostCount(1.0, None, None, TcpCounters(*other.pop("tcp", (0, 0, 0, 0))))
    hosts = [seen(name="here", servers=other.pop("servers", use()), host=host)]
    counted = (other.pop("visits", 4007), 3)
    found = evidence_of(hosts, conditions, counted=counted, stopped={"here": ended}, **other)
    run = entered(found)
    run.kind, run.littles_law = kind, law or run.littles_law
    return run, found


def end(status: int = 0, obeyed: bool = True, **counted: int) -> Ended:
    """Return how a server ended, with its counts, for example end(_3xx=4100)."""
    classes = {name.strip("_"): count for name, count in (counted or {"_3xx": 4100}).items()}
    said = ServerStatistics(requests=sum(classes.values()), responses=classes)
    return Ended(obeyed=obeyed, status=status, statistics=said, last_words="")


def idle_of(held: int, reopened: int, requests: int = 1000) -> dict[str, Any]:
    """Return the evidence of 1,000 idle connections and of the requests on them."""
    ended = [end(_3xx=4100, _2xx=requests)]
    return {"idle": IdleReport(1000, held, reopened, requests, 0), "ended": ended}


def of_ab(**figures: int) -> Outcome:
    return replace(OUTCOME, figures=OUTCOME.figures.model_copy(update=figures))


KEPT = USUAL._replace(keep_alive=True)
SILENT = Ended(obeyed=True, status=0, statistics=None, last_words="")
ALL_KEPT = of_ab(keep_alive=REQUESTS)
LAW = LittlesLaw(concurrency=50, rate=8000, mean_ms=10, product=80, deviation=0.6)
TOO_LITTLE = LAW.model_copy(update={"product": 5, "deviation": -0.9})
PAGE, LOST = USUAL._replace(workload="guestbook"), {"outcome": of_ab(failed=29)}
OVERFLOWN = LOST | {"tcp": (77, 0, 0, 0)}
SECOND_DIED = {"servers": use(alive=[True, False]), "ended": [end(4), end(3)]}
KEPT_PAGE = {"conditions": PAGE._replace(keep_alive=True), "outcome": ALL_KEPT}
SIGN = {"conditions": USUAL._replace(workload="sign")}


def nginx(errors: int, status: int) -> BalancerEnd:
    return BalancerEnd(errors=errors, last_error="connect() failed", status=status)


UNSOUND = [
    ({"servers": use(alive=[False]), "ended": [end(3)]}, "died", "server ended with status 3, 4,"),
    (SECOND_DIED, "died", "the server ended with status 3, instance 2 of 2 on here, "),
    # connections that the kernel has lost, with the fix
    (LOST | {"tcp": (0, 0, 0, 1234)}, "29 failed", "could not keep 1,234 connections in TIME_WAIT"),
    (LOST | {"tcp": (0, 0, 0, 1234)}, "", "-w net.ipv4.tcp_max_tw_buckets=600000)"),
    (OVERFLOWN, "29 failed", "the accept queue was full 77 times"),
    (OVERFLOWN, "", "fix: sudo sysctl -w net.core.somaxconn=65535)"),
    (OVERFLOWN | {"servers": use(own_backlog=50)}, "", "-w net.core.somaxconn=65535)"),
    (OVERFLOWN | {"servers": use(own_backlog=49)}, "", "default of 49 (--backlog))"),
    # the server's own count
    ({"ended": [end(_3xx=4099)]}, "", "the server counted 4,099 requests, but clients sent 4,100"),
    ({"ended": [end(_3xx=4101)]}, "miscount", ""),
    ({"ended": [end(_3xx=4097, _5xx=3)]}, "", "3 x 5xx"),
    ({"ended": [SILENT]}, "no statistics", ""),
    ({"ended": [end(4)]}, "bad end", "the server ended with status 4"),
    ({"ended": [end(-9, obeyed=False)]}, "", "did not end after SIGTERM and had to be killed"),
    # Redis, Little's law, idle connections, nginx
    ({"conditions": PAGE, "visits": 3999}, "miscount", "4,000 visitors expected, 3,999 counted"),
    ({"conditions": PAGE, "visits": 4001}, "miscount", "4,000 visitors expected, 4,001 counted"),
    ({"conditions": PAGE, "visits": 3999, "private": False}, "miscount", ""),
    (KEPT_PAGE | {"visits": 4051}, "miscount", "4,000 visitors expected, 4,051 counted"),
    (SIGN, "miscount", "4,000 remarks expected, 3 counted"),
    ({"law": LAW}, "impossible", "8,000 requests/s of 10.0 ms each are 80.0 in progress, not 50"),
    ({"law": TOO_LITTLE}, "too little load", ""),
    (idle_of(900, 3), "not idle", "only 900 of 1,000"),
    (idle_of(1000, 50_000, 51_000), "not idle", "connections 50,000 times"),
    ({"nginx": nginx(2, 0)}, "2 by nginx", "from a server for 2 requests (connect() failed)"),
    ({"nginx": nginx(0, -9)}, "nginx ended", ""),
]
"""The evidence of a run, the label of its reason, and a part of the reason's text."""

SOUND: dict[str, dict[str, Any]] = {
    "good": {},
    "connections forgotten": {"tcp": (0, 0, 0, 9)},
    "count within the slack": {"conditions": KEPT, "outcome": ALL_KEPT, "ended": [end(_3xx=4200)]},
    "a reference server": {"kind": "reference", "ended": [SILENT.model_copy(update={"status": 1})]},
    "visitors": {"conditions": PAGE, "visits": 4000},
    "visitors within the slack": KEPT_PAGE | {"visits": 4050},
    "visitors of others": {"conditions": PAGE, "visits": 9999, "private": False},
    "Little's law": {"law": LAW.model_copy(update={"product": 47, "deviation": -0.05})},
    "idle": idle_of(980, 1000),
    "nginx": {"nginx": nginx(0, 0)},
}


@pytest.mark.parametrize(("known", "label", "text"), UNSOUND, ids=range(len(UNSOUND)))
def test_a_failed_run_says_why(known: dict[str, Any], label: str, text: str) -> None:
    run = judged(gathered(**known))
    assert (run.state, run.reason.label) == ("failed", label or run.reason.label)
    assert text in run.reason.text


@pytest.mark.parametrize("known", SOUND.values(), ids=SOUND)
def test_a_valid_run(known: dict[str, Any]) -> None:
    run = judged(gathered(**known))
    assert (run.state, run.reason) == ("held", None)


def judged(found: Found) -> Run:
    """Check a run, and return it with its checks."""
    judge(*found)
    return found[0]


def test_the_checks_of_a_run() -> None:
    assert [check.name for check in judged(gathered()).checks] == [
        *("server alive", "in time", "ab's status", "ab without -r", "completed", "none failed"),
        *("all sent", "whole pages", "status class", "server's count", "server's classes"),
        *("Little's law", "server's end"),
    ]


def test_what_the_kernel_lost_is_named_only_where_it_may_be_the_cause() -> None:
    run = judged(gathered(outcome=of_ab(non_2xx=3966), tcp=(0, 0, 0, 9)))
    assert run.reason.text == "34 of 4,000 responses were not 3xx"


def test_the_expectations_of_a_run() -> None:
    assert asked(*gathered()) == Asked(4000, 60.0, 302, 240)
    assert asked(*gathered(kind="reference")).answer_bytes == 244, "all reference heads are equal"
    page = gathered(PAGE), gathered(PAGE, private=False)
    assert [asked(*one).any_length for one in page] == [False, True], "other visits add digits"
    kept, traced = asked(*gathered(KEPT)), asked(*gathered(KEPT._replace(mode="traced")))
    assert [(one.keep_alive, one.slack) for one in (kept, traced)] == [(True, 100), (False, 100)]
    assert asked(*gathered(KEPT, concurrency=300)).slack == 400, "300, and 100 of the warm-up"
    by_wrk = asked(*gathered(KEPT, outcome=Outcome(tool="wrk")))
    assert (by_wrk.slack, by_wrk.keep_alive) == (0, True)
    assert asked(*gathered(USUAL._replace(idle=10))).slack == 10
