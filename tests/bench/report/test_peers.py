# SPDX-License-Identifier: MIT
"""Published and measured ratios: the calculation on known results, and the text of the page."""

from pathlib import Path
from typing import Literal

import pytest

from bench.records.conditions import Conditions
from bench.records.figures import Frame, MemoryFigures, StackFigures
from bench.records.results import Measured, Peer, PeerStudy, Published, Results
from bench.records.run import Reason, Run
from bench.records.store import save
from bench.report.charts.base import Catalogue
from bench.report.findings import peers
from bench.report.findings.peers import Dot, Now, PeerRow, Then
from bench.report.page.build import build
from bench.report.page.peers import limit_of, part
from bench.report.study.study import Study

from .conftest import recorded
from .made import results_of, run_of

MOVED, KEPT = Conditions("redirect"), Conditions("redirect", keep_alive=True)
PARKED = Conditions("redirect", keep_alive=True, mode="parked")
THEN = [("nginx 1.0", "nginx", 2000.0), ("our old one", "epoll", 500.0), ("lost", "caddy", 800.0)]


def asked() -> PeerStudy:
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
            Published(
                system=system,
                subject=subject,
                workload="redirect",
                concurrency=500,
                at=100,
                requests_per_second=rate,
            )
            for system, subject, rate in THEN
        ],
        measured=[
            Measured(
                subjects=["nginx", "epoll", "poll", "threading"],
                conditions=[MOVED, KEPT],
                levels=[100],
            ),
            Measured(subjects=["epoll"], conditions=[PARKED], levels=[1000]),
        ],
    )


def run(subject: str, conditions: Conditions, cpu: float, rate: float, bound: bool = False) -> Run:
    """Return a run with given figures."""
    found = run_of(subject, conditions, 100)
    assert found.process
    assert found.open_loop
    found.process.cpu_us_per_request = cpu
    found.open_loop.rate_done = rate
    found.lower_bound = bound
    found.bottleneck = "load" if bound else "server"
    return found


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


def test_ratios_then_and_now(tables: list[peers.PeersTable]) -> None:
    rows = {row.subject: row for row in tables[0].rows}
    assert tables[0].then_level == 500
    assert [one.ratio for one in rows["nginx"].then] == [1.0]
    assert [one.ratio for one in rows["epoll"].then] == [0.25]
    assert rows["poll"].then == ()
    assert rows["poll"].now.ratio == 0.5
    assert rows["poll"].now.carries == 0.5
    assert rows["epoll"].now.carries == 2.0
    assert rows["nginx"].now.carries == 1.0


def test_no_ratio_of_rates_that_are_the_load_generators(tables: list[peers.PeersTable]) -> None:
    rows = {row.subject: row for row in tables[0].rows}
    assert rows["epoll"].now.point
    assert rows["epoll"].now.point.lower_bound
    assert rows["epoll"].now.ratio is None
    assert rows["epoll"].now.point.bottleneck == "load"


def test_what_stands_elsewhere_than_then(tables: list[peers.PeersTable]) -> None:
    rows = {row.subject: row for row in tables[0].rows}
    assert rows["epoll"].differs, "a quarter when published, twice as much now"
    assert not rows["nginx"].differs
    assert not rows["poll"].differs, "nothing was published of it"


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
def test_twice_as_much_or_half_is_elsewhere(
    then: list[float | None], now: float | None, differs: bool
) -> None:
    published = tuple(Then("old", 1.0, ratio, "") for ratio in then)
    assert PeerRow("nginx", published, Now(None, carries=now)).differs == differs


def test_a_table_has_whom_its_load_was_for_and_comes_once() -> None:
    found = results()
    study = found.studies[0]
    study.published[2].requests_per_second = None
    other, again, not_made = (
        Measured(subjects=[name], conditions=[load], levels=[level])
        for name, load, level in (
            ("prethreading", KEPT, 300),
            ("poll", MOVED, 100),
            ("epoll", Conditions("sorted"), 100),
        )
    )
    study.measured += [other, again, not_made]
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
    assert (caddy.then[0].rate, caddy.then[0].ratio) == (None, None), "it did not complete"


def test_no_ratio_of_rates_where_the_reference_is_the_load_generators() -> None:
    found = results()
    found.runs[0].lower_bound = True
    rows = {row.subject: row for row in peers.tables(Study(found), found.studies[0])[0].rows}
    assert (rows["poll"].now.ratio, rows["poll"].now.carries) == (None, 0.5)


