# SPDX-License-Identifier: MIT
"""Several hosts: which was the limit, their drawing, more instances behind nginx."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from bench.records.environment import HostInfo
from bench.records.figures import HostFigures
from bench.records.results import Conditions
from bench.records.store import save
from bench.report.charts.catalogue import catalogue
from bench.report.findings import findings_across, instances
from bench.report.page import export, page, topology
from bench.report.page.build import build
from bench.report.page.page import render
from bench.report.study import hosts
from bench.report.study.holding import holdings
from bench.report.study.study import Study, describe

from .conftest import recorded
from .made import everything, plain_runs, results_of
from .made_hosts import several_hosts

GUESTBOOK = Conditions("guestbook")
FOUR_KEPT = Conditions("guestbook", instances=4, balancer="keep")


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(several_hosts())


def test_the_limit_is_a_host_with_a_name(study: Study) -> None:
    point = study.find("epoll", GUESTBOOK, 1000)
    assert point is not None
    assert hosts.limit_words(point) == "load was the limit: throttled in 92 % of its periods"
    assert point.lower_bound
    point = study.find("poll", FOUR_KEPT, 1000)
    assert point is not None
    assert hosts.limit_words(point).startswith("nginx was the limit")
    assert hosts.finding(study, GUESTBOOK, 1000) == (
        "At 1,000 connections the host zerohttpd was the limit for 6 of 7 servers: "
        "throttled in up to 92 % of its periods"
    )
    words = {h.subject: h.words for h in holdings(study, GUESTBOOK)}
    assert "At 1,000 load was the limit" in words["epoll"]


def test_without_a_quota_its_cpu_tells() -> None:
    results = several_hosts()
    for run in results.runs:
        for host in run.hosts:
            host.throttled_share = None
    point = Study(results).find("epoll", GUESTBOOK, 1000)
    assert point is not None
    assert hosts.limit_words(point) == "load was the limit: 100 % of its CPU used"


def test_nobody_at_the_limit() -> None:
    results = several_hosts()
    for run in results.runs:
        run.bottleneck, run.bottleneck_host = "none", None
    point = Study(results).find("epoll", GUESTBOOK, 1000)
    assert point is not None
    assert hosts.limit_words(point).startswith("no host was at its limit; the busiest was load")


def test_on_one_machine_there_is_a_limit_without_a_host() -> None:
    study = Study(everything())
    point = study.find("epoll", Conditions("redirect"), 100)
    assert point is not None
    assert hosts.limit_words(point) == "the load generator was at its limit"
    assert hosts.host_rows(study) == []
    assert topology.title(study) == ""


def test_names_say_roles() -> None:
    assert hosts.label("server", "zerohttpd2") == "zerohttpd2"
    assert hosts.label("redis", "vm4") == "vm4 (redis)"


def test_several_instances_against_the_ideal(study: Study) -> None:
    title = instances.scaling_finding(study, GUESTBOOK, 1000, "keep")
    assert title == (
        "With connections to the servers kept, four instances of forking carried 2.0 times as much "
        "as one, of epoll no more; ideal is 4 times. There nginx was the limit for 5 of 7"
    )
    rows = [
        row
        for row in instances.instance_rows(study)
        if (row.subject, row.level, row.way) == ("poll", 100, "keep")
    ]
    by = {row.n: row for row in rows}
    assert sorted(by) == [1, 2, 4]
    assert by[4].ideal == pytest.approx(4 * by[1].rate, rel=0.001)
    assert len(by[1].s) == 7  # whichever scenario of the family is chosen


def test_through_nginx_against_straight(study: Study) -> None:
    title = instances.through_finding(study, FOUR_KEPT, 1000)
    assert re.fullmatch(
        r"Behind nginx one instance of \w+ kept all of its rate if nginx keeps its connections.*"
        r"; unknown for epoll: without nginx the load generator was at its limit",
        title,
    )
    kept = results_of([run for run in study.results.runs if run.conditions.balancer != "close"])
    drawn = json.dumps(catalogue(Study(kept)).exhibits["through"].spec)
    assert "connections kept" in drawn
    assert "connections closed" not in drawn, "a legend names what was measured"


def test_without_a_balancer_there_is_nothing_to_say() -> None:
    study = Study(everything())
    assert instances.instance_rows(study) == []
    assert instances.scaling_finding(study, GUESTBOOK, 1000, "keep") == ""
    assert instances.through_finding(study, GUESTBOOK, 1000) == ""
    assert not {"through", "instances-keep", "hosts"} & set(catalogue(study).exhibits)


def test_scenarios_are_told_apart(study: Study) -> None:
    assert study.scenarios[0] == GUESTBOOK
    names = [describe(s) for s in study.scenarios]
    assert len(set(names)) == 7
    assert (
        "guestbook, a connection per request, 4 instances, through nginx, connections kept" in names
    )


def test_the_text_names_every_host_and_path(study: Study) -> None:
    words = topology.words(study)
    for name in ("load", "nginx", "zerohttpd", "zerohttpd2", "redis"):
        assert f"{name} at 10.77.0." in words
    assert "0.5 of a CPU by cgroup v2" in words
    assert "load to nginx to the servers to Redis and load directly to the server" in words


def test_no_path_is_named_that_no_request_took() -> None:
    results = several_hosts()
    results.runs = [run for run in results.runs if run.conditions.balancer == "none"]
    assert "to nginx to" not in topology.words(Study(results))


def test_two_hosts_without_nginx() -> None:
    results = results_of(plain_runs(("epoll",), (100,)))
    results.hosts = [
        HostInfo(role=role, name=name, address="192.0.2.1", cpus=2)
        for role, name in (("load", "a"), ("server", "b"), ("redis", "<b>"))
    ]
    study = Study(results)
    assert "2 CPUs" in topology.title(study)
    page = render(study, catalogue(study))
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split('id="topology"')[1].split("</p>")[0]


def test_the_table_and_the_facts_name_every_host(study: Study) -> None:
    heads = [column.label for column in export.columns(study)]
    assert heads[-5:] == ["load", "nginx", "zerohttpd", "zerohttpd2", "redis"]
    row = next(r for r in export.rows(study) if r.subject == "epoll")
    assert len(row.cells) == len(heads)
    assert "throttled 92 %" in row.cells[-5].small
    names = [group.name for group in page.fact_groups(study)]
    assert {"Host load", "Host nginx", "Host zerohttpd2", "Host redis"} <= set(names)


def test_the_memory_of_a_host_is_that_of_its_machine() -> None:
    results = several_hosts()
    results.machine.memory_bytes, results.hosts[0].memory_mb = 25_276_502_016, 25_277
    rows = {group.name: dict(group.rows) for group in page.fact_groups(Study(results))}
    assert rows["Machine of the load generator"]["memory"] == "23.5 GiB"
    assert rows["Host load"]["memory"] == "23.5 GiB"


def test_the_exports_have_the_hosts(study: Study) -> None:
    content = json.loads(export.as_json(study))
    assert [host["name"] for host in content["hosts"]][:2] == ["load", "nginx"]
    cell = next(c for c in content["cells"] if c["instances"] == 4 and c["subject"] == "poll")
    assert cell["balancer"] == "close"
    assert cell["bottleneck_host"] == "nginx"
    assert {host["name"] for host in cell["hosts"]} == {host.name for host in study.results.hosts}
    row = next(csv.DictReader(io.StringIO(export.as_csv(study))))
    assert float(row["host_zerohttpd_throttled_share"]) == 0.92
    assert "nginx was the limit: throttled in 92 %" in export.as_markdown(study)


@pytest.mark.slow
def test_the_pictures_beside_the_page(tmp_path: Path) -> None:
    save(several_hosts(), tmp_path)
    names = {path.name for path in build(tmp_path)}
    for name in ("hosts", "instances-keep", "instances-close", "through"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    assert (tmp_path / "charts" / "hosts.png").read_bytes().startswith(b"\x89PNG")


def test_the_floor_of_every_workload_that_has_one() -> None:
    found = Study(everything())
    assert [s.workload for s, _ in findings_across.measured(found)] == ["redirect", "link"]
    assert {row.subject for row in findings_across.floor_rows(found)} == {"poll", "epoll"}
    title = findings_across.floors_title(found)
    assert title.startswith("In CPU per request epoll is at 2.0 times its baseline (short link")
    assert findings_across.floors_title(Study(recorded("version1"))) == ""


def test_queues_are_in_order_only_where_somebody_looked() -> None:
    host = HostFigures(role="redis", name="redis", cpu_share=0.5)
    assert hosts.host_words(host) == "50 % of its CPU"
    host.retransmits = 0
    assert hosts.host_words(host) == "50 % of its CPU, no queue problems"
    host.retransmits = 2
    assert hosts.host_words(host) == "50 % of its CPU, 2 resent segments"
