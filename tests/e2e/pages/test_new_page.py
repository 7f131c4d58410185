# SPDX-License-Identifier: MIT
"""The example of docs/how-to/add-a-page.md is built as it is written, and works."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ..harness import REPOSITORY, Server, find_servers
from ..redisbox import PrivateRedis
from ..timing import PATIENCE

DOCUMENT = REPOSITORY / "docs/how-to/add-a-page.md"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources with the document's blocks inserted, built."""
    copy = tmp_path_factory.mktemp("new-page") / "project"
    copy.mkdir()
    for name in ("Makefile", "redirects"):
        shutil.copy(REPOSITORY / name, copy / name)
    servers = (path.name for path in REPOSITORY.glob("[0-9][0-9]_*"))
    folders = ["lib", "ops", "public", "templates", *servers]
    for name in folders:
        shutil.copytree(REPOSITORY / name, copy / name)
    text = DOCUMENT.read_text(encoding="utf-8")
    for path, block in re.findall(r"^```(?:c|html) (\S+)\n(.*?)^```", text, re.M | re.S):
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block, encoding="utf-8")
    (diff,) = re.findall(r"^```diff\n(.*?)^```", text, re.M | re.S)
    if not is_followed(copy, diff):
        said = run(["patch", "--strip=1", "--fuzz=0"], copy, diff)
        assert not re.search("offset|fuzz", said), f"its lines are in another place: {said}"
    run(["make", "-j2", "all", "CFLAGS=-O1 -Werror"], copy)
    return copy


def is_followed(copy: Path, diff: str) -> bool:
    """Return whether the example is already in these sources: the rows are where it puts them."""
    routes = (copy / "lib/app/routes.c").read_text(encoding="utf-8")
    return all(row in routes for row in re.findall(r"^\+([^+].*\n)", diff, re.M))


def run(command: list[str], folder: Path, given: str = "") -> str:
    """Run a command in the folder and return what it prints; its failure is the test's."""
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_page_of_the_document(project: Path, redis: PrivateRedis) -> None:
    """Every server serves the new page, and all use the same count."""
    redis.client(0).do("DEL", "hello:<Ada>")
    for number, name in enumerate(find_servers(), start=1):
        with Server(project / name, project, redis.url(0), ("--workers", "2")) as server:
            answer = subprocess.run(
                ["curl", "-q", "-sS", "--noproxy", "*", f"{server.url}hello/%3CAda%3E"],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        assert answer.returncode == 0, answer.stderr
        assert "<h1>Hello, &lt;Ada&gt;!</h1>" in answer.stdout
        assert f"greeted {number} times" in answer.stdout
