# SPDX-License-Identifier: MIT
"""The results of a sweep are the same after being written and read."""

import csv
import io
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from rich.console import Console

from bench.load.ab import parse_report
from bench.readers.table import result_table
from bench.records.conditions import Conditions
from bench.records.errors import UserError
from bench.records.figures import HostFigures, ServerStatistics
from bench.records.metrics import BY_KEY
from bench.records.points import Point, Spread, data_points, runs_in_words
from bench.records.results import SCHEMA_VERSION, Results, flag_outliers
from bench.records.run import Reason, Run
from bench.records.store import CSV_COLUMNS, csv_text, load, make_folder, save

from ..report.made import of_memory

RECORDED = Path(__file__).parents[1] / "recorded"
NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


def held(server: str = "epoll", level: int = 100, run: int = 1, rate: float = 1000.0) -> Run:
    figures = parse_report((RECORDED / "good.txt").read_text())
    assert figures is not None
    figures.requests_per_second = rate
    return Run(
        subject=server,
        workload="guestbook",
        concurrency=level,
        run=run,
        state="held",
        requests=2000,
        ab=figures,
        server_statistics=ServerStatistics(requests=2041, cpu_us_per_request=134.3),
    )


def broken(server: str = "epoll", level: int = 100, run: int = 1) -> Run:
    run_ = held(server, level, run)
    run_.state, run_.reason = "failed", Reason(label="reset", text='it said "reset", twice')
    return run_


def some_results(*runs: Run) -> Results:
    return Results(
        started=NOW,
        machine={"cpus": 2},
        settings={"path": "/guestbook", "runs": 1},
        servers=["epoll"],
        levels=[100],
        runs=list(runs),
    )


def test_round_trip(tmp_path: Path) -> None:
    before = some_results(held(), broken(level=500))
    save(before, tmp_path)
    assert load(tmp_path / "results.json") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.csv", "results.json"]


def test_the_file_names_its_form(tmp_path: Path) -> None:
    save(some_results(), tmp_path)
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["schema"] == "zerohttpd-seven/sweep"
    assert content["schema_version"] == SCHEMA_VERSION


def test_a_newer_form_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(some_results(), tmp_path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(UserError, match="newer version"):
        load(path)
    good = json.dumps(content)
    for other in (
        *("{}", "[1]", "no JSON", "[" * 100_000),
        good.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": "new"'),
        good.replace('"runs": []', '"runs": "none"'),
        good.replace('"started"', '"begun"'),
        *(
            good.replace('"machine": {', f'"machine": {{"x": {number}, ')
            for number in ("NaN", "-1e999", "1e308", "9" * 400)  # sums of such are no numbers
        ),
    ):
        assert other != good
        path.write_text(other)
        with pytest.raises(UserError):
            load(path)


def test_what_no_terminal_and_no_page_should_get_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(some_results(held()), tmp_path)
    content = json.loads(path.read_text())
    content["runs"][0]["subject"] = "a\x1b[2J\ud800\x9b\nb\u00e4"
    path.write_text(json.dumps(content))
    assert load(path).runs[0].subject == "a\ufffd[2J\ufffd\ufffd\nb\u00e4"


def test_fields_that_are_not_known_yet_do_no_harm(tmp_path: Path) -> None:
    save(some_results(held()), tmp_path)
    path = tmp_path / "results.json"
    content = json.loads(path.read_text())
    content["runs"][0]["colour"] = "blue"
    path.write_text(json.dumps(content))
    assert load(path) == some_results(held())


def test_a_cell_is_the_median_of_its_runs() -> None:
    cell = Point([held(rate=900), held(run=2, rate=1000), held(run=3, rate=1250)])
    assert cell.state == "held"
    assert cell.spread("rate") == Spread(1000, 900, 1250, 3)
    assert cell.typical is not None
    assert cell.typical.run == 2


def test_a_run_of_nothing_is_no_run(tmp_path: Path) -> None:
    """A run without requests is invalid in any file, because other figures are divided by it."""
    save(some_results(held()), tmp_path)
    path = tmp_path / "results.json"
    for name in ("requests", "concurrency"):
        content = json.loads(path.read_text())
        content["runs"][0][name] = 0
        other = tmp_path / "other.json"
        other.write_text(json.dumps(content))
        with pytest.raises(UserError, match=f"runs.0.{name}"):
            load(other)
    for rate in (0.0, -1.0):
        run = held(rate=rate)
        assert run.requests_per_second is None
        Console(file=io.StringIO()).print(result_table(some_results(run)))


def test_one_bad_run_takes_the_figure_from_the_cell() -> None:
    cell = Point([held(), broken(run=2)])
    assert cell.state == "failed"
    assert cell.spread("rate") is None
    assert cell.reason is not None
    assert cell.reason.label == "reset"


def test_csv_has_a_row_a_run_and_no_figure_where_there_is_none() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text([held(), broken(level=500)]))))
    assert [row["concurrency"] for row in rows] == ["100", "500"]
    assert tuple(rows[0]) == CSV_COLUMNS
    assert rows[0]["requests_per_second"] == "1000.0"
    assert rows[0]["p99_ms"] == "16.0"
    assert rows[1]["complete"] == "2000", "counts are kept, as part of the reason"
    assert rows[1]["requests_per_second"] == ""
    assert rows[1]["p99_ms"] == ""
    assert rows[1]["reason"] == 'it said "reset", twice'


