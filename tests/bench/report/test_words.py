# SPDX-License-Identifier: MIT
"""Titles, reasons and advice agree with the figures."""

from __future__ import annotations

import pytest

from bench.records.environment import Machine
from bench.records.results import Conditions
from bench.records.run import Run
from bench.records.words import figure, listed, percent
from bench.report.findings import findings, findings_across, recommendation
from bench.report.findings.choice import answers
from bench.report.page import export
from bench.report.study.across import Contrast, LoopRow, delays, idles
from bench.report.study.holding import holdings
from bench.report.study.study import WAYS, Study

from .conftest import recorded, single_server
from .made import everything, plain_runs, results_of, run_of

GUESTBOOK = Conditions("guestbook")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (11766.7, "11,767"),
        (100, "100"),
        (43.21, "43.2"),
        (9.999, "10.0"),
        (0.3, "0.30"),
        (0.0613, "0.061"),
        (2.04e-5, "2.0·10⁻⁵"),
        (0, "0"),
        (None, "–"),
    ],
)
def test_figures(value: float | None, said: str) -> None:
    assert figure(value) == said


def test_lists_and_shares() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert percent(0.5) == "50 %"


def test_titles_of_a_recorded_result() -> None:
    study = Study(recorded("version1"))
    assert findings.rates(study, GUESTBOOK) == (
        "epoll served most, 11,767 requests per second at 100 connections: "
        "2.9 times as many as prethreading at its best"
    )
    assert "costs epoll 43\N{NO-BREAK SPACE}µs" in findings.cpu(study, GUESTBOOK, 100)
    assert findings.holding(study, GUESTBOOK) == "Both passed every level up to 100 connections"
    assert "largest single process" in findings.memory(study, GUESTBOOK)
    assert findings.switches(study, GUESTBOOK, 100) == ""


REDIRECT = Conditions("redirect")
MEASURED = {
    # CPU in microseconds, p99 in milliseconds, switches, at 20, 100 and 500 connections
    "epoll": ((10, 1, 0.4), (10.5, 3, 0.4), (10.6, 20, 0.4)),
    "poll": ((10, 2, 0.9), (14, 2.9, 0.9), (25, 30, 0.9)),
    "threading": ((30, 4, 4.3), (20, 8, 4.3), (31, 40, 4.3)),
    "floor-epoll": ((5, 1, 0), (5, 1, 0), (10, 1, 0)),
    "floor-poll": ((5, 1, 0), (7, 1, 0), (10, 1, 0)),
}
BY_HAND = {"epoll": (40_000, 4), "poll": (20_000, 4.1), "threading": (10_000, 50)}
"""Requests per second and megabytes."""


def by_hand(*names: str, **conditions: object) -> Study:
    """Return what was measured of these, without calculated figures."""
    runs: list[Run] = []
    for name in names:
        rate, memory = BY_HAND.get(name, (90_000, 1))
        for level, (cpu, p99, switches) in zip((20, 100, 500), MEASURED[name], strict=True):
            run = run_of(name, REDIRECT._replace(**conditions), level)  # type: ignore[arg-type]
            assert run.process
            assert run.open_loop
            assert run.latency
            run.lower_bound, run.bottleneck = False, "server"
            run.open_loop.rate_done, run.latency.p99 = rate, p99
            run.process.cpu_us_per_request, run.process.pss_peak_mb = cpu, memory
            run.process.voluntary_switches_per_request = switches
            runs.append(run)
    return Study(results_of(runs))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_each_title_says_what_was_measured() -> None:
    study = by_hand(*MEASURED)
    assert plain(findings.latency(study, REDIRECT, 100)) == (
        "At 100 connections 99 % of poll's responses came within 2.90 ms, of threading's within "
        "8 ms: 2.8 times as long; not significantly different from poll: epoll"
    )
    assert plain(findings.cpu(study, REDIRECT, 100)) == (
        "A request costs epoll 10.5 µs of CPU, threading 20 µs, 1.9 times as much; epoll is at "
        "2.1 times its baseline"
    )
    assert findings.switches(study, REDIRECT, 500) == (
        "The kernel switched away from threading 4.50 times per request, from epoll 0.60 times"
    )
    assert plain(findings.memory(study, REDIRECT)) == (
        "At 500 connections epoll needed 4 MB, threading 50 MB"
    )
    assert findings.headline(study, REDIRECT) == (
        "At 500 connections epoll served most, cost least CPU and had the lowest p99"
    )
    assert findings_across.floors_title(study) == (
        "In CPU per request epoll is at 1.1 times its baseline (redirect, 500 connections), poll "
        "is at 2.5 times its baseline (redirect, 500 connections)"
    )
    assert recommendation.ranking_title(study, REDIRECT) == (
        "At 500 connections, epoll comes first: 40,000 requests per second, 4.0 times as many as "
        "threading"
    )


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (
            ("epoll", "poll", "threading"),
            "poll's cost per request grew most: 10 µs at 20 connections, 25 µs at 500",
        ),
        (
            ("epoll", "threading"),
            "threading's cost per request by connections: 30 µs at 20, 20 µs at 100, 31 µs at 500",
        ),
        (("epoll",), "No server's cost per request grew by 10 % from 20 to 500"),
    ],
)
def test_how_the_cost_grew(names: tuple[str, ...], title: str) -> None:
    assert plain(findings.cpu_growth(by_hand(*names), REDIRECT)) == title


