# SPDX-License-Identifier: MIT
"""The report compares published ratios with measured ratios, here from known results."""

from collections.abc import Sequence
from typing import Literal

import pytest

from bench.records.conditions import Conditions
from bench.records.figures import Frame, MemoryFigures, Reason, Run, StackFigures
from bench.records.points import Point
from bench.records.results import Measured, Peer, PeerStudy, Published, Results
from bench.report import peers
from bench.report.page.page import limit_of
from bench.report.peers import PeerRow
from bench.report.study import Study

from .conftest import recorded, rendered
from .made import made_run, results_of, run_of

MOVED, KEPT = Conditions("redirect"), Conditions("redirect", keep_alive=True)
PARKED = Conditions("redirect", keep_alive=True, mode="parked")
THEN = [("nginx 1.0", "nginx", 2000.0), ("our old one", "epoll", 500.0), ("lost", "caddy", 800.0)]


def some(subjects: str, *conditions: Conditions, levels: Sequence[int] = (100,)) -> Measured:
    return Measured(subjects=subjects.split(), conditions=[*conditions], levels=[*levels])


def asked() -> PeerStudy:
    load = {"workload": "redirect", "concurrency": 500, "at": 100}
    return PeerStudy(
        name="old",
        title="An old table",
        question="Who?",
        source="a paper of 1999",
        machine="one machine",
        reference="nginx",
        equal=["all <of> it"],
        changed=["nothing & all"],
        published=[
            Published(system=system, subject=subject, requests_per_second=rate, **load)
            for system, subject, rate in THEN
        ],
        measured=[
            some("nginx epoll poll threading", MOVED, KEPT),
            some("epoll", PARKED, levels=[1000]),
        ],
    )


def run(subject: str, conditions: Conditions, cpu: float, rate: float, bound: bool = False) -> Run:
    return made_run(subject, cpu=cpu, rate=rate, bound=bound, under=conditions)


def results() -> Results:
    failed = run_of("threading", MOVED, 100)
    failed.state, failed.reason = "failed", Reason(label="reset", text="connection reset by peer")
    parked = run_of("epoll", PARKED, 1000)
    parked.process, parked.open_loop = None, None
    parked.memory = MemoryFigures(connections=1000, before=1_000_000, pss=3_048_000, anonymous=0)
    return results_of(
        [
            run("nginx", MOVED, 20.0, 9000.0),
            run("epoll", MOVED, 10.0, 12_000.0, bound=True),
            run("poll", MOVED, 40.0, 4500.0),
            failed,
            run("nginx", KEPT, 8.0, 50_000.0),
            run("epoll", KEPT, 7.8, 52_000.0),
            parked,
        ],
        studies=[asked()],
        left_out={"caddy": "caddy is left out: install caddy"},
        peers={
            "nginx": Peer(
                about="nginx, one loop",
                language="C",
                origin="Debian",
                how="One loop.",
                resembles=["epoll"],
                settings=["access_log off: it writes no log"],
                warm_up=0,
                keeps="yes",
                closes="",
            )
        },
    )


@pytest.fixture
def tables() -> list[peers.PeersTable]:
    found = results()
    return peers.tables(Study(found), found.studies[0])


def test_one_table_for_each_load_the_leanest_first(tables: list[peers.PeersTable]) -> None:
    assert [(table.scenario, table.level) for table in tables] == [(MOVED, 100), (KEPT, 100)]
    order = [row.subject for row in tables[0].rows]
    assert order == ["epoll", "nginx", "poll", "threading", "caddy"]


def by_name(table: peers.PeersTable) -> dict[str, PeerRow]:
    return {row.subject: row for row in table.rows}


def test_ratios_then_and_now(tables: list[peers.PeersTable]) -> None:
    """The report shows no ratio for a lower bound. epoll's published rate was a quarter of
    nginx's; in these results a core can serve twice as many requests with epoll as with nginx."""
    rows = by_name(tables[0])
    assert tables[0].then_level == 500
    assert {
        name: ([ratio for _, ratio in row.then], row.ratio, row.carries, row.differs)
        for name, row in rows.items()
        if row.point
    } == {
        "epoll": ([0.25], None, 2.0, True),
        "nginx": ([1.0], 1.0, 1.0, False),
        "poll": ([], 0.5, 0.5, False),
    }
    assert rows["epoll"].point
    assert rows["epoll"].point.lower_bound
    assert rows["epoll"].point.bottleneck == "load"