VERSION_1 = {
    "schema": "zerohttpd-seven/sweep",
    "schema_version": 1,
    "state": "complete",
    "started": "2026-02-03T04:05:06Z",
    "settings": {"path": "/guestbook", "runs": 1},
    "servers": ["epoll"],
    "levels": [100],
    "runs": [
        {
            "server": "epoll",
            "workload": "/guestbook",
            "concurrency": 100,
            "run": 1,
            "state": "held",
            "requests": 2000,
            "server_statistics": {"requests": 2041, "cpu_us_per_request": 134.3},
        }
    ],
}


def test_files_of_the_first_version_open(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(VERSION_1))
    (run,) = load(path).runs
    assert (run.subject, run.kind) == ("epoll", "server")
    assert run.conditions == Conditions("guestbook")
    assert (run.process, run.latency, run.bottleneck, run.littles_law) == (None,) * 4


VERSION_2 = VERSION_1 | {
    "schema_version": 2,
    "placement": {"server": [0], "load": [1], "note": "server on CPU 0"},
    "runs": [
        {
            "subject": "floor-epoll",
            "kind": "floor",
            "architecture": "epoll",
            "workload": "redirect",
            "keep_alive": True,
            "mode": "open",
            "rate": 500.0,
            "concurrency": 100,
            "run": 1,
            "state": "held",
            "requests": 2000,
            "bottleneck": "load",
            "lower_bound": True,
            "process": {
                "cpu_user_s": 0.1,
                "cpu_system_s": 0.2,
                "cpu_us_per_request": 150.0,
                "cpu_user_us_per_request": 50.0,
                "cpu_system_us_per_request": 100.0,
            },
        }
    ],
}


def test_files_of_the_second_version_open(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(VERSION_2))
    found = load(path)
    (run,) = found.runs
    assert run.conditions == Conditions("redirect", True, mode="open", rate=500.0)
    assert (run.hosts, run.nginx_process) == ([], None)
    assert (run.bottleneck, run.bottleneck_host, found.hosts) == ("load", None, [])


def test_instances_behind_nginx_are_other_cells(tmp_path: Path) -> None:
    twice = held()
    twice.conditions = Conditions("guestbook", instances=2, balancer="keep")
    twice.hosts = [HostFigures(role="server", name="a", cpu_share=0.5, throttled_share=0.9)]
    results = some_results(held(), twice)
    assert [cell.conditions.describe() for cell in data_points(results)] == [
        "guestbook",
        "guestbook, 2 instances, through nginx, connections kept",
    ]
    save(results, tmp_path)
    assert load(tmp_path / "results.json") == results
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [(row["instances"], row["balancer"]) for row in rows] == [("1", "none"), ("2", "keep")]


def test_one_is_told_as_one() -> None:
    told = [Conditions("guestbook", workers=number).describe() for number in (1, 2)]
    assert told == ["guestbook, 1 worker", "guestbook, 2 workers"]


def test_cells_under_other_conditions_are_other_cells() -> None:
    kept, idle = held(), held()
    kept.conditions = Conditions("guestbook", keep_alive=True)
    idle.conditions = Conditions("guestbook", idle=1000)
    cells = data_points(some_results(held(), kept, idle, held(run=2))).values()
    assert [len(cell.runs) for cell in cells] == [2, 1, 1]
    assert [cell.conditions.describe() for cell in cells] == [
        "guestbook",
        "guestbook, keep-alive",
        "guestbook, 1,000 idle connections",
    ]


