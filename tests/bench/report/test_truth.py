# SPDX-License-Identifier: MIT
"""No sentence says more than the figures: lower bounds, untried levels, unusual curves."""

from __future__ import annotations

import re

import pytest
import vl_convert

from bench.records.results import Conditions
from bench.records.run import Held, Reason, Run
from bench.report.charts.base import FindingAt
from bench.report.charts.catalogue import catalogue
from bench.report.charts.export import pictures
from bench.report.charts.rows import curves_of_2019, paper_rows
from bench.report.findings import findings, findings_across, instances
from bench.report.findings.choice import answers
from bench.report.findings.recommendation import Advice
from bench.report.study import usl
from bench.report.study.across import delays, idles, workloads
from bench.report.study.holding import holdings
from bench.report.study.study import Study
from bench.report.study.usl import scalings

from .made import plain_runs, results_of, run_of

GUESTBOOK = Conditions("guestbook")
MANY = ("epoll", "iterative", "poll", "preforking")
THREE = ("epoll", "iterative", "poll")


def run(subject: str, rate: float, level: int = 100, **more: object) -> Run:
    """Return a valid run. More: conditions, and `bound` for a rate that is a lower bound."""
    bound = bool(more.pop("bound", False))
    made = run_of(subject, Conditions(**({"workload": "guestbook"} | more)), level)
    assert made.open_loop
    made.open_loop.rate_done, made.lower_bound = rate, bound
    return made


def slow(subject: str, level: int, p99: float) -> Run:
    """Return a run with that p99, in milliseconds."""
    made = run(subject, 1000, level)
    assert made.latency
    made.latency.p99 = p99
    return made


def without_figure(subject: str, level: int, state: Held = "failed") -> Run:
    """Return a run that failed, or was not tried."""
    made = run(subject, 0, level)
    made.state, made.reason = state, Reason(label="label", text="reason")
    return made


def several(subject: str, key: str, figures: tuple[float, ...], level: int = 100) -> list[Run]:
    """Return runs of one configuration with these rates, p99s, costs or peaks of memory."""
    made = [run(subject, figure if key == "rate" else 1000, level) for figure in figures]
    for one, figure in zip(made, figures, strict=True):
        assert one.latency
        assert one.process
        if key == "p99":
            one.latency.p99 = figure
        elif key == "cpu":
            one.process.cpu_us_per_request = figure
        elif key == "memory":
            one.process.pss_peak_mb = figure
    return made


def drawn(study: Study, key: str) -> str:
    spec = next(spec for name, spec in pictures(study, catalogue(study)) if name == key)
    return str(vl_convert.vegalite_to_svg(spec))


def study_of(*runs: Run) -> Study:
    return Study(results_of(runs))


def bounded() -> Study:
    """Return runs in which the load generator was the limit for every server."""
    return study_of(
        *(run(n, 30_000 + i, bound=True, workload="redirect") for i, n in enumerate(THREE)),
        *(run(n, 20_000 + 100 * i, bound=True) for i, n in enumerate(THREE)),
    )


def answer(study: Study, question: str) -> Advice | None:
    return next((a for a in answers(study, GUESTBOOK) if question in a.question), None)


def comparison(study: Study) -> str:
    found = delays(study) or workloads(study)
    assert found
    return findings_across.comparison(found, [s.name for s in study.subjects])


def test_waiting_is_measured_against_what_does_nothing_else() -> None:
    rates = {"large": 4000, "small": 9000, "redirect": 10_000, "link": 8000, "guestbook": 5000}

    def of(*names: str) -> Study:
        return study_of(
            *(run(n, rates[w] + i, workload=w) for w in names for i, n in enumerate(THREE))
        )

    assert comparison(of(*rates)) == (
        "Guestbook in place of redirect left each of them 50 % of its rate"
    )
    link = of("large", "link", "guestbook")
    assert comparison(link) == "Guestbook in place of short link left each of them 62 % of its rate"
    files = of("large", "small", "guestbook")
    assert comparison(files) == ""
    title = catalogue(files).exhibits["workloads"].title("*", 100)
    assert title == "Requests/s by workload (100 connections)"


