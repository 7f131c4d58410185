# SPDX-License-Identifier: MIT
"""The book quotes existing sources, its pages link to each other, and nothing is loaded from
elsewhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bench.book import command
from bench.book.chapter import BadChapter, read_chapter
from bench.book.curve import NONE_YET, curve, sweeps
from bench.book.difference import new_lines, side_by_side
from bench.book.render import linker, step
from bench.book.source import NoSuchFunction, function, paragraphs, passages
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.store import load

SOURCE = """\
/* SPDX-License-Identifier: MIT */
/*
 * What it is about.
 *
 *     A ---> | B |
 */
#include <stdio.h>

/* Says it.
   Twice. */
static int say(int times) {
    /* Here. */
    return times; /* beside */
}

int main(void) {
    return say(2);
}
"""
DECLARED = "static int say(int times,\n               int more);\n\n"
RESULTS = ROOT / "tests" / "bench" / "report" / "recorded"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return all pages of the book, by name."""
    folder = tmp_path_factory.mktemp("book")
    command.build(folder, folder)
    return {file.name: file.read_text() for file in folder.glob("*.html")}


def test_a_file_falls_into_passages() -> None:
    found = passages(SOURCE)
    assert [one.comment[:1] for one in found] == [
        ["What it is about."],
        ["Says it."],
        ["Here."],
        [],
    ]
    assert [one.first for one in found] == [7, 11, 13, 16]
    lines = SOURCE.splitlines()
    for one in found:
        assert one.code == lines[one.first - 1 : one.first - 1 + len(one.code)]
    assert [drawn for drawn, _ in paragraphs(found[0].comment)] == [False, True]


def test_every_line_of_code_of_the_seven_is_shown_once() -> None:
    for file in sorted(ROOT.glob("[0-9][0-9]_*/main.c")):
        text = file.read_text()
        shown = [line for one in passages(text) for line in one.code if line.strip()]
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


def test_what_is_new_and_what_is_the_same() -> None:
    before, after = ["a", "b", "c"], ["a", "x", "  c", "d"]
    assert new_lines(before, after) == {2, 4}
    runs = list(side_by_side(before, after))
    assert [[(p.left, p.right, p.same) for p in run] for run in runs] == [
        [(0, 0, True)],
        [(1, 1, False)],
        [(2, 2, True)],
        [(None, 3, False)],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "no title",
        "# Title\n:: source",
        "# Title\n:: picture of a cat",
        "# Title\n:: question Why?\nBecause",
    ],
)
def test_a_bad_chapter_is_refused(text: str) -> None:
    with pytest.raises(BadChapter, match="chapter"):
        read_chapter("chapter", text)


def test_a_chapter_that_quotes_what_is_gone_is_refused() -> None:
    for quoted in (
        ":: function lib/net/evented.c no_such",
        ":: source lib/no_such.c",
        ":: beside lib/net/blocking.c blocking_serve lib/net/evented.c no_such",
        ":: timeline no_such",
        ":: lives 99",
    ):
        with pytest.raises(UserError):
            command.body(read_chapter("chapter", f"# Title\n{quoted}\n"), {})


def test_two_functions_stand_side_by_side_with_their_comments() -> None:
    other = SOURCE.replace("return times; /* beside */", "return 3;")
    html = step(("a.c", "b.c"), (SOURCE, other), ("say", "say"))
    assert html.count('class="code gone"') == html.count('class="code new"') == 1
    assert "Here." in html
    assert "Says it." not in html
    whole = step(("a.c", "b.c"), (SOURCE, other))
    assert "Here." not in whole
    assert "main" in whole


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
    # A sheet of the course has one level: that is a point, not a curve.
    level = [run for run in found[0].runs if run.concurrency == 20]
    sheet = found[0].model_copy(update={"runs": level})
    assert curve([sheet], names) == NONE_YET
    assert curve([sheet, *found], names) == html


def test_each_architecture_has_its_chapter(pages: dict[str, str]) -> None:
    for folder in sorted(ROOT.glob("0[1-7]_*")):
        page = pages[folder.name.replace("_", "-") + ".html"]
        assert 'class="timeline"' in page
        assert f"{folder.name}/main.c" in page
        assert 'class="question"' in page
        assert "<h3>Try it</h3><p>In <code>bash</code>," in page, "only bash has /dev/tcp"
        assert "In the real world:" in page
        assert NONE_YET in page
        assert ("+ new since 0" in page) == (folder.name != "01_iterative"), "new, since what?"
        assert "SPDX-License" not in page.partition("</style>")[2], "among the code"


def test_links_lead_somewhere_and_nothing_comes_from_elsewhere(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page), name
        for target in re.findall(r'href="([^"#]*\.html)?(?:#([^"]+))?"', page):
            file, place = target
            there = pages[file or name]
            assert not place or f'id="{place}"' in there, (name, target)


def test_the_contents_number_the_chapters_as_the_texts_do(pages: dict[str, str]) -> None:
    """The numbers match: the course reads "chapters 0 to 3", and 06-poll is chapter 6."""
    contents = pages["00-first.html"].partition("<ol")[2].partition("</ol>")[0]
    files = re.findall(r'href="(\d\d)-', contents)
    assert contents.startswith(f' start="{int(files[0])}"')
    assert [int(file) for file in files] == list(range(len(files)))


def test_the_first_use_of_a_word_is_explained() -> None:
    link = linker({"fork": "fork"}, "words.html")
    html = link("<p><code>fork</code> A fork and a fork.</p>")
    assert html.count("<a ") == 1
    assert '<a class="word" href="words.html#fork">fork</a> and' in html


def test_the_glossary_has_some_forty_words() -> None:
    words = command.glossary_words(Path(command.GLOSSARY).read_text())
    assert {"zombie", "backlog", "copy-on-write", "level-triggered", "request smuggling"} <= set(
        words
    )
    assert {"redis", "handler", "exchange"} <= set(words), "beginners do not know these words"
    often = {"order", "request", "poll", "need"} & set(words)
    assert not often, "they would be linked where they have another meaning"
