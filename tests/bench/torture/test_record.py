# SPDX-License-Identifier: MIT
"""The robustness test judges answers, rates, losses and promises, and shows its record."""

import json
import re
import socket
from pathlib import Path
from typing import cast

import pytest
from playwright.sync_api import Browser
from rich.console import Console

from bench.load.crowd import (
    CrowdOrder,
    Exchange,
    Late,
    Outcome,
    Page,
    exchange,
    exchanges_of,
    judge,
)
from bench.records.errors import UserError
from bench.records.torture import (
    CrowdTally,
    TortureCell,
    broken,
    disturbed,
    excused,
    load,
    lost,
    save,
    share,
    verdict,
)
from bench.records.values import toml_of
from bench.report.page import torture as words
from bench.report.page.build import build
from bench.report.page.torture import document
from bench.torture import cell
from bench.torture.attacks import ATTACKS
from bench.torture.cell import CellTimes, Visitors, fill
from bench.torture.command import line_for, summary, torture_table

from ..accessible import hindrances, opened
from ..report.conftest import plain
from .conftest import eventful, made_cell, made_record, phase

CASES = toml_of(Path(__file__).with_name("record.toml"))
SILENT = ATTACKS["connect-only"]
KILLED = ATTACKS["redis-killed"]
SIGTERM = ATTACKS["sigterm"]
FEW = ATTACKS["few-descriptors"]


@pytest.mark.parametrize(("rate", "word"), CASES["verdicts"])
def test_verdicts(rate: float, word: str) -> None:
    cell = made_cell(during=phase(rate))
    assert (verdict(cell, SILENT), share(cell)) == (word, rate / 800)
    assert not broken(cell, SILENT), "a delay is no broken promise"


def test_data_points_without_figures() -> None:
    out = TortureCell(
        subject="nginx", kind="reference", attack="redis-killed", reason="uses no Redis"
    )
    assert verdict(out, KILLED) == "left out"
    assert verdict(out.model_copy(update={"reached": False}), KILLED) == "not reached"
    assert (broken(out, KILLED), disturbed(out), share(out)) == ([], False, None)
    assert verdict(made_cell(before=phase(0.0, good=1)), SILENT) == "no figure"


@pytest.mark.parametrize(
    ("starved", "rate", "loud"),
    [(0.0, 700.0, False), (0.39, 700.0, False), (0.41, 700.0, True), (0.0, 699.0, True)],
)
def test_a_machine_that_was_not_quiet(starved: float, rate: float, loud: bool) -> None:
    """A test is disturbed if the server and the visitors waited for a CPU for more than a fifth of
    the time, or if visitors got less than 70 % of 1,000 pages per second before the attack."""
    cell = made_cell(before=phase(rate), wanted=1000.0, starved_s=starved, attack_to_s=2.0)
    assert disturbed(cell) == loud


def test_what_is_lost() -> None:
    cell = made_cell(
        before=phase(800.0, failed=1000),  # before the attack, so not lost
        during=phase(700.0, good=9, failed=2, unavailable=5),
        settling=phase(700.0, refused=1),
        crowd=CrowdTally(opened=9, answers={"good": 3, "failed": 4}),
    )
    assert lost(cell, SILENT) == {"failed": 2, "unavailable": 5, "refused": 1}
    assert lost(cell, KILLED) == {"failed": 2, "refused": 1}, "503 is right without Redis"
    assert excused(cell, KILLED) == 5
    assert lost(cell, FEW) == {"failed": 6, "unavailable": 5, "refused": 1}, "with the crowd"


@pytest.mark.parametrize(
    ("fields", "words"),
    [*CASES["broken"], ({"back_after_s": None}, "had not recovered 15 s after the attack")],
)
def test_a_promise_is_broken(fields: dict[str, object], words: str) -> None:
    cell = made_cell(**fields)
    assert words in broken(cell, SILENT)
    assert verdict(cell, SILENT) == "broken"
    strange = cell.model_copy(update={"kind": "reference"})
    assert not broken(strange, SILENT), "reference servers promise nothing"


