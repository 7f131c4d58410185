# SPDX-License-Identifier: MIT
"""Each command on a sheet shows what the sheet promises. Slides and sheets fit on their pages. The
archive for students contains no answer, and its commands work."""

import gzip
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bench.book import course
from bench.faults import copying
from bench.faults.command import NAME, student_copy
from bench.faults.copying import fault, numbers
from bench.host.process import free_port
from bench.host.project import ROOT
from bench.live.room import questions
from bench.records.errors import UserError

from ..accessible import hindrances, opened
from ..commands import run

SESSION_MINUTES = 90
A4_PIXELS = (180 * 96 / 25.4, 267 * 96 / 25.4)
"""The width and height of a page inside its margins of 15 mm, in CSS pixels."""
CPU = re.compile(r"([\d.]+) us CPU/request")
RATE = re.compile(r"([\d,]+) requests/s")

# The `make` of a sheet runs this project's commands, and writes results to a temporary folder.
PRELUDE = """\
make() {{ command make SETUP=true ZEROHTTPD='{command}' "$@"; }}
"""
COMMAND = """\
#!/bin/sh
case $1 in
fault) exec {python} -m bench "$@" ;;
timeline) where=--output ;;
*) where=--results ;;
esac
exec {python} -m bench "$@" $where {folder}
"""


def _rows(said: str) -> dict[str, str]:
    """Return the text that was printed for each run, by its server and condition."""
    lines = re.findall(r"^\[\d+/\d+\] (\S+) +\d+ connections +(.+)$", said, re.MULTILINE)
    return {f"{server}: {re.split(r'   +', text)[0]}": text for server, text in lines}


def _figure(pattern: re.Pattern[str], rows: dict[str, str], server: str, words: str) -> float:
    """Return the figure of the server's only row that contains `words`."""
    (found,) = (v for name, v in rows.items() if name.startswith(f"{server}:") and words in name)
    return float(pattern.search(found)[1].replace(",", ""))


def _baseline(said: str) -> None:
    rows = _rows(said)
    for server in ("iterative", "epoll"):
        figure = float(CPU.search(rows[f"{server}: small"])[1])
        assert figure < 3 * _figure(CPU, rows, f"baseline-{server}", "small")
    assert "epoll: small, keep-alive" in rows


def _who_waits(said: str) -> None:
    assert said.count("Open ") == 2


def _stall(said: str) -> None:
    times = dict(re.findall(r"^(\w+): .* after ([\d.]+) s$", said, re.MULTILINE))
    assert set(times) == {"iterative", "forking", "epoll"}
    # With iterative, curl waits for a fifth of REQUEST_TIMEOUT, on a busy machine for less.
    assert float(times["iterative"]) >= 1.5
    assert min(float(times["forking"]), float(times["epoll"])) < float(times["iterative"])


def _redis(said: str) -> None:
    rows = _rows(said)
    rates = {n: _figure(RATE, rows, "preforking", f" {n} worker") for n in (1, 2, 10, 100)}
    assert rates[1] <= 1000 / 15, "faster than three replies of 5 ms each allow"
    assert rates[2] <= 2000 / 15
    assert rates[100] > 4 * rates[1]


def _idle(said: str) -> None:
    rows = _rows(said)
    poll, epoll = (_figure(CPU, rows, one, "5,000 idle") for one in ("poll", "epoll"))
    assert poll > 1.5 * epoll


def _fault(said: str) -> None:
    assert "A user complains" in said


def _step(said: str) -> None:
    lines = [int(line) for line in said.splitlines() if line.isdecimal()]
    assert len(lines) == 2
    assert lines[0] > 2 * lines[1]


CHECKS: dict[str, Callable[[str], None]] = {
    "1-baseline": _baseline,
    "2-who-waits": _who_waits,
    "3-stall": _stall,
    "4-redis": _redis,
    "5-idle": _idle,
    "6-fault": _fault,
    "7-step": _step,
}


def _commands(text: str) -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_sheet_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "teaching" / "sheets" / f"{name}.md").read_text()
    command = tmp_path / "zerohttpd"
    command.write_text(COMMAND.format(python=sys.executable, folder=tmp_path / "results"))
    command.chmod(0o755)
    script = PRELUDE.format(command=command) + _commands(text)
    script = script.replace("PORT=8000", f"PORT={free_port()}")
    script = script.replace("INTO=$HOME/fault-01", f"INTO={tmp_path / 'fault'}")
    done = run("bash", "-c", script, status=None)
    print(done.stderr)  # for debugging: why the command printed nothing
    CHECKS[name](done.stdout)


