# SPDX-License-Identifier: MIT
"""Fixtures: a site to serve, a Redis, and a server of every architecture."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import processes
from .harness import REPOSITORY, Server, find_servers, is_sanitized
from .redisbox import PrivateRedis, RedisClient
from .site import build_site
from .timing import PACE

WORKERS = ("--workers", "16")


def chosen_servers(config: pytest.Config) -> list[str]:
    """Return the servers to test; UsageError for a name that is no folder here."""
    found = find_servers()
    chosen = config.getoption("--server") or found
    unknown = [name for name in chosen if name not in found]
    if unknown:
        raise pytest.UsageError(f"no such server: {', '.join(unknown)} (there are: {found})")
    return list(chosen)


REPRESENTATIVES = ("prethreading", "epoll")
"""One server that blocks and one with an event loop. Both keep connections alive."""
SEVEN = 7


def representatives(config: pytest.Config, names: list[str]) -> list[str]:
    """Return the servers for a test of code that all of them share: what the command line names,
    else one of each kind of I/O, and each server that is not one of the seven."""
    if config.getoption("--server") or config.getoption("--every-server"):
        return names
    known = find_servers()[:SEVEN]
    return [name for name in names if name in REPRESENTATIVES or name not in known]


def binary_path(config: pytest.Config, name: str) -> Path:
    """Return where the executable of a server is."""
    return Path(config.getoption("--bin-dir")).resolve() / name


def pytest_configure(config: pytest.Config) -> None:
    """Stretch the deadlines for sanitizer builds, and find orphans."""
    binaries = [binary_path(config, name) for name in find_servers()]
    if any(path.exists() and is_sanitized(path) for path in binaries):
        PACE.sanitized = True
        PACE.slowness = 6
    processes.become_subreaper()
    # nohup(1) has it ignored, and the servers would inherit that: a handler they do not.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is tested."""
    names = " ".join(chosen_servers(config))
    return f"servers: {names} (from {config.getoption('--bin-dir')})"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for `arch` against every server.

    The groups are for xdist: the tests of one file with one server share that server.
    """
    if "arch" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        names = chosen_servers(metafunc.config)
        marker = metafunc.definition.get_closest_marker("of_servers")
        if marker is not None:
            names = [name for name in names if name in marker.args]
        if metafunc.definition.get_closest_marker("shared_code") is not None:
            names = representatives(metafunc.config, names)
        groups = [pytest.mark.xdist_group(f"{module}-{name}") for name in names]
        values = [pytest.param(n, marks=g) for n, g in zip(names, groups, strict=True)]
        metafunc.parametrize("arch", values, scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that wait, beside the others; leave out what a sanitizer prevents."""
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)
    for item in items if PACE.sanitized else ():
        marker = item.get_closest_marker("plain_build")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The --root of nearly all tests: the project's own site and the tests' files."""
    return build_site(tmp_path_factory.mktemp("site"), REPOSITORY)


@pytest.fixture(scope="session")
def redis() -> Iterator[PrivateRedis]:
    """A Redis for the whole run of this test process; no test may disturb it."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture(scope="session")
def database_numbers() -> Iterator[int]:
    """Numbers of databases nobody has used yet."""
    return iter(itertools.count(1))


@pytest.fixture(scope="module")
def database(
    redis: PrivateRedis, database_numbers: Iterator[int], arch: str
) -> Iterator[RedisClient]:
    """A client of the database that `server` uses."""
    client = redis.client(next(database_numbers))
    client.do("FLUSHDB")
    yield client
    client.close()


@pytest.fixture
def store(database: RedisClient) -> RedisClient:
    """The database that `server` uses, emptied."""
    database.do("FLUSHDB")
    return database


@pytest.fixture(scope="module")
def lone_store() -> Iterator[RedisClient]:
    """A client of a Redis that nobody else uses but the server."""
    with PrivateRedis() as own:
        client = own.client(1)
        yield client
        client.close()


@pytest.fixture(scope="module")
def binary(request: pytest.FixtureRequest, arch: str) -> Path:
    """The executable of the current server."""
    path = binary_path(request.config, arch)
    if not path.exists():
        pytest.fail(f"{path} is missing: build it first (make all)", pytrace=False)
    return path


@pytest.fixture(scope="module")
def server(
    binary: Path, site: Path, redis: PrivateRedis, database: RedisClient
) -> Iterator[Server]:
    """A running server that the tests of one file share and do not disturb."""
    with Server(binary, site, redis.url(database.database), WORKERS) as running:
        yield running


Start = Callable[..., Server]


@pytest.fixture
def start(
    binary: Path,
    site: Path,
    redis: PrivateRedis,
    database_numbers: Iterator[int],
) -> Iterator[Start]:
    """A function that starts a server for one test only: start(*options, redis=, root=, prefix=).

    What it started is ended after the test and checked, unless the test has ended it.
    """
    started: list[Server] = []

    def start_one(*options: str, prefix: tuple[str, ...] = (), **choices: str | Path) -> Server:
        url = str(choices.get("redis", redis.url(next(database_numbers))))
        root = Path(choices.get("root", site))
        if "--workers" not in options:
            options += ("--workers", "4")
        started.append(Server(binary, root, url, options, prefix))
        return started[-1].start()

    yield start_one
    try:
        with ThreadPoolExecutor(max(len(started), 1)) as pool:
            list(pool.map(Server.finish, [one for one in started if one.running()]))
        for one in started:
            one.assert_no_report()
    finally:
        for one in started:
            one.kill()
