# SPDX-License-Identifier: MIT
"""The grader's catalogue of faults is complete. Checks run in parallel, and failed checks run
again. The tables and scripts of docs/teaching/grading.md are correct."""

import contextlib
import csv
import io
import json
import random
import re
import shutil
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from bench.grade import trying
from bench.grade.attempts import CheckRunner, Trial, own_redis
from bench.grade.building import BUILD_POINTS, Expected, make_site
from bench.grade.findings import FAULTS, OVER, TEXTS, Failed, FaultFile, Grade
from bench.grade.scene import Scene
from bench.grade.server import TIMEOUT
from bench.grade.stages import STAGES
from bench.grade.stages.clients import exchange, require_saved
from bench.grade.stages.comparing import Requests
from bench.grade.stages.racing import MORE_TIMEOUT
from bench.grade.stages.situations import DECLARED, TIMES, Actor, stage_steps
from bench.grade.stages.situations import FILE as SITUATIONS
from bench.grade.trying import Stage, World
from bench.host.process import SignalWatch
from bench.host.project import ROOT, declaration
from bench.load.client import RESET, Client, NoAnswer, Response
from bench.records.errors import UserError
from bench.services.redis_server import connect
from tests.e2e.redisbox import PrivateRedis

from ..commands import bench, run
from .conftest import LOAD


