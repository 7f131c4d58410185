# SPDX-License-Identifier: MIT
"""`zerohttpd peers` asks before large downloads. The tests install nothing."""

import re
from datetime import datetime
from pathlib import Path

import pytest

from bench.cli.study import peers
from bench.host.project import ROOT
from bench.records.results import Results
from bench.studies import installing
from bench.studies.study import study
from bench.subjects.subject import REFERENCES, Reference, reference, reference_names
from bench.sweep import sweep

URIS = """\
'http://deb.example/pool/main/w/wrk/wrk_4.1.0-3_amd64.deb' wrk_4.1.0-3_amd64.deb 91444 SHA256:ab12
'http://deb.example/pool/o/openjdk_17%2b1_amd64.deb' openjdk_17_amd64.deb 43000000 MD5Sum:cd34
Some remark
"""


def test_bytes_of_packages() -> None:
    assert installing.sum_of_uris(URIS) == 43_091_444
    assert installing.sum_of_uris("") == 0


LARGE: dict[str, int | None] = {"java": 180_000_000, "ruby": 9_000_000}


class Machine:
    """A mock machine without reference servers; it records messages and installations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int | None]) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.installed: list[str] = []
        self.builds: dict[str, dict[str, float]] = {}
        monkeypatch.setattr(installing, "builds", lambda subjects, wanted: self.builds)
        lacking = {name: (f"{name}-package",) for name in sizes}
        monkeypatch.setattr(installing, "missing", lambda _: dict(lacking))
        monkeypatch.setattr(installing, "_sizes", lambda wanted, say: dict(sizes))
        monkeypatch.setattr(
            installing,
            "bytes_to_fetch",
            lambda packages: sum(sizes[p.removesuffix("-package")] or 0 for p in packages),
        )
        monkeypatch.setattr(installing, "_setup", self._setup)
        monkeypatch.setattr(installing, "find_program", lambda name: name)

    def _setup(self, groups: list[str]) -> bool:
        self.installed += groups
        return True

    def install(self, answer: str | None, agreed: bool = False) -> dict[str, str]:
        """Return the servers that are left out, with reasons. `answer`: None without a terminal."""

        def ask(question: str) -> str:
            self.asked.append(question)
            return answer or ""

        put = ask if answer is not None else None
        return installing.install([], self.said.append, put, agreed)


@pytest.mark.parametrize(
    ("package", "installed"),
    [("profiler-package (>= 2) | nothing", "profiler-package"), ("nothing | theirs", "theirs")],
)
def test_a_missing_tool_is_installed_from_an_available_package(
    monkeypatch: pytest.MonkeyPatch, package: str, installed: str
) -> None:
    machine = Machine(monkeypatch, {"profiler": 1, "other": 1})
    monkeypatch.setattr(installing, "missing", lambda _: {})
    monkeypatch.setattr(installing, "find_program", {"other": "/usr/bin/other"}.get)
    monkeypatch.setattr(
        installing, "bytes_to_fetch", lambda found: None if found == ["nothing"] else 1
    )
    tools = {"profiler": (package,), "other": ("other-package",)}
    installing.install([], machine.said.append, None, tools=tools)
    assert machine.installed == [f"package:{installed}"]


@pytest.mark.parametrize(
    ("sizes", "answer", "agreed", "installed", "said"),
    [
        ({"ruby": 9_000_000}, None, False, ["ruby"], "(ruby 9.0 MB"),
        ({"tomcat": None, "ruby": 1000}, None, False, ["ruby"], "tomcat: apt has no package"),
        (LARGE, "y", False, ["java", "ruby"], "189.0 MB (java 180.0 MB, ruby 9.0 MB"),
        (LARGE, "yes", False, ["java", "ruby"], "189.0 MB"),
        (LARGE, "", False, [], "189.0 MB"),
        (LARGE, "n", False, [], "189.0 MB"),
        (LARGE, None, False, [], "189.0 MB"),
        (LARGE, None, True, ["java", "ruby"], "189.0 MB"),
    ],
)
def test_large_downloads_need_permission(
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, int | None],
    answer: str | None,
    agreed: bool,
    installed: list[str],
    said: str,
) -> None:
    machine = Machine(monkeypatch, sizes)
    machine.install(answer, agreed)
    assert bool(machine.asked) == (answer is not None)
    assert said in machine.said[0]
    assert machine.installed == [f"package:{name}-package" for name in installed]
    assert ("Not downloaded" in machine.said[-1]) == (not installed)


def test_only_install_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`peers --only-install` installs without measuring; .ci/run needs it to test servers."""
    machine = Machine(monkeypatch, {"ruby": 180_000_000})
    monkeypatch.setattr(sweep, "sweep", lambda _: pytest.fail("the sweep began"))
    assert peers(["--yes", "--only-install"]) == 0
    assert machine.installed == ["package:ruby-package"]
    assert 'peers ARGS="--yes --only-install"' in (ROOT / ".ci" / "run").read_text()


