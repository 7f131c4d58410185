# SPDX-License-Identifier: MIT
"""Directives quote sources, words link to the glossary, and commands of sheets are parsed."""

import re
import shutil
from pathlib import Path

import pytest

from bench.book import directive, site
from bench.book.course import SHEETS, sweep_words, table
from bench.book.directive import NONE_YET, curve, sweeps
from bench.book.listing import (
    NoSuchFunction,
    function,
    new_lines,
    paragraphs,
    passages,
    side_by_side,
    step,
)
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.store import load

from ..report.conftest import recorded

SOURCE = (ROOT / "tests" / "bench" / "recorded" / "source.c.txt").read_text()
DECLARED = "static int say(int times,\n               int more);\n\n"
RESULTS = ROOT / "tests" / "bench" / "report" / "recorded"


def test_a_file_falls_into_passages() -> None:
    found = passages(SOURCE)
    comments = [one.comment[:1] for one in found]
    assert comments == [["What it is about."], ["Says it."], ["Here."], []]
    assert [one.code.start for one in found] == [7, 11, 13, 16]
    assert [drawn for drawn, _ in paragraphs(found[0].comment)] == [False, True]


def test_every_line_of_code_of_the_seven_is_shown_once() -> None:
    for file in sorted(ROOT.glob("[0-9][0-9]_*/main.c")):
        text = file.read_text()
        lines = text.splitlines()
        shown = [lines[n - 1] for one in passages(text) for n in one.code if lines[n - 1].strip()]
        outside = re.sub(r"(?ms)^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$", "", text)
        assert shown == [line for line in outside.splitlines() if line.strip()], file


def test_functions_are_quoted_by_name() -> None:
    lines = SOURCE.splitlines()
    first, last = function(SOURCE, "say")
    assert (lines[first - 1], lines[last - 1]) == ("/* Says it.", "}")
    assert function(DECLARED + SOURCE, "say") == (first + 3, last + 3)
    with pytest.raises(NoSuchFunction):
        function(SOURCE, "shout")
    with pytest.raises(NoSuchFunction):
        function(DECLARED, "say")


def test_new_and_equal_lines_are_distinguished() -> None:
    before, after = ["a", "b", "c"], ["a", "x", "  c", "d"]
    assert new_lines(before, after) == {2, 4}
    runs = [*side_by_side(before, after)]
    assert runs == [(True, [(0, 0)]), (False, [(1, 1)]), (True, [(2, 2)]), (False, [(None, 3)])]


@pytest.mark.parametrize(
    "line",
    [
        *("source", "picture of a cat", "function lib/net/readiness.c no_such"),
        *("source lib/no_such.c", "timeline no_such"),
        "pair lib/net/blocking.c blocking_serve lib/net/readiness.c no_such",
    ],
)
def test_a_directive_that_cannot_be_followed_is_an_error(line: str) -> None:
    with pytest.raises(UserError):
        directive.html(line)


def test_two_functions_are_side_by_side_with_their_comments() -> None:
    other = SOURCE.replace("return times; /* after it */", "return 3;")
    html = step(("a.c", "b.c"), (SOURCE, other), ("say", "say"))
    assert html.count('class="code gone"') == html.count('class="code new"') == 1
    assert ("Here." in html, "Says it." in html) == (True, False)
    whole = step(("a.c", "b.c"), (SOURCE, other))
    assert ("Here." in whole, "main" in whole) == (False, True)


def test_curve_is_of_the_newest_sweep_that_has_one(tmp_path: Path) -> None:
    assert sweeps(tmp_path) == []
    assert curve([], ["epoll"]) == NONE_YET
    for name, source in (("2026-01-01", "version1"), ("2026-01-02", "version2")):
        (tmp_path / name).mkdir()
        shutil.copy(RESULTS / f"{source}.json", tmp_path / name / "results.json")
    (tmp_path / "2026-01-03").mkdir()
    (tmp_path / "2026-01-03" / "results.json").write_text("{half")
    found = sweeps(tmp_path)
    expected = [load(RESULTS / f"{source}.json").started for source in ("version2", "version1")]
    assert [one.started for one in found] == expected
    names = found[0].servers[:2]
    html = curve(found, names)
    assert html.count("<svg") == 2
    assert all(name in html for name in names)
    assert curve(found, [*names, "no_such"]) == NONE_YET
    # A sheet of the course has only one level, so its results are a point, not a curve.
    level = [run for run in found[0].runs if run.concurrency == 20]
    sheet = found[0].model_copy(update={"runs": level})
    assert curve([sheet], names) == NONE_YET
    assert curve([sheet, *found], names) == html


def test_the_first_use_of_a_word_is_linked() -> None:
    html = site.linked("<p><code>fork</code> A fork and a fork.</p>", {"fork": "f"}, "w.html")
    assert html == '<p><code>fork</code> A <a class="word" href="w.html#f">fork</a> and a fork.</p>'


def test_the_glossary_has_the_words_that_beginners_do_not_know() -> None:
    words = set(site.words((ROOT / "docs" / "reference" / "glossary.md").read_text()))
    assert words >= {
        *("zombie", "backlog", "copy-on-write", "level-triggered", "request smuggling"),
        *("redis", "handler", "exchange"),
    }
    often = {"order", "request", "poll", "need"} & words
    assert not often, "common words, which would be linked in another meaning"


@pytest.mark.parametrize("sheet", SHEETS)
def test_the_sweep_command_of_a_sheet_is_found(sheet: str) -> None:
    words = sweep_words(sheet)
    assert "--servers" in words
    assert "--levels" in words


def test_each_run_has_a_line_and_a_baseline_is_the_first_of_its_architecture() -> None:
    results = recorded("version3")
    lines = table("1-baseline", results).splitlines()[4:]
    assert len(lines) == len(results.runs)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [name.partition(",")[0] for name, *_ in cells]
    for baseline in {name for name in names if name.startswith("baseline-")}:
        assert names.index(baseline) < names.index(baseline.removeprefix("baseline-"))
        first = cells[names.index(baseline)]
        assert first[1].startswith("no figure") or first[3] == "1.00"


def test_a_failed_run_has_no_figure() -> None:
    results = recorded("version1_failed")
    failed = [one for one in results.runs if one.state != "held"]
    assert failed
    assert table("5-idle", results).count("no figure: ") >= len(failed)