def test_a_request_under_way_is_promised_its_answer() -> None:
    cell = made_cell(attack="sigterm", crowd=CrowdTally(opened=3, answers={"good": 2, "failed": 1}))
    assert broken(cell, SIGTERM) == ["1 of 3 requests in progress was dropped"]
    assert not broken(cell, FEW), "in other attacks this request only counts as lost"
    turned = cell.model_copy(update={"crowd": CrowdTally(answers={"good": 2, "unavailable": 1})})
    assert not broken(turned, SIGTERM), "503 is an answer"


def test_kept_and_read_again(tmp_path: Path) -> None:
    record = eventful()
    save(record, tmp_path)
    assert load(tmp_path) == record == load(tmp_path / "torture.json")
    assert [(cell.subject, cell.attack) for cell, _ in record.broken()] == [
        ("epoll", "redis-killed"),
        ("epoll", "sigterm"),
    ]


def test_an_earlier_record_can_be_read() -> None:
    """load() reads a record of an older version, which has no common head."""
    record = load(Path(__file__).with_name("recorded") / "torture1.json")
    assert (record.subjects, record.state) == (["epoll", "iterative"], "complete")
    assert record.versions.git is not None
    assert record.versions.servers.keys() == {"epoll", "iterative"}
    assert record.command[:2] == ["--servers", "epoll,iterative"]
    assert {verdict(cell, record.facts(cell)) for cell in record.cells} == {"served"}
    assert not record.broken()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_name": "zerohttpd-seven/sweep"}, "is not a record of a robustness test"),
        ({"schema_version": 99}, "newer version"),
        ({"cells": [{"subject": 1}]}, "is not a record of a robustness test: cells.0"),
        ({"attacks": []}, "attacks without a description: "),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, change: dict, words: str) -> None:
    content = json.loads(eventful().model_dump_json())
    (tmp_path / "torture.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(UserError, match=words):
        load(tmp_path)


FILE = Page("small", "/files/small.txt", 200)
REMARK = Page("sign", "/guestbook", 303, posts=True)
HEAD = b"HTTP/1.1 %s\r\nDate: x\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("received", "outcome", "detail"),
    [
        (HEAD % (b"200 OK", 5) + b"hello", "good", ""),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "good", ""),
        (b"", "failed", "closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nDate", "failed", "cut off in the head, after 21 bytes"),
        (b"+PONG\r\n\r\n", "failed", "cut off in the head, after 9 bytes"),
        (HEAD % (b"200 OK", 5) + b"hell", "failed", "cut off at 4 of 5 bytes"),
        (HEAD % (b"503 Service Unavailable", 5) + b"sorr", "failed", "cut off at 4 of 5 bytes"),
        (HEAD % (b"503 Service Unavailable", 5) + b"sorry", "unavailable", "503"),
        (HEAD % (b"502 Bad Gateway", 5) + b"sorry", "unavailable", "502"),
        (HEAD % (b"500 Oh", 5) + b"sorry", "wrong", "status 500"),
        (HEAD % (b"200 OK", 5) + b"hello!", "wrong", "6 bytes, but Content-Length: 5"),
        (HEAD % (b"200 OK", 5) + b"jello", "wrong", "another body"),
    ],
)
def test_judge(received: bytes, outcome: Outcome, detail: str) -> None:
    assert judge(received, FILE, b"hello") == (outcome, detail)


def test_a_body_without_an_expectation_may_have_any_content() -> None:
    assert judge(HEAD % (b"200 OK", 3) + b"abc", FILE)[0] == "good"
    assert judge(HEAD % (b"303 See Other", 0), REMARK)[0] == "good"


def test_a_request_without_a_response() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        order = CrowdOrder("visitors", *listener.getsockname(), 1, (FILE,), timeout=0.1)
        late = "no complete response in time after 0 bytes"
        assert exchange(order, FILE, None) == ("failed", late)
    assert exchange(order, FILE, None) == ("refused", "no process listens")