def test_a_change_is_told_from_where_it_began() -> None:
    """A change is compared with its own start: the effect of 5 ms is not part of that from 5 to 50
    ms."""
    slowed = [run(n, 5000 / ms, redis_delay_ms=ms) for ms in (5.0, 50.0) for n in ("epoll", "poll")]
    assert comparison(study_of(*slowed)).startswith("50 ms in place of 5 ms of delay in each reply")
    found = answers(study_of(*slowed), slowed[0].conditions)
    assert any("Each reply was delayed by 50 ms in place of 5 ms." in a.because for a in found)
    idle = [run(n, 1000, idle=count) for count in (1000, 5000) for n in ("epoll", "poll")]
    about = idles(study_of(*idle))
    assert about
    told = findings_across.comparison(about, ["epoll", "poll"])
    assert told.startswith("With 5,000 idle connections in place of 1,000 a request costs")
    found = answers(study_of(*idle), idle[0].conditions)
    assert any("5,000 of them in place of 1,000 a request" in a.because for a in found)


def test_which_of_lower_bounds_is_the_highest_nobody_knows() -> None:
    study = bounded()
    assert findings.rates(study, GUESTBOOK) == (
        "The load generator was at its limit with each of them, at up to 20,200 requests per "
        "second: the fastest server is unknown"
    )
    headline = findings.headline(study, GUESTBOOK)
    assert "served most" not in headline
    assert headline.endswith("; the fastest server is unknown")
    said = answer(study, "The most requests")
    assert said
    assert said.answer == "Unknown"


def test_nothing_is_divided_by_a_lower_bound() -> None:
    one_bound = study_of(
        run("epoll", 20_000), run("iterative", 15_000), run("poll", 14_000, bound=True)
    )
    title = findings.rates(one_bound, GUESTBOOK)
    assert title.startswith("epoll served 20,000 requests")
    assert "1.3 times as many as iterative at its best" in title
    assert title.endswith("; the load generator was at its limit with poll")
    assert "served most" not in findings.headline(one_bound, GUESTBOOK)
    elsewhere = study_of(
        run("epoll", 20_000), run("poll", 14_000), run("poll", 13_900, 1000, bound=True)
    )
    assert "times as many" not in findings.rates(elsewhere, GUESTBOOK)


def test_a_ratio_of_a_lower_bound_is_one_too() -> None:
    study = study_of(run("epoll", 30_000, bound=True), run("poll", 20_000))
    assert ": at least 1.5 times as many as poll" in findings.rates(study, GUESTBOOK)
    assert "epoll served most" in findings.headline(study, GUESTBOOK)
    everything = answer(study, "One for everything")
    assert everything
    assert "by the capacity of a full core" in everything.because


def test_who_is_close_to_a_lower_bound_is_not_called_equal() -> None:
    study = study_of(run("epoll", 20_000), run("poll", 19_900, bound=True))
    assert "no significant difference" not in findings.rates(study, GUESTBOOK)
    study = study_of(run("epoll", 20_000, bound=True), run("poll", 19_900))
    assert "no significant difference" not in findings.rates(study, GUESTBOOK)


def test_a_lower_bound_is_neither_last_nor_blamed() -> None:
    study = study_of(
        run("epoll", 30_000),
        run("poll", 20_000),
        run("preforking", 15_000),
        run("threading", 10_000, bound=True),
    )
    said = answer(study, "The most requests")
    assert said
    assert said.answer == "epoll or threading"
    assert said.because.endswith(
        "; only a lower bound is known of threading. Next: poll, 20,000\xa0/s; last: preforking, "
        "15,000\xa0/s."
    )


def test_what_is_left_of_a_lower_bound_is_not_said() -> None:
    base = {"epoll": (20_000, True), "preforking": (10_000, False), "poll": (12_000, False)}
    after = {"epoll": (12_000, False), "preforking": (4000, False), "poll": (6000, True)}
    study = study_of(
        *(run(n, rate, bound=bound, workload="redirect") for n, (rate, bound) in base.items()),
        *(run(n, rate, bound=bound) for n, (rate, bound) in after.items()),
    )
    assert comparison(study) == (
        "Guestbook in place of redirect left poll at least 50 % of its rate, preforking 40 %; "
        "unknown for epoll"
    )
    assert "is unknown; without that the load generator was at" in comparison(bounded())


