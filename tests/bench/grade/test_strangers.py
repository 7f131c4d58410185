# SPDX-License-Identifier: MIT
"""The grader handles untrusted input: malicious programs, strange folders, prebuilt code."""

import os
import re
import socket
from pathlib import Path

import psutil
import pytest

from bench.grade.building import ASSEMBLER, folder_of, refusal
from bench.grade.command import stage_text
from bench.grade.fence import version, without
from bench.grade.findings import (
    FAULTS,
    HAS_ASSEMBLER,
    CheckOutcome,
    FaultFound,
    Grade,
    StageOutcome,
)
from bench.host.project import ROOT
from bench.records.errors import UserError

from ..commands import bench


def program(name: str, **macros: str) -> str:
    """Return definitions of these macros, followed by the source of a test program."""
    text = (Path(__file__).parent / "programs" / f"{name}.c").read_text()
    return "".join(f"#define {macro} {value}\n" for macro, value in macros.items()) + text


def graded(folder: Path, source: str, *words: str) -> Grade:
    """Return the grade of a server with this source, by default only of the stage "serves"."""
    folder.chmod(0o777)  # another user may write to this folder, as to /tmp
    server = folder / "08_mine"
    server.mkdir(exist_ok=True)
    (server / "main.c").write_text(source)
    done = bench("grade", server, "--json", *(words or ("--only", "serves")))
    return Grade.model_validate_json(done.stdout)


def seen(found: Grade, stage: int = 1) -> str:
    """Return the text that the finding of a stage's first check shows."""
    return found.stages[stage].checks[0].finding.seen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_a_malicious_program_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mine, port = f'"{tmp_path / "mine.txt"}"', str(listener.getsockname()[1])
        found = graded(tmp_path, program("harm", MINE=mine, PORT=port))
    assert found.faults == ["never-serves"]
    said = re.search(
        r"user (\d+) net (-?\d) file (\d) read (\d) new (\d) seed (\d) variables (\d+) "
        r"children (\d+)",
        seen(found),
    )
    assert said is not None, seen(found)
    user, net, file, read, new, seed, variables, children = map(int, said.groups())
    alone = not any("NO network" in words for words in found.isolation)
    assert net == (-1 if alone else 0), said[0]
    assert (file, variables) == (0, 3), said[0]  # 3: PATH, LC_ALL, TZ
    assert not alone or seed == 0, said[0]
    if version():  # without Landlock all files can be read, and the grade says so
        assert (read, new) == (0, 0), said[0]
        assert "no write access" in " ".join(found.isolation)
    assert user not in (0, os.getuid())
    assert 0 < children < 512
    left = [one for one in psutil.process_iter(["uids", "status"]) if _is_alive(one, user)]
    assert left == []


def test_it_cannot_read_this_project_in_a_folder_of_the_system(tmp_path: Path) -> None:
    """A graded program cannot read the project's servers, even if the project is in /opt."""
    for name in ("src/project/epoll", "src/other/file", "lib/file"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    project = tmp_path / "src" / "project"
    assert without(project, project) == []
    assert without(project, tmp_path / "lib") == [tmp_path / "lib"]
    assert {*without(project, tmp_path)} == {tmp_path / "src" / "other", tmp_path / "lib"}


def _is_alive(process: psutil.Process, user: int) -> bool:
    uids, status = process.info["uids"], process.info["status"]
    return uids is not None and uids.real == user and status != psutil.STATUS_ZOMBIE


HERE = '"url           http://127.0.0.1:%d/\\n@MORE@", port'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "done"),
    [
        ('"url           http://127.0.0.1:99999/\\n"', ""),
        ('"url           http://[::1/\\n"', ""),
        ('"url           http://a%cb/\\n", 0', ""),
        (HERE.replace("@MORE@", "requests      1\\ncpu           user 1.2.3 s\\n"), ""),
        (HERE.replace("@MORE@", "requests      \\u00b2\\nworker 1      x\\n"), ""),
        *(
            (HERE.replace("@MORE@", ""), done)
            for done in (
                'dprintf(client, "HTTP/1.1 200 OK\\r\\nContent-Length: \\xb2")',
                'dprintf(client, "HTTP/1.1 200\\r\\nContent-Length: %s", room)',
                'dprintf(client, "HTTP/1.1 %s", room)',
                "kill(getpid(), 40)",
            )
        ),
    ],
)
def test_any_output_of_a_server_is_graded(tmp_path: Path, said: str, done: str) -> None:
    found = graded(tmp_path, program("says", SAID=said, DONE=done))
    assert found.points == 3
    faults = ("never-serves", "no-answer", "crash", "wrong-length", "bad-head")
    assert found.faults[0] in faults


MANY_TOKENS = "".join(f"#define T{n + 1} {f'T{n} ' * 10}\n" for n in range(9)) + "T9\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [program("slowly"), "#define T0 ;\n" + MANY_TOKENS], ids=["says", "tokens"]
)
def test_endless_work_is_graded_within_a_minute(tmp_path: Path, source: str) -> None:
    """The grader takes less than a minute for 100 MB of output and for 10^9 tokens of source."""
    found = graded(tmp_path, source, "--seed", "1")
    assert found.seed == 1
    assert found.seconds < 50
    assert found.faults in (["never-serves"], ["does-not-compile"])