def test_why_there_is_no_figure(tables: list[peers.PeersTable]) -> None:
    rows = {row.subject: row for row in tables[0].rows}
    assert rows["threading"].now.why_not == "connection reset by peer"
    assert rows["caddy"].now.why_not == "caddy is left out: install caddy"
    kept = {row.subject: row for row in tables[1].rows}
    assert kept["poll"].now.why_not == "not measured under this load"
    assert not any(row.then for row in tables[1].rows)


def test_who_cannot_keep_a_connection_has_no_figure() -> None:
    """A server without keep-alive has no figure for kept connections; a server that was not asked
    to keep them does not say so."""
    found = results()
    found.runs = [run for run in found.runs if run.subject != "nginx"]
    found.studies[0].measured[0].subjects.append("iterative")
    for closes, words in (
        ("", "not measured under this load"),
        ("x", "it does not keep connections as"),
    ):
        found.peers["nginx"].closes = closes
        once, kept = (
            {row.subject: row.now.why_not for row in table.rows}
            for table in peers.tables(Study(found), found.studies[0])
        )
        assert once["nginx"] == once["iterative"] == "not measured under this load"
        assert kept["nginx"].startswith(words)
        assert kept["iterative"].startswith("it does not keep connections as requested: it closes")


def test_another_reference_for_a_workload() -> None:
    found = results()
    study = found.studies[0].model_copy(update={"references": {"redirect": "poll"}})
    rows = {row.subject: row for row in peers.tables(Study(found), study)[0].rows}
    assert rows["nginx"].now.carries == 2.0
    assert [one.ratio for one in rows["nginx"].then] == [None], "nothing was published of poll"


def test_where_the_seven_stand() -> None:
    found = peers.dots(Study(results()))
    assert [(dot.subject, dot.cpu) for dot in found] == [
        ("epoll", 10.0),
        ("epoll", 7.8),
        ("nginx", 20.0),
        ("nginx", 8.0),
        ("poll", 40.0),
    ]
    words = "On average epoll needs the least CPU; of the reference servers, nginx does"
    assert peers.standing(found) == words
    assert peers.standing([dot for dot in found if dot.kind == "server"]) == ""
    kept = [dot for dot in found if dot.scenario == KEPT]
    assert "about the same CPU time" in peers.standing(kept)
    without = [dot for dot in found if dot.subject != "epoll"]
    assert peers.standing(without).startswith("On average 1 of 1 reference servers needs less CPU")


def test_the_order_of_those_that_do_not_all_serve_the_same() -> None:
    """The ranking works for servers that do not all serve the same workloads.

    Each is compared with nginx, which serves most, and without nginx with the middle. On average
    poll costs 2 * 30/90 * 10/20 to the power of 1/3, 0.69 times as much as they; epoll the root of
    10/20 * 8/8, 0.71; prethreading the root of 60/90 * 40/20, 1.15.
    """
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
        Measured(subjects=[], conditions=[Conditions(load)], levels=levels)
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
        (
            {"nginx": 11.1},
            "On average epoll needs the least CPU; of the reference servers, nginx does",
        ),
        ({"nginx": 9.2}, "nginx, need about the same CPU time for a request"),
        (
            {"h2o": 5.0, "nginx": 9.2},
            "On average 1 of 2 reference servers needs less CPU than the cheapest",
        ),
        (
            {"h2o": 8.0, "nginx": 9.0},
            "On average 2 of 2 reference servers need less CPU than the cheapest",
        ),
    ],
)
def test_the_leanest_in_a_sentence(costs: dict[str, float], words: str) -> None:
    """A sentence names the leanest server, compared with epoll, which needs 10."""
    dots = [Dot(name, "stranger", MOVED, 100, cpu) for name, cpu in costs.items()]
    assert words in peers.standing([*dots, Dot("epoll", "server", MOVED, 100, 10.0)])
    assert peers.standing(dots) == "", "none of the seven servers is there"


def test_memory_of_connections() -> None:
    """The memory of connections is shown for servers of the study only, the least first."""
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