def test_behind_a_slow_database_who_serves_most_is_the_answer() -> None:
    quick = {"epoll": 5000, "poll": 4000, "forking": 600}
    slow = {"epoll": 2500, "poll": 2000, "forking": 590}
    plain = [run(n, rate) for n, rate in quick.items()]
    pages = [run(n, 2.0 * rate, workload="redirect") for n, rate in quick.items()]
    assert answer(study_of(*plain, *pages), "A slow database") is None
    slowed = [run(n, rate, redis_delay_ms=5.0) for n, rate in slow.items()]
    said = answer(study_of(*plain, *slowed), "A slow database")
    assert said
    assert said.answer == "epoll"
    assert said.because.startswith("2,500\xa0/s at 100 connections. Next: poll, 2,000\xa0/s")


def test_instances_are_not_compared_with_a_lower_bound() -> None:
    def of(way: str, n: int, rate: float, bound: bool) -> Run:
        return run("epoll", rate, bound=bound, balancer=way, instances=n)

    study = study_of(
        of("none", 1, 12_000, True), of("keep", 1, 10_000, True), of("keep", 4, 11_000, True)
    )
    title = instances.scaling_finding(study, GUESTBOOK, 100, "keep")
    assert title.endswith("with one instance already: the scaling is unknown")
    assert not any(row.ideal for row in instances.instance_rows(study))
    assert instances.through_finding(study, GUESTBOOK, 100) == (
        "The cost of nginx is unknown: without nginx the load generator was at its limit"
    )
    study = study_of(of("keep", 1, 10_000, False), of("keep", 4, 10_000, True))
    assert "carried at least 1.0 times as much" in instances.scaling_finding(
        study, GUESTBOOK, 100, "keep"
    )


def curve(subject: str, *law: float) -> list[Run]:
    """Return a server that follows the law exactly."""
    return [run(subject, usl.law(n, *law), n) for n in (1, 5, 20, 100, 300, 1000)]


def test_no_cap_is_higher_than_the_fitted_curve() -> None:
    study = study_of(*curve("epoll", 1000, 0.02, 0.001))
    (found,) = scalings(study, GUESTBOOK)
    assert "together with κ caps the rate at about 12,253 requests/s" in found.words
    assert findings.law(study, GUESTBOOK).endswith("cap is epoll's, 12,253 requests/s")


@pytest.mark.parametrize(("coherence", "felt"), [(1e-6, True), (1e-9, False)])
def test_a_coherence_that_costs_much_is_felt(coherence: float, felt: bool) -> None:
    (found,) = scalings(study_of(*curve("epoll", 100, 0, coherence)), GUESTBOOK)
    assert ("at 1,000 that has cost 50 %" in found.words) == felt
    assert ("negligible" in found.words) != felt


def test_there_is_no_highest_cap_beside_a_server_without_one() -> None:
    study = study_of(*curve("epoll", 100, 0, 0), *curve("poll", 100, 0.05, 0))
    assert findings.law(study, GUESTBOOK) == "The scalability law fits 2 of 2"


def test_who_was_not_tried_at_the_top_did_not_hold_it() -> None:
    study = study_of(*(run(n, 1000, 20) for n in THREE), run("iterative", 1000, 1000))
    assert findings.holding(study, GUESTBOOK) == (
        "1 of 3 passed every level up to 1,000; not tried at every level: epoll and poll"
    )
    said = answer(study, "Many connections")
    assert said
    assert "epoll to 20 (not tried beyond)" in said.because


def test_where_an_interrupted_sweep_ended_is_not_the_highest_level_asked_for() -> None:
    runs = [run(name, 1000, level) for name, level in (("epoll", 20), ("epoll", 100), ("poll", 20))]
    whole = results_of(runs)
    cut = results_of(runs, state="interrupted", levels=[20, 100, 1000])
    said = [
        holdings(Study(results), GUESTBOOK)[0].words + str(answer(Study(results), "Many conn"))
        for results in (whole, cut)
    ]
    assert "the highest requested" in said[0]
    assert "requested" not in said[1]
    assert said[1].startswith("Passed all measured levels, up to 100 connections.")


