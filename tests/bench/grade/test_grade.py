# SPDX-License-Identifier: MIT
"""The grader gives the seven servers all points (01_iterative: 9 less), and names each fault."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.grade import building
from bench.grade.findings import FAULTS, Grade
from bench.grade.sandbox import Limits
from bench.grade.stages import STAGES
from bench.host.project import ROOT
from bench.records.errors import UserError
from tests.mutants.corpus import mutants

from ..commands import run
from .conftest import LOAD

WHOLE = "course/own/solution.c"
SKELETON = "course/own/main.c"
INCLUDE = "#include <poll.h>\n"
MORE = INCLUDE + "#include <string.h>\n#include <sys/wait.h>\n"


class Patch(NamedTuple):
    """A fault, the check that usually names it, and the changes that make it."""

    fault: str = ""
    check: str = ""
    base: str = WHOLE
    changes: tuple[tuple[str, str], ...] = ()

    def apply(self, folder: Path) -> Path:
        """Write a server that has the fault, and return its folder."""
        server = folder / "08_patched"
        server.mkdir()
        text = "\n" + (ROOT / self.base).read_text()
        name = "NAME" if self.base.startswith("course") else self.base.split("/")[0][3:]
        more = ((INCLUDE, MORE),) if self.base == WHOLE else ()
        for before, after in (*self.changes, *more):
            assert text.count(f"\n{before}") == 1, f"{self.base}: {before!r} must occur once"
            text = text.replace(f"\n{before}", f"\n{after}")
        (server / "main.c").write_text(text.replace(f'.name = "{name}"', '.name = "patched"')[1:])
        return server


def _change(hunk: str) -> tuple[str, str]:
    """Return the lines of a hunk before and after the change."""
    lines = hunk.splitlines(keepends=True)
    before, after = ([one[1:] or "\n" for one in lines if one[0] != sign] for sign in "+-")
    return "".join(before), "".join(after)


def _patches() -> Iterator[Patch]:
    for part in Path(__file__).with_name("faults.diff").read_text().split("=== ")[1:]:
        head, *hunks = part.split("@@\n")
        yield Patch(*shlex.split(head), tuple(map(_change, hunks)))


GROWING_POOL, *PATCHES = _patches()
"""GROWING_POOL has no fault. It creates a thread only when a client connects."""


IN_LIBRARY = {
    "kept-at-the-limit": ("keeps-too-long", "at the limit of descriptors"),
    "nohup-undone": ("ends-at-hangup", "unusual situations"),
    "quote-in-log": ("wrong-log", "unusual situations"),
    "cache-never-evicts": ("descriptor-leak", "unusual situations"),
    "short-write-to-redis": ("redis-stops-all", "a random mix of requests"),
    "chunk-state-kept": ("state-left", "unusual situations"),
    "time-scale-zero": ("wrong-options", "unusual situations"),
    "command-again": ("repeats-command", "many requests at once"),
}
"""Mutants, the faults that the grader must find in them, and the checks that find the faults."""
UNUSED = shutil.ignore_patterns(
    *(".git", ".venv", "__pycache__", "results", "tests"),
    *("debug", "lint", "tsan"),  # 130 MB in build/
)
"""Files that are not copied, because the tests of IN_LIBRARY do not read them."""
SEVEN = [f"{file.parent.name}" for file in sorted(ROOT.glob("0[1-7]_*/main.c"))]
ALONE = ("load", "sanitizers")
STAGES_WITHOUT_LOAD = [one.name for one in STAGES if one.checks[0].name not in ALONE]


def grade(server: Path | str, *words: str, project: Path = ROOT) -> Grade:
    """Return the grade of a folder, as `make grade` prints it after the build."""
    usual = ("prlimit", "--nofile=1024:")  # the soft limit of most systems
    command = ("grade", str(server), "--json", *words)
    done = run(*usual, sys.executable, "-m", "bench", *command, cwd=project)
    return Grade.model_validate_json(done.stdout)


def told(found: Grade) -> str:
    """Return what a failed assertion should show: the checks that did not pass, or have a note."""
    checks = [check for stage in found.stages for check in stage.checks]
    odd = [check.model_dump_json() for check in checks if check.note or check.came != "right"]
    return "\n".join([f"{found.points} of {found.of}, seed {found.seed}, {found.seconds} s", *odd])


@pytest.mark.slow
@pytest.mark.parametrize("folder", SEVEN)
def test_the_seven_have_all_points(folder: str) -> None:
    """Each server gets all points of the checks that ran; 01_iterative loses 9 by nature. On a busy
    machine the time limit may leave out checks."""
    found = grade(folder, "--only", *STAGES_WITHOUT_LOAD)
    late = sum(found.skipped.values())
    assert found.of > 60
    assert late <= 15, told(found)
    if folder == "01_iterative":
        assert found.faults == ["by-nature"], told(found)
        assert found.of - 9 <= found.points + late < found.of
        assert late or found.points == found.of - 9
    else:
        assert found.faults == [], told(found)
        assert found.points + late == found.of, told(found)


DESCRIBED = (Path(__file__).parent / "programs" / "described.c").read_text()
ELSEWHERE = {"ask_once", "ask_redis", "send_some", "server_ready", "pthread_create", "size_t"}
"""Names in the skeleton's comments that described.c does not use."""