def test_requests() -> None:
    assert FILE.request() == (
        b"GET /files/small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    head, _, body = REMARK.request("epoll-1").partition(b"\r\n\r\n")
    assert body == b"guest-name=Visitor&guest-remarks=epoll-1"
    assert b"Content-Length: %d" % len(body) in head


def test_lines_come_back() -> None:
    done = [
        Exchange(1.25, 2.5, "small", "good", ""),
        Late(1.0, 2.0),
        Exchange(2.5, 3.0, "sign", "failed", "no answer in time, after 0 bytes"),
    ]
    assert exchanges_of("0\n" + "".join(json.dumps(one) + "\n" for one in done)) == done


def every(
    step: float, begin: float, end: float, page: str = "small", outcome: Outcome = "good"
) -> list[Exchange]:
    """Return one exchange every `step` seconds."""
    count = round((end - begin) / step)
    at = [begin + (i + 0.5) * step for i in range(count)]
    return [Exchange(t - 0.001, t, page, outcome, "why" if outcome != "good" else "") for t in at]


def test_a_short_pause_is_not_in_the_median() -> None:
    answers = every(0.01, 5.0, 5.2) + every(0.01, 5.3, 5.5)  # nothing for 0.1 s
    slices = cell.per_slice(answers, 5.0, 5.5)
    assert slices == [10, 10, 0, 10, 10]
    assert cell.rate(slices) == 100.0
    assert cell.rate([]) == 0.0
    assert cell.per_slice(answers, 5.0, 5.19) == [10], "an incomplete interval does not count"


def test_a_phase_has_its_own_answers_only() -> None:
    answers = every(0.01, 0.0, 1.0) + every(0.02, 0.0, 1.0, "guestbook", "unavailable")
    answers.append(Exchange(0.1, 0.95, "redirect", "failed", "reset"))
    found = cell.phase(answers, 0.5, 1.0, ["small", "redirect"])
    assert found.rate == 100.0
    assert found.outcomes == {"good": 50, "unavailable": 25, "failed": 1}
    assert found.why == {"unavailable": {"guestbook: why": 25}, "failed": {"redirect: reset": 1}}
    assert found.longest_ms == 850.0
    assert cell.phase(answers, 0.5, 1.0, ["guestbook"]).rate == 0.0


def test_back_when_all_pages_come_and_nothing_else() -> None:
    usual = {"small": 100.0, "guestbook": 100.0}
    small = every(0.01, 0.0, 2.0)
    assert cell.back_after(small, usual, 0.0, 2.0) is None, "no response for one page"
    late = every(0.01, 0.6, 2.0, "guestbook")
    assert cell.back_after(small + late, usual, 0.0, 2.0) == 0.5, (
        "responses in one of two intervals are half of the rate"
    )
    failing = every(0.1, 0.6, 1.2, "guestbook", "unavailable")
    assert cell.back_after(small + late + failing, usual, 0.0, 2.0) == 1.2
    assert cell.back_after(small + late, usual, 0.0, 0.6) is None
    slow = every(0.03, 0.0, 2.0) + every(0.03, 0.0, 2.0, "guestbook")
    assert cell.back_after(slow, usual, 0.0, 2.0) is None, "a third of the usual rate is too low"


class Told:
    """Mock visitors that have reported all exchanges, and never waited for a CPU."""

    def __init__(self, answers: list[Exchange]) -> None:
        self.answers = answers

    def late(self, begin: float, end: float) -> float:
        assert begin < end
        return 0.0

    def usual(self, begin: float, end: float) -> dict[str, float]:
        slices = cell.per_slice(cell.good(self.answers), begin, end)
        return {"small": cell.rate(slices)}


@pytest.mark.parametrize(("comes", "back"), [(3.5, 0.4), (17.8, 14.7), (18.1, None)])
def test_back_within_fifteen_seconds_or_not_in_time(comes: float, back: float | None) -> None:
    """A server has 15 s to recover. Here the attack lasts from 0.5 to 3 s, and no response comes
    from 0.5 s until `comes`. A first response after 18 s is too late."""
    answers = every(0.01, 0.0, 0.5) + every(0.01, comes, 19.0)
    cell = TortureCell(subject="epoll", kind="server", attack="connect-only")
    since = 18.05 if back is None else 3.0 + back
    times = CellTimes(0.0, 0.5, 2.9, 3.0, since, starved=0.25)
    fill(cell, cast(Visitors, Told(answers)), times, ["small"])
    assert cell.back_after_s == back
    assert (cell.attack_from_s, cell.attack_to_s, cell.starved_s) == (0.5, 2.9, 0.25)
    assert (cell.before.rate, cell.during.rate) == (100.0, 0.0)


HEADLINE = (
    "2 servers under 3 attacks: promises were broken in 2 tests; 3 of 600 confirmed remarks were "
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
def test_the_text_next_to_a_figure(fields: dict[str, object], back: str, asides: list[str]) -> None:
    cell = made_cell(**fields)
    assert words.back(cell) == back
    assert words.asides(cell, ATTACKS["connect-only"]) == asides


def test_where_there_is_no_redis_a_503_is_right() -> None:
    cell = made_cell(during=phase(good=9, unavailable=2, failed=1))
    cell.during.why = {"unavailable": {"guestbook: 503": 2}, "failed": {"small: reset": 1}}  # type: ignore[union-attr]
    killed = ATTACKS["redis-killed"]
    assert words.asides(cell, killed) == ["lost 1", "2 × 503"]
    assert words.losses(cell, killed) == "1 without a whole response (most often: small: reset)"
    told = words.losses(cell, ATTACKS["connect-only"])
    assert told == "2 answered 503 and 1 without a whole response (most often: small: reset)"


def test_the_table_of_a_terminal() -> None:
    text = plain(terminal(summary(eventful())))
    for part in (
        *(HEADLINE, "○ 0 %", "✗ 100 %", "77 × 503", "back 0.7 s"),
        "✗ epoll, Redis killed: 3 of 100 confirmed remarks are not in Redis",
        "10 of 40 requests in progress were dropped",
        *("uses no Redis: nginx / Redis killed", "1 test is marked disturbed"),
    ):
        assert part in text
    assert "..." in terminal(torture_table(eventful(), ("epoll", "connect-only")))
    assert max(map(len, terminal(torture_table(eventful()), 80).splitlines())) <= 80


def test_a_line_for_a_log() -> None:
    record = eventful()
    lines = [line_for(record, cell) for cell in record.cells]
    assert re.search(r"connect-only +iterative +○\s0\s% +waiting +800 · 0 · 800/s", lines[1])
    assert "not in Redis" in lines[3]
    assert "lost 10" in lines[6]
    assert "10 without a whole response (most often: reset)" in lines[6]
    assert lines[8].endswith("not reached: too late")


def test_markdown() -> None:
    text = plain(document(eventful()).markdown())
    assert text.startswith(f"# Robustness test\n\n{HEADLINE}.\n")
    for part in (
        "| attack | epoll | iterative | nginx |",
        "| Connections without a request | ● 100 % | ○ 0 % | ◕ 62",
        "## Promises broken",
        "| epoll | 800 | 800 | 800 | broken | at once | 1 without a whole response |",
    ):
        assert part in text
    assert [line.count("|") for line in text.splitlines() if line.startswith("| Conn")] == [5]
    calm = document(made_record(made_cell())).markdown()
    assert "every promise was kept, and none of 100 confirmed remarks was lost" in calm
    assert "Promises broken" not in calm


def test_links_of_the_page_lead_somewhere_and_no_colour_is_alone() -> None:
    text = document(eventful()).html()
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= ids
    for word in ("served", "slower", "much slower", "waiting", "broken", "left out"):
        assert f'<span class="word">{word}</span>' in text, "a colour without a word"


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


def test_the_report_reads_a_robustness_test(tmp_path: Path) -> None:
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
    file = tmp_path / "torture.html"
    file.write_text(document(eventful()).html())
    with opened(browser, file.as_uri(), viewport={"width": width, "height": 800}) as page:
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#overview table").first.locator("tbody tr").count() == 3
        assert page.locator("svg.course path").count() == 7
        assert hindrances(page) == []