@pytest.mark.parametrize(
    ("then", "now", "differs"),
    [
        ([0.5], 0.5, False),
        ([0.4], 0.7, False),
        ([0.4], 0.8, True),
        ([0.8], 0.41, False),
        ([0.8], 0.4, True),
        ([None, 1.0], 3.0, True),
        ([None], 3.0, False),
        ([1.0], None, False),
    ],
)
def test_a_ratio_differs_if_it_is_half_or_double(
    then: list[float | None], now: float | None, differs: bool
) -> None:
    published = Published(system="old", subject="nginx", workload="moved", concurrency=1, at=1)
    pairs = tuple((published, ratio) for ratio in then)
    assert PeerRow("nginx", pairs, carries=now).differs == differs


def test_a_table_names_its_server_and_is_printed_once() -> None:
    found = results()
    study = found.studies[0]
    study.published[2].requests_per_second = None
    study.measured += [
        some("prethreading", KEPT, levels=[300]),
        some("poll", MOVED),
        some("epoll", Conditions("sorted")),
    ]
    found.runs.append(run_of("prethreading", KEPT, 300))
    found.peers["nginx"].closes = "it is old"
    tables = peers.tables(Study(found), study)
    names = {(t.scenario, t.level): {row.subject for row in t.rows} for t in tables}
    assert len(tables) == 3
    assert names == {
        (MOVED, 100): {"nginx", "epoll", "poll", "threading", "caddy"},
        (KEPT, 100): {"nginx", "epoll", "poll", "threading"},
        (KEPT, 300): {"prethreading"},
    }
    (caddy,) = (row for row in tables[0].rows if row.subject == "caddy")
    assert (caddy.then[0][0].requests_per_second, caddy.then[0][1]) == (None, None), (
        "the published run did not complete"
    )


def test_no_ratio_of_rates_where_the_reference_is_the_load_generators() -> None:
    found = results()
    found.runs[0].lower_bound = True
    now = by_name(peers.tables(Study(found), found.studies[0])[0])["poll"]
    assert (now.ratio, now.carries) == (None, 0.5)


def why_not(found: Results) -> list[dict[str, str]]:
    """Return for each table the reasons why servers have no figure."""
    return [
        {row.subject: row.why_not for row in table.rows}
        for table in peers.tables(Study(found), found.studies[0])
    ]


def test_why_there_is_no_figure() -> None:
    found, missing = results(), "not measured under this load"
    once, kept = why_not(found)
    assert once["threading"] == "connection reset by peer"
    assert once["caddy"] == "caddy is left out: install caddy"
    assert kept["poll"] == missing
    found.runs = [run for run in found.runs if run.subject != "nginx"]
    found.studies[0].measured[0].subjects.append("iterative")
    for closes, words in (("", missing), ("x", "it does not keep connections as requested: x")):
        found.peers["nginx"].closes = closes
        once, kept = why_not(found)
        assert once["nginx"] == once["iterative"] == missing
        assert kept["nginx"] == words
        assert kept["iterative"].startswith("it does not keep connections as requested: it closes")


def test_another_reference_for_a_workload() -> None:
    found = results()
    study = found.studies[0].model_copy(update={"references": {"redirect": "poll"}})
    row = by_name(peers.tables(Study(found), study)[0])["nginx"]
    assert row.carries == 2.0
    assert [ratio for _, ratio in row.then] == [None], "nothing was published of poll"


def test_the_ranking_of_servers_with_different_workloads() -> None:
    """The report ranks servers that serve different workloads. Each server is compared with nginx,
    which serves most workloads, or with the median if nginx is missing. The geometric mean for poll
    is (2 * 30/90 * 10/20)^(1/3) = 0.69, for epoll (10/20 * 8/8)^(1/2) = 0.71, and for prethreading
    (60/90 * 40/20)^(1/2) = 1.15."""
    loads = {
        "moved": {"epoll": 10.0, "nginx": 20.0, "poll": 40.0},
        "small": {"epoll": 8.0, "nginx": 8.0},
        "sorted": {"nginx": 90.0, "poll": 30.0, "prethreading": 60.0},
        "link": {"nginx": 50.0},
        "sign": {"poll": 10.0, "prethreading": 40.0, "forking": 20.0},
    }
    runs = [
        run(name, Conditions(load), cpu, 1e6 / cpu)
        for load, costs in loads.items()
        for name, cpu in costs.items()
    ]
    higher = run_of("iterative", Conditions("moved"), 400)
    study = asked()
    study.measured = [
        some("", Conditions(load), levels=levels)
        for load in loads
        for levels in ([400, 100], [1000])
    ]
    dots = peers.dots(Study(results_of([*runs, higher], studies=[study])))
    order = list(dict.fromkeys(dot.subject for dot in dots))
    assert order == ["poll", "epoll", "forking", "nginx", "prethreading"], "at the lowest level"


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({"nginx": 10.9}, "nginx, need about the same CPU time for a request"),
        ({"nginx": 11.1}, "epoll needs the least CPU; of the reference servers, nginx does"),
        ({"nginx": 9.2}, "nginx, need about the same CPU time for a request"),
        ({"h2o": 5.0, "nginx": 9.2}, "On average 1 of 2 reference servers needs less CPU than"),
        ({"h2o": 8.0, "nginx": 9.0}, "On average 2 of 2 reference servers need less CPU than"),
    ],
)
def test_the_leanest_in_a_sentence(costs: dict[str, float], words: str) -> None:
    """The report compares reference servers with epoll, which needs 10 µs a request."""
    runs = [made_run(name, cpu=cpu, under=MOVED) for name, cpu in (costs | {"epoll": 10.0}).items()]
    for one in runs[:-1]:
        one.kind = "reference"
    assert words in peers.standing([Point([one]) for one in runs])
    assert peers.standing([Point([runs[-1]])]) == "", "epoll alone is not compared"


