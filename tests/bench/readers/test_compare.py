# SPDX-License-Identifier: MIT
"""Changes between two sweeps that are larger than the noise."""

from datetime import datetime, timezone
from pathlib import Path

import pytest
from rich.console import Console

from bench.load.ab import parse_report
from bench.readers.compare import changes, compare, differences, unmatched, verdict
from bench.records.figures import ProcessFigures
from bench.records.points import Spread, data_points
from bench.records.results import Results
from bench.records.run import Reason, Run
from bench.records.store import load, save

from ..report.made import of_memory

RECORDED = Path(__file__).parents[1] / "recorded"


def sweep(**rates: tuple[float, ...]) -> Results:
    figures = parse_report((RECORDED / "good.txt").read_text())
    assert figures is not None
    runs = [
        Run(
            subject=subject,
            workload="guestbook",
            concurrency=100,
            run=number,
            state="held" if rate else "failed",
            reason=None if rate else Reason(label="reset", text="it was reset"),
            requests=2000,
            ab=figures.model_copy(update={"requests_per_second": rate}),
        )
        for subject, several in rates.items()
        for number, rate in enumerate(several, 1)
    ]
    started = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Results(started=started, machine={"kernel": "6.1"}, servers=list(rates), runs=runs)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((1000, 990, 1010), (1200, 1190, 1210), "better"),
        ((1000, 990, 1010), (800, 790, 810), "worse"),
        ((1000, 990, 1010), (1020, 1015, 1025), "same"),
        ((1000, 700, 1300), (1250, 1200, 1280), "same"),
        ((1000, 1001, 999), (1035, 1036, 1034), "better"),
        ((1000, 700, 1010), (1380, 1005, 1400), "same"),
        ((1000, 700, 1010), (1380, 1010, 1400), "same"),
        ((1380, 1010, 1400), (1000, 700, 1010), "same"),
        ((1000,), (1000, 1300, 1310), "same"),
        ((1000, 1300, 1310), (1000,), "same"),
        ((1000,), (1080,), "same"),
        ((1000,), (1200,), "better"),
    ],
)
def test_only_what_is_beyond_the_noise_of_both(
    before: tuple[float, ...], after: tuple[float, ...], said: str
) -> None:
    (change,) = changes(sweep(epoll=before), sweep(epoll=after))
    assert change.rate == said
    assert change.cpu is None


def test_a_figure_of_several_runs_is_their_median_and_range() -> None:
    assert Spread.of([9.0, 1.0, 2.0]) == Spread(2.0, 1.0, 9.0, 3)


def test_less_cpu_is_better() -> None:
    before, after = Spread(100, 98, 102, 3), Spread(60, 59, 61, 3)
    assert verdict(before, after, "cpu") == "better"
    assert verdict(after, before, "cpu") == "worse"


def with_costs(of: Results, **costs: tuple[float, ...]) -> Results:
    for run in of.runs:
        cost = costs[run.subject.replace("-", "_")][run.run - 1]
        run.process = ProcessFigures(
            cpu_user_s=1.0,
            cpu_system_s=1.0,
            cpu_us_per_request=cost,
            cpu_user_us_per_request=cost / 2,
            cpu_system_us_per_request=cost / 2,
        )
    return of


def test_a_machine_that_became_slower_is_no_worse_server() -> None:
    rates = {"epoll": (1000.0, 1010.0), "floor-epoll": (1000.0, 1010.0)}
    before = with_costs(sweep(**rates), epoll=(50.0, 52.0), floor_epoll=(40.0, 41.0))
    slower = with_costs(sweep(**rates), epoll=(75.0, 90.0), floor_epoll=(60.0, 72.0))
    worse = with_costs(sweep(**rates), epoll=(75.0, 78.0), floor_epoll=(40.0, 41.0))
    assert [change.cpu for change in changes(before, slower)] == ["same", None]
    assert [change.cpu for change in changes(before, worse)] == ["worse", None]
    for one in (before, slower):
        one.runs = [run for run in one.runs if run.kind == "server" and "-" not in run.subject]
    assert [change.cpu for change in changes(before, slower)] == ["worse"], "unknown"


def test_a_floor_of_other_rounds_is_no_measure() -> None:
    rates = {"epoll": (1000.0, 1010.0), "floor-epoll": (1000.0,)}
    before = with_costs(sweep(**rates), epoll=(50.0, 52.0), floor_epoll=(40.0,))
    after = with_costs(sweep(**rates), epoll=(75.0, 78.0), floor_epoll=(60.0,))
    assert [change.cpu for change in changes(before, after)] == ["worse", None]


