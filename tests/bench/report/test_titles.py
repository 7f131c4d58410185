# SPDX-License-Identifier: MIT
"""The report's titles and reasons agree with the figures, even for lower bounds, untried levels,
overlapping runs and unusual curves. The report never recommends an implausible server."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import vl_convert

from bench.readers import order
from bench.records.environment import Machine
from bench.records.figures import Run
from bench.records.points import Point
from bench.records.results import Conditions, Results
from bench.records.values import toml_of
from bench.records.words import figure, listed, percent
from bench.report import across, findings
from bench.report.across import contrasts
from bench.report.charts.catalogue import catalogue, pictures
from bench.report.limits import holdings
from bench.report.study import WAYS, Row, Study

from .conftest import SOURCES, plain, recorded
from .made import everything, made_run, plain_runs, results_of, run_of

GUESTBOOK = Conditions("guestbook")
THREE = ("epoll", "iterative", "poll")
HERE = Path(__file__).parent
TITLES = [
    (study["runs"], of, title)
    for study in toml_of(HERE / "titles.toml")["study"]
    for of, title in study.items()
    if of != "runs"
]
OF_PAGES = toml_of(HERE / "recorded" / "titles.toml")


def study_of(*runs: Run, **more: object) -> Study:
    return Study(results_of(runs, **more))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (figure(11766.7), "11,767"),
        (figure(9.999), "10.0"),
        (figure(0.0613), "0.061"),
        (figure(2.04e-5), "2.0·10⁻⁵"),
        (figure(0), "0"),
        (figure(None), "–"),
        (listed([]), ""),
        (listed(["a", "b", "c"]), "a, b and c"),
        (percent(0.5), "50 %"),
        (Machine(cpus=1).describe(), "1 CPU"),
        (Conditions("guestbook", workers=1).describe(), "guestbook, 1 worker"),
    ],
)
def test_figures_and_lists(said: str, expected: str) -> None:
    assert said == expected


# ---- The table ----


def comparison(study: Study) -> str:
    found = {one.kind.key: one for one in contrasts(study)}
    return across.comparison(found.get("delays") or found.get("workloads") or found["idles"])


def levels(study: Study, scenario: Conditions) -> str:
    (found,) = holdings(study, scenario)
    return found.words


def advice(study: Study, scenario: Conditions) -> findings.Advice:
    found = findings.recommended(study, scenario, study.reference(scenario))
    assert found
    return found


SAY: dict[str, Callable[[Study, Conditions], str]] = {
    "rates": findings.rates,
    "holding": findings.holding,
    "memory": findings.memory,
    "cpu_growth": findings.cpu_growth,
    "latency_growth": findings.latency_growth,
    "latency": lambda study, scenario: findings.latency(study, scenario, 100),
    "cpu": lambda study, scenario: findings.cpu(study, scenario, 100),
    "switches": lambda study, scenario: findings.switches(study, scenario, 100),
    "ranking": findings.ranking_title,
    "scaling": lambda study, scenario: across.scaling_finding(study, scenario, 100, "keep"),
    "through": lambda study, scenario: across.through_finding(study, scenario, 100),
    "comparison": lambda study, _: comparison(study),
    "levels": levels,
    "recommended": lambda study, scenario: advice(study, scenario).answer,
    "because": lambda study, scenario: advice(study, scenario).because,
}
"""The functions that return the sentences of a report, by their names in titles.toml."""


def value(word: str) -> str | float:
    try:
        return int(word) if word.isdecimal() else float(word)
    except ValueError:
        return word


def runs_in(text: str) -> list[Run]:
    """Return the runs that a row of the table describes."""
    found = []
    for one in re.split("; |\n", text):
        name, level, *words = one.split()
        fields = {key: values.split("/") for key, _, values in (w.partition("=") for w in words)}
        bound = fields.pop("bound", None) is not None
        for number in range(max((len(values) for values in fields.values()), default=1)):
            mine = {key: value(values[number % len(values)]) for key, values in fields.items()}
            found.append(made_run(name, int(level), number + 1, bound=bound, **mine))
    return found


@pytest.mark.parametrize(("told", "of", "title"), TITLES)
def test_a_title_says_what_was_measured(told: str, of: str, title: str) -> None:
    runs = runs_in(told)
    said = plain(SAY[of](study_of(*runs), Conditions(runs[-1].conditions.workload)))
    assert re.fullmatch(".*".join(map(re.escape, title.split("…"))), said), said


@pytest.mark.parametrize("source", SOURCES)
def test_the_titles_of_a_page(source: str) -> None:
    assert catalogue(Study(SOURCES[source]())).titles() == OF_PAGES[source]


def test_nothing_is_drawn_as_ideal_from_a_lower_bound() -> None:
    runs = [
        made_run("epoll", rate=10_000, bound=True, balancer="keep", instances=n) for n in (1, 4)
    ]
    study = study_of(*runs)
    assert not any(across.family_row(study, point)["ideal"] for point in study.points)


def test_where_and_why_a_server_stops() -> None:
    found = {h.subject: h.words for h in holdings(Study(recorded("version1_failed")), GUESTBOOK)}
    assert "not done after 2 s" in found["iterative"]
    assert "Failed at 20, the lowest level" in found["forking"]
    assert "not tried" in found["epoll"], "the machine could not run this level"


@pytest.mark.parametrize(
    ("runs", "more", "said"),
    [
        (
            [made_run("epoll", 20), made_run("epoll", 100)],
            {"state": "interrupted", "levels": [20, 100, 1000]},
            "Passed all measured levels, up to 100 connections.",
        ),
        (plain_runs(("forking",)), {"limits": recorded("version1").limits}, "4,096 (somaxconn)"),
    ],
)
def test_which_levels_a_server_passes(runs: list[Run], more: dict[str, object], said: str) -> None:
    assert said in plain(levels(study_of(*runs, **more), GUESTBOOK))


def test_the_largest_difference_between_the_loops() -> None:
    def row(who: str, way: int, p99: float) -> Row:
        return {"subject": who, "asked": "2,000/s", "way": WAYS[way], "p99": p99}

    close = [row("poll", 0, 10.0), row("poll", 1, 1.0), row("poll", 2, 5.0)]
    far = [row("epoll", 0, 20.0), row("epoll", 2, 100.0)]
    alone = [row("threading", 2, 900.0)]
    assert plain(across.between_loops([*close, *far, *alone])) == (
        "The p99 of epoll is 20 ms in the closed loop, and 100 ms in the open loop at 2,000/s: 5.0 "
        "times as long"
    )
    assert plain(across.between_loops(close)).startswith("At 2,000/s 99 % of the responses of poll")
    assert across.between_loops(alone).startswith("Latency at a constant rate")


# ---- Charts ----


def drawn(study: Study, key: str) -> str:
    spec = next(spec for name, spec in pictures(catalogue(study)) if name == key)
    return str(vl_convert.vegalite_to_svg(spec))


@pytest.mark.slow
@pytest.mark.parametrize("bound", [True, False])
def test_a_lower_bound_is_hollow_in_the_picture_of_waiting(bound: bool) -> None:
    study = study_of(
        *(made_run(n, bound=bound, workload=w) for w in ("redirect", "guestbook") for n in THREE)
    )
    rows = catalogue(study).data["workloads"]
    assert {row["bound"] for row in rows} == {": ≥ " in row["said"] for row in rows} == {bound}
    assert ("≥</text>" in drawn(study, "workloads")) == bound


def test_bars_of_two_parts_end_at_the_median_of_the_whole() -> None:
    runs = [made_run("epoll", cpu=cpu) for cpu in (100, 110, 150)]
    for one, (user, system) in zip(runs, ((10, 90), (60, 50), (62, 88)), strict=True):
        assert one.process
        one.process.cpu_user_us_per_request = user
        one.process.cpu_system_us_per_request = system
    svg = drawn(study_of(*runs), "cpu")
    parts = re.findall(r"µs: ([\d.]+); subject: epoll; named", svg)
    assert len(parts) == 2
    assert sum(map(float, parts)) == pytest.approx(110)


# ---- Recommendations for recorded sweeps, and for generated sweeps with a clear answer ----

ORDERS = ("quota", "onecore", "redirect", "delay", "idle")
"""Sweeps with 0.2 of a core, on one core, without Redis, with a slow Redis, with idle clients."""
SEVEN = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")


def sweep(name: str) -> Study:
    return Study(recorded(f"orders/{name}"))


@pytest.mark.parametrize("name", ORDERS)
def test_an_event_loop_is_recommended_of_the_seven(name: str) -> None:
    """Of the seven servers, the report recommends an event loop, as textbooks do. The page and the
    terminal compare servers at the same level."""
    study = sweep(name)
    for scenario in study.scenarios:
        assert set(advice(study, scenario).answer.split(" or ")) <= {"epoll", "poll"}
        found = order.order(study.results, scenario)
        assert found
        assert found.level == study.reference(scenario)


def test_an_excluded_server_is_shown_in_its_rank_with_the_reason() -> None:
    said = advice(sweep("redirect"), Conditions("redirect", quota=0.2))
    assert "In order: iterative, epoll and poll; preforking" in said.because
    assert said.because.endswith("Excluded: iterative (one silent client stops it).")


def test_with_idle_connections_poll_is_not_as_good_as_epoll() -> None:
    study = sweep("idle")
    found = advice(study, next(s for s in study.scenarios if s.idle))
    out = "Excluded: forking, preforking, threading and prethreading (fails at 50 conn"
    assert (found.answer, out in found.because) == ("epoll", True)


def test_with_a_slower_redis_waiting_counts_and_not_cpu() -> None:
    results = sweep("delay").results
    slow = next(c for c in results.conditions() if c.redis_delay_ms)
    found = order.order(results, slow)
    assert found
    assert found.by == "rate"
    assert found.ranked[-1].subject == "iterative", "iterative waits for one reply at a time"
    runs = plain_runs(("epoll", "poll"), (100,), redis_delay_ms=5.0)
    for run in runs:
        run.bottleneck = "load"
    assert findings.recommended(Study(results_of(runs)), runs[0].conditions, 100) is None, (
        "no rates"
    )


def with_memory(of: Results, mb: int) -> Results:
    of.machine.memory_bytes = mb * 1_000_000
    return of


@pytest.mark.parametrize(
    ("results", "answer", "because"),
    [
        (with_memory(results_of(plain_runs(SEVEN, (20, 100))), 0), "epoll", "In order: "),
        (
            with_memory(results_of(plain_runs(SEVEN, (20, 100))), 100),
            "epoll",
            "preforking (needs 60.0 MB, 60 % of its machine's memory)",
        ),
        (recorded("version2"), "Unknown", "do not say which servers a single silent client"),
        (
            results_of(plain_runs(("iterative", "epoll"), (20,)), stalled_by={"iterative": "one"}),
            "None of them",
            "epoll (the effect of a silent client is unknown)",
        ),
    ],
)
def test_who_is_recommended(results: Results, answer: str, because: str) -> None:
    study = Study(results)
    found = advice(study, study.scenarios[0])
    assert found.answer == answer
    assert because in found.because.replace("\N{NO-BREAK SPACE}", " ")


# ---- A study reads results files of older versions, and selects points ----


def point_of(study: Study, subject: str, level: int, scenario: Conditions = GUESTBOOK) -> Point:
    found = study.find(subject, scenario, level)
    assert found
    return found


def test_version_1_has_the_output_of_server_and_ab() -> None:
    study = Study(recorded("version1"))
    assert study.scenarios == [GUESTBOOK]
    point = point_of(study, "epoll", 20)
    known = {"rate": 5523.85, "p99": 13.173, "cpu": 72.8, "memory": 2.1}
    known |= {"cpu_user": pytest.approx(72.8 * 13 / 75)}
    assert {key: point.get(key) for key in known} == known
    assert {point.get(key) for key in ("p999", "switches_voluntary")} == {None}
    assert not study.whole_memory()
    assert study.single_run
    assert (point.bottleneck, point.hosts, study.results.hosts) == (None, (), [])


def test_version_2_has_what_was_measured() -> None:
    study = Study(recorded("version2"))
    assert study.whole_memory()
    assert {s.kind for s in study.subjects} == {"server", "baseline"}
    point = point_of(study, "epoll", 100)
    assert point.typical
    assert point.typical.process
    assert point.get("cpu") == point.typical.process.cpu_us_per_request
    assert point.get("p999") is not None


def test_the_reference_is_the_highest_level_that_most_hold() -> None:
    study = Study(results_of(plain_runs(("epoll", "forking"))))
    assert study.reference(GUESTBOOK) == 2000  # forking breaks at 5,000


def test_a_baseline_counts_under_the_same_conditions_only() -> None:
    study = Study(everything())
    redirect = point_of(study, "poll", 1000, Conditions("redirect"))
    assert study.baseline_ratio(redirect) == pytest.approx(45 * 1.5 / (22 * 1.4), rel=0.05)
    assert study.baseline_ratio(point_of(study, "poll", 1000)) is None


def test_the_guestbook_is_shown_first_and_the_open_loop_is_no_choice() -> None:
    study = Study(everything())
    assert study.scenarios[0] == GUESTBOOK
    assert all(s.mode == "closed" for s in study.scenarios)
    assert [s.kind for s in study.subjects][-1] == "baseline"


def test_figures_under_a_quota_are_compared_too() -> None:
    """The report compares figures under a CPU quota, which each server has in a default sweep."""
    sliced = [Conditions(name, quota=0.2) for name in ("redirect", "guestbook")]
    names = ("epoll", "baseline-epoll")
    study = Study(results_of([run_of(name, s, 100) for s in sliced for name in names]))
    (work,) = contrasts(study)
    assert [*work.labels] == ["redirect", "guestbook"]
