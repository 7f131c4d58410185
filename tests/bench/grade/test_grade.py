# SPDX-License-Identifier: MIT
"""Each of the seven servers has all points, and the grader names each known fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from bench.grade import building
from bench.grade.faults import FAULTS
from bench.grade.sandbox import Limits
from bench.grade.stage import Grade
from bench.grade.stages import STAGES
from bench.host.project import ROOT
from bench.records.errors import UserError

from .patches import GROWING_POOL, PATCHES, SKELETON, WHOLE, Patch

SEVEN = [f"{file.parent.name}" for file in sorted(ROOT.glob("0[1-7]_*/main.c"))]
STAGES_WITHOUT_LOAD = [one.name for one in STAGES if one.name not in ("load", "races")]
LOAD = pytest.mark.xdist_group("grade-load")  # it builds what the others only use


def grade(server: Path | str, *words: str) -> Grade:
    """Grade a folder, as `make grade` does after everything is built."""
    command = [sys.executable, "-m", "bench", "grade", str(server), "--json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    return Grade.model_validate_json(done.stdout)


def told(found: Grade) -> str:
    """Return the text that a failed assertion should show."""
    return found.model_dump_json(indent=1)


@pytest.mark.slow
@pytest.mark.parametrize("folder", SEVEN)
def test_the_seven_have_all_points(folder: str) -> None:
    found = grade(folder, "--only", *STAGES_WITHOUT_LOAD)
    if folder == "01_iterative":
        assert found.faults == ["by-nature"], told(found)
        assert found.points == found.of - 9
    else:
        assert found.faults == [], told(found)
        assert found.points == found.of > 60


DESCRIBED = """
static const struct architecture described = {
    .has_workers = true,
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(epoll_wait), CALL(epoll_ctl), FORKING_CALLS, THREADED_CALLS,
              THREAD_CREATING_CALLS},
};
void all_calls(struct blocking_conn *conn);
void all_calls(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    struct resp_reply reply;
    size_t size;
    int64_t begun = clock_milliseconds();
    char *room = connection_room(&conn->connection, &size);
    ssize_t count = recv(conn->client->socket, room, size, 0);
    cached_time_set(&conn->cached_time, time(NULL));
    connection_received(&conn->connection, (size_t)count);
    enum timeout patience = connection_timeout(connection);
    int whole = options_time(&conn->server->options, timeout_milliseconds(patience));
    if (clock_milliseconds() - begun > whole + SEND_TIMEOUT)
        connection_timed_out(connection);
    count = transmit(conn->client->socket, connection_pending(connection));
    connection_sent(&conn->connection, (uint64_t)count);
    struct redis_client *client = redis_pool_borrow(conn->redis);
    bool called = redis_pool_call(conn->redis, &client,
                                  exchange_command(&connection->exchange), &reply);
    bool fits = called && exchange_accepts(&connection->exchange, &reply);
    connection_replied(connection, fits ? &reply : NULL);
    connection_replied(connection, NULL);
    redis_pool_return(conn->redis, client);
    if (connection_is_idle(connection) && server_is_stopping() && !server_is_out_of_time())
        connection_abandon(connection);
    bool several = conn->server->options.workers > 1 && described.has_workers;
    conn->counters = &conn->server->counters[several];
}
"""
"""All calls that the comments of the skeleton describe, with their arguments."""
ELSEWHERE = {"ask_once", "ask_redis", "send_some", "server_ready", "pthread_create", "size_t"}
"""Names in these comments that the skeleton, blocking.c or the C library defines."""


def test_the_skeleton_describes_what_there_is(tmp_path: Path) -> None:
    text = (ROOT / SKELETON).read_text()
    comments = " ".join(re.findall(r"(?s)/\*.*?\*/", text))
    names = set(re.findall(r"\b[A-Za-z]+(?:_[A-Za-z]+)+\b", comments))
    assert names - ELSEWHERE - {"NEED_RECEIVE", "NEED_SEND"} <= set(re.findall(r"\w+", DESCRIBED))
    blocking = (ROOT / "lib/net/blocking.c").read_text()
    assert all(f"{name}(" in blocking for name in ("ask_once", "ask_redis"))
    source = tmp_path / "main.c"
    source.write_text(text + DESCRIBED)
    build = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Ilib", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*build, "-fsyntax-only", str(source)], cwd=ROOT, check=True, timeout=60)


@pytest.mark.slow
def test_the_skeleton_can_be_filled(tmp_path: Path) -> None:
    found = grade(Patch("", "", WHOLE, ()).apply(tmp_path), "--only", *STAGES_WITHOUT_LOAD)
    assert (found.faults, found.points) == ([], found.of), told(found)


@pytest.mark.slow
def test_a_pool_that_grows_and_pairs_that_it_has_from_its_start_are_no_leak(tmp_path: Path) -> None:
    found = grade(GROWING_POOL.apply(tmp_path), "--only", GROWING_POOL.stage)
    assert (found.faults, found.points) == ([], found.of), told(found)


def test_the_solution_wakes_one_thread_for_a_client(tmp_path: Path) -> None:
    """The model solution does not wake all threads for one client, which is fault 04."""
    source = Patch("", "", WHOLE, ()).apply(tmp_path) / "main.c"
    build = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Ilib", "-pthread", str(source)]
    program = tmp_path / "patched"
    subprocess.run(
        [*build, "build/release/libzerohttpd.a", "-o", program], cwd=ROOT, check=True, timeout=60
    )
    words = ["--port", "0", "--workers", "50", "--root", str(ROOT), "--no-confinement"]
    server = subprocess.Popen([str(program), *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = next(line for line in server.stdout if line.startswith("url")).split()[1]
        tasks = Path(f"/proc/{server.pid}/task")
        before, clients = sleeps(tasks), 40
        for _ in range(clients):
            urllib.request.urlopen(f"{url}files/small.txt", timeout=20).close()
        slept = sleeps(tasks) - before
    finally:
        server.terminate()
        server.communicate(timeout=20)
    # Waking all would be 50 for each; each client's thread may sleep again for it, and for a lock.
    assert clients <= slept < 10 * clients


def sleeps(tasks: Path) -> int:
    """Return how often the threads of a process have gone to sleep."""
    lines = (line for file in tasks.glob("*/status") for line in file.read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


@pytest.mark.slow
@LOAD
@pytest.mark.usefixtures("sanitized")
def test_under_load_beside_the_seven() -> None:
    found = grade("05_prethreading", "--only", "races", "load")
    assert found.faults == [], told(found)
    assert "place" in found.stages[2].checks[0].note
    assert [stage.checks[0].came for stage in found.stages[1:]] == ["right"] * 2, told(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(
            p, id=f"{p.fault}-{p.base[:2]}", marks=LOAD if p.stage in ("load", "races") else ()
        )
        for p in PATCHES
    ],
)
def test_a_known_fault_is_called_by_its_name(
    patch: Patch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if patch.stage == "races":
        request.getfixturevalue("sanitized")
    found = grade(patch.apply(tmp_path), "--only", patch.stage)
    if patch.fault == "dies-at-limit" and os.geteuid() != 0:
        assert "only root" in found.model_dump_json()
        pytest.skip("only root can limit the server's processes")
    if patch.fault not in found.faults and "cannot be inspected here" in found.model_dump_json():
        pytest.skip("the processes of another user cannot be inspected here")
    assert patch.fault in found.faults, told(found)
    finding = next(
        check.finding
        for stage in found.stages
        for check in stage.checks
        if check.finding and check.finding.fault == patch.fault
    )
    assert finding is not None
    assert finding.title == FAULTS[patch.fault].title
    assert finding.seen
    assert "Traceback" not in finding.seen


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="found by its user, which only root can set")
def test_a_daemon_of_another_session_is_an_orphan_too(tmp_path: Path) -> None:
    orphans = next(patch for patch in PATCHES if patch.fault == "orphans")
    folder = orphans.apply(tmp_path)
    text = (folder / "main.c").read_text()
    daemon = text.replace("if (fork() == 0)\n", "if (fork() == 0 && setsid() > 0)\n")
    assert daemon != text
    (folder / "main.c").write_text(daemon.replace(".calls = {", ".calls = {CALL(setsid), ", 1))
    found = grade(folder, "--only", "ends")
    assert found.faults == ["orphans"], told(found)


def test_each_fault_that_is_known_is_tried() -> None:
    assert {patch.fault for patch in PATCHES} | {"by-nature"} == set(FAULTS)


def test_a_machine_without_room_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of the machine (`ulimit -Hu` 200) is an error of the machine, not a fault of the
    program."""
    monkeypatch.setattr(building, "COMPILER_LIMITS", Limits(descriptors=1 << 31))
    with pytest.raises(UserError, match=r"NOFILE.* not permitted\. If your own limits are below"):
        building.require_limits()


def test_what_make_grade_builds_first(tmp_path: Path) -> None:
    built = building.Built(ROOT / "05_prethreading", tmp_path)
    with pytest.raises(UserError, match=r"libzerohttpd.a is missing; use `make grade`"):
        built.make("another")
