# SPDX-License-Identifier: MIT
"""The report writes JSON, CSV, Markdown, SVG and PNG files next to its page. For several hosts it
names the host that was the limit, and compares one instance with several."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.records.environment import HostInfo
from bench.records.figures import HostFigures, Run
from bench.records.points import METRICS
from bench.records.results import Conditions, Results
from bench.records.store import CSV_COLUMNS, LIMITED, NAMED, save
from bench.records.values import toml_of
from bench.report import across, limits
from bench.report.charts.catalogue import catalogue, write_rates
from bench.report.charts.rows import curves_of_2019, paper_rows
from bench.report.page import export, page
from bench.report.page.page import render
from bench.report.study import Study

from .conftest import RECORDED, SOURCES, plain, recorded, rendered
from .made import everything, made_run, plain_runs, results_of, several, several_hosts

CASES = toml_of(Path(__file__).with_name("exports.toml"))
SCHEMA = ROOT / "docs" / "reference" / "record-format.md"


def test_all_exports_agree() -> None:
    study = Study(everything())
    cells = json.loads(export.as_json(study))["cells"]
    rows = list(csv.DictReader(io.StringIO(export.as_csv(study))))
    lines = re.findall(r"^\| [a-z]+[-a-z]* \|.*", export.as_markdown(study), re.MULTILINE)
    assert len(cells) == len(rows) == len(study.points)
    assert len([x for x in lines if "connections" not in x]) == len(study.points)
    for cell, row in zip(cells, rows, strict=True):
        assert row["subject"] == cell["subject"]
        assert row["rate"] == ("" if cell["rate"] is None else str(cell["rate"]))


def test_a_cell_without_a_figure_is_empty_and_not_nought() -> None:
    study = Study(recorded("version1_failed"))
    cells = json.loads(export.as_json(study))["cells"]
    failed = next(cell for cell in cells if cell["state"] == "failed")
    assert failed["rate"] is None
    assert failed["label"] == "timed out"
    assert "timed out: not done after 2 s" in export.as_markdown(study)


def test_a_strange_name_stays_in_its_field_of_the_table() -> None:
    run, *_ = plain_runs(("epoll",), (100,), 1, workload="/<b>")
    run.subject = "<img src=x>|epoll\n## A heading"
    text = export.as_markdown(Study(results_of([run])))
    assert "<" not in text
    head, ruler, row = (line for line in text.splitlines() if line.startswith("|"))
    assert row.replace("\\|", "").count("|") == head.count("|") == ruler.count("|")
    assert "&lt;img src=x&gt;\\|epoll ## A heading |" in row


def test_every_column_is_documented() -> None:
    points, _, runs = SCHEMA.read_text().partition("# The runs of a sweep\n")
    rows = csv.DictReader(io.StringIO(export.as_csv(Study(everything()))))
    columns = {c for c in rows.fieldnames or () if not c.endswith(("_low", "_high"))}
    assert "rate" in columns
    assert columns <= set(re.findall(r"`(\w+)`", points + runs))
    there = {*NAMED, *LIMITED, *(metric.key for metric in METRICS)}
    assert set(CSV_COLUMNS) - there <= set(re.findall(r"`(\w+)`", runs))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["everything", "hosts", "study2013"])
def test_every_chart_is_valid_and_has_its_place_in_the_page(source: str) -> None:
    made = catalogue(study := Study(SOURCES[source]()))
    for exhibit in made.exhibits.values():
        alt.Chart.from_dict(exhibit.spec)
    shown = re.findall(r'data-exhibit="([^"]+)"', render(study, made))
    assert sorted(shown) == sorted(made.exhibits)


@pytest.mark.slow
def test_the_files_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report writes no file through a link, because a folder may come from another person."""
    folder, ours = tmp_path / "theirs", tmp_path / "ours"
    (folder / "charts").mkdir(parents=True)
    ours.write_text("ours")
    (folder / "results.json").write_text((RECORDED / "version1.json").read_text())
    for name in ("report.html", "report.csv", "report.md.new", "charts/rates.svg"):
        (folder / name).symlink_to(ours)
    assert main(["report", str(folder)]) == 0
    last, others = capsys.readouterr().out.splitlines()[-2:]
    assert last == f"Open {folder / 'report.html'} in a browser."
    assert others == "In the same folder: charts/, report.csv, report.json, report.md"
    assert ours.read_text() == "ours"
    begins = {"report.html": "<!doctype html>", "report.json": "{", "report.md": "###"}
    begins |= {"report.csv": "subject,kind,", "charts/rates.svg": "<svg", "charts/cpu.svg": "<svg"}
    for name, text in begins.items():
        assert (folder / name).read_text().startswith(text)
    for path in (folder / "charts").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")