def test_memory_of_connections() -> None:
    """The report shows the memory of connections for the study's servers only, the least first."""
    found = results()
    parked = found.runs[-1]
    other = parked.model_copy(update={"subject": "poll"})
    found.runs += [other, parked.model_copy(update={"concurrency": 500})]
    assert peers.memory(found, found.studies[0]) == [("epoll", 1000, 2048.0)]
    assert other.memory
    other.memory = other.memory.model_copy(update={"pss": 2_000_000})
    found.studies[0].measured[1].subjects.append("poll")
    both = [("poll", 1000, 1000.0), ("epoll", 1000, 2048.0)]
    assert peers.memory(found, found.studies[0]) == both


def section_of(results: Results) -> str:
    """Return the page's section about reference servers."""
    return rendered(results).partition('<section id="peers">')[2].partition("</section>")[0]


def test_the_page_shows_the_study() -> None:
    found = results()
    found.studies[0].references, found.studies[0].machine = {"redirect": "poll"}, ""
    section = section_of(found)
    for words in (
        *("An old table", "all &lt;of&gt; it", "nothing &amp; all", "≥ 12,000"),
        *("caddy is left out: install caddy", "access_log off: it writes no log"),
        *("ratios are relative to poll", "<i>Then</i>: a paper of 1999."),
    ):
        assert words in section
    assert "ratios are relative to nginx" not in section
    assert "epoll 2 KB" in section.replace("\N{NO-BREAK SPACE}", " ")
    assert section_of(results_of([run("epoll", MOVED, 10.0, 12_000.0)])) == ""


def test_no_limit_is_reported_only_if_that_is_known() -> None:
    found = results()
    nginx, _, poll, *_ = found.runs
    nginx.bottleneck, poll.bottleneck = None, "none"
    first, *_ = peers.tables(Study(found), found.studies[0])
    limits = {row.subject: limit_of(row) for row in first.rows}
    assert limits["nginx"] == limits["threading"] == "–", "no limit is known"
    assert (limits["epoll"], limits["poll"]) == ("load generator", "none")


@pytest.mark.parametrize(
    ("how", "words"), [("perf", "perf sampled"), ("pprof", "kernel time only as the function")]
)
def test_a_profile_of_a_study_is_drawn(how: Literal["perf", "pprof"], words: str) -> None:
    found = results()
    sampled = run_of("epoll", MOVED._replace(mode="sampled"), 100)
    sampled.process, sampled.open_loop = None, None
    sampled.stacks = StackFigures(
        how=how, kernel=True, frames=[Frame(name="serve_the_request", of="server", count=900)]
    )
    found.runs.append(sampled)
    found.studies[0].measured.append(some("epoll", sampled.conditions))
    section = section_of(found)
    for said in ('<svg class="flame"', "serve_the_request", f"900 samples by {how}", words):
        assert said in section


def test_then_and_now_of_a_study_that_was_measured() -> None:
    """The report compares the rates and ratios of 2013 with two ratios from a measurement on two
    cores in 2026: the ratio of rates, and the ratio of capacities."""
    found = recorded("study2013")
    one, every = peers.tables(Study(found), found.studies[0])
    assert [table.scenario.cores for table in (one, every)] == ["one", "all"]
    assert (one.reference, one.then_level, one.level) == ("go-hello", 5000, 500)
    costs = [row.get("cpu") or 0.0 for row in one.rows]
    assert costs == sorted(costs)
    rows = by_name(one)
    now = rows["nginx-go-kept"]
    ((then, ratio),) = now.then
    figures = (then.requests_per_second, ratio, now.ratio, now.carries)
    # In 2013 nginx had its own cores, and lowered Go's rate by 6 %; on a shared core, by half.
    assert figures == (39991.57, *(pytest.approx(x, abs=0.001) for x in (0.936, 0.49, 0.48)))
    assert {row.subject for row in one.rows if not row.then} == {"epoll", "nginx-epoll", "nginx-go"}
    assert by_name(every)["go-hello"].then[0][0].requests_per_second == 128402.88