def test_an_outlier_is_flagged_and_still_counts() -> None:
    runs = [held(run=n, rate=rate) for n, rate in enumerate((1000, 1010, 700), 1)]
    flag_outliers(runs)
    assert [run.outlier for run in runs] == [False, False, True]
    cell = Point(runs)
    assert (cell.spread("rate"), cell.outliers) == (Spread(1000, 700, 1010, 3), 1)
    for rates in ((1000, 1500), (1000, 1050, 1090), (800, 1000, 1200)):
        runs = [held(run=n, rate=rate) for n, rate in enumerate(rates, 1)]
        flag_outliers(runs)
        assert not any(run.outlier for run in runs), rates
    runs = [held(run=n, rate=rate) for n, rate in enumerate((1000, 1001, 999, 1300), 1)]
    runs[2].state = "failed"
    flag_outliers(runs)
    assert [run.outlier for run in runs] == [False, False, False, True], "one has no rate"


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ({20: 1, 100: 1}, "one run"),
        ({20: 3, 100: 3}, "median of 3 runs"),
        ({1000: 3, 20: 1, 100: 3}, "one run, at 100, 1,000 the median of 3"),
        ({20: 2, 100: 3}, "median of 2 runs, at 100 the median of 3"),
    ],
)
def test_how_often_cells_were_measured_is_said(runs: dict[int, int], words: str) -> None:
    made = [held(level=level, run=n) for level, often in runs.items() for n in range(often)]
    assert runs_in_words(data_points(some_results(*made)).values()) == words


def test_the_typical_one_of_runs_without_a_rate_has_their_median() -> None:
    cell = Point([of_memory(pss) for pss in (9_000_000, 3_000_000, 5_000_000)])
    assert cell.typical
    assert (cell.spread("rate"), BY_KEY["probed"].read(cell.typical)) == (None, 3000.0)


@pytest.mark.parametrize(
    ("rates", "bounds", "lower_bound", "bottleneck"),
    [
        ((9000, 10_000, 11_000), (False, False, False), False, "server"),
        ((9000, 10_000, 11_000), (False, True, False), True, "load"),
        ((9000, 10_000, 11_000), (True, False, False), True, "load"),
        ((9000, 10_000, 11_000), (False, False, True), False, "server"),
        ((9000, 11_000), (True, False), True, "load"),
        # Half of what the second could have had more would be in the median.
        ((9000, 11_000), (False, True), True, "load"),
        ((9000, 10_000, 11_000, 12_000), (False, False, True, False), True, "load"),
        ((9000, 10_000, 11_000, 12_000), (False, False, False, True), False, "server"),
    ],
)
def test_a_median_is_a_lower_bound_where_it_could_be_higher(
    rates: tuple[int, ...], bounds: tuple[bool, ...], lower_bound: bool, bottleneck: str
) -> None:
    runs = [held(run=n, rate=rate) for n, rate in enumerate(rates, 1)]
    for run, bound in zip(runs, bounds, strict=True):
        run.lower_bound, run.bottleneck = bound, "load" if bound else "server"
    cell = Point(runs)
    assert (cell.lower_bound, cell.bottleneck) == (lower_bound, bottleneck)


def test_the_limit_of_a_lower_bound_is_that_of_the_run_that_makes_it_one() -> None:
    runs = [held(run=n, rate=rate) for n, rate in enumerate((9000, 10_000, 11_000), 1)]
    for run in runs:
        run.bottleneck, run.bottleneck_host = "none", None
    runs[0].lower_bound, runs[0].bottleneck, runs[0].bottleneck_host = True, "load", "vm1"
    cell = Point(runs)
    assert (cell.typical, cell.lower_bound) == (runs[1], True)
    assert (cell.bottleneck, cell.bottleneck_host) == ("load", "vm1")


def test_folders_are_named_after_the_time_and_never_shared(tmp_path: Path) -> None:
    assert make_folder(tmp_path, NOW).name == "2026-02-03_04-05-06"
    assert make_folder(tmp_path, NOW).name == "2026-02-03_04-05-06_2"
    (tmp_path / "file").touch()
    with pytest.raises(UserError):
        make_folder(tmp_path / "file", NOW)