def test_a_level_that_was_skipped_is_not_called_broken() -> None:
    study = study_of(without_figure("epoll", 20, "skipped"), run("epoll", 1000, 100))
    (found,) = holdings(study, GUESTBOOK)
    assert found.words.startswith("Was not tried at 20, the lowest level. At 20: not tried: reason")


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((5, 1200, 40, 50), "At 100 one request in a hundred takes 1,200\xa0ms or longer."),
        ((5, 1200, 1100, 1500), "From 100 on one request in a hundred takes 1,100\xa0ms or"),
        ((5, 1200, 40, 1500), "At 100 and 1,000 one request in a hundred takes 1,200\xa0ms or"),
    ],
)
def test_from_a_level_on_means_all_above_it(times: tuple[float, ...], said: str) -> None:
    runs = [slow("epoll", n, p99) for n, p99 in zip((20, 100, 500, 1000), times, strict=True)]
    (found,) = holdings(study_of(*runs), GUESTBOOK)
    assert said in found.words


def test_a_queue_that_overflowed_in_one_of_two_runs_did_not_do_so_0_times() -> None:
    runs = plain_runs(("epoll",), (20,), 2)
    for number, one in enumerate(runs):
        assert one.process
        one.process.listen_overflows = number
    (found,) = holdings(study_of(*runs), GUESTBOOK)
    assert "the accept queue was full 1 time." in found.words


def test_more_connections_wait_longer_only_where_they_do() -> None:
    falling = [slow("epoll", 20, 10), slow("epoll", 100, 8)]
    said = "epoll's p99 went from 10\xa0ms at 20 to 8\xa0ms at 100"
    assert findings.latency_growth(study_of(*falling), GUESTBOOK) == said
    rising = [slow("poll", 20, 10), slow("poll", 100, 90)]
    assert findings.latency_growth(study_of(*rising, *falling), GUESTBOOK) == said
    assert findings.latency_growth(study_of(*rising), GUESTBOOK) == (
        "More connections wait longer: poll's p99 went from 10\xa0ms at 20 to 90\xa0ms at 100"
    )


def test_the_curves_of_2019_are_scaled_to_the_same_architectures() -> None:
    rows = paper_rows(study_of(run("epoll", 20_000), run("nginx", 60_000)))
    best = max(rate for name, _, rate in curves_of_2019() if name == "epoll")
    assert max(row["scaled"] for row in rows) == 20_000
    assert max(row["then"] for row in rows) == best


def test_where_the_lowest_level_fails_for_all_there_still_is_advice() -> None:
    names = ("poll", "epoll")
    study = study_of(*(without_figure(n, 20) for n in names), *plain_runs(names, (100,)))
    assert answer(study, "Many connections") is None
    assert answer(study, "One for everything")


@pytest.mark.slow
def test_a_lower_bound_is_hollow_in_the_picture_of_waiting() -> None:
    study = bounded()
    rows = catalogue(study).data["workloads"]
    assert all(row["bound"] for row in rows)
    assert all(": ≥ " in row["said"] for row in rows)
    exact = study_of(*(run(n, 1000, workload=w) for w in ("redirect", "guestbook") for n in THREE))
    assert not any("≥" in row["said"] for row in catalogue(exact).data["workloads"])
    assert "≥</text>" in drawn(study, "workloads")
    assert "≥</text>" not in drawn(exact, "workloads")


def test_no_title_ranks_whose_runs_overlap() -> None:
    rates = study_of(
        *several("epoll", "rate", (11_925, 13_518, 14_094)),
        *several("prethreading", "rate", (11_701, 12_279, 13_480)),
        *several("poll", "rate", (9000, 9001, 9002)),
    )
    assert findings.rates(rates, GUESTBOOK) == (
        "epoll and prethreading are not distinguishable; epoll served 13,518 requests per "
        "second at 100 connections: 1.5 times as many as poll at its best"
    )
    assert "epoll and prethreading served most" in findings.headline(rates, GUESTBOOK)
    two = study_of(*(r for r in rates.results.runs if r.subject != "poll"))
    assert findings.rates(two, GUESTBOOK).startswith("Both have no significant difference")
    assert "served most" not in findings.headline(two, GUESTBOOK)


