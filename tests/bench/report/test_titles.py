# SPDX-License-Identifier: MIT
"""Titles and reasons agree with the figures, and no sentence says more than they: lower bounds,
untried levels, runs that overlap, unusual curves."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import vl_convert

from bench.records.environment import Machine
from bench.records.results import Conditions
from bench.records.run import Run
from bench.records.values import toml_of
from bench.records.words import figure, listed, percent
from bench.report.charts.catalogue import catalogue, pictures
from bench.report.findings import across, findings, recommendation
from bench.report.findings.across import LoopRow
from bench.report.limits import holdings
from bench.report.study import WAYS, Study

from .conftest import SOURCES, recorded
from .made import made_run, plain_runs, results_of

GUESTBOOK = Conditions("guestbook")
THREE = ("epoll", "iterative", "poll")
HERE = Path(__file__).parent
TITLES = [
    (study["runs"], of, title)
    for study in toml_of(HERE / "titles.toml")["study"]
    for of, title in study.items()
    if of != "runs"
]
RECORDED = toml_of(HERE / "recorded" / "titles.toml")


def study_of(*runs: Run, **more: object) -> Study:
    return Study(results_of(runs, **more))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


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
    found = {one.kind.key: one for one in across.contrasts(study)}
    first = found.get("delays") or found.get("workloads") or found["idles"]
    return across.comparison(first, [s.name for s in study.subjects if s.kind != "floor"])


def levels(study: Study, scenario: Conditions) -> str:
    (found,) = holdings(study, scenario)
    return found.words


def advice(study: Study, scenario: Conditions) -> recommendation.Advice:
    found = recommendation.recommended(study, scenario, study.reference(scenario))
    assert found
    return found


SAY: dict[str, Callable[[Study, Conditions], str]] = {
    "rates": findings.rates,
    "headline": findings.headline,
    "holding": findings.holding,
    "memory": findings.memory,
    "cpu_growth": findings.cpu_growth,
    "latency_growth": findings.latency_growth,
    "latency": lambda study, scenario: findings.latency(study, scenario, 100),
    "cpu": lambda study, scenario: findings.cpu(study, scenario, 100),
    "switches": lambda study, scenario: findings.switches(study, scenario, 100),
    "ranking": recommendation.ranking_title,
    "scaling": lambda study, scenario: across.scaling_finding(study, scenario, 100, "keep"),
    "through": lambda study, scenario: across.through_finding(study, scenario, 100),
    "comparison": lambda study, _: comparison(study),
    "levels": levels,
    "recommended": lambda study, scenario: advice(study, scenario).answer,
    "because": lambda study, scenario: advice(study, scenario).because,
}
"""What is said of a study."""


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
    """recorded/titles.toml has the headline and the title of each chart as the page opens."""
    study = Study(SOURCES[source]())
    first = findings.headline(study, study.scenarios[0])
    assert {"headline": first, **catalogue(study).titles()} == RECORDED[source]


def test_nothing_is_drawn_as_ideal_from_a_lower_bound() -> None:
    runs = [
        made_run("epoll", rate=10_000, bound=True, balancer="keep", instances=n) for n in (1, 4)
    ]
    assert not any(row["ideal"] for row in across.instance_rows(study_of(*runs)))


def test_where_and_why_a_server_stops() -> None:
    found = {h.subject: h.words for h in holdings(Study(recorded("version1_failed")), GUESTBOOK)}
    assert "not done after 2 s" in found["iterative"]
    assert "Failed at 20, the lowest level" in found["forking"]
    assert "not tried" in found["epoll"], "it was the machine that could not"


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
    def row(who: str, way: int, p99: float) -> LoopRow:
        return LoopRow("s0", who, "2,000/s", WAYS[way], 0.0, p99, "")

    close = [row("poll", 0, 10.0), row("poll", 1, 1.0), row("poll", 2, 5.0)]
    far = [row("epoll", 0, 20.0), row("epoll", 2, 100.0)]
    alone = [row("threading", 2, 900.0)]
    assert plain(across.between_loops([*close, *far, *alone])) == (
        "The closed loop says 20 ms for epoll (p99), the open loop at 2,000/s 100 ms: 5.0 times as "
        "long"
    )
    assert plain(across.between_loops(close)).startswith("At 2,000/s 99 % of poll's responses")
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
