# SPDX-License-Identifier: MIT
"""The options of `zerohttpd hosts`, and the files that it sends to the hosts."""

import itertools
import json
import os
import shlex
import sys
import tarfile
from argparse import Namespace
from pathlib import Path

import pytest
from jinja2 import Environment

from bench.cli.main import main
from bench.deploy import command
from bench.deploy.command import on_load_host
from bench.deploy.pack import pack_project, project_files
from bench.host.project import ROOT
from bench.records.errors import UserError

from ..commands import run

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


@pytest.fixture
def some_inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text("[load]\na\n")
    return path


@pytest.mark.parametrize(
    ("words", "by_wrk"),
    [
        ([], False),
        (["--levels", "20,200", "--servers", "epoll"], False),
        (["--generator", "ab"], False),
        (["--generator", "ab", "wrk"], True),
        (["--studies", "now"], True),
    ],
)
def test_unknown_options_are_passed_to_the_sweep(
    some_inventory: Path, words: list[str], by_wrk: bool
) -> None:
    ours = ["--inventory", str(some_inventory), "--results", "elsewhere"]
    options = command.parse([*ours, *words])
    assert (options.inventory, options.results) == (some_inventory, Path("elsewhere").resolve())
    assert (options.sweep, options.by_wrk) == (words, by_wrk)


def test_a_wrong_option_of_the_sweep_ends_it_before_anything_begins(some_inventory: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["hosts", "--inventory", str(some_inventory), "--no-such-option"])


def test_without_a_lab_the_lab_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "LAB_INVENTORY", tmp_path / "none.ini")
    with pytest.raises(UserError, match="make lab"):
        command.find("lab")


def test_a_resumed_sweep_is_where_the_results_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, elsewhere = tmp_path / "all results", tmp_path / "elsewhere" / "first"
    for folder in (elsewhere, here / "first", here / "other"):
        folder.mkdir(parents=True)
        (folder / "results.json").write_text('{"state": "complete"}')
    options = Namespace(inventory=tmp_path / "hosts.ini", results=here, resume=elsewhere)
    command._say_where(options, before=set())
    said = capsys.readouterr().out
    page = f"make a page of them: make report RESULTS='{here}/first'"
    assert said == f"Results: {here}/first/; {page}\n"


def load_host(tmp_path: Path, **variables: object) -> Path:
    """Return the file that the playbook writes about a load host with these inventory variables."""
    templates = Environment()
    templates.filters |= {"quote": lambda word: shlex.quote(str(word)), "to_json": json.dumps}
    report = (ROOT / "deploy" / "templates" / "load_host.json.j2").read_text()
    known = {f"ansible_{name}": value for name, value in variables.items()}
    file = tmp_path / "load_host.json"
    hosts = {"groups": {"load": ["load.example"]}, "hostvars": {"load.example": known}}
    file.write_text(templates.from_string(report).render(hosts))
    return file


def test_the_sweep_uses_the_inventorys_connection(tmp_path: Path) -> None:
    more = "-o ProxyCommand='ssh -W %h:%p jump'"
    host = load_host(
        tmp_path, port=2222, user="me", ssh_private_key_file="/k e y", ssh_common_args=more
    )
    words = on_load_host(host, ["sweep", "--path", "/a b"], terminal=True)
    assert (words[0], words[-2:]) == ("ssh", ["load.example", "sweep --path '/a b'"])
    assert {"-tt", "ProxyCommand=ssh -W %h:%p jump"} < set(words)
    assert {("-p", "2222"), ("-l", "me"), ("-i", "/k e y")} < set(itertools.pairwise(words))
    assert "-tt" not in on_load_host(host, ["sweep"], terminal=False)
    named = on_load_host(load_host(tmp_path, host="10.0.0.1"), ["sweep"], terminal=False)
    assert named[-2:] == ["10.0.0.1", "sweep"]
    this_machine = load_host(tmp_path, connection="local")
    assert on_load_host(this_machine, ["sweep", "x"], terminal=True) == ["sweep", "x"]


def test_a_password_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ssh-copy-id"):
        on_load_host(load_host(tmp_path, password="secret"), [], terminal=False)


SENT = ["07_epoll/main.c", "Makefile", "lib/b.c", "lib/epoll"]
IGNORED = ["build/b.o", "lib/__pycache__/c.pyc", "epoll", "hosts.ini", "deploy/hosts.ini"]
PRIVATE = ["lib/id_rsa"]
NO_SOURCES = ["notes", "mine/notes"]


@pytest.mark.parametrize("with_git", [True, False])
def test_only_public_sources_are_sent(tmp_path: Path, with_git: bool) -> None:
    root = tmp_path / "project"
    for name in (*SENT, *IGNORED, *PRIVATE, *NO_SOURCES, "tests/known"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
        (root / name).chmod(0o600 if name in PRIVATE else 0o644)
    (root / ".gitignore").write_text("/epoll\n/build/\n/*.ini\n/deploy/*.ini\n__pycache__/\n")
    if with_git:
        run("git", "init", "--quiet", cwd=root)
        run("git", "add", "tests/known", cwd=root)
    assert sorted(project_files(root)) == [*SENT, *(["tests/known"] if with_git else [])]
    copied = {*SENT, *PRIVATE, *NO_SOURCES, "tests/known", ".gitignore"}
    assert set(project_files(root, only_public=False)) == copied


def test_an_archive_is_the_same_until_a_file_changes(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "scripts").mkdir(parents=True)
    (root / ".gitignore").write_text("")
    script = root / "scripts" / "run"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o744)
    first = pack_project(root, tmp_path)
    before = Path(first["file"]).stat().st_mtime_ns
    os.utime(script)
    assert pack_project(root, tmp_path) == first
    assert Path(first["file"]).stat().st_mtime_ns == before
    with tarfile.open(first["file"]) as tar:
        member = tar.getmember("scripts/run")
        assert (member.mode, member.uid, member.uname) == (0o755, 0, "root")
    found = {first["digest"]}
    for text in ("#!/bin/sh\necho\n", "#!/bin/sh\nexit\n", ""):
        script.write_text(text)
        found.add(pack_project(root, tmp_path)["digest"])
    script.chmod(0o644)
    found.add(pack_project(root, tmp_path)["digest"])
    assert len(found) == 5, "each change of a text or mode needs another digest"


needs_ansible = pytest.mark.skipif(
    not PLAYBOOK.exists(), reason="no Ansible; run scripts/setup.sh hosts"
)


@needs_ansible
def test_a_missing_group_of_the_inventory_is_reported(some_inventory: Path) -> None:
    """Ansible starts, even if the locale's encoding is ASCII."""
    words = (sys.executable, "-m", "bench", "hosts", "--inventory", some_inventory)
    done = run(*words, status=2, env={**os.environ, "LC_ALL": "C"})
    assert "The inventory needs the groups" in done.stdout


@needs_ansible
def test_ansible_understands_the_playbook() -> None:
    words = ("--syntax-check", "--inventory", "inventory.example.ini", "site.yml")
    locale = {**os.environ, "LC_ALL": "C.UTF-8"}
    checked = run(PLAYBOOK, *words, cwd=ROOT / "deploy", env=locale)
    assert "WARNING" not in checked.stderr
