# SPDX-License-Identifier: MIT
"""Results of a sweep do not change when they are written and read."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.load.generators import latency_from, parse_ab
from bench.readers.table import result_table
from bench.records.errors import UserError
from bench.records.figures import HostFigures, Reason, Run, ServerStatistics
from bench.records.points import BY_KEY, Point, Spread, data_points, runs_in_words
from bench.records.results import SCHEMA_VERSION, flag_outliers
from bench.records.store import CSV_COLUMNS, csv_of, csv_row, load, make_folder, save
from bench.records.values import toml_of

from ..readers.made import runs_of
from ..report.made import NOW, of_memory, results_of

CASES = toml_of(Path(__file__).with_name("results.toml"))
RECORDED = Path(__file__).parents[1] / "recorded"


def held(server: str = "epoll", level: int = 100, run: int = 1, rate: float = 1000.0) -> Run:
    figures = parse_ab((RECORDED / "good.txt").read_text())
    assert figures is not None
    figures.requests_per_second = rate
    latency = latency_from({"50": 1.0, "90": 2.0, "99": 16.0, "100": 20.0}, [1, 2, 16, 20])
    return Run(
        subject=server,
        workload="guestbook",
        concurrency=level,
        run=run,
        state="held",
        requests=2000,
        ab=figures,
        latency=latency,
        server_statistics=ServerStatistics(requests=2041, cpu_us_per_request=134.3),
    )


def broken(server: str = "epoll", level: int = 100, run: int = 1) -> Run:
    run_ = held(server, level, run)
    run_.state, run_.reason = "failed", Reason(label="reset", text='it said "reset", twice')
    return run_


def changed(folder: Path, old: str = "", new: str = "") -> Path:
    """Return a stored file in which one text, or the whole content, is replaced."""
    save(results_of([held()]), folder)
    path, good = folder / "results.json", (folder / "results.json").read_text()
    assert old in good
    path.write_text(good.replace(old, new, 1) if old else new or good)
    return path


VERSION = f'"schema": "zerohttpd-seven/sweep",\n "schema_version": {SCHEMA_VERSION}'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        *(("", text, "is not a result of a sweep") for text in ("{}", "[1]")),
        *(("", text, "cannot read .*results.json") for text in ("no JSON", "[" * 100_000)),
        (VERSION, VERSION.replace(str(SCHEMA_VERSION), str(SCHEMA_VERSION + 1)), "newer version"),
        (VERSION, VERSION.replace(str(SCHEMA_VERSION), '"new"'), "schema_version"),
        (VERSION, VERSION.replace("sweep", "other"), "is not a result of a sweep"),
        ('"runs": [', '"runs": "none", "x": [', "runs: Input"),
        ('"started"', '"begun"', "started: Field required"),
        ('"requests": 2000', '"requests": 0', "runs.0.requests"),  # a divisor of figures
        ('"concurrency": 100', '"concurrency": 0', "runs.0.concurrency"),
        *(
            ('"machine": {', f'"machine": {{"x": {number}, ', f"{number} is not a number")
            for number in ("NaN", "-1e999", "1e308", "9" * 400)  # they or their sums are not finite
        ),
    ],
)
def test_what_is_no_result_of_a_sweep_is_refused(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        load(changed(tmp_path, old, new))


def test_strange_letters_are_replaced_and_unknown_fields_do_no_harm(tmp_path: Path) -> None:
    strange = r': "a\u001b[2J\ud800\u009b\nb\u00e4", "colour": "blue",'
    path = changed(tmp_path, ': "epoll",', strange)
    assert load(path).runs[0].subject == "a\ufffd[2J\ufffd\ufffd\nb\u00e4"


def test_the_plan_of_an_older_sweep_has_its_servers() -> None:
    old = load(RECORDED.parent / "report" / "recorded" / "study2013.json").settings.options
    assert old
    first = old.parts[0]
    assert (first.subjects, first.levels, first.runs) == (("go", "fasthttp", "epoll"), (200,), 3)
    assert first.varied == {"keep_alive": (True,), "generator": ("wrk",)}


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_of_nothing_is_no_rate(rate: float) -> None:
    run = held(rate=rate)
    assert run.requests_per_second is None
    Console(file=io.StringIO()).print(result_table(results_of([run])))


def test_a_figure_that_a_run_lacks_is_no_figure_of_all() -> None:
    cell = Point([held(), held(run=2)])
    assert cell.by_run("cpu_own") == {1: 134.3, 2: 134.3}
    cell = Point([held(), held(run=2).model_copy(update={"server_statistics": None})])
    assert cell.get("cpu_own") == 134.3
    assert (cell.of_all("cpu_own"), cell.by_run("cpu_own")) == (None, {})


def test_one_bad_run_removes_the_figure_of_the_data_point() -> None:
    cell = Point([held(), broken(run=2)])
    assert (cell.state, cell.spread("rate")) == ("failed", None)
    assert cell.reason == broken().reason


def test_csv_has_a_row_a_run_and_no_figure_where_there_is_none() -> None:
    made = map(csv_row, [held(), broken(level=500)])
    rows = list(csv.DictReader(io.StringIO(csv_of(CSV_COLUMNS, made))))
    assert tuple(rows[0]) == CSV_COLUMNS
    shown = ("connections", "complete", "rate", "p99", "reason")
    assert [[row[name] for name in shown] for row in rows] == [
        ["100", "2000", "1000.0", "16.0", ""],
        ["500", "2000", "", "", 'it said "reset", twice'],  # the count explains the failure
    ]


def test_other_conditions_are_other_data_points(tmp_path: Path) -> None:
    more = ({}, {"keep_alive": True}, {"idle": 1000}, {"instances": 2, "balancer": "keep"}, {})
    runs = [held(run=n) for n, _ in enumerate(more, 1)]
    for run, changes in zip(runs, more, strict=True):
        run.conditions = run.conditions._replace(**changes)  # type: ignore[arg-type]
    runs[3].hosts = [HostFigures(role="server", name="a", cpu_share=0.5, throttled_share=0.9)]
    results = results_of(runs)
    assert {
        cell.conditions.describe(): len(cell.runs) for cell in data_points(results).values()
    } == {
        "guestbook": 2,
        "guestbook, keep-alive": 1,
        "guestbook, 1,000 idle connections": 1,
        "guestbook, 2 instances, through nginx, connections kept": 1,
    }
    save(results, tmp_path)
    assert load(tmp_path / "results.json") == results
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [(row["instances"], row["balancer"]) for row in rows[2:4]] == [
        ("1", "none"),
        ("2", "keep"),
    ]


@pytest.mark.parametrize(("runs", "outliers"), CASES["outliers"])
def test_outliers_are_flagged(runs: str, outliers: list[int]) -> None:
    made = runs_of(runs)
    flag_outliers(made)
    assert [run.run for run in made if run.outlier] == outliers
    cell = Point(made)
    assert cell.outliers == (len(outliers) if cell.held else 0)


def test_an_outlier_still_counts() -> None:
    assert Point(runs_of("epoll 1000 1010 700")).spread("rate") == Spread(1000, 700, 1010, 3)


@pytest.mark.parametrize(("runs", "words"), CASES["runs"])
def test_the_number_of_runs_is_shown(runs: str, words: str) -> None:
    assert runs_in_words(data_points(results_of(runs_of(runs))).values()) == words


def test_the_typical_one_of_runs_without_a_rate_has_their_median() -> None:
    cell = Point([of_memory(pss) for pss in (9_000_000, 3_000_000, 5_000_000)])
    assert cell.typical
    assert (cell.spread("rate"), BY_KEY["probed"].read(cell.typical)) == (None, 3000.0)


@pytest.mark.parametrize(("runs", "lower_bound", "bottleneck"), CASES["medians"])
def test_a_median_is_a_lower_bound_where_it_could_be_higher(
    runs: str, lower_bound: bool, bottleneck: str
) -> None:
    made = runs_of(runs)
    for run in made:
        run.bottleneck_host = f"host of {run.bottleneck}"
    cell, host = Point(made), f"host of {bottleneck}"
    assert (cell.lower_bound, str(cell.bottleneck)) == (lower_bound, bottleneck)
    assert cell.bottleneck_host == (host if cell.bottleneck else None)


def test_folders_are_named_after_the_time_and_never_shared(tmp_path: Path) -> None:
    assert make_folder(tmp_path, NOW).name == "2026-02-03_04-05-06"
    assert make_folder(tmp_path, NOW).name == "2026-02-03_04-05-06_2"
    (tmp_path / "file").touch()
    with pytest.raises(UserError):
        make_folder(tmp_path / "file", NOW)