def test_waiting_longer_or_not() -> None:
    study = by_hand(*MEASURED)
    title = "epoll's p99 went from 1 ms at 20 to 20 ms at 500"
    assert (
        plain(findings.latency_growth(study, REDIRECT)) == f"More connections wait longer: {title}"
    )
    for run in study.results.runs:
        if run.subject == "threading" and run.latency and run.concurrency == 500:
            run.latency.p99 = 4.1  # 4 with 20 connections: less than 5 % more
    title = "threading's p99 went from 4 ms at 20 to 4.10 ms at 500"
    assert plain(findings.latency_growth(Study(study.results), REDIRECT)) == title


def test_who_shares_the_first_place_and_who_is_not_known() -> None:
    study = by_hand("epoll", "poll", "threading", quota=0.2)
    assert recommendation.ranking_title(study, study.scenarios[0]).startswith(
        "At 500 connections, epoll comes first"
    )
    study = by_hand("epoll", "poll", "threading")
    last = {run.subject: run for run in study.results.runs if run.concurrency == 500}
    assert last["poll"].latency
    last["poll"].latency.p99 = 20.5
    assert findings.headline(Study(study.results), REDIRECT) == (
        "At 500 connections epoll served most and cost least CPU; epoll and poll had the lowest p99"
    )
    last["poll"].lower_bound = True
    study = Study(study.results)
    assert findings.headline(study, REDIRECT) == (
        "At 500 connections epoll cost least CPU; epoll and poll had the lowest p99; the fastest "
        "server is unknown"
    )
    # 1,000,000 / 10.6 and / 31 microseconds
    assert recommendation.ranking_title(study, REDIRECT) == (
        "At 500 connections, by the capacity of a full core (1 / CPU per request), epoll comes "
        "first: 94,340 requests per second, 2.9 times as many as threading"
    )


def table_of(study: Study, subject: str, level: int) -> dict[str, tuple[str, str]]:
    """Return a row of the table of all figures: by column its text, large and small."""
    heads = [column.label for column in export.columns(study)]
    rows = [dict(zip(heads, row.cells, strict=True)) for row in export.rows(study)]
    (row,) = (r for r in rows if (r["server"].sort, r["connections"].sort) == (subject, level))
    return {label: (plain(cell.text), plain(cell.small)) for label, cell in row.items()}


def test_the_table_has_every_figure_once() -> None:
    study = by_hand("epoll", "floor-epoll")
    names = [(row.subject, row.cells[1].sort) for row in export.rows(study)]
    assert names == [(name, n) for n in (20, 100, 500) for name in ("epoll", "floor-epoll")]
    row = table_of(study, "epoll", 100)
    assert row["connections"] == ("100", "")
    assert row["requests/s"] == ("40,000", "")
    assert row["state"] == ("held, server at its limit", "")
    assert (row["p99"], row["CPU/request"], row["over baseline"]) == (
        ("3", ""),
        ("10.5", ""),
        ("2.1", ""),
    )
    assert table_of(study, "floor-epoll", 100)["over baseline"] == ("–", "")
    assert "nginx' CPU" not in row, "it was not measured"
    assert "over baseline" not in table_of(by_hand("epoll"), "epoll", 100)


@pytest.mark.parametrize(
    ("quota", "others", "flags"),
    [(0.0, 0.10, ""), (0.0, 0.11, "disturbed"), (0.2, 0.5, "")],
)
def test_what_others_used_is_marked_where_it_took_something(
    quota: float, others: float, flags: str
) -> None:
    study = by_hand("epoll", quota=quota)
    for run in study.results.runs:
        assert run.process
        run.process.foreign_share = others
    assert table_of(Study(study.results), "epoll", 100)["state"] == (
        "held, server at its limit",
        flags,
    )


