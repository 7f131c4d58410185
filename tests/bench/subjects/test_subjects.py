# SPDX-License-Identifier: MIT
"""The benchmark finds servers, makes their command lines, and reads their output."""

from itertools import pairwise
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.records.conditions import FROM_VALUES, Conditions
from bench.records.errors import UserError
from bench.records.values import toml_of
from bench.records.workloads import WORKLOADS
from bench.subjects.running import statistics_in, url_in
from bench.subjects.subject import (
    BASELINE_ASKS,
    LeftOut,
    Place,
    Subject,
    baseline_subject,
    discover,
    fill,
    known_names,
    limits_of,
    redis_for_baseline,
    reference,
    reference_names,
    select,
    server_subject,
)

CASES = toml_of(Path(__file__).with_name("subjects.toml"))


def place(**more: object) -> Place:
    return Place(**({"port": 8001, "redis_url": "redis://h:1/0", "folder": Path()} | more))  # type: ignore[arg-type]


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """Return the baseline of epoll, as if it were built."""
    (tmp_path / "07_epoll").touch(mode=0o755)
    monkeypatch.setattr("bench.subjects.subject.BASELINE_BUILD", tmp_path)
    return baseline_subject("epoll")


def option(words: list[str], name: str) -> list[str]:
    return [after for word, after in pairwise(words) if word == name]


def test_a_baseline_asks_redis_what_the_workload_wants(baseline: Subject) -> None:
    for name, asks in BASELINE_ASKS.items():
        words = baseline.command(place(conditions=Conditions(name), answer_bytes=900))
        assert option(words, "--ask") == list(asks)
        assert option(words, "--redis") == (["h:1"] if asks else [])
        assert option(words, "--bytes") == ["900"]
        assert len(asks) == WORKLOADS[name].waits
        assert sum(ask.startswith("INCR visitor_count") for ask in asks) == WORKLOADS[name].visits
        assert sum(ask.startswith("RPUSH ") for ask in asks) == WORKLOADS[name].remarks


@pytest.mark.parametrize(("able", "unable", "conditions"), CASES["supported"])
def test_conditions_that_a_server_supports(
    baseline: Subject, able: str, unable: str, conditions: dict[str, object]
) -> None:
    servers = {name: server_subject(name, ROOT / name) for name in discover()}
    known, asked = servers | {"baseline": baseline}, FROM_VALUES.validate_python(conditions)
    assert all(known[name].can(asked) for name in able.split())
    assert not any(known[name].can(asked) for name in unable.split())


@pytest.mark.parametrize(("url", "where", "greetings"), CASES["redis"])
def test_redis_for_baselines(url: str, where: str, greetings: list[str]) -> None:
    assert redis_for_baseline(url) == (where, greetings)


def test_a_password_with_blanks_is_refused() -> None:
    with pytest.raises(UserError, match="omit --baselines"):
        redis_for_baseline("redis://:a%20b@h:1")


def test_a_baseline_that_is_not_there_or_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.subjects.subject.BASELINE_BUILD", tmp_path)
    with pytest.raises(LeftOut, match="Run: `make baselines`"):
        baseline_subject("epoll")
    with pytest.raises(LeftOut, match="apache has no baseline"):
        baseline_subject("apache")


def test_names() -> None:
    names = known_names(["epoll", "my-own"])
    assert names[:5] == ["epoll", "my-own", "plain-epoll", "plain-my-own", "baseline-epoll"]
    assert {"nginx", "go"} <= set(names)


