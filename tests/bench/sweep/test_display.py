# SPDX-License-Identifier: MIT
"""The display: the table and the remaining time."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from rich.console import Console

from bench.readers.table import result_table
from bench.records.conditions import Conditions
from bench.records.plan import RunSpec
from bench.records.results import Results, flag_outliers
from bench.records.run import Reason, Run
from bench.sweep.display import Estimate, in_words

from ..records.test_results import held


def spec(server: str, level: int, requests: int = 1000) -> RunSpec:
    return RunSpec(server, Conditions("guestbook"), level, 1, requests, timeout=20)


def run(server: str, level: int, rate: float | None, seconds: float = 2.0, number: int = 1) -> Run:
    made = held(server, level, number, rate or 1.0)
    made.seconds, made.requests = seconds, 1000
    if not rate:
        made.state = "failed"
        made.reason = Reason(label="reset", text="Connection reset by peer (104)")
    return made


@pytest.fixture
def results() -> Results:
    return Results(
        started=datetime(2026, 1, 1, tzinfo=timezone.utc),
        settings={"path": "/guestbook", "runs": 1},
        servers=["poll", "epoll"],
        levels=[20, 500, 1000],
        runs=[run("poll", 20, 4321), run("epoll", 20, 5000), run("poll", 500, None)],
    )


def shown(results: Results, current: RunSpec | None = None, lines: int | None = None) -> list[str]:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(result_table(results, current, lines))
    return [" ".join(line.split()) for line in capture.get().splitlines() if line.strip(" ─")]


def test_the_table_has_servers_across_and_concurrency_down(results: Results) -> None:
    results.runs.append(run("poll", 1000, None))
    assert shown(results, current=spec("epoll", 500)) == [
        "Requests per second: guestbook",
        "clients poll epoll",
        "20 4,321 5,000",
        "500 reset [1] ...",
        "1,000 reset [1]",
        "[1] poll at 500, 1,000: Connection reset by peer (104)",
    ]


def test_spread_lower_bounds_and_outliers_are_marked(results: Results) -> None:
    results.settings.runs = 3
    results.runs = [run("epoll", 20, rate, number=n) for n, rate in enumerate((990, 1000, 1500))]
    for one in results.runs:
        one.lower_bound = True
    flag_outliers(results.runs)
    assert [one.outlier for one in results.runs] == [False, False, True]
    lines = shown(results)
    assert lines[0] == "Requests per second: guestbook, median of 3 runs and their spread"
    assert "20 >1,000 ±26%!" in lines
    assert "> lower bound: the load generator was at its limit" in lines
    assert "! outlier: a run differs much from the other runs" in lines


def test_each_set_of_conditions_has_its_table(results: Results) -> None:
    kept = run("epoll", 20, 9000)
    kept.conditions = kept.conditions._replace(keep_alive=True)
    results.runs.append(kept)
    assert shown(results)[-4:-1] == [
        "Requests per second: guestbook, keep-alive",
        "clients epoll",
        "20 9,000",
    ]


def test_many_servers_have_tables_of_the_same_length(results: Results) -> None:
    """Tables of many servers have the same length. Seventeen columns in one table had cut figures
    ("20,4…"), and an empty line for each level of other conditions."""
    results.servers = [f"server-{number}" for number in range(17)]
    results.levels = [20, 500, 15000]
    results.runs = [run(name, 20, 123456) for name in results.servers]
    results.runs.append(run("server-16", 500, 100))
    lines = shown(results)
    assert all(name in " ".join(lines) for name in results.servers)
    tables = [line.split() for line in lines if line.startswith("clients")]
    assert [len(head) - 1 for head in tables] == [6, 6, 5]
    assert [line.split()[0] for line in lines if line[0].isdigit()] == ["20", "20", "20", "500"]
    assert not any("…" in line for line in lines)
    heads = [line for line in shown(results, lines=40) if line.startswith("cl")]
    assert len(heads) == 1, "between two runs the table does not change its shape"


def test_a_low_terminal_shows_the_levels_at_hand(results: Results) -> None:
    lines = shown(results, spec("epoll", 500), lines=9)
    assert [line.split()[0] for line in lines] == ["Requests", "clients", "500", "[1]"]


def test_time_left_is_learnt_from_the_runs() -> None:
    estimate = Estimate(free=lambda run: run.connections == 9000)
    rest = [spec("poll", 500), spec("epoll", 500, 2000), spec("epoll", 9000)]
    assert estimate.seconds_left(rest) is None
    estimate.learn(run("poll", 20, 4000, seconds=3))
    assert estimate.seconds_left(rest) == 3 + 6
    estimate.learn(run("epoll", 20, 4000, seconds=1))
    assert estimate.seconds_left(rest) == 3 + 2
    estimate.learn(run("epoll", 500, None, seconds=100))
    assert estimate.seconds_left(rest) == 3 + 20, "no run is waited for beyond its timeout"


def test_time_left_counts_a_declared_warm_up() -> None:
    """The remaining time includes a declared warm-up, which lasts more than a minute for Java."""
    estimate = Estimate(free=lambda _: False, warm_ups={"java": 9000})
    estimate.learn(run("poll", 20, 4000, seconds=1))
    assert estimate.seconds_left([spec("java", 20)]) == 10
    estimate.learn(run("java", 20, 4000, seconds=5))
    assert estimate.seconds_left([spec("java", 500), spec("java", 500, 3000)]) == 5 + 6
    estimate.learn(run("java", 20, None, seconds=1000))
    assert estimate.seconds_left([spec("java", 500)]) == 200, "the warm-up may take longer, too"
    memory = replace(spec("java", 500), conditions=Conditions("guestbook", mode="parked"))
    assert estimate.seconds_left([memory]) == 20, "which has no warm-up"


def test_durations_in_words() -> None:
    assert [in_words(s) for s in (None, 4.6, 80, 7380)] == ["?", "0:05", "1:20", "2:03:00"]
