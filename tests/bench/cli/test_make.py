# SPDX-License-Identifier: MIT
"""`make` works with other compilers and flags, and reports mistakes. The folders of `make new`
build without a change."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from pathlib import Path

import pytest

from bench.cli.main import version
from bench.cli.new import SKELETON, make
from bench.host.project import ROOT, toml_of
from bench.records.errors import UserError

from ..commands import copied, run


def _make(*words: str, status: int = 0) -> str:
    return run("make", "-s", "-j2", *words, status=status).stderr


def _headers() -> str:
    """Return flags with the folders of the system's headers, for a compiler that needs them."""
    folder = run("gcc", "-print-multiarch").stdout
    return f"-idirafter /usr/include -idirafter /usr/include/{folder.strip()}"


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has gcc -m32")
def test_compiles_for_32_bits(tmp_path: Path) -> None:
    """The sources compile for 32 bits without a warning. They are not linked, because this needs a
    32-bit C library. The test provides the only header that is missing without this library."""
    (tmp_path / "gnu").mkdir()
    (tmp_path / "gnu" / "stubs-32.h").touch()
    headers = f"-I{tmp_path} {_headers()}"
    mains = [f"{tmp_path}/{file.parent.name}/main.o" for file in ROOT.glob("0[1-7]_*/main.c")]
    _make(
        *("CC=gcc", f"BUILD={tmp_path}", f"CFLAGS=-m32 -O1 -Werror {headers}"),
        *(f"{tmp_path}/libzerohttpd.a", *mains),
    )


def test_the_version_is_known_whatever_the_flags(tmp_path: Path) -> None:
    program, objects = tmp_path / "iterative", tmp_path / "objects"
    shutil.copytree(ROOT / "build" / "release", objects)
    (objects / "lib" / "net" / "options.o").unlink()
    _make(f"BUILD={objects}", f"BIN={tmp_path}", "CPPFLAGS=-DMINE", "CFLAGS=-O0", str(program))
    said = run(program, "--version").stdout
    assert said.split()[-1] == version()


def test_a_header_that_is_missing_is_named_alone(tmp_path: Path) -> None:
    """`make` names the missing header, not a line of another header that contains "error"."""
    (tmp_path / "uthash.h").write_text("char *strerror(int);\n")
    (tmp_path / "utlist.h").touch()
    flags = f"CPPFLAGS=-nostdinc -I{tmp_path}"
    said = _make(f"BUILD={tmp_path}", f"BIN={tmp_path}", flags, "all", status=2)
    first, then = said.splitlines()[:2]
    assert "linux/openat2.h" in first
    assert "uthash" in then


def test_the_folder_may_have_a_quote_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "ann's"
    (folder / "lib" / "app").mkdir(parents=True)
    (folder / "lib" / "app" / "app.c").touch()
    shutil.copy(ROOT / "Makefile", folder)
    _make("-C", str(folder), "compile_commands.json")
    (unit,) = json.loads((folder / "compile_commands.json").read_text())
    assert unit["directory"] == str(folder)


