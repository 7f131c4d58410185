# SPDX-License-Identifier: MIT
"""The sweep plans its runs, and displays a table and the remaining time."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from rich.console import Console

from bench.readers.table import result_table
from bench.records.conditions import ASPECTS, Balancer, Conditions, Plan, RunSpec
from bench.records.figures import Reason, Run
from bench.records.results import Results, flag_outliers
from bench.studies.runs import (
    FULL_LEVELS,
    ORDER_LEVEL,
    ORDER_RUNS,
    SHORT_LEVELS,
    SLICE,
    conditions_of,
    levels_of,
    plan_runs,
    requests_of,
    runs_in_order,
    runs_of,
    timeout_of,
)
from bench.subjects.subject import Subject
from bench.sweep.display import Estimate, in_words
from bench.sweep.options import chosen_options, sweep_parser

from ..records.test_results import held
from ..report.made import results_of


def test_a_condition_is_typed_as_it_is_read() -> None:
    slow = Conditions("", keep_alive=True, redis_delay_ms=2.5, mode="traced", rate=1500.0)
    asked = slow._replace(workers=7, quota=0.2, without="defer")
    for aspect in ASPECTS:
        value = getattr(asked, aspect.name)
        if value not in (0, ""):
            assert aspect.parse(aspect.word(value)) == value


def test_the_full_ladder() -> None:
    full = Plan(full=True)
    assert levels_of(full) == FULL_LEVELS == tuple(sorted(FULL_LEVELS))
    assert runs_of(full) == 3
    of_epoll = [requests_of(full, "epoll", level) for level in (1000, 1500, 15_000)]
    assert of_epoll == [10_000, 30_000, 30_000]
    for server, level in itertools.product(("iterative", "forking"), FULL_LEVELS):
        requests = requests_of(full, server, level)
        assert level <= requests < requests_of(full, "epoll", level)
    assert levels_of(Plan(levels=(500, 20, 500))) == (20, 500)


def test_explicit_numbers_replace_the_ladder() -> None:
    plan = Plan(full=True, levels=(10, 300), requests=200, runs=2, timeout=7, workloads=("sorted",))
    runs = runs_in_order(plan, ["iterative", "epoll"])
    assert [(r.concurrency, r.run, r.subject) for r in runs] == [
        *((10, 1, "iterative"), (10, 1, "epoll"), (10, 2, "iterative"), (10, 2, "epoll")),
        *((300, 1, "iterative"), (300, 1, "epoll"), (300, 2, "iterative"), (300, 2, "epoll")),
    ]
    assert {r.requests for r in runs if r.concurrency == 10} == {200}
    assert {r.requests for r in runs if r.concurrency == 300} == {300}, "ab requires n >= c"
    assert {(r.conditions, r.timeout) for r in runs} == {(Conditions("sorted"), 7)}


@pytest.mark.parametrize("can", [True, False])
def test_the_default_sweep_has_the_runs_that_an_order_takes(can: bool) -> None:
    chosen = chosen_options(sweep_parser().parse_args(["--servers", "07_epoll,poll"]))
    options = chosen.answering(can)
    subjects = [Subject(name, "server", lambda _: [], name) for name in ("epoll", "poll")]
    planned = plan_runs(options.parts, subjects)
    seen = Counter((r.subject, r.concurrency) for r in planned.runs)
    for name in ("epoll", "poll"):
        assert {level: n for (s, level), n in seen.items() if s == name} == {
            level: ORDER_RUNS if level == ORDER_LEVEL else 1 for level in SHORT_LEVELS
        }
    assert {r.conditions.quota for r in planned.runs} == {SLICE if can else 0.0}


@pytest.mark.parametrize(
    "words", [["--full"], ["--levels", "10"], ["--runs", "2"], ["--idle", "5"], ["--quota", "0"]]
)
def test_explicit_options_replace_the_defaults(words: list[str]) -> None:
    options = chosen_options(sweep_parser().parse_args(words))
    assert options.answering(True) == options
    assert not options.values("quota") - {0.0}


def test_conditions_multiply_and_redis_is_slowed_only_where_it_is_asked() -> None:
    plan = Plan(
        workloads=("redirect", "link"),
        varied={"keep_alive": (False, True), "redis_delay_ms": (0.0, 5.0), "rate": (500.0,)},
    )
    found = conditions_of(plan)
    assert {c.redis_delay_ms for c in found if c.workload == "redirect"} == {0}
    assert {c.redis_delay_ms for c in found if c.workload == "link"} == {0, 5}
    assert len(found) == (1 + 2) * 2 * 2
    assert Conditions("link", True, 0, 5.0, "open", 500.0) in found
    assert len({c.slug() for c in found}) == len({c.describe() for c in found}) == len(found)


def test_a_path_however_long_has_a_name_of_a_file() -> None:
    long = "/redirect?" + 1000 * "a"
    (options,) = chosen_options(sweep_parser().parse_args(["--path", long])).parts
    assert options.workloads == (long,)
    assert len(Conditions(long, keep_alive=True).slug()) < 100


def test_an_unsuitable_server_is_not_measured() -> None:
    plan = Plan(workloads=("redirect", "guestbook"), levels=(10,))
    runs = runs_in_order(plan, ["epoll", "nginx"], lambda s, c: s == "epoll" or c[0] == "redirect")
    assert [(r.subject, r.conditions.workload) for r in runs] == [
        ("epoll", "redirect"),
        ("nginx", "redirect"),
        ("epoll", "guestbook"),
    ]


def test_the_open_loop_sends_what_is_due_in_its_time() -> None:
    runs = runs_in_order(Plan(levels=(10,), varied={"rate": (500.0,)}), ["epoll"])
    assert [(r.conditions.mode, r.requests) for r in runs] == [("closed", 10_000), ("open", 1500)]


def test_instances_have_something_before_them() -> None:
    plan = Plan(varied={"instances": (1, 2, 4), "balancer": ("none", "close", "keep")})
    found = conditions_of(plan)
    assert [(c.instances, c.balancer) for c in found] == [
        *((1, "none"), (1, "close"), (1, "keep"), (2, "close"), (2, "keep")),
        *((4, "close"), (4, "keep")),
    ]
    assert len({c.slug() for c in found}) == len({c.describe() for c in found}) == len(found)
    kept = [c._replace(keep_alive=True).server_keeps for c in found[:3]]
    assert kept == [True, False, True], "behind nginx, the clients' keep-alive does not matter"
    assert [c.server_keeps for c in found[:3]] == [False, False, True]


@pytest.mark.parametrize(
    ("keep_alive", "balancer", "servers", "nginx"),
    [
        (False, "none", 5010, 0),
        (True, "none", 110, 0),
        (False, "close", 5000, 5010),
        (True, "close", 5000, 110),
        (False, "keep", 110, 5010),
        (True, "keep", 110, 110),
    ],
)
def test_connections_end_where_they_are_not_kept(
    keep_alive: bool, balancer: Balancer, servers: int, nginx: int
) -> None:
    conditions = Conditions("redirect", keep_alive=keep_alive, idle=10, balancer=balancer)
    run = RunSpec("epoll", conditions, 100, 1, 5000, 20.0)
    assert run.ended_connections("server") == servers
    assert run.ended_connections("nginx") == nginx
    assert run.ended_connections() == servers + nginx


def test_a_server_that_waits_for_a_slow_redis_gets_more_time() -> None:
    delays = (0.0, 5.0)
    runs = runs_in_order(
        Plan(levels=(20,), requests=2000, varied={"redis_delay_ms": delays}), ["iterative"]
    )
    usual = timeout_of(Plan(levels=(20,)), runs[0].conditions, 2000)
    assert [run.timeout for run in runs] == [usual, usual + 2000 * 3 * 0.005]
    plan = Plan(levels=(20,), timeout=7, varied={"redis_delay_ms": delays})
    assert {run.timeout for run in runs_in_order(plan, ["iterative"])} == {7}


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
    runs = [run("poll", 20, 4321), run("epoll", 20, 5000), run("poll", 500, None)]
    return results_of(runs, levels=[20, 500, 1000], settings={"runs": 1})


def shown(results: Results, current: RunSpec | None = None, lines: int | None = None) -> list[str]:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(result_table(results, current, lines))
    return [" ".join(line.split()) for line in capture.get().splitlines() if line.strip(" ─")]


def test_the_table_has_servers_across_and_concurrency_down(results: Results) -> None:
    results.runs.append(run("poll", 1000, None))
    assert shown(results, spec("epoll", 500), lines=24) == [
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
    """The table of many servers is split into tables of almost the same number of servers, without
    cut figures ("20,4…") or empty lines."""
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
    assert estimate.seconds_left(rest) == 3 + 20, "no run takes longer than its timeout"


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
    assert estimate.seconds_left([memory]) == 20, "a memory probe has no warm-up"


def test_durations_in_words() -> None:
    assert [in_words(s) for s in (None, 4.6, 80, 7380)] == ["?", "0:05", "1:20", "2:03:00"]