def test_what_others_may_have_caused_is_no_verdict() -> None:
    before = sweep(epoll=(1000.0, 1010.0, 1005.0), poll=(1000.0, 1010.0, 1005.0))
    after = sweep(epoll=(500.0, 510.0, 505.0), poll=(1000.0, 1010.0, 1005.0))
    assert [change.rate for change in changes(before, after)] == ["worse", "same"]
    for run in after.runs:
        run.process = ProcessFigures(
            cpu_user_s=1.0,
            cpu_system_s=1.0,
            cpu_us_per_request=50.0,
            cpu_user_us_per_request=25.0,
            cpu_system_us_per_request=25.0,
            foreign_share=0.4,
        )
    assert [change.rate for change in changes(before, after)] == ["disturbed", "disturbed"]
    for run in after.runs:
        assert run.process
        run.process.foreign_share = 0.4 if run.run == 1 else 0.05
    assert [change.rate for change in changes(before, after)] == ["worse", "same"], "one run of 3"


def test_the_load_generators_limit_is_no_servers() -> None:
    before, after = sweep(epoll=(3000.0, 3010.0)), sweep(epoll=(2000.0, 2010.0))

    def found(old_bound: bool, new_bound: bool, swapped: bool) -> str:
        for of, bound in ((before, old_bound), (after, new_bound)):
            for run in of.runs:
                run.lower_bound = bound
        (change,) = changes(after, before) if swapped else changes(before, after)
        return change.rate

    assert found(False, False, False) == "worse"
    assert found(True, False, False) == "worse", "it was 3,000 at least, and is 2,000"
    assert found(False, True, False) == "bound", "it may still be 3,000"
    assert found(False, True, True) == "bound", "it may have been 3,000 before"
    assert found(True, True, False) == found(True, True, True) == "bound"
    after = before
    assert found(False, False, False) == "same"
    assert found(True, True, False) == "bound", "both may have been more"


def test_what_gives_no_rate_is_compared_by_what_it_costs() -> None:
    def parked(pss: int) -> Results:
        return sweep().model_copy(update={"runs": [of_memory(pss)]})

    small, large = parked(3_000_000), parked(13_000_000)
    assert [change.rate for change in changes(small, large)] == ["worse"]
    assert [change.rate for change in changes(large, small)] == ["better"]
    assert [change.rate for change in changes(small, small)] == ["same"]


def test_cells_of_one_side_and_cells_that_fail() -> None:
    found = changes(sweep(poll=(1000,), epoll=(1000,)), sweep(epoll=(0,), nginx=(1000,)))
    assert {c.key.subject: c.rate for c in found} == {
        "epoll": "changed",
        "nginx": "new",
        "poll": "gone",
    }


def cells_of(level: int = 100, **conditions: object) -> list[Run]:
    runs = sweep(epoll=(1000,), poll=(1000,)).runs
    for run in runs:
        run.conditions, run.concurrency = run.conditions._replace(**conditions), level
    return runs


def why(before: list[Run], after: list[Run]) -> list[str]:
    old, new = (sweep().model_copy(update={"runs": runs}) for runs in (before, after))
    return list(unmatched(changes(old, new)))


def test_sweeps_that_have_no_cell_in_common_say_why() -> None:
    """Two sweeps without a common configuration, whose servers had a whole core before, say why."""
    orders = RECORDED.parent / "report" / "recorded" / "orders"
    former, today = (load(orders / f"{name}.json") for name in ("delay", "quota"))
    assert list(unmatched(changes(former, today))) == [
        "No data point is in both. Values in one sweep only:",
        "  --redis-delay: 2 before",
        "  --quota: 0 before; 20 after",
        "Servers had a whole core each BEFORE, 20 % of a core each AFTER. To compare with BEFORE, "
        "sweep with --quota 0; with AFTER, sweep with --quota 20.",
    ]


def test_cells_of_one_side_say_what_the_other_has_not() -> None:
    both = cells_of()
    assert why(both, both) == []
    assert why(both, [*both, *cells_of(1000), *cells_of(100, keep_alive=True, idle=50)]) == [
        "4 of 6 data points are in one sweep only. Values in one sweep only:",
        "  connections: 1,000 after",
        "  --keep-alive: yes after",
        "  --idle: 50 after",
    ]
    assert why(both[:1], [*both[:1], *cells_of(quota=0.1)])[1:] == [
        "  subject: poll after",
        "  --quota: 10 after",
    ]
    assert why(both, [*both, *cells_of(mode="open", rate=500.0)])[1:] == ["  --rate: 500 after"]
    crossed = [*both, *cells_of(20, idle=50)], [*both, *cells_of(20), *cells_of(idle=50)]
    assert [line.partition(" data")[0] for line in why(*crossed)] == ["6 of 8"]