def test_the_page_says_it(tmp_path: Path) -> None:
    save(results(), tmp_path)
    page = build(tmp_path)[0].read_text()
    section = page[page.index('<section id="peers">') :]
    section = section[: section.index("</section>")]
    assert "An old table" in section
    assert "all &lt;of&gt; it" in section
    assert "nothing &amp; all" in section
    assert "caddy is left out: install caddy" in section
    assert "≥ 12,000" in section
    assert "access_log off: it writes no log" in section
    assert "epoll 2 KB" in section.replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_says_to_whom_ratios_are_and_of_whom_then_is(tmp_path: Path) -> None:
    """The page names the reference of each ratio, and the year of the published one. Workloads with
    another reference, and those published in words only, are included."""
    found = results()
    found.studies[0].references, found.studies[0].machine = {"redirect": "poll"}, ""
    save(found, tmp_path)
    page = build(tmp_path)[0].read_text()
    assert "ratios are to poll" in page
    assert "ratios are to nginx" not in page.lower()
    assert "<i>Then</i>: a paper of 1999." in page


def test_nobody_was_the_limit_only_where_that_is_known() -> None:
    found = results()
    nginx, _, poll, *_ = found.runs
    nginx.bottleneck, poll.bottleneck = None, "none"
    study = Study(found)
    (shown,) = part(study, Catalogue(study, {}))["peer_studies"]
    limits = {row.subject: limit_of(row.now) for row in shown.tables[0].rows}
    assert limits["nginx"] == limits["threading"] == "–", "not known, and without a figure"
    assert (limits["epoll"], limits["poll"]) == ("load generator", "none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"), [("perf", "perf sampled"), ("pprof", "kernel time only as the function")]
)
def test_a_profile_of_a_study_is_drawn(
    tmp_path: Path, how: Literal["perf", "pprof"], words: str
) -> None:
    found = results()
    sampled = run_of("epoll", MOVED._replace(mode="sampled"), 100)
    sampled.process, sampled.open_loop = None, None
    sampled.stacks = StackFigures(
        how=how, kernel=True, frames=[Frame(name="serve_the_request", of="server", count=900)]
    )
    found.runs.append(sampled)
    found.studies[0].measured.append(
        Measured(subjects=["epoll"], conditions=[sampled.conditions], levels=[100])
    )
    save(found, tmp_path)
    section = build(tmp_path)[0].read_text().partition('<section id="peers">')[2]
    assert '<svg class="flame"' in section
    section = section.partition("</section>")[0]
    assert "serve_the_request" in section
    assert f"900 samples by {how}" in section
    assert words in section


def test_a_sweep_for_no_study_has_no_such_section(tmp_path: Path) -> None:
    save(results_of([run("epoll", MOVED, 10.0, 12_000.0)]), tmp_path)
    assert 'id="peers"' not in build(tmp_path)[0].read_text()


def test_then_and_now_of_a_study_that_was_measured() -> None:
    """The comparison of 2013, measured on two cores in 2026, gives the ratios calculated here by
    hand."""
    found = recorded("study2013")
    (asked,) = found.studies
    one, every = peers.tables(Study(found), asked)
    assert (one.scenario.cores, every.scenario.cores) == ("one", "all")
    assert (one.reference, one.then_level, one.level) == ("go-hello", 5000, 500)

    cpu, rate = {}, {}
    for run in found.runs:
        if run.conditions.cores == "one":
            assert run.process
            cpu[run.subject] = run.process.cpu_us_per_request
            rate[run.subject] = run.requests_per_second
    rows = {row.subject: row for row in one.rows}
    assert [row.subject for row in one.rows] == sorted(cpu, key=cpu.__getitem__)
    through = rows["nginx-go-kept"]
    (then,) = through.then
    assert (then.rate, then.ratio) == (39991.57, pytest.approx(39991.57 / 42745.15))
    # 6 % less then, when nginx had cores of its own; half today, when both share one.
    assert through.now.ratio == pytest.approx(rate["nginx-go-kept"] / rate["go-hello"])
    assert through.now.carries == pytest.approx(cpu["go-hello"] / cpu["nginx-go-kept"])
    assert round(through.now.carries or 0, 1) == 0.5
    assert {row.subject for row in one.rows if not row.then} == {"epoll", "nginx-epoll", "nginx-go"}
    # Over a Unix socket FastCGI was a fifth faster than over TCP, and the difference is larger
    # today.
    tcp, unix = (rows[f"nginx-fcgi-{how}"] for how in ("tcp", "unix"))
    assert round((unix.then[0].rate or 0) / (tcp.then[0].rate or 1), 2) == 1.22
    assert round((tcp.now.get("cpu") or 0) / (unix.now.get("cpu") or 1), 1) == 1.7

    of_all = {row.subject: row.then[0].rate for row in every.rows if row.then}
    assert of_all["go-hello"] == 128402.88