def test_each_sheet_is_tried_and_has_its_parts() -> None:
    sheets = {path.stem: path.read_text() for path in (course.COURSE / "sheets").glob("*.md")}
    assert sorted(sheets) == list(CHECKS)
    solutions = (course.COURSE / "instructor" / "solutions.md").read_text()
    for name, text in sheets.items():
        for part in ("Your prediction", "```sh", "Explain it", "**The fix"):
            assert part in text, f"{name}: {part}"
        assert "Expected" not in text, f"{name} contains an answer"
        assert f"## {name[0]}." in solutions


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files of `make slides`, by name."""
    return {page.stem: page for page in course.build(tmp_path_factory.mktemp("course"))}


HEIGHTS = "[...document.querySelectorAll('.part')].map(e => e.offsetHeight)"


@pytest.mark.browser
def test_sheets_fit_on_a_page_each(made: dict[str, Path], browser: Browser) -> None:
    width, height = map(int, A4_PIXELS)
    own = made["sheets"].as_uri()
    with opened(browser, own, viewport={"width": width, "height": height}) as page:
        page.emulate_media(media="print")
        page.goto(own)
        heights = page.evaluate(HEIGHTS)
    assert len(heights) == len(CHECKS)
    assert max(heights) <= A4_PIXELS[1], heights


@pytest.mark.browser
def test_slides_are_turned_with_the_keyboard(made: dict[str, Path], browser: Browser) -> None:
    own = made["slides"].as_uri()
    with opened(browser, own, viewport={"width": 1280, "height": 720}) as page:
        page.goto(own)
        heights = page.evaluate(HEIGHTS)
        assert len(heights) == len(course.slides())
        assert max(heights) <= 720, heights
        for key, place in (("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2), ("End", len(heights))):
            page.keyboard.press(key)
            assert page.evaluate("location.hash") == f"#{place}"
            slide = page.locator(f'[id="{place}"]')
            assert slide.evaluate("e => e === document.activeElement")
            assert abs(slide.evaluate("e => e.getBoundingClientRect().top")) < 2


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("which", ["slides", "notes", "sheets"])
def test_slides_and_sheets_are_accessible(
    made: dict[str, Path], browser: Browser, which: str
) -> None:
    """Each page fits a wide and a narrow screen. axe runs on the narrow screen."""
    own = made[which].as_uri()
    with opened(browser, own) as page:
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(own)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert hindrances(page) == []


@pytest.mark.slow
@pytest.mark.browser
def test_slides_and_sheets_are_printed(made: dict[str, Path]) -> None:
    if not any(map(shutil.which, course.BROWSERS)):
        pytest.skip("no browser is installed")
    pages = {}
    for name, page in made.items():
        printed = course.print_pdf(page)
        pages[name] = len(re.findall(rb"/Type /Page\b(?!s)", printed.read_bytes()))
    assert pages.pop("notes") <= 2
    assert pages == {"slides": len(course.slides()), "sheets": len(CHECKS)}


@pytest.mark.parametrize("bad", ["no title\n\n<!-- 1 min: a note -->", "# A title, but no note"])
def test_a_slide_without_a_title_or_a_note_is_refused(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "instructor").mkdir()
    text = f"# One\n\n<!-- 1 min: a note -->\n\n---\n\n{bad}\n"
    (tmp_path / course.SLIDES).write_text(text)
    monkeypatch.setattr(course, "COURSE", tmp_path)
    with pytest.raises(UserError, match="slide 2"):
        course.slides()


def _plans() -> dict[str, list[list[str]]]:
    """Return the rows of the plan of each session: minutes, activity, material, idea."""
    text = (course.COURSE / "instructor" / "plans.md").read_text()
    parts = re.split(r"^## (Week \d): .*$", text, flags=re.MULTILINE)[1:]
    rows = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)
    return {
        week: [[minutes, *rest.split(" | ")] for minutes, rest in rows.findall(part)]
        for week, part in zip(parts[::2], parts[1::2], strict=True)
    }


def test_each_plan_fills_its_session() -> None:
    plans = _plans()
    assert list(plans) == [f"Week {n}" for n in (1, 2, 3, 4)]
    for week, rows in plans.items():
        assert sum(int(minutes) for minutes, *_ in rows) == SESSION_MINUTES, week


def test_plan_slides_and_sheets_have_the_same_minutes() -> None:
    shown, done = course.slides(), 0
    for minutes, _, where, _ in _plans()["Week 1"]:
        found = re.search(r"slides (\d+)(?:, | to )(\d+)", where)
        assert found is not None, where
        first, last = int(found[1]), int(found[2])
        assert first == done + 1
        done = last
        assert sum(one.minutes for one in shown[first - 1 : last]) == int(minutes), where
        for sheet in re.findall(r"sheets/(\S+\.md)", where):
            title = (course.COURSE / "sheets" / sheet).read_text().partition("\n")[0]
            assert title.endswith(f"({minutes} minutes)"), title
    assert done == len(shown)


TEACHING = ROOT / "docs" / "teaching"
LETTERS = 30
"""The least length of a compared sentence or line: shorter ones occur anywhere by chance."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the archive unpacks to, with the packages of this project."""
    place = tmp_path_factory.mktemp("students")
    assert student_copy(["--output", str(place / "course" / "all.tar.gz")]) == 0
    with tarfile.open(place / "course" / "all.tar.gz") as tar:
        tar.extractall(place)
    folder = place / NAME
    copying._lend_packages(folder)
    return folder


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and ".venv" not in path.parts]


def _flat(text: str) -> str:
    """Return a text on one line, without the signs that begin lines of comments and quotations."""
    return " ".join(re.sub(r"(?m)^[ \t]*(?:\*|#|//|>)+", "", text).split())