def test_a_server_killed_for_a_call_before_it_listens(tmp_path: Path) -> None:
    """If an unlisted call kills a server before it listens, the grader reports this fault."""
    main = "#include <signal.h>\nint main(void) {\n    return raise(SIGSYS);\n}\n"
    assert graded(tmp_path, main).faults == ["unlisted-call"]


REPLIES = {
    "CONFIG SET dir /": "-NOPERM",
    "SHUTDOWN NOSAVE": "-NOPERM",
    "REPLICAOF 127.0.0.1 1": "-NOPERM",
    "EVAL 'while true do end' 0": "-NOPERM",
    "GET visitor_count": "$-1",  # database 0 is empty
    "LPUSH mine x": ":1",
}


def test_its_redis_is_for_data_only(tmp_path: Path) -> None:
    asked = ", ".join(f'"{command}"' for command in REPLIES)
    said = "".join(f"{number}:{reply};" for number, reply in enumerate(REPLIES.values()))
    assert said in seen(graded(tmp_path, program("asks", ASKED=asked)))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int main(void) { return 0 }\n", "expected"),
        ("int error_of_mine;\n", "reference to `main'"),
    ],
)
def test_errors_of_compiler_and_linker_are_shown(tmp_path: Path, source: str, words: str) -> None:
    found = graded(tmp_path, source)
    assert (found.points, found.faults) == (0, ["does-not-compile"])
    assert words in seen(found, stage=0)


def test_control_characters_of_a_source_are_not_printed(tmp_path: Path) -> None:
    (tmp_path / "08_broken").mkdir()
    text = "#error \x1b[2J\x1b[8m100 of 100 points\r" + "a" * 100_000 + "\n"
    (tmp_path / "08_broken" / "main.c").write_text(text)
    tmp_path.chmod(0o755)
    done = bench("grade", tmp_path / "08_broken")
    assert "100 of 100 points" in done.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout)
    assert len(done.stdout) < 10_000


@pytest.mark.parametrize("what", ["folder", "main.c", "tests.toml", "pipe", "deep"])
def test_links_pipes_and_deep_files_are_refused(tmp_path: Path, what: str) -> None:
    other, folder = tmp_path / "other" / "08_other", tmp_path / "08_link"
    for place in (other, folder):
        place.mkdir(parents=True)
        (place / "main.c").write_text("int main(void) { return 0; }\n")
    if what == "folder":
        (folder / "main.c").unlink()
        folder.rmdir()
        folder.symlink_to(other)
    elif what == "pipe":
        os.mkfifo(folder / "tests.toml")
    elif what == "deep":
        (folder / "tests.toml").write_text("a = " + "[" * 100_000)
    else:
        (folder / what).unlink(missing_ok=True)
        (folder / what).symlink_to(other / "main.c")
    done = bench("grade", folder, status=2)
    assert done.stdout == ""
    assert "08_link" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("blob", b"\x7fELF\2\1"),
        ("in/deep.txt", b"!<arch>\nx.o/"),
        ("thin.c", b"!<thin>\n"),
        ("blob.h.gch", b"gpchC014"),
        *(
            ("ldflags", words)
            for words in (
                *(b"-wrapper /bin/sh,-c,id", b"-lm\nblob.o", b"08_mine/blob.o", b"-l:blob.o"),
                *(b"@options", b"-L.", b"-fplugin=x", b"-Wl,-T,x", b"-Wl,--wrap=send,-Map=x"),
            )
        ),
    ],
)
def test_prebuilt_code_and_the_options_that_add_it_are_refused(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "main.c").touch()
    assert folder_of(str(tmp_path)) == tmp_path
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}.* (leave only source files|use only -lNAME)"):
        folder_of(str(tmp_path))


@pytest.mark.parametrize("server", sorted(ROOT.glob("[0-9][0-9]_*/main.c")))
def test_no_server_of_the_project_is_refused(server: Path) -> None:
    assert refusal(server.parent) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('__asm__("nop");', True),
        ('asm volatile("nop");', True),
        ('__attribute__((section(".text"))) const char code[] = {0};', True),
        ("#include <asm/unistd.h>", False),
        ("int section(int plasma);", False),
    ],
)
def test_assembler_is_recognized(text: str, found: bool) -> None:
    assert (ASSEMBLER.search(text) is not None) == found


def test_assembler_in_any_file_of_the_server_is_reported(tmp_path: Path) -> None:
    """The grader remarks on assembler but subtracts no points, because 10_coroutines needs it."""
    (tmp_path / "08_mine").mkdir()
    (tmp_path / "08_mine" / "part.txt").write_text('__asm__("nop");\n')
    found = graded(tmp_path, '#include "part.txt"\nint main(void) { return 0; }\n')
    assert found.points == 3
    assert found.stages[0].checks[0].note == found.remarks == HAS_ASSEMBLER


def test_a_fault_is_explained_once() -> None:
    fault = FAULTS["no-redis"]
    texts = fault.model_dump(include={"title", "meaning", "read"})
    finding = FaultFound(fault="no-redis", **texts, seen="a 503")
    check = CheckOutcome(check="down", points=0, of=4, came="failed", finding=finding)
    explained: set[str] = set()
    stage = StageOutcome(stage="redis", title="Redis", checks=[check])
    first, second = (stage_text(stage, explained) for _ in range(2))
    assert "Read: " in first
    assert "Read: " not in second
    assert second.count("Seen: a 503.") == second.count("Explained above") == 1
    assert first.startswith("\n  0 of 4   Redis\n")
    assert "\n\n         >>> " in first
