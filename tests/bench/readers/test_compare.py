# SPDX-License-Identifier: MIT
"""`compare` reports changes between two sweeps that are larger than the noise."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from bench.readers.compare import changes, compare, differences, unmatched
from bench.records.figures import Reason
from bench.records.points import data_points
from bench.records.results import Results
from bench.records.store import load, save
from bench.records.values import toml_of

from ..report.made import of_memory, open_loop_run, results_of
from .made import runs_of

CASES = toml_of(Path(__file__).with_name("compare.toml"))
RECORDED = Path(__file__).parents[1] / "report" / "recorded"


def sweep(text: str) -> Results:
    return results_of(runs_of(text))


@pytest.mark.parametrize(("before", "after", "said"), CASES["noise"])
def test_only_certain_changes_beyond_the_noise_are_reported(
    before: str, after: str, said: str
) -> None:
    """The load generator's limit hides changes, and disturbed runs give no verdict."""
    sides = [sweep(before), sweep(after)]
    for run in sides[0].runs:
        run.process = None
    (change,) = changes(*sides)
    assert (change.rate, change.cpu) == (said, None)


@pytest.mark.parametrize(("before", "after", "said"), CASES["slower"])
def test_a_machine_that_became_slower_is_no_worse_server(
    before: str, after: str, said: str
) -> None:
    """`compare` divides costs by the baseline's if both sweeps have a baseline in the same runs."""
    found = changes(sweep(before), sweep(after))
    assert " ".join(change.cpu or "-" for change in found) == said


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


@pytest.mark.parametrize(("before", "after", "said"), CASES["unmatched"])
def test_data_points_of_one_side_show_what_the_other_lacks(
    before: str, after: str, said: str
) -> None:
    found = unmatched(changes(sweep(before), sweep(after)))
    assert "|".join(line.strip() for line in found) == said


def test_an_open_loop_is_named_by_its_rate() -> None:
    before = runs_of("epoll 1")
    after = [*before, open_loop_run("epoll", 500.0)]
    _, *values = unmatched(changes(results_of(before), results_of(after)))
    assert values == ["  --rate: 500 after"]


def test_other_differences_are_reported() -> None:
    old, new = sweep("epoll 1000; poll 1000"), sweep("epoll 1000; nginx 1000")
    assert differences(old, new) == []
    new.machine.kernel = "6.2"
    old.versions.compilers, new.versions.compilers = {"epoll": "gcc 12"}, {"epoll": "clang 17"}
    old.versions.sources, new.versions.sources = "a1", "b2"
    old.versions.redis = "7.0"  # it is unknown in the new sweep, so no difference
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


RATIO, UNKNOWN, LOUD = (
    "compared as its ratio to the baseline",
    "With --baselines in both sweeps",
    "In 1 data point other programs used more than 10% of the server's CPU",
)
BEFORE = "epoll 1000 1010 cpu=50,52; baseline-epoll 1000 1010 cpu=40,41"
AFTER = "epoll 1500 1515 cpu=75,78"


@pytest.mark.parametrize(
    ("after", "explained", "better", "costlier"),
    [
        (f"{AFTER}; baseline-epoll 1000 1010 cpu=40,41", RATIO, 1, 1),
        (AFTER, UNKNOWN, 1, 1),
        (f"{AFTER} foreign=0.4", LOUD, 0, 0),
        ("epoll 1500 1515 cpu=50,52", "", 1, 0),
        (BEFORE, RATIO, 0, 0),
    ],
)
def test_changes_are_printed_and_the_comparison_of_cpu_time_is_explained(
    after: str, explained: str, better: int, costlier: int, tmp_path: Path
) -> None:
    status, text = shown(sweep(BEFORE), sweep(after), tmp_path)
    assert status == int(after != BEFORE)
    assert ("+50.0%" in text) == (after != BEFORE)
    assert "".join(words for words in (RATIO, UNKNOWN, LOUD) if words in text) == explained
    assert f"{better} better, 0 worse beyond noise" in text
    assert f"0 better, {costlier} worse" in text.rpartition("CPU/request:")[2]


def test_names_of_a_reference_are_shown_as_they_are(tmp_path: Path) -> None:
    strange = sweep("[/x] 1/failed; \x1b[2Jnginx 1000")
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
