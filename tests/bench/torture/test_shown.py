# SPDX-License-Identifier: MIT
"""The page, Markdown and terminal table of a record, from recorded results."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from rich.console import Console

from bench.records.errors import UserError
from bench.records.torture import save
from bench.report.page import torture as words
from bench.report.page.build import build
from bench.report.page.torture import document
from bench.torture.attacks import ATTACKS
from bench.torture.command import line_for, summary, torture_table

from ..accessible import hindrances, opened
from .conftest import eventful, made_cell, made_record, phase

HEADLINE = (
    "2 servers under 3 attacks: promises were broken in 2 tests; 3 of 600 answered remarks were "
    "lost"
)


def terminal(what: object, width: int = 120) -> str:
    """Return what a terminal without colours shows."""
    out = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    out.print(what)
    return out.export_text()


def test_an_outcome_of_another_version_is_shown_as_it_is_called() -> None:
    record = made_record(made_cell(during=phase(lucky=3)))
    assert "3 lucky" in document(record).html()
    assert "3 lucky" in document(record).markdown()


@pytest.mark.parametrize(
    ("fields", "back", "asides"),
    [
        ({}, "at once", []),
        ({"back_after_s": 0.25}, "at once", []),
        ({"back_after_s": 0.31}, "in 0.3 s", ["back 0.3 s"]),
        ({"back_after_s": None}, "not back", ["not back"]),
        ({"starved_s": 0.3}, "at once", ["disturbed"]),  # more than a fifth of 1.2 s
        ({"during": phase(good=9, unavailable=2, failed=1)}, "at once", ["lost 3"]),
        ({"before": None}, "–", []),
    ],
)
def test_what_is_said_beside_a_figure(
    fields: dict[str, object], back: str, asides: list[str]
) -> None:
    cell = made_cell(**fields)
    assert words.back(cell) == back
    assert words.asides(cell, ATTACKS["connect-only"].facts()) == asides


def test_where_there_is_no_redis_a_503_is_right() -> None:
    cell = made_cell(during=phase(good=9, unavailable=2, failed=1))
    cell.during.why = {"unavailable": {"guestbook: 503": 2}, "failed": {"small: reset": 1}}  # type: ignore[union-attr]
    killed = ATTACKS["redis-killed"].facts()
    assert words.asides(cell, killed) == ["lost 1", "2 × 503"]
    assert words.losses(cell, killed) == "1 without a whole answer (most often: small: reset)"
    told = words.losses(cell, ATTACKS["connect-only"].facts())
    assert told == "2 answered 503 and 1 without a whole answer (most often: small: reset)"


def test_the_table_of_a_terminal() -> None:
    text = terminal(summary(eventful()))
    for part in (
        *(HEADLINE, "○ 0\N{NO-BREAK SPACE}%", "✗ 100\N{NO-BREAK SPACE}%", "77 × 503", "back 0.7 s"),
        '✗ epoll, Redis killed: 3 of 100 remarks answered "stored" are not in Redis',
        "10 of 40 requests in progress were dropped",
        *("uses no Redis: nginx / Redis killed", "1 test is marked disturbed"),
    ):
        assert part in text
    assert "..." in terminal(torture_table(eventful(), ("epoll", "connect-only")))
    assert max(map(len, terminal(torture_table(eventful()), 80).splitlines())) <= 80


def test_a_line_for_a_log() -> None:
    record = eventful()
    lines = [line_for(record, cell) for cell in record.cells]
    assert re.search(r"connect-only +iterative +○ 0\s% +held up +800 · 0 · 800/s", lines[1])
    assert "not in Redis" in lines[3]
    assert "lost 10" in lines[6]
    assert "10 without a whole answer (most often: reset)" in lines[6]
    assert lines[8].endswith("not reached: too late")


def test_markdown() -> None:
    text = document(eventful()).markdown()
    assert text.startswith(f"# The torture\n\n{HEADLINE}.\n")
    full, none = "● 100\N{NO-BREAK SPACE}%", "○ 0\N{NO-BREAK SPACE}%"
    for part in (
        "| attack | epoll | iterative | nginx |",
        f"| Connections without a request | {full} | {none} | ◕ 62",
        "## Promises broken",
        "| epoll | 800 | 800 | 800 | broken | at once | 1 without a whole answer |",
    ):
        assert part in text
    assert [line.count("|") for line in text.splitlines() if line.startswith("| Conn")] == [5]
    calm = document(made_record(made_cell())).markdown()
    assert "every promise was kept, and none of 100 answered remarks was lost" in calm
    assert "Promises broken" not in calm


def test_the_page_needs_nothing_else() -> None:
    text = document(eventful()).html()
    assert "<script" not in text
    assert "<link" not in text
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert not re.search(r"url\(", text)
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= ids
    for word in ("served", "slower", "hard pressed", "held up", "broken", "left out"):
        assert f'<span class="word">{word}</span>' in text, "a colour alone"


def test_a_hostile_record_is_text() -> None:
    attack = '</style><script>document.title="taken"</script><b onclick=x>&"'
    cell = made_cell(reason=attack, during=phase(1.0, failed=2))
    cell.during.why = {"failed": {attack: 2}}
    record = made_record(cell, made_cell("poll"))
    record.notes, record.command = [attack], [attack]
    text = document(record).html()
    assert ("<script" in text, "<b onclick" in text, text.count("</style>")) == (False, False, 1)


def test_a_record_with_nothing_in_it() -> None:
    empty = document(made_record())
    for text in (empty.markdown(), empty.html(), terminal(summary(made_record()))):
        assert "No server" in text


def test_the_report_knows_a_torture(tmp_path: Path) -> None:
    save(eventful(), tmp_path)
    made = build(tmp_path)
    assert [path.name for path in made] == ["torture.html", "torture.md"]
    other = build(tmp_path / "torture.json", tmp_path / "other.html")
    assert other[0].read_text() == made[0].read_text()
    with pytest.raises(UserError, match="must end in"):
        build(tmp_path, tmp_path / "torture.json")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page, opened from disk, fetches nothing, is not wider than the window, and is
    readable."""
    file = tmp_path / "torture.html"
    file.write_text(document(eventful()).html())
    with opened(browser, viewport={"width": width, "height": 800}) as (page, events):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#overview table").first.locator("tbody tr").count() == 3
        assert page.locator("svg.course path").count() == 7
        assert events == [file.as_uri()]
        assert hindrances(page) == []