def test_the_table_of_several_runs() -> None:
    """The table of several runs shows bounds: 39,000, 40,000 and 47,000 requests per second, two at
    the generator's limit."""
    runs = []
    for rate, far, bound in ((39_000, False, True), (40_000, False, True), (47_000, True, False)):
        run = by_hand("epoll").results.runs[1]
        assert run.open_loop
        run.open_loop.rate_done, run.outlier = rate, far
        run.lower_bound, run.bottleneck = bound, "load" if bound else "server"
        runs.append(run.model_copy(update={"run": len(runs) + 1}))
    row = table_of(Study(results_of(runs)), "epoll", 100)
    assert row["requests/s"] == ("≥ 40,000", "39,000–47,000")
    assert row["state"] == ("≥ load at its limit", "1 of 3 runs far off")
    assert row["p99"] == ("3", ""), "no bound, and always the same"


def test_titles_of_a_single_server() -> None:
    study = Study(single_server())
    title = "epoll served 11,767 requests per second at 100 connections"
    assert findings.rates(study, GUESTBOOK) == title
    assert findings.headline(study, GUESTBOOK) == title
    assert answers(study, GUESTBOOK) == []


def test_titles_without_any_figure() -> None:
    runs = plain_runs(("iterative",), (2000, 5000))
    study = Study(results_of(runs))
    assert "No data point" in findings.rates(study, GUESTBOOK)
    assert findings.latency(study, GUESTBOOK, 2000) == ""
    assert findings.cpu(study, GUESTBOOK, 2000) == ""
    assert findings.memory(study, GUESTBOOK) == ""


def test_a_lower_bound_is_called_one() -> None:
    study = Study(results_of(plain_runs(("epoll", "poll"), workload="redirect")))
    assert "at least" in findings.rates(study, Conditions("redirect"))


def test_titles_across_scenarios() -> None:
    study = Study(everything())
    names = [s.name for s in study.subjects if s.kind != "floor"]
    delayed, idle = delays(study), idles(study)
    assert delayed is not None
    assert idle is not None
    assert "left poll 90 % of its rate, iterative 0.4" in findings_across.comparison(delayed, names)
    assert "costs poll 2.7 times as much CPU" in findings_across.comparison(idle, names)
    assert "the open loop at 2,000/s 176" in findings_across.loops(study, GUESTBOOK)


PAIR = ("epoll", "poll")
DELAYED = "5 ms of delay in each reply of Redis"
NOT_FOUND = "without that the load generator was at its limit with each of them"


@pytest.mark.parametrize(
    ("after", "bounds", "title"),
    [
        ((90, 30), "", f"{DELAYED} left epoll 90 % of its rate, poll 30 %"),
        ((60, 61), "", f"{DELAYED} left each of them 60 % of its rate"),
        ((96, 30), "", f"{DELAYED} left epoll all of its rate, poll 30 %"),
        ((90, 30), "after", f"{DELAYED} left epoll at least 90 % of its rate, poll 30 %"),
        (
            (90, 30),
            "before",
            f"{DELAYED} left poll 30 % of its rate; unknown for epoll",
        ),
        (
            (90, 30),
            "both",
            f"{DELAYED}: the remaining share of the rates is unknown; {NOT_FOUND}",
        ),
    ],
)
def test_what_a_slower_redis_left(after: tuple[int, int], bounds: str, title: str) -> None:
    """The rest after a slower Redis is shown, of 100 requests per second each, with bounds if the
    generator was the limit."""
    found = Contrast("delays", 100, "rate", ["0", "5"], Conditions("guestbook", redis_delay_ms=5))
    found.values = {
        name: {"0": 100.0, "5": float(rate)} for name, rate in zip(PAIR, after, strict=True)
    }
    found.bounds = {
        "": set(),
        "after": {("epoll", "5")},
        "before": {("epoll", "0")},
        "both": {("epoll", "0"), ("poll", "0")},
    }[bounds]
    assert findings_across.comparison(found, PAIR) == title


