# SPDX-License-Identifier: MIT
"""The steps of two documents work in a copy of the project: docs/tutorial/own-server.md, with a new
architecture, and docs/how-to/add-a-page.md."""

import re
import sys
from pathlib import Path

import pytest

from tests.bench.commands import copied, run

from ..conftest import REPRESENTATIVES
from ..harness import REPOSITORY, Server
from ..redisbox import PrivateRedis

LISTENING = {'"multicore"': '"listening"', "LISTENER_OPTION": "LISTENER_EACH"}
"""The changes in 09_multicore/main.c for a server whose workers always have a listener each."""
KINDS = (
    *("asking_redis/test_redis_scarce", "kinds/test_multicore"),
    *("limits/test_stop", "limits/test_stalling"),
)
"""The test files that depend on how a server's workers get their clients."""
DOCUMENT = (REPOSITORY / "docs/how-to/add-a-page.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_eighth_of_a_kind_of_its_own(tmp_path: Path) -> None:
    """A new server, a pool of event loops with a listener each, needs only a folder of its own."""
    files = ("Makefile", "README.md", "redirects", "pyproject.toml", "build/faults.so")
    folders = ("docs/explanation", "lib", "ops", "public", "templates", "tests", "build/release")
    copy = copied(tmp_path / "project", *files, *folders)
    source, facts = (
        (REPOSITORY / "09_multicore" / name).read_text() for name in ("main.c", "tests.toml")
    )
    for before, after in LISTENING.items():
        assert before in source
        source = source.replace(before, after)
    (copy / "08_listening").mkdir()
    (copy / "08_listening" / "main.c").write_text(source)
    (copy / "08_listening" / "tests.toml").write_text(f"{facts}listener_each = true\n")
    run("make", "-j2", "listening", "faults", "CPPFLAGS=-Werror", cwd=copy)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    command += ["--server", "listening", "-m", "not slow and not shared_code"]
    done = run(*command, *(f"tests/e2e/{kind}.py" for kind in KINDS), cwd=copy)
    assert " passed" in done.stdout


@pytest.mark.slow
def test_page_of_the_document(tmp_path: Path, redis: PrivateRedis) -> None:
    """With the code of docs/how-to/add-a-page.md a server with blocking I/O and a server with an
    event loop serve the page, and share one counter in Redis."""
    servers = REPRESENTATIVES["shared_code"]
    folders = (path.name for path in REPOSITORY.glob("[0-9][0-9]_*") if path.name[3:] in servers)
    names = ("Makefile", "redirects", "lib", "ops", "public", "templates", "build/release")
    copy = copied(tmp_path / "project", *names, *folders)
    for path, block in re.findall(r"^```(?:c|html) (\S+)\n(.*?)^```", DOCUMENT, re.M | re.S):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(block, encoding="utf-8")
    (diff,) = re.findall(r"^```diff\n(.*?)^```", DOCUMENT, re.M | re.S)
    rows = "".join((copy / f"lib/app/{name}").read_text() for name in ("routes.h", "routes.c"))
    # A student may have followed the example already: then the rows are in the file.
    if not all(row in rows for row in re.findall(r"^\+([^+].*\n)", diff, re.M)):
        said = run("patch", "--strip=1", "--fuzz=0", cwd=copy, input=diff).stdout
        assert not re.search("offset|fuzz", said), f"the diff does not fit exactly: {said}"
    assert "warning" not in run("make", "-s", "-j2", "all", cwd=copy).stderr
    redis.client(0).do("DEL", "hello:<Ada>")
    for number, name in enumerate(servers, start=1):
        with Server(copy / name, copy, redis.url(0), ("--workers", "2")) as server:
            page = f"{server.url}hello/%3CAda%3E"
            answer = run("curl", "-q", "-sS", "--noproxy", "*", page).stdout
        assert "<h1>Hello, &lt;Ada&gt;!</h1>" in answer
        assert f"greeted {number} times" in answer
