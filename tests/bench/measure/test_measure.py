"""bench.measure without its runs: parsers, statistics, comparisons, what is shown."""

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from bench.host.accounting import CpuTime
from bench.measure import memory, syscalls
from bench.measure.agreement import Agreement, compare
from bench.measure.comparisons import Comparison, Part, Plan
from bench.measure.cost import Cell, Sample
from bench.measure.load import GUESTBOOK, REDIRECT
from bench.measure.many import Many
from bench.measure.memory import Memory
from bench.measure.report import Report, markdown, save
from bench.measure.syscalls import Calls
from bench.records.environment import Placement
from bench.records.errors import UserError
from bench.records.figures import ProcessFigures, ServerStatistics
from bench.records.run import Reason, Run

TRACE = """\
101 accept4(3, NULL, NULL, SOCK_CLOEXEC) = 7
101 recvfrom(7, "GET /guestbook H"..., 2048, 0, NULL, NULL) = 82
101 sendto(9, "*4\\r\\n$6\\r\\nLRANGE"..., 60, MSG_NOSIGNAL, NULL, 0) = 60
102 recvfrom(8,  <unfinished ...>
101 recvfrom(9, "*10\\r\\n$93\\r\\n"..., 4096, 0, NULL, NULL) = 900
102 <... recvfrom resumed>"GET "..., 2048, 0, NULL, NULL) = 82
101 sendmsg(7, {msg_name=NULL, msg_iov=[{iov_base="HTTP/1.1 200"...}]}, MSG_NOSIGNAL) = 2925
102 --- SIGALRM {si_signo=SIGALRM} ---
102 +++ exited with 0 +++
101 close(7) = 0
""".splitlines()


def test_system_calls_are_counted_once_each() -> None:
    counted = syscalls.count(TRACE)
    assert counted == {
        "recvfrom": 3,
        "accept4": 1,
        "sendto": 1,
        "sendmsg": 1,
        "close": 1,
    }, "an interrupted one has two lines; signals and ends are no calls"
    assert syscalls.count([]) == {}


def test_writes_to_redis_are_no_writes_to_clients() -> None:
    writes = sum(syscalls.count(TRACE)[name] for name in syscalls.WRITES)
    assert (writes, syscalls.writes_to_redis(TRACE)) == (2, 1)


def test_memory_of_this_very_process() -> None:
    found = memory.rollup(os.getpid())
    assert found["Pss"] > 1_000_000
    assert found["Anonymous"] > 0


def test_memory_of_a_connection() -> None:
    figure = Memory(server="epoll", state="idle", connections=1000, before=2_000_000, pss=6_000_000)
    assert figure.per_connection == 4000
    assert figure.met
    figure.problem = "not all were open"
    assert not figure.met


def cell(*totals: float, problems: tuple[str, ...] = ()) -> Cell:
    return Cell(
        subject="epoll",
        path="/redirect",
        keep_alive=False,
        requests=100,
        concurrency=10,
        samples=[
            Sample(
                user=t / 4, system=t * 3 / 4, requests_per_second=1e6 / t, bytes_per_response=426
            )
            for t in totals
        ],
        problems=list(problems),
    )


def test_the_median_of_a_cell() -> None:
    found = cell(40, 20, 100)
    assert found.holds
    assert found.median() == 40
    assert (found.median("user"), found.median("system")) == (10, 30)
    assert found.range() == (20, 100)
    assert not cell().holds
    assert not cell(40, problems=("run 2: died",)).holds


@pytest.mark.parametrize(
    ("what", "against", "target", "ratio", "met"),
    [
        (cell(30), cell(20), 1.5, 1.5, True),
        (cell(31), cell(20), 1.5, 1.55, False),
        (cell(90), cell(20), None, 4.5, True),
        (cell(30), cell(), 1.5, None, False),
        (cell(30, problems=("x",)), cell(20), None, None, False),
    ],
)
def test_comparisons(
    what: Cell, against: Cell, target: float | None, ratio: float | None, met: bool
) -> None:
    found = Comparison(what=what, against=against, target=target)
    assert found.ratio == ratio
    assert found.met == met
    assert Part(title="", comparisons=[found]).holds == met
    assert not Part(title="", comparisons=[found], left_out=["go is left out"]).holds