@pytest.mark.parametrize(
    ("first", "costs", "title"),
    [
        (
            "0",
            (10.2, 27),
            "With 5,000 idle connections a request costs poll 2.7 times as much CPU, "
            "epoll 1.0 times",
        ),
        (
            "100",
            (20, 20.4),
            "With 5,000 idle connections in place of 100 a request costs each of "
            "them 2.0 times as much CPU",
        ),
        (
            "0",
            (30,),
            "With 5,000 idle connections a request costs epoll 3.0 times as much CPU",
        ),
    ],
)
def test_what_idle_connections_cost(first: str, costs: tuple[float, ...], title: str) -> None:
    """The cost of idle connections is compared with 10 microseconds without them, or with few."""
    found = Contrast("idles", 100, "cpu", [first, "5000"], Conditions("redirect", idle=5000))
    found.values = {
        name: {first: 10.0, "5000": cost} for name, cost in zip(PAIR, costs, strict=False)
    }
    assert findings_across.comparison(found, PAIR) == title


def test_the_largest_difference_between_the_loops() -> None:
    def row(who: str, way: int, p99: float) -> LoopRow:
        return LoopRow("s0", who, "2,000/s", WAYS[way], 0.0, p99, "")

    close = [row("poll", 0, 10.0), row("poll", 1, 1.0), row("poll", 2, 5.0)]
    far = [row("epoll", 0, 20.0), row("epoll", 2, 100.0)]
    alone = [row("threading", 2, 900.0)]
    assert plain(findings_across.between_loops([*close, *far, *alone])) == (
        "The closed loop says 20 ms for epoll (p99), the open loop at 2,000/s 100 ms: 5.0 times as "
        "long"
    )
    assert plain(findings_across.between_loops(close)) == (
        "At 2,000/s 99 % of poll's responses came within 5 ms of their due time; in the closed "
        "loop, at full load, within 10 ms"
    )
    assert findings_across.between_loops(alone).startswith("Latency at a constant rate")


def test_where_and_why_a_server_stops() -> None:
    study = Study(recorded("version1_failed"))
    found = {h.subject: h for h in holdings(study, GUESTBOOK)}
    assert found["iterative"].highest == 20
    assert found["iterative"].broken_at == 200
    assert "not done after 2 s" in found["iterative"].words
    assert found["forking"].highest is None
    assert "Failed at 20, the lowest level" in found["forking"].words
    assert found["epoll"].highest == 3000
    assert "not tried" in found["epoll"].words
    assert found["epoll"].broken_at is None  # it was the machine that could not
    title = findings.holding(Study(recorded("version1_failed")), GUESTBOOK)
    assert title == (
        "1 of 3 passed every level up to 3,000; failed: iterative at 200 and forking at 20"
    )


def test_the_queue_is_named_where_it_was_too_short() -> None:
    results = results_of(plain_runs(("forking",)))
    limits = recorded("version1").limits
    assert limits is not None
    results.limits = limits
    (found,) = holdings(Study(results), GUESTBOOK)
    assert "4,096 (somaxconn)" in found.words


def test_advice_reads_the_figures() -> None:
    study = Study(everything())
    said = {a.question: a for a in answers(study, GUESTBOOK)}
    assert said["The least CPU for each request?"].answer == "epoll"
    assert said["Little memory?"].answer == "poll, epoll or prethreading"
    assert (
        "Not iterative, though the figures are as good or better: one silent client stops it"
        in (said["Little memory?"].because)
    )
    assert said["A slow database behind it?"].answer == "epoll"
    assert said["Many silent clients?"].answer == "epoll"
    assert said["Many connections at once?"].answer == "Five of them"
    assert "iterative to 1,000" in said["Many connections at once?"].because


def test_advice_follows_when_the_figures_change() -> None:
    runs = plain_runs(("poll", "epoll"))
    for run in runs:
        if run.subject == "poll" and run.process:
            run.process.cpu_us_per_request = 1.0
    said = {a.question: a.answer for a in answers(Study(results_of(runs)), GUESTBOOK)}
    assert said["The least CPU for each request?"] == "poll"


def test_what_the_runs_do_not_tell_apart_is_not_ranked() -> None:
    runs = [run_of(name, GUESTBOOK, 100) for name in ("epoll", "poll")]
    for run, rate in zip(runs, (1000.0, 1040.0), strict=True):
        assert run.open_loop is not None
        run.open_loop.rate_done = rate
    said = {a.question: a for a in answers(Study(results_of(runs)), GUESTBOOK)}
    most = said["The most requests per second?"]
    assert most.answer == "Both of them"
    assert most.because == (
        "1,040\xa0/s with poll at 100 connections; not significantly different from poll: epoll."
    )


def test_one_is_no_plural() -> None:
    assert Machine(cpus=1).describe() == "1 CPU"
    assert Machine(cpus=2).describe() == "2 CPUs"
    assert Conditions("guestbook", workers=1).describe() == "guestbook, 1 worker"
