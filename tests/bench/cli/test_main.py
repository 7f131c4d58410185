# SPDX-License-Identifier: MIT
"""The command line itself: outputs, wrong values, former commands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.cli.main import INTERRUPTED, READER_LEFT, USAGE_ERROR, main
from bench.faults import copying
from bench.host.project import ROOT
from bench.records.values import toml_of

from ..report.conftest import RECORDED
from ..whole_sweep import hosts_file, needs_a_sweep

CASES = toml_of(Path(__file__).with_name("former.toml"))
BENCH = (sys.executable, "-m", "bench")
RESULTS = str(RECORDED / "version3.json")


FULL = "zerohttpd: cannot write: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("words", [("grade", "--schema"), ("compare", RESULTS, RESULTS)])
@pytest.mark.parametrize(
    ("output", "statuses", "said"),
    [("", (READER_LEFT,), ""), (">/dev/full", (USAGE_ERROR,), FULL), (">&-", (0, 1), "")],
)
def test_an_output_that_cannot_be_written_gives_no_traceback(
    words: tuple[str, ...], output: str, statuses: tuple[int, ...], said: str
) -> None:
    """The output is a pipe whose reader has ended, as with `| head -1`; a full disk; or closed."""
    reader, writer = os.pipe()
    os.close(reader)  # before the command writes, because a pipe could hold the whole output
    shell = ("sh", "-c", f'"$@" {output}', "sh", *BENCH, *words)
    done = subprocess.run(shell, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode in statuses
    assert done.stderr == said


def test_ctrl_c_without_a_signal_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_words: Sequence[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("bench.cli.report.compared", interrupted)
    assert main(["compare"]) == INTERRUPTED


def test_texts_are_utf8_whatever_the_locale_says(tmp_path: Path) -> None:
    """The timeline writes its page in UTF-8, even if the locale's encoding is ASCII."""
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = (*BENCH, "timeline", "--recorded", "--servers", "epoll", "--output")
    for folder, environment in (("a", dict(os.environ)), ("b", ascii_only)):
        subprocess.run([*words, str(tmp_path / folder)], cwd=ROOT, env=environment, check=True)
    made = [(tmp_path / folder / "eight-epoll.html").read_text("utf-8") for folder in "ab"]
    assert made[0] == made[1]


@pytest.mark.parametrize(("former", "today"), CASES["former"])
def test_former_commands_work_and_print_the_new_one(
    former: str, today: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(former.split())
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == f"zerohttpd: {former.partition(' ')[0]} is now: zerohttpd {today}"
    assert main(today.split()) == status
    assert capsys.readouterr().out == out


_, *WRONG = Path(__file__).with_name("wrong.txt").read_text().splitlines()
"""Lines `arguments => beginning of the error`. TMP: a folder with files of hosts; TAB: a tab."""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(one, marks=needs_a_sweep if one.split()[1] == "--servers" else ())
        for one in WRONG
    ],
)
def test_the_message_names_the_option_and_the_value(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "execvp", lambda *_: pytest.fail("the command began to run"))
    hosts_file(tmp_path)
    (tmp_path / "hosts.ini").write_text("[load]\na\n")
    words, message = line.replace("TMP", str(tmp_path)).replace("TAB", "\t").split(" => ")
    assert main(shlex.split(words)) == 2
    said = capsys.readouterr()
    assert said.err.startswith(message)
    assert said.out == ""


def test_an_unknown_option_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "epoll", "--unknown"])
    said = "unrecognized arguments: --unknown; --help lists all options"
    assert capsys.readouterr().err == f"zerohttpd serve: {said}\n"


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        *(("07_epoll/main.c", True), ("lib/config.h", True), ("Makefile", True)),
        *((".ci/run", True), ("08_mine/main.c", False), ("notes/private", False)),
        ("course/own/solution.c", False),
    ],
)
def test_a_copy_has_the_folders_of_the_project_only(name: str, copied: bool) -> None:
    assert copying.is_copied(name) == copied