# ---- What builds download from the registries of their languages ----

BUILDS = {"go": {"Go": 72.0, "modules": 4.0}, "fast": {"Go": 72.0, "modules": 4.0, "more": 41.0}}


def test_downloads_of_builds_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {})
    machine.builds = {"go": BUILDS["go"], "run": BUILDS["go"]}
    assert machine.install(None) == {}
    assert not machine.installed
    (said,) = machine.said
    assert "about 76.0 MB (go 76.0 MB, run 76.0 MB;" in said
    assert said.endswith("of which 76.0 MB when the servers are built")


@pytest.mark.parametrize(("answer", "fetched"), [("y", True), ("n", False), (None, False)])
def test_large_downloads_of_builds_need_permission(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, fetched: bool
) -> None:
    """`zerohttpd peers` asks before a large download of builds, even if no single part is large."""
    machine = Machine(monkeypatch, {"ruby": 9_000_000, "fast": 1_000_000})
    machine.builds = BUILDS
    left_out = machine.install(answer)
    assert bool(machine.asked) == (answer is not None)
    assert "about 127.0 MB (ruby 9.0 MB, fast 118.0 MB, go 76.0 MB;" in machine.said[0]
    assert bool(machine.installed) == fetched
    # fast is left out for another reason: a program that its build needs is missing.
    reason = "go is left out: its build would download Go, modules; give --yes to allow it"
    assert left_out == ({} if fetched else {"go": reason})
    assert (reason in machine.said) != fetched


def test_a_server_that_is_built_already_downloads_nothing(tmp_path: Path) -> None:
    one = reference("go")
    known = [{"what": "a", "megabytes": 1, "there": ["test", "-e", "a"]},
             {"what": "b", "megabytes": 2.5, "there": ["no-such-program"]}]  # fmt: skip
    changed = {"fetches": known, "folder": tmp_path}
    other = Reference.model_validate({**one.model_dump(), **changed})
    assert other.to_fetch() == {"a": 1, "b": 2.5}
    (tmp_path / "a").touch()
    assert other.to_fetch() == {"b": 2.5}


def test_a_server_that_cannot_be_built_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reference, "to_fetch", lambda one: {"all": 1.0})
    monkeypatch.setattr(Reference, "lacks", lambda one: one.name != "go")
    subjects = ["epoll", "nginx", "go", "node", "java"]
    assert set(installing.builds(subjects, {"java"})) == {"go", "java"}


@pytest.mark.parametrize("name", reference_names())
def test_a_build_with_a_list_of_downloads_shows_their_size(name: str) -> None:
    said = reference(name)
    words = " ".join(said.build)
    where = re.search(r"\.\./([\w-]+)", words)
    folder = REFERENCES / (where[1] if where else name)
    lists = [
        each for each in ("go.sum", "package-lock.json", "pom.xml") if (folder / each).exists()
    ]
    assert bool(said.fetches) == bool(said.build and lists)


class Asked(Exception):
    """Raised with the names of the servers that a sweep would look for and build."""


def test_a_server_that_is_not_requested_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[sweep.SweepOptions] = []

    class Here:
        def survey(self, names: list[str], some: bool) -> None:
            raise Asked(*names)

    def keep(options: sweep.SweepOptions) -> sweep.Done:
        found.append(options)
        return sweep.Done(0)

    monkeypatch.setattr(sweep, "sweep", keep)
    monkeypatch.setattr(installing, "install", lambda *_: {"go": "too much"})
    assert peers(["fasthttp"]) == 0
    with pytest.raises(Asked) as asked:
        sweep._sweeper(found[0], None, None, Here(), None)  # type: ignore[arg-type]
    assert set(asked.value.args) == set(study("fasthttp").subjects) - {"go"}
    before = Results(started=datetime.now().astimezone(), left_out={"fasthttp": "too much"})
    with pytest.raises(Asked) as asked:
        sweep._sweeper(found[0], before, None, Here(), None)  # type: ignore[arg-type]
    assert "fasthttp" not in asked.value.args, "a resumed sweep builds fasthttp"
