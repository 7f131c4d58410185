# SPDX-License-Identifier: MIT
"""`compare` reports changes between two sweeps that are larger than the noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bench.readers.compare import changes, compare, differences, unmatched
from bench.records.figures import Reason, Run
from bench.records.points import data_points
from bench.records.results import Results
from bench.records.store import load, save
from bench.records.values import toml_of

from ..report.made import made_run, of_memory, results_of

CASES = toml_of(Path(__file__).with_name("compare.toml"))
RECORDED = Path(__file__).parents[1] / "report" / "recorded"


def sweep(costs: dict[str, Sequence[float]] | None = None, **rates: Sequence[float]) -> Results:
    """Return a sweep with these rates and, if given, CPU times. A rate of 0 marks a failed run."""
    runs = [
        made_run(
            subject.replace("_", "-"),
            number=number,
            rate=rate,
            state="held" if rate else "failed",
            **({"cpu": costs[subject][number - 1]} if costs else {}),
        )
        for subject, several in rates.items()
        for number, rate in enumerate(several, 1)
    ]
    for run in runs:
        run.process = run.process if costs else None
    return results_of(runs)


@pytest.mark.parametrize(("before", "after", "said"), CASES["noise"])
def test_only_changes_beyond_the_noise_are_reported(
    before: Sequence[float], after: Sequence[float], said: str
) -> None:
    (change,) = changes(sweep(epoll=before), sweep(epoll=after))
    assert change.rate == said
    assert change.cpu is None


@pytest.mark.parametrize(("baselines", "cost", "said"), CASES["slower"])
def test_a_machine_that_became_slower_is_no_worse_server(
    baselines: Sequence[Sequence[float]], cost: Sequence[float], said: str
) -> None:
    """`compare` divides costs by the baseline's if both sweeps have a baseline in the same runs."""
    costs = [{"epoll": (50.0, 52.0)}, {"epoll": cost}]
    for side, baseline in zip(costs, baselines, strict=False):
        side["baseline_epoll"] = baseline
    old, new = (
        sweep(side, **{name: (1000.0, 1010.0)[: len(of)] for name, of in side.items()})
        for side in costs
    )
    assert [change.cpu for change in changes(old, new)] == [said, None][: len(costs[1])]


@pytest.mark.parametrize(
    ("others", "said"),
    [((0.4, 0.4, 0.4), ["disturbed", "disturbed"]), ((0.4, 0.05, 0.05), ["worse", "same"])],
)
def test_disturbed_runs_give_no_verdict(others: Sequence[float], said: list[str]) -> None:
    same = (1000.0, 1010.0, 1005.0)
    costs = dict.fromkeys(("epoll", "poll"), (50.0, 50.0, 50.0))
    before = sweep(costs, epoll=same, poll=same)
    after = sweep(costs, epoll=(500.0, 510.0, 505.0), poll=same)
    for run in after.runs:
        assert run.process
        run.process.foreign_share = others[run.run - 1]
    assert [change.rate for change in changes(before, after)] == said


@pytest.mark.parametrize(("rates", "bounds", "said"), CASES["bounds"])
def test_the_load_generators_limit_is_no_servers(
    rates: Sequence[float], bounds: Sequence[bool], said: str
) -> None:
    sides = [sweep(epoll=(rate, rate + 10)) for rate in rates]
    for side, bound in zip(sides, bounds, strict=True):
        for run in side.runs:
            run.lower_bound = bound
    (change,) = changes(*sides)
    assert change.rate == said


@pytest.mark.parametrize(
    ("before", "after", "said"), [(3, 13, "worse"), (13, 3, "better"), (3, 3, "same")]
)
def test_runs_without_a_rate_are_compared_by_cost(before: int, after: int, said: str) -> None:
    sides = [results_of([of_memory(mb * 1_000_000)]) for mb in (before, after)]
    assert [change.rate for change in changes(*sides)] == [said]


def test_sweeps_without_a_common_data_point_show_the_reason() -> None:
    """`compare` says why two sweeps have no common data point: one had a CPU quota, one a delay."""
    former, today = (load(RECORDED / "orders" / f"{name}.json") for name in ("delay", "quota"))
    assert list(unmatched(changes(former, today))) == [
        "No data point is in both. Values in one sweep only:",
        "  --redis-delay: 2 before",
        "  --quota: 0 before; 20 after",
        "Servers had a whole core each BEFORE, 20 % of a core each AFTER. To compare with BEFORE, "
        "sweep with --quota 0; with AFTER, sweep with --quota 20.",
    ]


def cells_of(level: int = 100, **conditions: object) -> list[Run]:
    runs = [made_run(name, level, rate=1000) for name in ("epoll", "poll")]
    for run in runs:
        run.conditions = run.conditions._replace(**conditions)
    return runs


