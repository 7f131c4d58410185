# SPDX-License-Identifier: MIT
"""Several hosts: which was the limit, their drawing, more instances behind nginx."""

import csv
import io
import json

import pytest

from bench.records.environment import HostInfo
from bench.records.figures import HostFigures
from bench.records.results import Conditions, Results
from bench.report import limits
from bench.report.charts.catalogue import catalogue
from bench.report.findings import across
from bench.report.page import export, origin, parts
from bench.report.page.page import render
from bench.report.study import Study

from .made import everything, plain_runs, results_of
from .made_hosts import several_hosts

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
    """Return results of several hosts without throttling, or with other fields of each run."""
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
        for row in across.instance_rows(study)
        if (row["subject"], row["level"], row["way"]) == ("poll", 100, "keep")
    ]
    by = {row["n"]: row for row in rows}
    assert sorted(by) == [1, 2, 4]
    assert by[4]["ideal"] == pytest.approx(4 * by[1]["rate"], rel=0.001)
    assert len(by[1]["s"]) == 7  # whichever scenario of the family is chosen


def test_without_a_balancer_there_is_nothing_to_say() -> None:
    study = Study(everything())
    assert across.instance_rows(study) == []
    assert across.scaling_finding(study, GUESTBOOK, 1000, "keep") == ""
    assert across.through_finding(study, GUESTBOOK, 1000) == ""
    assert not {"through", "instances-keep", "hosts"} & set(catalogue(study).exhibits)


def test_two_hosts_without_nginx() -> None:
    results = results_of(plain_runs(("epoll",), (100,)))
    results.hosts = [
        HostInfo(role=role, name=name, address="192.0.2.1", cpus=2)
        for role, name in (("load", "a"), ("server", "b"), ("redis", "<b>"))
    ]
    study = Study(results)
    assert "2 CPUs" in parts.hosts_in_a_line(study)
    page = render(study, catalogue(study))
    assert "Host &lt;b&gt; (redis)" in page


def test_the_table_and_the_facts_name_every_host(study: Study) -> None:
    heads = [column.label for column in export.columns(study)]
    assert heads[-5:] == ["load", "nginx", "zerohttpd", "zerohttpd2", "redis"]
    cells = next(cells for _, point, cells in export.rows(study) if point.subject == "epoll")
    assert len(cells) == len(heads)
    assert "throttled 92 %" in ", ".join(cells[-5].notes)
    names = origin.facts(study)
    assert {"Host load", "Host nginx", "Host zerohttpd2", "Host redis"} <= set(names)


def test_the_memory_of_a_host_is_that_of_its_machine() -> None:
    results = several_hosts()
    results.machine.memory_bytes, results.hosts[0].memory_mb = 25_276_502_016, 25_277
    rows = origin.facts(Study(results))
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


@pytest.mark.parametrize(
    ("resent", "words"), [(None, ""), (0, ", no queue problems"), (2, ", 2 resent segments")]
)
def test_queues_are_in_order_only_where_somebody_looked(resent: int | None, words: str) -> None:
    host = HostFigures(role="redis", name="redis", cpu_share=0.5, retransmits=resent)
    assert limits.host_words(host) == f"50 % of its CPU{words}"
    assert limits.label("server", "zerohttpd2") == "zerohttpd2"
    assert limits.label("redis", "vm4") == "vm4 (redis)"