def test_cpu_times() -> None:
    spent = CpuTime(50, 30) - CpuTime(20, 10)
    assert spent == CpuTime(30, 20)
    assert spent.total == 50


def test_a_plan() -> None:
    plan = Plan(3, 1000, 5000, Path())
    assert plan.load(REDIRECT, keep_alive=False).concurrency == 1000, "never above the requests"
    kept = plan.load(GUESTBOOK, keep_alive=True)
    assert (kept.requests, kept.concurrency) == (2000, 2000)


def test_names_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not built yet"):
        Plan(1, 1, 1, tmp_path).servers()


# ---- Three counts of one thing ----


def swept(cpu: float = 50, own: float = 52, requests: int = 1121) -> Run:
    return Run(
        subject="epoll",
        workload="redirect",
        concurrency=60,
        run=1,
        state="held",
        requests=1000,
        process=ProcessFigures(
            cpu_user_s=0.01,
            cpu_system_s=0.04,
            cpu_us_per_request=cpu,
            cpu_user_us_per_request=10,
            cpu_system_us_per_request=40,
        ),
        server_statistics=ServerStatistics(requests=requests, cpu_us_per_request=own),
    )


def test_agreement() -> None:
    found = compare("epoll", "redirect", [swept(50, 52), swept(60, 66), swept(40, 30)])
    assert (found.sweep, found.own) == (50, 52)
    assert (found.due, found.counted) == (3363, 3363), "1,000, 120 to warm up and a first one each"
    assert found.holds
    assert found.ratio(found.own) == 1.04
    assert found.ratio(None) is None


def test_a_request_that_nobody_counted_is_no_agreement() -> None:
    assert not compare("epoll", "redirect", [swept(requests=1120)]).holds


def test_agreement_wants_figures() -> None:
    failed = swept()
    failed.state, failed.reason = "failed", Reason(label="died", text="the server died")
    assert "the server died" in compare("epoll", "redirect", [swept(), failed]).problem
    assert "not measured" in compare("epoll", "redirect", []).problem
    bare = swept()
    bare.server_statistics = None
    assert compare("epoll", "redirect", [swept(), bare]).problem


# ---- What is shown ----


def report() -> Report:
    return Report(
        started=datetime(2030, 1, 2, 3, 4, tzinfo=timezone.utc),
        machine={"cpu_model": "A CPU", "cpus": 2, "kernel": "6.1"},
        versions={},
        placement=Placement(server=[], load=[], note="one CPU only"),
        accounting="cpu.stat",
        runs=1,
        requests=100,
        concurrency=10,
    )


def test_the_report_shows_figures_and_says_what_is_missing(tmp_path: Path) -> None:
    found = report()
    assert found.holds, "nothing was asked for"
    bad = Comparison(what=cell(60), against=cell(problems=("run 1: refused",)), target=1.5)
    good = Comparison(what=cell(60), against=cell(50))
    found.comparisons["floor"] = Part(title="Floors", comparisons=[bad, good])
    found.memory = [Memory(server="poll", state="idle", connections=10, before=1, pss=10_001)]
    found.connections = [Many(server="epoll", connections=10, requests_per_second=1234.5)]
    found.syscalls = [
        Calls(server="epoll", path="/x", keep_alive=True, per_request={"send": 1.0}, writes=1.0)
    ]
    found.agreement = [
        Agreement(server="epoll", workload="redirect", sweep=50, own=55, due=7, counted=7)
    ]
    found.left_out = ["nginx is left out"]
    text = markdown(found)
    for words in (
        "| each request | epoll | 60.0 | [60.0 - 60.0] | 15.0 | 45.0 | 426 | - | **missed**",
        "| 1.20 |  |",
        "- epoll: run 1: refused",
        "1,000 bytes | met",
        "| epoll | 10 | 1,234 |",
        "| epoll | /x | kept | 1.00 | 1.00 | send 1.00 |",
        "| epoll | redirect | 50.0 | 55.0 | - | 1.10 | - | 7 of 7 |",
        "- nginx is left out",
    ):
        assert words in text, words
    assert not found.holds
    save(found, tmp_path / "new")
    again = Report.model_validate_json((tmp_path / "new" / "measure.json").read_text())
    assert markdown(again) == text == (tmp_path / "new" / "measure.md").read_text()