@pytest.mark.parametrize(("key", "say"), [("p99", findings.latency), ("cpu", findings.cpu)])
def test_no_ratio_is_given_of_runs_that_overlap(key: str, say: FindingAt) -> None:
    study = study_of(*several("epoll", key, (50, 55, 60)), *several("poll", key, (57, 61, 70)))
    words = say(study, GUESTBOOK, 100)
    assert "1.1 times" not in words
    assert words.endswith("; not significantly different from epoll: poll")
    apart = study_of(*several("epoll", key, (50, 51, 52)), *several("poll", key, (57, 61, 62)))
    assert say(apart, GUESTBOOK, 100).endswith((": 1.2 times as long", ", 1.2 times as much"))


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        (
            (214, 422, 191),
            "poll's cost per request by connections: 214\xa0µs at 20, 422\xa0µs at 100",
        ),
        ((214, 220, 191), "No server's cost per request grew by 10 % from 20 to 500"),
        ((100, 422, 191), "poll's cost per request grew most: 100\xa0µs at 20 connections"),
    ],
)
def test_no_cost_grew_only_where_the_curve_is_flat(costs: tuple[float, ...], said: str) -> None:
    levels = zip((20, 100, 500), costs, strict=True)
    study = study_of(*(r for n, cost in levels for r in several("poll", "cpu", (cost,), n)))
    assert findings.cpu_growth(study, GUESTBOOK).startswith(said)


def test_cards_say_whose_figure_it_is_and_who_is_equal() -> None:
    names = ("epoll", "forking", "poll", "preforking")
    runs = [r for i, n in enumerate(names) for r in several(n, "p99", (50 + i, 55 + i, 60 + i))]
    said = answer(study_of(*runs), "Short waits")
    assert said
    assert said.answer == "All of them"
    assert said.because == (
        "99 % within 55\xa0ms with epoll at 100 connections; not significantly different "
        "from epoll: forking, poll and preforking."
    )
    said = answer(study_of(*runs, *several("threading", "p99", (90, 91, 92))), "Short waits")
    assert said
    assert said.answer == "Four of them"
    assert "epoll: forking, poll and preforking. Next: threading" in said.because


def test_switches_are_those_of_the_picture() -> None:
    study = study_of(run("epoll", 1000), run("poll", 1000), run("preforking", 1000))
    words = findings.switches(study, GUESTBOOK, 100)
    assert words.startswith("The kernel switched away from preforking 5.20 times per request, from")
    assert ">5.20</text>" in drawn(study, "switches")


def test_bars_of_two_parts_end_at_the_median_of_the_whole() -> None:
    runs = [run("epoll", 1000) for _ in range(3)]
    for one, (user, system) in zip(runs, ((10, 90), (60, 50), (62, 88)), strict=True):
        assert one.process
        one.process.cpu_us_per_request = user + system
        one.process.cpu_user_us_per_request = user
        one.process.cpu_system_us_per_request = system
    svg = drawn(study_of(*runs), "cpu")
    parts = re.findall(r"µs: ([\d.]+); subject: epoll; named", svg)
    assert len(parts) == 2
    assert sum(map(float, parts)) == pytest.approx(110)


@pytest.mark.parametrize(("last", "each"), [((7.9, 8.1, 8.1), False), ((9, 9.1, 9.2), True)])
def test_what_overlaps_has_no_slope(last: tuple[float, ...], each: bool) -> None:
    study = study_of(
        *several("preforking", "memory", (7.94, 7.97, 8.1), 20),
        *several("preforking", "memory", last, 500),
        *several("epoll", "memory", (2, 2, 2), 500),
    )
    said = answer(study, "Little memory")
    assert said
    assert (" each" in said.because) == each


def test_numbers_agree_with_their_words() -> None:
    one = scalings(study_of(run("epoll", 1000)), GUESTBOOK)
    assert one[0].words == "Not fitted: 1 valid level, the fit needs 6."
    floors = study_of(run("floor-epoll", 1000), run("floor-poll", 1000))
    assert findings.holding(floors, GUESTBOOK) == "Only baselines were measured"
    broken = study_of(*(without_figure(n, 20) for n in ("epoll", "poll")))
    assert findings.holding(broken, GUESTBOOK).startswith("Both failed: ")