@pytest.mark.slow
def test_the_rates_alone_at_the_end_of_a_sweep(tmp_path: Path) -> None:
    results = everything()
    save(results, tmp_path)
    written = write_rates(tmp_path)
    names = {path.name for path in written if path.name.startswith("chart")}
    assert len(names) == 2 * sum(c.mode == "closed" for c in results.conditions())
    assert {"chart.svg", "chart.png"} <= names
    assert "served most" in (tmp_path / "chart.svg").read_text()
    for run in results.runs:
        run.state = "failed"
    save(results, tmp_path)
    assert write_rates(tmp_path) == []


def test_results_without_a_report_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    save(results_of([]), tmp_path)
    assert main(["report", str(tmp_path)]) == 2
    assert "no runs" in capsys.readouterr().err
    save(results_of(plain_runs(("epoll",), (100,), mode="parked")), tmp_path)
    assert main(["report", str(tmp_path)]) == 2
    assert f"zerohttpd report --targets {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(("source", "output"), CASES["overwritten"])
def test_results_are_never_overwritten(
    source: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    results = (RECORDED / "version1.json").read_text()
    (tmp_path / source).write_text(results)
    assert main(["report", str(tmp_path / source), "--output", str(tmp_path / output)]) == 2
    assert "report.html" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {source, "link"}
    assert (tmp_path / source).read_text() == results


def test_the_curves_of_2019() -> None:
    """The report scales the curves of 2019 to the best rate of the same architectures."""
    by: dict[str, list[Any]] = {}
    for name, level, rate in curves_of_2019():
        by.setdefault(name, []).append((level, rate))
    assert len(by) == 7
    assert (10000, 2200) in by["epoll"]
    assert by["poll"][-1] == (2500, 490)  # followed by "varies", not a figure
    runs = made_run("epoll", rate=20_000), made_run("nginx", rate=60_000)
    rows = paper_rows(Study(results_of(runs)))
    best = max(rate for _, rate in by["epoll"])
    assert (max(r["scaled"] for r in rows), max(r["then"] for r in rows)) == (20_000, best)


# ---- The table of all figures ----


def table_of(*runs: Run, subject: str = "epoll") -> dict[str, tuple[str, str]]:
    """Return a row of the table of all figures: the text and the notes of each column."""
    study = Study(results_of(runs))
    table = export.table(study, study.scenarios[0])
    heads = [head.text for head in table.head]
    rows = [dict(zip(heads, cells, strict=True)) for cells in table.rows]
    (row,) = (row for row in rows if row["server"].sort == subject)
    return {label: (plain(cell.text), plain(", ".join(cell.notes))) for label, cell in row.items()}


def test_the_table_has_every_figure_once() -> None:
    pair = [
        made_run(name, level, rate=40_000, cpu=cpu, p99=3, workload="redirect")
        for level in (20, 100)
        for name, cpu in (("epoll", 10.5), ("baseline-epoll", 5))
    ]
    table = export.table(study := Study(results_of(pair)), study.scenarios[0])
    names = [(cells[0].text, cells[1].sort) for cells in table.rows]
    assert names == [(name, n) for n in (20, 100) for name in ("epoll", "baseline-epoll")]
    units = {head.text: [*head.notes] for head in table.head}
    measured = ("requests/s", "p99", "CPU/request", "memory, peak")
    assert [units[name] for name in measured] == [[], ["ms"], ["µs"], ["MB"]]
    row = table_of(*pair[2:])
    expected = {
        "server": "epoll",
        "connections": "100",
        "requests/s": "40,000",
        "state": "valid, server at its limit",
        "p99": "3",
        "CPU/request": "10.5",
        "over baseline": "2.1",
    }
    assert {name: row[name] for name in expected} == {n: (x, "") for n, x in expected.items()}
    assert table_of(*pair[2:], subject="baseline-epoll")["over baseline"] == ("–", "")
    assert "nginx' CPU" not in row, "nginx was not measured"
    assert "over baseline" not in table_of(pair[2])


@pytest.mark.parametrize(
    ("quota", "others", "flags"),
    [(0.0, 0.10, ""), (0.0, 0.11, "disturbed"), (0.2, 0.5, "")],
)
def test_a_disturbed_run_is_marked(quota: float, others: float, flags: str) -> None:
    run = made_run("epoll", quota=quota)
    assert run.process
    run.process.foreign_share = others
    assert table_of(run)["state"] == ("valid, server at its limit", flags)


def test_the_table_of_several_runs() -> None:
    """The report's table marks a lower bound if two of three runs are at the generator's limit."""
    runs = several("epoll", "rate", (39_000, 40_000, 47_000), p99=3)
    runs[2].outlier = True
    for run in runs[:2]:
        run.lower_bound, run.bottleneck = True, "load"
    row = table_of(*runs)
    assert row["requests/s"] == ("≥ 40,000", "39,000–47,000")
    assert row["state"] == ("≥ valid, load generator at its limit", "outliers: 1 of 3 runs")
    assert row["p99"] == ("3", ""), "p99 is not a bound, and is equal in all runs"


GUESTBOOK = Conditions("guestbook")
FOUR_KEPT = Conditions("guestbook", instances=4, balancer="keep")


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(several_hosts())


def limit(of: Results, subject: str = "epoll", under: Conditions = GUESTBOOK) -> str:
    point = Study(of).find(subject, under, 1000)
    assert point
    return limits.limit_words(point)


def with_changes(throttled: bool = True, **fields: object) -> Results:
    """Return results of several hosts with these fields. `throttled`: keep the throttled shares."""
    results = several_hosts()
    for run in results.runs:
        for name, value in fields.items():
            setattr(run, name, value)
        for host in run.hosts:
            host.throttled_share = host.throttled_share if throttled else None
    return results


NOBODY = with_changes(bottleneck="none", bottleneck_host=None)
REDIRECT = Conditions("redirect")


@pytest.mark.parametrize(
    ("results", "subject", "under", "words"),
    [
        (several_hosts(), "epoll", GUESTBOOK, "load was the limit: throttled in 92 % of its per"),
        (several_hosts(), "poll", FOUR_KEPT, "nginx was the limit"),
        (with_changes(throttled=False), "epoll", GUESTBOOK, "load was the limit: 100 % of its CPU"),
        (NOBODY, "epoll", GUESTBOOK, "no host was at its limit; the busiest was load"),
        (everything(), "epoll", REDIRECT, "the load generator was at its limit"),
    ],
)
def test_the_limit_is_a_host_with_a_name(
    results: Results, subject: str, under: Conditions, words: str
) -> None:
    assert limit(results, subject, under).startswith(words)


def test_several_instances_against_the_ideal(study: Study) -> None:
    rows = [
        row
        for row in catalogue(study).data["cells"]
        if (row["subject"], row["level"], row.get("way")) == ("poll", 100, "keep")
    ]
    by = {row["n"]: row for row in rows}
    assert sorted(by) == [1, 2, 4]
    assert by[4]["ideal"] == pytest.approx(4 * by[1]["rate"], rel=0.001)
    assert len(by[1]["family"]) == 7  # scenarios: one without nginx, six with it


def test_without_a_balancer_there_is_nothing_to_say() -> None:
    study = Study(everything())
    assert not any("family" in row for row in catalogue(study).data["cells"])
    assert across.scaling_finding(study, GUESTBOOK, 1000, "keep") == ""
    assert across.through_finding(study, GUESTBOOK, 1000) == ""
    assert not {"through", "instances-keep", "hosts"} & set(catalogue(study).exhibits)


def test_two_hosts_without_nginx() -> None:
    results = results_of(plain_runs(("epoll",), (100,)))
    results.hosts = [
        HostInfo(role=role, name=name, address="192.0.2.1", cpus=2)
        for role, name in (("load", "a"), ("server", "b"), ("redis", "<b>"))
    ]
    text = rendered(results)
    assert "Three hosts, each with 2 CPUs: " in text
    assert "Host &lt;b&gt; (redis)" in text


def test_the_table_and_the_facts_name_every_host(study: Study) -> None:
    table = export.table(study, study.scenarios[0])
    heads = [head.text for head in table.head]
    assert heads[-5:] == ["load", "nginx", "zerohttpd", "zerohttpd2", "redis"]
    cells = next(cells for cells in table.rows if cells[0].text == "epoll")
    assert len(cells) == len(heads)
    assert "throttled 92 %" in ", ".join(cells[-5].notes)
    names = page.facts(study)
    assert {"Host load", "Host nginx", "Host zerohttpd2", "Host redis"} <= set(names)


def test_the_memory_of_a_host_is_that_of_its_machine() -> None:
    results = several_hosts()
    results.machine.memory_bytes, results.hosts[0].memory_mb = 25_276_502_016, 25_277
    rows = page.facts(Study(results))
    assert rows["Machine of the load generator"]["memory"] == "23.5 GiB"
    assert rows["Host load"]["memory"] == "23.5 GiB"


def test_the_exports_have_the_hosts(study: Study) -> None:
    content = json.loads(export.as_json(study))
    assert [host["name"] for host in content["hosts"]][:2] == ["load", "nginx"]
    cell = next(c for c in content["cells"] if c["instances"] == 4 and c["subject"] == "poll")
    assert (cell["balancer"], cell["bottleneck_host"]) == ("close", "nginx")
    assert {host["name"] for host in cell["hosts"]} == {host.name for host in study.results.hosts}
    row = next(csv.DictReader(io.StringIO(export.as_csv(study))))
    assert float(row["host_zerohttpd_throttled_share"]) == 0.92
    assert "nginx was the limit: throttled in 92 %" in export.as_markdown(study)


@pytest.mark.parametrize(
    ("resent", "words"), [(None, ""), (0, ", no queue problems"), (2, ", 2 resent segments")]
)
def test_queues_are_in_order_only_if_they_were_observed(resent: int | None, words: str) -> None:
    host = HostFigures(role="redis", name="redis", cpu_share=0.5, retransmits=resent)
    assert limits.host_words(host) == f"50 % of its CPU{words}"
    assert limits.label("server", "zerohttpd2") == "zerohttpd2"
    assert limits.label("redis", "vm4") == "vm4 (redis)"