MISTAKES = {
    "study": "give a file, for example: make study ",
    "new": "give a name, for example: make new ",
    "grade": "give a server, for example: make grade ",
    "grade-all": "give a folder, for example: make grade-all ",
    "fault N=": "give a number, for example: make fault N=07",
    "bench HOSTS=mine.ini": "HOSTS=mine.ini: no such file; give an inventory or lab",
    "serv": "there is no target serv; make help lists",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_reported_before_an_installation(words: str, tmp_path: Path) -> None:
    """The folder has no scripts/setup.sh, so an installation would fail with another message."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = run("make", *words.split(), cwd=tmp_path, status=2)
    assert MISTAKES[words] in done.stdout + done.stderr


def test_what_is_built_is_no_message() -> None:
    assert "Nothing to be done" not in run("make", "-o", "Makefile", "baselines").stdout


def test_everything_can_be_built_again() -> None:
    assert "-o epoll" in run("make", "--dry-run", "--always-make", "epoll").stdout


def test_an_unknown_server_is_reported_before_the_tests() -> None:
    words = ("-p", "no:cacheprovider", "--server", "unknown", "tests/e2e")
    said = run(sys.executable, "-m", "pytest", *words, status=4).stderr
    assert said.startswith("ERROR: --server: no such server: unknown; there are: iterative, ")


def test_results_may_be_in_any_folder(tmp_path: Path) -> None:
    """`make report RESULTS=...` accepts a path with quotes, as a sweep prints it."""
    folder = tmp_path / 'O\'Brien "2" $HOME'
    assert f"{folder} does not exist" in _make("report", f"RESULTS={folder}", status=2)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="no musl-gcc (package musl-tools)")
def test_confined_with_another_c_library(tmp_path: Path) -> None:
    """The confinement also allows the system calls of musl, the C library of Alpine."""
    _make(
        *("CC=musl-gcc", f"BUILD={tmp_path}", f"BIN={tmp_path}"),
        *(f"CPPFLAGS=-Werror {_headers()}", "all"),
    )
    chosen = ("tests/e2e/kinds/test_confinement.py", "-k", "test_list_of_calls")
    done = run(sys.executable, "-m", "pytest", "-q", "--bin-dir", tmp_path, *chosen)
    assert " passed" in done.stdout


def test_a_server_whose_library_is_missing_is_left_out(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "08_none").mkdir()
    (tmp_path / "08_none" / "main.c").write_text("#error it needs a library\n")
    (tmp_path / "08_none" / "ldflags").write_text("-lnone\n")
    done = run("make", "all", cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout == "none is left out: it needs a library\n"


@pytest.mark.parametrize("ldflags", ["-lm", "-l;id>option;", "-l`id>option`"])
def test_a_students_folder_runs_no_command(tmp_path: Path, ldflags: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    mine = tmp_path / "08_mine"
    mine.mkdir()
    (mine / "main.c").touch()
    (mine / "ldflags").write_text(ldflags)
    (mine / "$(shell id>name).c").touch()
    before = set(tmp_path.iterdir())
    run("make", "-s", "help", cwd=tmp_path)
    assert set(tmp_path.iterdir()) == before


ORIGINS = [SKELETON, *(file.parent.name for file in sorted(ROOT.glob("0[1-7]_*/main.c")))]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the files that a server needs to be built."""
    names = ("Makefile", "pyproject.toml", "lib", "ops", "course")
    return copied(tmp_path, *names, *(folder.name for folder in ROOT.glob("0[1-7]_*")))


@pytest.mark.slow
def test_each_origin_makes_a_folder_that_builds(project: Path) -> None:
    copied(project, "build/release")
    names = []
    for number, origin in enumerate(ORIGINS, 10):
        name = f"mine-{number}"
        folder = make(f"{number}_{name}", origin, project)
        names.append(name)
        assert f'.name = "{name}"' in (folder / "main.c").read_text()
        assert f" * {name}: " in (folder / "main.c").read_text()
        source = project / ("course/own" if origin == SKELETON else origin)
        assert toml_of(folder / "tests.toml") == toml_of(source / "tests.toml"), f"tests of {name}"
    run("make", "-s", "-j2", *names, "CPPFLAGS=-Werror", cwd=project)
    for name in names:
        assert run(project / name, "--help").stdout.startswith(f"usage: {name} ")


@pytest.mark.parametrize(
    ("name", "origin", "why"),
    [
        ("mine", SKELETON, "not a valid name"),
        ("08_../x", SKELETON, "not a valid name"),
        ("08_epoll", SKELETON, "exists already"),
        ("08_mine", "04_nobody", "04_nobody/main.c does not exist"),
    ],
)
def test_what_cannot_be_made_is_refused(project: Path, name: str, origin: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        make(name, origin, project)