def test_the_skeleton_names_existing_functions(tmp_path: Path) -> None:
    text = (ROOT / SKELETON).read_text()
    comments = " ".join(re.findall(r"(?s)/\*.*?\*/", text))
    names = set(re.findall(r"\b[A-Za-z]+(?:_[A-Za-z]+)+\b", comments))
    assert names - ELSEWHERE - {"NEED_RECEIVE", "NEED_SEND"} <= set(re.findall(r"\w+", DESCRIBED))
    blocking = (ROOT / "lib/net/blocking.c").read_text()
    assert all(f"{name}(" in blocking for name in ("ask_once", "ask_redis"))
    source = tmp_path / "main.c"
    source.write_text(text + DESCRIBED)
    build = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Ilib", "-Wall", "-Wextra", "-Werror"]
    run(*build, "-fsyntax-only", source)


@pytest.mark.slow
def test_the_skeleton_can_be_filled(tmp_path: Path) -> None:
    found = grade(Patch().apply(tmp_path), "--only", *STAGES_WITHOUT_LOAD)
    assert (found.faults, found.points) == ([], found.of), told(found)


@pytest.mark.slow
def test_a_growing_pool_and_early_socket_pairs_are_no_leak(tmp_path: Path) -> None:
    found = grade(GROWING_POOL.apply(tmp_path), "--only", GROWING_POOL.check)
    assert (found.faults, found.points) == ([], found.of), told(found)


def test_the_solution_wakes_one_thread_for_a_client(tmp_path: Path) -> None:
    """The model solution does not wake all threads for one client, as fault 04 of course/ does."""
    source = Patch().apply(tmp_path) / "main.c"
    build = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Ilib", "-pthread", str(source)]
    program = tmp_path / "patched"
    run(*build, "build/release/libzerohttpd.a", "-o", program)
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
    # If all 50 threads woke for each client, there would be 50 sleeps per client. The one thread
    # that is woken may sleep again, for data or a lock.
    assert clients <= slept < 10 * clients


