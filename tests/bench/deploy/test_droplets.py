# SPDX-License-Identifier: MIT
"""deploy/droplets.yml creates droplets and deletes all of them, with a mock of the provider."""

import configparser
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from bench.host.project import ROOT

from ..commands import run
from .mock_droplets import TOKEN, MockServer
from .test_command import PLAYBOOK

DEPLOY = ROOT / "deploy"
FLEET = f"t{os.getpid()}"
TAG = f"zerohttpd-seven-{FLEET}"
NAMES = [f"{TAG}-{role}" for role in ("load", "nginx", "zerohttpd", "redis")]

pytestmark = [
    pytest.mark.xdist_group("droplets"),
    pytest.mark.skipif(not PLAYBOOK.exists(), reason="no Ansible; run scripts/setup.sh hosts"),
]


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with MockServer() as server:
        yield server


class Fleet:
    """The playbook with a fleet that only this test uses."""

    folder = DEPLOY.parent / "build" / "droplets" / FLEET

    def __init__(self, mock: MockServer) -> None:
        self.mock = mock

    def run(
        self, tag: str, /, looks: int = 20, token: str = TOKEN, **more: str
    ) -> subprocess.CompletedProcess[str]:
        fixed = {"api": self.mock.url, "fleet": FLEET, "pause": 0, "looks": looks}
        variables = {**fixed, **more}
        words = [f"--extra-vars={name}={value}" for name, value in variables.items()]
        words = ["--inventory", "localhost,", "--tags", tag, *words, "droplets.yml"]
        environment = {**os.environ, "DIGITALOCEAN_TOKEN": token, "LC_ALL": "C.UTF-8"}
        ran = run(PLAYBOOK, *words, status=None, cwd=DEPLOY, env=environment)
        assert token not in ran.stdout + ran.stderr, "the token was printed"
        return ran

    def names(self) -> list[str]:
        return sorted(droplet.wanted["name"] for droplet in self.mock.service.droplets)


@pytest.fixture
def fleet(mock: MockServer) -> Iterator[Fleet]:
    yield Fleet(mock)
    shutil.rmtree(Fleet.folder, ignore_errors=True)


@pytest.mark.slow
def test_four_droplets_are_created_once_and_deleted(fleet: Fleet) -> None:
    """The playbook creates the droplet that a failed first run left out, and deletes all four."""
    service = fleet.mock.service
    service.keys = [{"id": n, "name": f"k{n}", "public_key": f"ssh-rsa {n}"} for n in range(90, 93)]
    service.busy = 2
    service.refuse = lambda name: name.endswith("zerohttpd")
    made = fleet.run("create")
    assert made.returncode != 0
    assert "droplet limit" in made.stdout
    assert "COST MONEY" in made.stdout
    assert fleet.names() == sorted({*NAMES} - {f"{TAG}-zerohttpd"})

    for one in service.droplets:  # lists do not show these droplets yet
        one.looks = 0
    service.refuse = lambda _: False
    made = fleet.run("create")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "0.0357 dollars an hour" in made.stdout
    assert fleet.names() == sorted(NAMES)
    assert len(service.keys) == 4
    for droplet in service.droplets:
        assert droplet.wanted["tags"] == [TAG]
        assert droplet.wanted["size"] == "s-1vcpu-1gb"
        assert droplet.wanted["user_data"].startswith("#cloud-config\n")
    inventory = configparser.ConfigParser(allow_no_value=True, delimiters=("\n",))
    inventory.read(fleet.folder / "inventory.ini")
    assert inventory.sections() == ["load", "nginx", "zerohttpd", "redis", "all:vars"]
    first = service.droplets[0].number
    (line,) = inventory["load"]
    assert f"ansible_host=203.0.113.{first} address=10.135.0.{first}" in line

    service.immortal = True
    ended = fleet.run("destroy", looks=1)
    assert ended.returncode != 0
    assert "DROPLETS ARE LEFT, AND COST MONEY" in ended.stdout
    assert NAMES[0] in ended.stdout

    service.droplets.pop()  # as if deleted by hand
    service.immortal, service.busy = False, 1
    ended = fleet.run("destroy")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"No droplet with the tag {TAG} is left" in ended.stdout
    assert service.droplets == []
    assert [key["id"] for key in service.keys] == [90, 91, 92]
    assert not fleet.folder.exists()


@pytest.mark.slow
def test_a_wrong_token_is_reported(fleet: Fleet) -> None:
    for tag in ("create", "destroy"):
        ran = fleet.run(tag, token="no-such-token")
        assert ran.returncode != 0
        assert "Unable to authenticate you" in ran.stdout
        assert "The token is not accepted" in ran.stdout


@pytest.mark.parametrize(("name", "value"), [("tag", "production"), ("here", "/tmp/some-folder")])
def test_nothing_but_the_fleet_can_be_named(fleet: Fleet, name: str, value: str) -> None:
    ran = fleet.run("destroy", **{name: value})
    assert ran.returncode != 0
    assert "cannot be given" in ran.stdout
    assert fleet.mock.service.requests == []


@pytest.mark.slow
def test_the_token_of_another_account_does_not_end_the_fleet(fleet: Fleet) -> None:
    fleet.folder.mkdir(parents=True)
    (fleet.folder / "key").write_text("a key")
    ended = fleet.run("destroy")
    assert ended.returncode != 0
    assert "the token for another account" in " ".join(ended.stdout.split())
    assert (fleet.folder / "key").exists()


def test_without_a_tag_nothing_happens(fleet: Fleet) -> None:
    ran = fleet.run("all")
    assert ran.returncode == 0
    assert "WARNING" not in ran.stderr
    assert fleet.mock.service.requests == []
