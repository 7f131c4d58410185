# SPDX-License-Identifier: MIT
"""What is fetched for peers, and who is asked before. Nothing is installed here."""

import pytest

from bench.cli import peers
from bench.host.project import ROOT
from bench.peers import installing
from bench.sweep import sweep

URIS = """\
'http://deb.example/pool/main/w/wrk/wrk_4.1.0-3_amd64.deb' wrk_4.1.0-3_amd64.deb 91444 SHA256:ab12
'http://deb.example/pool/o/openjdk_17%2b1_amd64.deb' openjdk_17_amd64.deb 43000000 MD5Sum:cd34
Some remark
"""


def test_bytes_of_packages() -> None:
    assert installing.sum_of_uris(URIS) == 43_091_444
    assert installing.sum_of_uris("") == 0


class Machine:
    """A machine that lacks peers: how large they are, and what was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int | None]) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.installed: list[str] = []
        lacking = {name: (f"{name}-package",) for name in sizes}
        monkeypatch.setattr(installing, "missing", lambda _: dict(lacking))
        monkeypatch.setattr(installing, "_sizes", lambda wanted, say: dict(sizes))
        monkeypatch.setattr(
            installing,
            "bytes_to_fetch",
            lambda packages: sum(sizes[p.removesuffix("-package")] or 0 for p in packages),
        )
        monkeypatch.setattr(installing, "_setup", self._setup)

    def _setup(self, groups: list[str]) -> bool:
        self.installed += groups
        return True

    def install(self, answer: str | None, agreed: bool = False) -> None:
        """`answer`: of who is asked; None: nobody is there."""

        def ask(question: str) -> str:
            self.asked.append(question)
            return answer or ""

        installing.install([], self.said.append, ask if answer is not None else None, agreed)


def test_a_tool_is_installed_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"profiler": 1, "other": 1})
    monkeypatch.setattr(installing, "missing", lambda _: {})
    there = {"other": "/usr/bin/other"}
    monkeypatch.setattr(installing, "find_program", there.get)
    tools = {"profiler": ("profiler-package (>= 2) | nothing",), "other": ("other-package",)}
    monkeypatch.setattr(installing, "bytes_to_fetch", lambda packages: 1)
    installing.install([], machine.said.append, None, tools=tools)
    assert machine.installed == ["package:profiler-package"]


def test_of_several_packages_the_one_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"tool": 5})
    monkeypatch.setattr(installing, "missing", lambda _: {"tool": ("ours | theirs",)})
    monkeypatch.setattr(
        installing, "bytes_to_fetch", lambda packages: 5 if "theirs" in packages[0] else None
    )
    machine.install(None)
    assert machine.installed == ["package:theirs"]


def test_little_is_fetched_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"ruby": 9_000_000})
    machine.install(None)
    assert machine.installed == ["package:ruby-package"]
    assert "9.0 MB" in machine.said[0]


@pytest.mark.parametrize(
    ("answer", "agreed", "fetched"),
    [("y", False, True), ("yes", False, True), ("", False, False), ("n", False, False),
     (None, False, False), (None, True, True)],
)  # fmt: skip
def test_much_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, agreed: bool, fetched: bool
) -> None:
    machine = Machine(monkeypatch, {"java": 180_000_000, "ruby": 9_000_000})
    machine.install(answer, agreed)
    assert bool(machine.asked) == (answer is not None and not agreed)
    assert "189.0 MB (java 180.0 MB, ruby 9.0 MB" in machine.said[0]
    if fetched:
        assert machine.installed == ["package:java-package", "package:ruby-package"]
    else:
        assert not machine.installed
        assert "Not fetched" in machine.said[-1]


def test_who_wants_it_installs_and_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does .ci/run, or the tests of most peers would be left out."""
    machine = Machine(monkeypatch, {"ruby": 180_000_000})
    monkeypatch.setattr(sweep, "sweep", lambda _: pytest.fail("it measures"))
    assert peers.run(["--yes", "--only-install"]) == 0
    assert machine.installed == ["package:ruby-package"]
    assert 'peers ARGS="--yes --only-install"' in (ROOT / ".ci" / "run").read_text()


def test_what_no_archive_has_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {"tomcat": None, "ruby": 1000})
    machine.install(None)
    assert machine.said[0] == "tomcat: no package tomcat-package here"
    assert machine.installed == ["package:ruby-package"]