ALL = cells_of()
IN_ONE = "data points are in one sweep only. Values in one sweep only:"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (ALL, ALL, ""),
        (
            ALL,
            [*ALL, *cells_of(1000), *cells_of(keep_alive=True, idle=50)],
            f"4 of 6 {IN_ONE}|connections: 1,000 after|--keep-alive: yes after|--idle: 50 after",
        ),
        (
            ALL[:1],
            [*ALL[:1], *cells_of(quota=0.1)],
            f"2 of 3 {IN_ONE}|subject: poll after|--quota: 10 after",
        ),
        (ALL, [*ALL, *cells_of(mode="open", rate=500.0)], f"2 of 4 {IN_ONE}|--rate: 500 after"),
        (
            [*ALL, *cells_of(20, idle=50)],
            [*ALL, *cells_of(20), *cells_of(idle=50)],
            "6 of 8 data points are in one sweep only: the combinations of values differ.",
        ),
    ],
)
def test_data_points_of_one_side_show_what_the_other_lacks(
    before: list[Run], after: list[Run], said: str
) -> None:
    found = unmatched(changes(results_of(before), results_of(after)))
    assert "|".join(line.strip() for line in found) == said


def test_other_differences_are_reported() -> None:
    old, new = sweep(epoll=(1000.0,), poll=(1000.0,)), sweep(epoll=(1000.0,), nginx=(1000.0,))
    assert differences(old, new) == []
    new.machine.kernel = "6.2"
    old.versions.compilers, new.versions.compilers = {"epoll": "gcc 12"}, {"epoll": "clang 17"}
    old.versions.sources, new.versions.sources = "a1", "b2"
    for run in new.runs:
        run.requests = 500
    assert differences(old, new) == [
        "kernel: 6.1.0 before, 6.2 after",
        "sources: a1 before, b2 after",
        "compiler of epoll: gcc 12 before, clang 17 after",
        "requests of a run: 10,000 before, 500 after",
    ]


def shown(before: Results, after: Results, folder: Path) -> tuple[int, str]:
    """Compare two sweeps, and return the exit status and the output."""
    for name, of in (("a", before), ("b", after)):
        (folder / name).mkdir(exist_ok=True)
        save(of, folder / name)
    console = Console(width=400)
    with console.capture() as capture:
        status = compare(folder / "a", folder / "b" / "results.json", console)
    return status, capture.get()


def test_changes_are_printed(tmp_path: Path) -> None:
    before = sweep(epoll=(1000.0,))
    status, text = shown(before, sweep(epoll=(1500.0,)), tmp_path)
    assert status == 1
    assert "+50.0%" in text
    assert "1 better, 0 worse beyond noise" in text
    assert "--baselines" not in text, "CPU time is unknown"
    assert shown(before, before, tmp_path)[0] == 0


BASELINE = (40.0, 41.0)
RATIO, UNKNOWN, LOUD = (
    "compared as its ratio to the baseline",
    "With --baselines in both sweeps",
    "In 1 data point other programs used more than 10% of the server's CPU",
)


@pytest.mark.parametrize(
    ("baseline", "foreign", "said"), [(True, 0.0, RATIO), (False, 0.0, UNKNOWN), (False, 0.4, LOUD)]
)
def test_the_comparison_of_cpu_time_is_explained(
    baseline: bool, foreign: float, said: str, tmp_path: Path
) -> None:
    rates = {"epoll": (1000.0, 1010.0), "baseline_epoll": (1000.0, 1010.0)}
    before = sweep({"epoll": (50.0, 52.0), "baseline_epoll": BASELINE}, **rates)
    after = sweep({"epoll": (75.0, 78.0), "baseline_epoll": BASELINE}, **rates)
    after.runs = after.runs if baseline else after.runs[:2]
    for run in after.runs:
        assert run.process
        run.process.foreign_share = foreign
    status, text = shown(before, after, tmp_path)
    assert status == 1
    assert [words in text for words in (RATIO, UNKNOWN, LOUD)] == [
        words == said for words in (RATIO, UNKNOWN, LOUD)
    ]
    assert f"{int(said != LOUD)} worse" in text.rpartition("CPU/request:")[2]


def test_names_of_a_reference_are_shown_as_they_are(tmp_path: Path) -> None:
    strange = sweep(**{"[/x]": (0,), "\x1b[2Jnginx": (1000.0,)})
    strange.runs[0].reason = Reason(label="[/]", text="[bold]")
    strange.versions.redis = "[/redis]"
    status, text = shown(strange, strange, tmp_path)
    assert status == 0
    assert "[/x]" in text
    assert "[/]" in text
    assert "\x1b[2J" not in text


def test_a_sweep_of_the_former_form_is_compared_with_one_of_this(tmp_path: Path) -> None:
    former = load(RECORDED / "version3.json")
    save(former, tmp_path)
    written = load(tmp_path)
    assert written.runs == former.runs
    found = changes(former, written)
    assert len(found) == len(data_points(former)) > 20
    assert {change.rate for change in found} <= {"same", "bound", "disturbed"}
    assert {c.conditions.redis_delay_ms for c in data_points(former)} == {0.0, 2.0}
    assert {c.conditions.idle for c in data_points(former)} == {0, 50}