def sleeps(tasks: Path) -> int:
    """Return how often the threads of a process have gone to sleep."""
    lines = (line for file in tasks.glob("*/status") for line in file.read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


@pytest.mark.slow
@LOAD
@pytest.mark.usefixtures("sanitized")
def test_under_load_with_the_seven_servers() -> None:
    found = grade("05_prethreading", "--only", "races", "load")
    assert found.faults == [], told(found)
    assert "rank" in found.stages[2].checks[0].note
    assert [stage.checks[0].came for stage in found.stages[1:]] == ["right"] * 2, told(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(p, id=f"{p.fault}-{p.base[:2]}", marks=LOAD if p.check in ALONE else ())
        for p in PATCHES
    ],
)
def test_a_known_fault_is_called_by_its_name(
    patch: Patch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if patch.check == "sanitizers":
        request.getfixturevalue("sanitized")
    folder = patch.apply(tmp_path)
    found = grade(folder, "--only", patch.check)
    if patch.fault not in found.faults:  # by chance this check may see another sign of the fault
        stage = next(s.name for s in STAGES if any(one.name == patch.check for one in s.checks))
        found = grade(folder, "--only", stage)
    if patch.fault == "dies-at-limit" and os.geteuid() != 0:
        assert "only root" in found.model_dump_json()
        pytest.skip("only root can limit the server's processes")
    if patch.fault not in found.faults and "cannot be inspected here" in found.model_dump_json():
        pytest.skip("the processes of another user cannot be inspected here")
    assert patch.fault in found.faults, told(found)
    checks = [check for stage in found.stages for check in stage.checks]
    finding = next(c.finding for c in checks if c.finding and c.finding.fault == patch.fault)
    assert finding.title == FAULTS[patch.fault].title
    assert finding.seen
    assert "Traceback" not in finding.seen


@pytest.mark.slow
def test_a_server_that_never_uses_redis_is_not_blamed_for_an_outage(tmp_path: Path) -> None:
    """The only finding about a server that never uses Redis is that it does not use Redis. 5 s."""
    server = next(patch for patch in PATCHES if patch.fault == "no-redis").apply(tmp_path)
    found = grade(
        server, "--only", "each client gets its own reply", "Redis is down", "Redis is back"
    )
    assert {*found.faults} == {"no-redis"}, told(found)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set the daemon's user")
def test_a_daemon_of_another_session_is_an_orphan_too(tmp_path: Path) -> None:
    orphans = next(patch for patch in PATCHES if patch.fault == "orphans")
    folder = orphans.apply(tmp_path)
    text = (folder / "main.c").read_text()
    daemon = text.replace("if (fork() == 0)\n", "if (fork() == 0 && setsid() > 0)\n")
    assert daemon != text
    (folder / "main.c").write_text(daemon.replace(".calls = {", ".calls = {CALL(setsid), ", 1))
    found = grade(folder, "--only", "ends")
    assert found.faults == ["orphans"], told(found)


def test_each_known_fault_is_tested() -> None:
    elsewhere = {"by-nature", "does-not-compile", "says-one", "too-slow"}
    in_library = {fault for fault, *_ in IN_LIBRARY.values()}
    assert {patch.fault for patch in PATCHES} | elsewhere | in_library == set(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_LIBRARY)
def test_a_fault_of_the_library_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    """The grader names faults that only a change of the library can make. 15 s each."""
    fault, check = IN_LIBRARY[name]
    mutant = next(one for one in mutants() if one.name == name)
    project = tmp_path / "project"
    shutil.copytree(ROOT, project, ignore=UNUSED, symlinks=True)
    mutant.apply(project)
    run("make", "-s", "build/release/libzerohttpd.a", cwd=project)
    found = grade(mutant.server_of(mutant.kinds[0]), "--only", check, project=project)
    assert fault in found.faults, told(found)


@pytest.mark.slow
def test_a_server_that_serves_several_may_not_say_one(tmp_path: Path) -> None:
    """The grader reports a false `stalled_by = "one"` in tests.toml, which would leave out all
    checks with several clients."""
    server = tmp_path / "08_says"
    shutil.copytree(ROOT / "07_epoll", server)
    (server / "tests.toml").write_text('stalled_by = "one"\n')
    found = grade(server, "--only", "silent")
    assert found.faults == ["says-one"], told(found)
    assert found.points == found.of - 5


def test_a_machine_without_room_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grader reports a low `ulimit -Hn` as an error, not as a fault of the program."""
    monkeypatch.setattr(building, "COMPILER_LIMITS", Limits(descriptors=1 << 31))
    with pytest.raises(UserError, match=r"NOFILE.* not permitted\. If your limits"):
        building.require_limits()


def test_a_missing_library_is_reported(tmp_path: Path) -> None:
    built = building.Built(ROOT / "05_prethreading", tmp_path)
    with pytest.raises(UserError, match=r"libzerohttpd.a is missing; use `make grade`"):
        built.make("another")