def test_an_eighth_server_is_found(tmp_path: Path) -> None:
    for name in ("07_epoll", "01_iterative", "08_my-own", "lib", "09_empty", "docs_1"):
        (tmp_path / name).mkdir()
        if name != "09_empty":
            (tmp_path / name / "main.c").touch()
    assert discover(tmp_path) == ["iterative", "epoll", "my-own"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder in which all servers except forking are built."""
    for name in discover():
        if name != "forking":
            (tmp_path / name).touch(mode=0o755)
    return tmp_path


def test_names_choose_and_order(programs: Path) -> None:
    found = select(["poll", "iterative", "poll"], programs=programs)
    assert [(one.name, one.executable) for one in found] == [
        ("poll", programs / "poll"),
        ("iterative", programs / "iterative"),
    ]


def test_a_server_that_is_not_built_is_reported(programs: Path) -> None:
    with pytest.raises(UserError, match=r"not built yet: forking\. Run: make all"):
        select(None, programs=programs)


def test_a_plain_server_is_that_of_make_plain(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.subjects.subject.PLAIN_BUILD", programs)
    (found,) = select(["plain-iterative"])
    assert found.executable == programs / "iterative"
    assert found.architecture == "iterative"
    assert found.keeps == "no"
    with pytest.raises(UserError, match=r"not built yet: plain-forking\. Run: make plain"):
        select(["plain-forking"])


# ---- Reference servers ----

TOML = (Path(__file__).parent / "my-own.toml").read_text()


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "references" / "my-own"
    folder.mkdir(parents=True)
    (folder / "reference.toml").write_text(TOML)
    (folder / "run").write_text("backlog @DEFAULT_BACKLOG@ for a@b.example")
    return folder.parent


def test_a_reference_is_declared_in_a_file(parent: Path, tmp_path: Path) -> None:
    said = reference("my-own", parent)
    said.prepare()
    assert said.workloads == ("redirect",)
    assert said.architecture == "epoll"
    where = place(folder=tmp_path, address="127.0.0.2", port=80, redis_url="redis://h")
    program, *rest = said.command_line(where)
    assert program.endswith("/sh")
    assert rest == [f"{tmp_path}/run", "127.0.0.2:80", "redis://h", "@UNKNOWN@"]
    assert (tmp_path / "run").read_text() == "backlog 65535 for a@b.example"


def test_a_reference_server_that_is_not_available(parent: Path) -> None:
    file = parent / "my-own" / "reference.toml"
    for programs in ('["no-such-program"]', f'["sh", "{file.parent}/no-such-*.so"]'):
        file.write_text(TOML.replace('["sh"]', programs))
        with pytest.raises(LeftOut, match="my-own is left out: install a shell"):
            reference("my-own", parent).prepare()
    (file.parent / "no-such-module.so").touch()
    reference("my-own", parent).prepare()
    file.write_text(TOML + 'build = ["sh", "-c", "echo no luck >&2; exit 3"]\n')
    with pytest.raises(LeftOut, match=r"its build failed \(no luck\); it needs a shell"):
        reference("my-own", parent).prepare()


@pytest.mark.parametrize(("before", "after", "complaint"), CASES["incomplete"])
def test_a_declaration_that_is_not_complete(
    parent: Path, before: str, after: str, complaint: str
) -> None:
    file = parent / "my-own" / "reference.toml"
    assert before in TOML
    file.write_text(TOML.replace(before, after))
    with pytest.raises(UserError, match=complaint):
        reference("my-own", parent)


@pytest.mark.parametrize("name", reference_names())
def test_each_reference_server_is_declared_completely(name: str) -> None:
    said = reference(name)
    assert set(said.workloads) <= set(WORKLOADS)
    assert set(said.resembles) <= set(discover())
    assert said.architecture is None or said.architecture in discover()
    for file in said.files:
        assert (said.folder / file).is_file()


def test_limits_of_the_servers_are_words() -> None:
    limits = limits_of((ROOT / "lib" / "config.h").read_text())
    assert limits["DEFAULT_BACKLOG"] == "65535"
    assert limits["IDLE_TIMEOUT"] == "5000"
    assert "THREAD_STACK" not in limits, "an expression, and not a plain number"
    assert fill(["@PORT@ @NONE@"], {"PORT": "1"}) == ["1 @NONE@"]


BANNER = """\
architecture  prethreading: threads created at start
pid           12345
workers       2
url           http://127.0.0.1:8000/
redis         redis://127.0.0.1:6379/0
"""

STATISTICS = """\
requests      12034
responses     1xx 0  2xx 12000  3xx 30  4xx 4  5xx 0
bytes         10234567
cpu           user 0.412 s  system 1.204 s
cpu/request   134.3 us
peak memory   3.4 MB (largest process)
worker 1      6000
worker 100    6034
"""


def test_the_address_counts_only_when_its_line_is_whole() -> None:
    assert url_in(BANNER) == "http://127.0.0.1:8000/"
    whole = BANNER.index("redis  ")
    for length in range(whole):
        assert url_in(BANNER[:length]) is None
    assert url_in(BANNER[:whole]) == "http://127.0.0.1:8000/"


def test_statistics() -> None:
    assert statistics_in(BANNER) is statistics_in("") is None
    own = statistics_in(BANNER + STATISTICS)
    assert own is not None
    assert own.requests == 12_034
    assert own.responses == {"1xx": 0, "2xx": 12_000, "3xx": 30, "4xx": 4, "5xx": 0}
    assert own.bytes_sent == 10_234_567
    assert (own.cpu_user_s, own.cpu_system_s) == (0.412, 1.204)
    assert own.cpu_us_per_request == 134.3
    assert own.peak_memory_mb == 3.4
    assert own.workers == {"1": 6000, "100": 6034}