def test_each_fault_is_named_in_the_code() -> None:
    """The grader's code names each fault of faults.toml. mypy checks the reverse."""
    files = set((ROOT / "bench" / "grade").rglob("*.py")) - {TEXTS.with_name("findings.py")}
    code = "".join(file.read_text() for file in (*files, SITUATIONS))
    assert [name for name in FAULTS if f'"{name}"' not in code] == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[fault.crash]", "[fault.crash", r"line \d+"),
        ("[fault.crash]", "[fault.crahs]", r"fault\.crahs"),
        ("[fault.crash]\ntitle", "[fault.crash]\nheading", r"fault\.crash\.(title|heading)"),
        ('brings = ["descriptor-leak"', 'brings = ["descriptor-leek"', r"never-closes\.brings"),
        ("clone|EAGAIN", "clone(", r"dies-at-limit\.trace"),
        ('"no-answer", "wrong-answer", "wrong-length"', '"no-anwser"', r"broken-service"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    text = TEXTS.read_text()
    assert before in text
    (tmp_path / "faults.toml").write_text(text.replace(before, after, 1))
    with pytest.raises(UserError, match=rf"faults\.toml: .*{words}"):
        declaration(FaultFile, tmp_path / "faults.toml")


def test_a_fault_without_texts_is_named(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(re.sub(r"(?ms)^\[fault\.crash\].*?(?=^\[)", "", TEXTS.read_text()))
    with pytest.raises(UserError, match="there is no entry for crash"):
        declaration(FaultFile, file)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_files_and_words_to_read_exist(fault: object) -> None:
    read = str(fault.read)
    for name in re.findall(r"(?:lib|ops|course|docs|0\d_\w+)/[\w./-]+\w", read):
        assert (ROOT / name).is_file(), name
    for word, file in re.findall(r"`(\w+)` in ((?:lib|ops|0\d_)[\w./-]+\w)", read):
        assert word in (ROOT / file).read_text(), f"{file} has no {word}"


def test_a_remark_that_is_not_utf_8_is_a_finding() -> None:
    """The grader reports a missing remark even if Redis has a remark that is not UTF-8. 0.3 s."""
    with PrivateRedis() as redis:
        with contextlib.closing(redis.client()) as client:
            client.do("RPUSH", "guestbook_remarks", b"\xff")
        scene: Any = SimpleNamespace(redis=SimpleNamespace(url=redis.url()))
        with pytest.raises(Failed, match="is in Redis 0 times"):
            require_saved(scene, {"mine": 303})


def test_a_server_that_resets_the_connection_is_a_finding() -> None:
    """If the server has reset the connection, sending fails, and the grader reports a fault.
    10 ms."""

    def talk(client: Client, data: bytes, *_: object) -> Response:
        try:
            return client.ask(data)
        except (NoAnswer, OSError) as error:
            raise Failed("no-answer", str(error)) from error

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Client(listener.getsockname(), TIMEOUT) as client,
        listener.accept()[0] as server,
    ):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        server.close()
        scene: Any = SimpleNamespace(talk=talk)
        with pytest.raises(Failed, match="0 bytes"):
            exchange(scene, client, [Expected("a", b"GET", 200)])


def test_no_client_waits_as_long_as_the_server_may() -> None:
    """The grader's timeouts are shorter than the server's request timeout. Otherwise a check would
    mistake the answer 408 for progress, and a silent server would use up the time of all checks."""
    found = re.search(r"#define REQUEST_TIMEOUT +(\d+)", (ROOT / "lib/config.h").read_text())
    assert found
    assert int(found[1]) / 1000 > TIMEOUT * MORE_TIMEOUT


@pytest.mark.parametrize(
    ("busy", "earlier", "took", "came", "fault"),
    [
        (0.9, [], 20.0, "not tried", None),
        (0.1, ["no-redis"], 20.0, "not tried", None),
        (0.1, [], 2.0, "not tried", None),
        (0.1, [], 20.0, "failed", "too-slow"),
    ],
)
def test_no_points_are_lost_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
    busy: float,
    earlier: list[str],
    took: float,
    came: str,
    fault: str | None,
) -> None:
    """The grader reports no failure after its time limit, because it has ended the server itself.
    If nothing else explains the lost time, the grader reports that the server is too slow."""

    def fails(*_: object) -> None:
        raise Failed("no-answer", "nothing came")

    monkeypatch.setattr(CheckRunner, "_once", fails)
    seconds = iter((10.0, 0.0))
    scene = SimpleNamespace(left=lambda: next(seconds))
    runner = CheckRunner(scene, 1, can_trace=False)  # type: ignore[arg-type]
    world = World(runner, others_busy=lambda: busy, _found=earlier)  # type: ignore[arg-type]
    runner.took.append((took, STAGES[0].checks[1]))
    outcome = world.check(STAGES[0].checks[0])
    assert (outcome.came, outcome.note, outcome.points) == (came, OVER, 0)
    assert (outcome.finding and outcome.finding.fault) == fault


@pytest.mark.parametrize(
    ("busy", "attempts", "came"),
    [
        (0.9, 1, "not tried"),
        (0.1, 1, "failed"),
        (0.9, 2, "not tried"),
        (0.1, 3, "failed"),
        (0.9, 3, "right"),
    ],
)
def test_doubtful_failures_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, busy: float, attempts: int, came: str
) -> None:
    """After two doubtful failures on a busy machine, the check runs again if time is left."""
    ways = iter([*[Failed("no-answer", "nothing came", sure=False)] * 2, None])

    def once(*_: object) -> None:
        if failed := next(ways):
            raise failed

    monkeypatch.setattr(CheckRunner, "_once", once)
    # The grader reads the time that is left before each attempt, and after each failure.
    seconds = iter(([10.0] * (2 * attempts - attempts // 3)) + [0.0])
    scene = SimpleNamespace(left=lambda: next(seconds))
    world = World(CheckRunner(scene, 1, False), others_busy=lambda: busy)  # type: ignore[arg-type]
    outcome = world.check(STAGES[0].checks[0])
    assert outcome.came == came
    assert outcome.note.startswith(OVER) == (came == "not tried")


def together_world(
    monkeypatch: pytest.MonkeyPatch, ways: dict[str, list[object]], apart: bool
) -> World:
    """Return a world with a check for each name in `ways`. Each attempt of a check returns or
    raises its next value. If `apart`, no first attempt ends before all checks have begun."""
    trials = [Trial(name, 2, lambda scene: None) for name in ways]
    stage = Stage("together", "They run together", trials)
    together = threading.Barrier(len(ways) if apart else 1)

    def once(_: CheckRunner, check: Trial, *__: object) -> str | None:
        if check.name not in tried:
            together.wait(5)
        tried.append(check.name)
        result = ways[check.name].pop(0)
        if isinstance(result, Exception):
            raise result
        return str(result)

    tried: list[str] = []
    monkeypatch.setattr(CheckRunner, "_once", once)
    monkeypatch.setattr(trying, "apart", lambda: apart)
    monkeypatch.setattr(trying, "AT_ONCE", len(ways))
    scene = SimpleNamespace(left=lambda: 50.0)
    return World(CheckRunner(scene, 1, False), [stage])  # type: ignore[arg-type]


@pytest.mark.parametrize("apart", [True, False])
def test_checks_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """The grader runs checks in parallel, and repeats a failed check alone. A check with a
    known fault is not repeated. A sure failure counts even if the repetition passes."""
    deaf = [Failed("deaf", "1"), Failed("deaf", "2")]
    ways: dict[str, list[object]] = {
        "right": ["a note"],
        "busy": [Failed("no-answer", "late", sure=False), ""],
        "sure": [Failed("no-timeout", "held"), ""],
        "twice": list(deaf),
        "follows": [Failed("restarted-timeout", "held")],
        "known": [Failed("deaf", "3", sure=False)],
    }
    world = together_world(monkeypatch, ways, apart)
    came = [world.check(check) for check in world.selected[0].checks]
    right, failed, follows = ("right", 2), ("failed", 0), ("follows", 2)
    expected = [right, right, failed, failed, follows, failed]
    assert [(one.came, one.points) for one in came] == expected
    assert came[0].note == "a note"
    assert came[1].note == "passed at attempt 2; first attempt: late"
    assert came[4].finding.follows == "no-timeout"
    assert all(not left for left in ways.values())


@pytest.mark.parametrize(
    ("earlier", "cause"),
    [("no-answer", "closes-twice"), ("lost-wakeup", "data-race"), ("workers-stuck", "data-race")],
)
def test_a_cause_is_judged_before_its_consequences(
    monkeypatch: pytest.MonkeyPatch, earlier: Any, cause: Any
) -> None:
    """A check that failed because of a later check's fault costs no points."""
    ways: dict[str, list[object]] = {
        "earlier": [Failed(earlier, "late", sure=False)],
        "cause": [Failed(cause, "EBADF", proof=("", ["close(7) = -1 EBADF"]))],
    }
    world = together_world(monkeypatch, ways, apart=True)
    came = [world.check(check) for check in world.selected[0].checks]
    assert [(one.came, one.points) for one in came] == [("follows", 2), ("failed", 0)]
    assert came[0].finding.follows == cause


def test_checks_that_run_at_the_same_time_share_no_redis(tmp_path: Path) -> None:
    """Parallel checks share no Redis; an additional Redis ends with its check."""
    watch = SignalWatch()
    with own_redis(watch) as store:
        shared = Scene(None, None, watch, tmp_path, redis=store, dice=random.Random())  # type: ignore[arg-type]
        runner, check = CheckRunner(shared, 1, False), Trial("a check", 1, lambda scene: None)
        with contextlib.ExitStack() as stack:
            lanes = (0, 2, 4)
            scenes = [stack.enter_context(runner._prepared(check, None, lane)) for lane in lanes]
            assert scenes[0].redis is store
            assert len({one.redis.url for one in scenes}) == len(scenes)
            own = scenes[1].redis
            assert connect(own.url).ping()
        with pytest.raises(redis.ConnectionError):
            connect(own.url).ping()


TEXT = (ROOT / "docs" / "teaching" / "grading.md").read_text()
SKELETON = ROOT / "course" / "own" / "main.c"
MAKE = 'make() {{ command make SETUP=true ZEROHTTPD="{python} -m bench" "$@"; }}; export -f make\n'
LAZY_POINTS = 3
"""The points of an unchanged skeleton, which only compiles."""


def script(beginning: str, place: str) -> str:
    """Return grading.md's shell block with this beginning, and ROOT in place of `place`."""
    found = next(b for b in re.findall(r"(?s)```sh\n(.*?)```", TEXT) if b.startswith(beginning))
    assert place in found
    return str(found.replace(place, str(ROOT)))


def shell(text: str, folder: Path) -> str:
    """Return the output of a script whose `make` runs this project's commands."""
    return run("bash", "-c", MAKE.format(python=sys.executable) + text, cwd=folder).stdout


def test_each_field_of_the_json_is_documented() -> None:
    schema = Grade.model_json_schema()
    told = set(re.findall(r"`(\w+)`", TEXT.partition("| field |")[2].partition("\n\n")[0]))
    kinds = [schema, *schema["$defs"].values()]
    assert {name for kind in kinds for name in kind["properties"]} <= told


def test_a_server_without_files_gets_no_stage(tmp_path: Path) -> None:
    """A server that gives every request the same answer gets only the points for its build."""
    tmp_path.chmod(0o755)
    (tmp_path / "08_mine").mkdir()
    shutil.copy(SKELETON, tmp_path / "08_mine" / "main.c")
    words = ("--json", "--only", "serves", "races", "leaves-nothing", "ends")
    done = bench("grade", tmp_path / "08_mine", *words)
    found = Grade.model_validate_json(done.stdout)
    assert (found.points, len(found.stages)) == (BUILD_POINTS, 5), done.stdout
    assert found.faults == ["fixed-answer"], done.stdout


def test_the_schema_is_printed() -> None:
    assert json.loads(bench("grade", "--schema").stdout) == Grade.model_json_schema()


def test_the_points_of_each_stage_are_those_of_the_grader() -> None:
    table = TEXT.partition("| stage | `--only` | points |")[2].partition("\n\n")[0]
    told = {name: int(n) for name, n in re.findall(r"\| (?:`([\w-]+)`)? *\| (\d+) \|", table)}
    points = {stage.name: sum(check.points for check in stage.checks) for stage in STAGES}
    assert told == {"": BUILD_POINTS, **points}
    assert sum(told.values()) == 100


@LOAD
def test_a_worksheet_of_moodle_is_filled_and_a_folder_of_another_name_stops_nothing(
    tmp_path: Path,
) -> None:
    """`make grade-all` fills Moodle's worksheet, even if a folder has another name. About 10 s; a
    minute if the libraries with sanitizers are not built yet."""
    folder = tmp_path / "submissions"
    for place in ("Ada Lovelace_4711", "Charles Babbage_12", "Conor O'Brien_13"):
        name = "08_cy" if place.startswith("Charles") else "08_mine"
        server = folder / f"{place}_assignsubmission_file" / name
        server.mkdir(parents=True)
        shutil.copy(SKELETON, server / "main.c")
    broken = folder / "Ada Lovelace_4711_assignsubmission_file" / "08_mine" / "main.c"
    broken.write_text("int main(void) { return 0 }\n")
    (tmp_path / "worksheet.csv").write_text(
        "\ufeffIdentifier,Full name,Grade,Maximum grade,Last modified (grade)\n"
        'Participant 4711,"Lovelace, Ada",,100.00,-\nParticipant 12,Charles Babbage,,50.00,-\n'
        "Participant 13,Conor O'Brien,,100.00,-\nParticipant 14,Ida Rhodes,7.00,100.00,-\n"
    )
    shell(script("make -s -C ~/zerohttpd grade-all", "~/zerohttpd"), tmp_path)
    rows = list(csv.reader(io.StringIO((tmp_path / "submissions-grades/moodle.csv").read_text())))
    assert rows[0][:3] == ["Identifier", "Full name", "Grade"]
    assert [row[2] for row in rows[1:]] == ["0.00", f"{LAZY_POINTS / 2:.2f}", "3.00", "7.00"]


@LOAD
def test_an_evaluation_of_the_virtual_programming_lab_gives_a_grade(tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    tmp_path.chmod(0o755)
    shutil.copy(SKELETON, tmp_path / "main.c")
    shell(script("#!/bin/sh\nmkdir", "/opt/zerohttpd"), tmp_path)
    said = shell("bash vpl_execution", tmp_path)
    assert f"Grade :=>> {LAZY_POINTS}" in said.splitlines()
    assert "Comment :=>> You answer before you have read the request: " in said


def answered_scene(folder: Path, seed: int = 1) -> Any:
    """Return a scene with a site and a server that gives each request the same answer."""
    dice = random.Random(seed)
    return SimpleNamespace(
        site=make_site(folder, dice),
        dice=dice,
        ask=lambda _: Response(200, b'HTTP/1.1 200 OK\r\nETag: "a"', b""),
        several=True,
        lane=0,
        redis=SimpleNamespace(stop=None, go_on=None, start_again=None),
    )


def test_the_situations_use_only_steps_that_exist(tmp_path: Path) -> None:
    """Each step of a situation is implemented, and each situation has its own name."""
    scene = answered_scene(tmp_path)
    names = [one.name for one in DECLARED.situation]
    assert len(names) == len({*names}) > 15
    for one in DECLARED.situation:
        for line in Requests(scene).in_bytes(one.steps):
            found = TIMES.fullmatch(line)
            for step in found[2].split(b" ; ") if found else [line]:
                verb = step.partition(b" ")[0]
                assert Actor(scene).step(verb.decode()) or verb in stage_steps(scene, "1", b"1")


def test_composed_requests_have_each_method_and_each_target(tmp_path: Path) -> None:
    """The composed requests use each method and target, including unusual file names. 0.5 s."""
    scene = answered_scene(tmp_path)
    requests = Requests(scene)
    words = [data.split(b"\r\n", 1)[0].split(b" ") for data in requests.composed()]
    assert {len(three) for three in words} == {3}
    targets = {target.decode() for _, target, _ in words}
    assert targets >= {*scene.site.unusual} | {one.decode() for one in requests.lines("target")}
    assert {method for method, _, _ in words} == {*requests.lines("method")}


def test_the_same_seed_makes_the_same_files_and_requests(tmp_path: Path) -> None:
    one, same, other = (
        answered_scene(tmp_path / folder, seed) for folder, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert replace(one.site, root=tmp_path) == replace(same.site, root=tmp_path)
    for name in ("small", "big", "moved", "others", "unusual"):
        assert getattr(one.site, name) != getattr(other.site, name)
    asked, again, others = ([*Requests(scene).composed()] for scene in (one, same, other))
    assert asked == again != others