def _sentences(text: str) -> set[str]:
    """Return the sentences and table entries of at least LETTERS characters."""
    prose = re.sub(r"(?ms)^```.*?^```$|^:: .*?$|<!--|-->", "", text)
    blocks = re.split(r"\n\s*\n|\n(?=[-|])", prose)
    parts = [one for block in blocks for one in re.split(r"(?<=[.:?!])\s|\|", _flat(block))]
    return {one.strip() for one in parts if len(one.strip()) >= LETTERS}


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if len(line.strip()) >= LETTERS}


def _answers() -> set[str]:
    """Return the answers' sentences that no sheet contains, and their lines of code that neither
    the servers nor the skeleton contain."""
    sheets = "".join(_flat(file.read_text()) for file in (TEACHING / "sheets").glob("*.md"))
    patterns = (
        "lib/**/*.[ch]",
        "ops/*.[ch]",
        "baselines/*.[ch]",
        "[0-9][0-9]_*/*.[ch]",
        "course/own/main.c",
    )
    sources = "".join(file.read_text() for name in patterns for file in ROOT.glob(name))
    code = [(ROOT / "course" / "own" / "solution.c").read_text()]
    prose = [file.read_text() for file in (TEACHING / "instructor").glob("*.md")]
    prose += [question.because for question in questions()]
    for one in map(fault, numbers()):
        code += re.findall(r"(?m)^\+([^+].*)$", one.patch.read_text())
        prose += (*one.hints, one.explanation, one.incident.what if one.incident else "")
    texts = set().union(*map(_sentences, prose))
    return {one for one in texts if one not in sheets} | {
        one for one in _lines("\n".join(code)) if one not in sources
    }


def test_the_archive_has_no_word_of_an_answer(copy: Path) -> None:
    text = "\n".join(_flat(path.read_text(errors="replace")) for path in _files(copy))
    answers = _answers()
    assert len(answers) > 500
    found = sorted(answer for answer in answers if answer in text)
    assert not found, "\n".join(found)


def test_the_archive_has_no_answer_and_no_path_of_this_machine(copy: Path) -> None:
    names = {path.relative_to(copy).as_posix() for path in _files(copy)}
    assert not [name for name in names if "instructor" in name or "solution" in name]
    assert not [name for name in names if name.endswith(".patch") and "faults" in name]
    assert not {".git", copying.ORIGINAL} & {path.name for path in copy.iterdir()}
    sheets = (TEACHING / "sheets").glob("*.md")
    assert {f"docs/teaching/sheets/{sheet.name}" for sheet in sheets} <= names
    assert not [path for path in _files(copy) if str(ROOT).encode() in path.read_bytes()]


def test_the_archive_has_each_ticket_and_patch(copy: Path) -> None:
    for one in map(fault, numbers()):
        ticket = copying.declaration(
            copying.Ticket, copy / "course" / "faults" / f"{one.number}.toml", number=one.number
        )
        assert (ticket.server, ticket.complaint) == (one.server, one.complaint)
        packed = copy / "course" / "faults" / f"{one.patch.name}.gz"
        assert gzip.decompress(packed.read_bytes()) == one.patch.read_bytes()


def test_the_archive_makes_the_same_fault(copy: Path, tmp_path: Path) -> None:
    number = "07"
    made = _zerohttpd(copy, "fault", number, "--into", tmp_path / "fault")
    assert "ask your lecturer" in made.stdout
    there, here = (
        re.findall(r"^[-+][^-+].*", text, re.MULTILINE)
        for text in (copying.difference(tmp_path / "fault"), fault(number).patch.read_text())
    )
    assert there == here
    for hint in ("1", "answer"):
        refused = _zerohttpd(copy, "fault", number, "--hint", hint, status=2)
        assert "ask your lecturer" in refused.stderr


def test_the_archive_has_only_the_chosen_faults(tmp_path: Path) -> None:
    archive = tmp_path / "two.tar.gz"
    assert student_copy(["--faults", "1,08", "--output", str(archive)]) == 0
    with tarfile.open(archive) as tar:
        faults = {Path(name).stem for name in tar.getnames() if "/course/faults/" in name}
    assert {name[:2] for name in faults} == {"01", "08"}


def test_the_archive_makes_sheets_without_slides(copy: Path, tmp_path: Path) -> None:
    _zerohttpd(copy, "slides", "--output", tmp_path)
    assert {path.name for path in tmp_path.glob("*.html")} == {"sheets.html"}


@pytest.mark.slow
def test_the_archive_builds_and_grades(copy: Path) -> None:
    # No stage of this test needs the other builds of the library (BUILD_GRADER).
    only = ["BUILD_GRADER=:", "SERVER=01_iterative", "ARGS=--only serves"]
    for words in (["all"], ["grade", *only]):
        made = run("make", "--silent", "SETUP=true", *words, cwd=copy)
    assert re.search(r"\b20 of \d+ points", made.stdout), made.stdout


def _zerohttpd(copy: Path, *words: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    return run(copy / ".venv" / "bin" / "zerohttpd", *words, cwd=copy, status=status)