def test_what_else_was_different() -> None:
    old, new = sweep(), sweep()
    assert differences(old, new) == []
    new.machine.kernel = "6.2"
    assert differences(old, new) == ["kernel: 6.1 before, 6.2 after"]


def test_another_compiler_and_other_numbers_of_requests_are_said() -> None:
    """Another compiler, or other numbers of requests, are reported, because they change figures."""
    old, new = sweep(epoll=(1000.0,), poll=(1000.0,)), sweep(epoll=(1000.0,), nginx=(1000.0,))
    old.versions.compilers, new.versions.compilers = {"epoll": "gcc 12"}, {"epoll": "clang 17"}
    old.versions.sources, new.versions.sources = "a1", "b2"
    for run in new.runs:
        run.requests = 500
    assert differences(old, new) == [
        "sources: a1 before, b2 after",
        "compiler of epoll: gcc 12 before, clang 17 after",
        "requests of a run: 2,000 before, 500 after",
    ]


def test_it_is_shown(tmp_path: Path) -> None:
    for name, rate in (("a", 1000.0), ("b", 1500.0)):
        (tmp_path / name).mkdir()
        save(sweep(epoll=(rate,)), tmp_path / name)
    console = Console(width=160)
    with console.capture() as capture:
        assert compare(tmp_path / "a", tmp_path / "b" / "results.json", console) == 1
        assert compare(tmp_path / "a", tmp_path / "a", console) == 0
    assert "+50.0%" in capture.get()
    assert "1 better, 0 worse beyond noise" in capture.get()
    assert "--floors" not in capture.get(), "CPU time is unknown"


def test_what_cpu_time_was_compared_with_is_said(tmp_path: Path) -> None:
    rates = {"epoll": (1000.0, 1010.0), "floor-epoll": (1000.0, 1010.0)}
    before = with_costs(sweep(**rates), epoll=(50.0, 52.0), floor_epoll=(40.0, 41.0))
    after = with_costs(sweep(**rates), epoll=(75.0, 78.0), floor_epoll=(40.0, 41.0))

    def said() -> str:
        for name, of in (("a", before), ("b", after)):
            (tmp_path / name).mkdir(exist_ok=True)
            save(of, tmp_path / name)
        console = Console(width=400)
        with console.capture() as capture:
            assert compare(tmp_path / "a", tmp_path / "b", console) == 1
        return capture.get()

    assert "compared as its ratio to the baseline" in said()
    assert "0 better, 1 worse" in said()
    assert "other programs used" not in said()
    after.runs = [run for run in after.runs if run.subject == "epoll"]
    for run in after.runs:
        assert run.process
        run.process.foreign_share = 0.0
    assert "With --floors in both sweeps" in said()
    for run in after.runs:
        assert run.process
        run.process.foreign_share = 0.4
    assert "In 1 data point other programs used more than 10% of the server's CPU" in said()
    assert "--floors" not in said(), "nothing is worse there"


def test_names_of_a_stranger_are_shown_as_they_are(tmp_path: Path) -> None:
    strange = sweep(**{"[/x]": (0,), "\x1b[2Jnginx": (1000.0,)})
    strange.runs[0].reason = Reason(label="[/]", text="[bold]")
    strange.versions.redis = "[/redis]"
    save(strange, tmp_path)
    console = Console(width=160)
    with console.capture() as capture:
        assert compare(tmp_path, tmp_path, console) == 0
    assert "[/x]" in capture.get()
    assert "[/]" in capture.get()
    assert "\x1b[2J" not in capture.get()


def test_a_sweep_of_the_former_form_is_compared_with_one_of_this(tmp_path: Path) -> None:
    """A sweep in the old format, without a table of conditions, is compared with a new one."""
    former = load(RECORDED.parent / "report" / "recorded" / "version3.json")
    save(former, tmp_path)
    written = load(tmp_path)
    assert written.runs == former.runs
    found = changes(former, written)
    assert len(found) == len(data_points(former)) > 20
    assert {change.rate for change in found} <= {"same", "bound", "disturbed"}
    assert {c.conditions.redis_delay_ms for c in data_points(former)} == {0.0, 2.0}
    assert {c.conditions.idle for c in data_points(former)} == {0, 50}
