# SPDX-License-Identifier: MIT
"""Fixtures for the tests of the servers: a site, a Redis, and a server of each architecture."""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.host.accounting import adopt_orphans
from bench.host.project import toml_of
from bench.host.sockets import bring_up_loopback
from bench.subjects.subject import discover
from lab.kernel import NEW_NETWORK, enter, unshare

from .harness import REPOSITORY, Server, Start, architecture, is_sanitized, lacks_second_storey
from .redisbox import PrivateRedis, RedisClient
from .site import build_site
from .timing import PACE, wait_until

WORKERS = ("--workers", "16")
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The setting for the ports of outgoing connections; each network namespace has its own."""


def chosen_servers(config: pytest.Config) -> list[str]:
    """Return the servers to test. tests/options.py has checked the names."""
    by_default = [name for name in discover(REPOSITORY) if architecture(name).by_default]
    return list(config.getoption("--server") or by_default)


REPRESENTATIVES = {
    "shared_code": ("prethreading", "epoll"),
    "redis_code": ("forking", "preforking", "prethreading", "epoll"),
}
"""The servers for tests with a mark. shared_code: one with blocking I/O and one with an event loop.
redis_code: one for each way to get a Redis connection (lent to a child, own, pool, shared)."""
SEVEN = 7


def representatives(config: pytest.Config, mark: str) -> list[str]:
    """Return the servers for tests with a mark: with --server or --every-server, all chosen
    servers; otherwise the representatives of the seven servers, and all further servers."""
    names = chosen_servers(config)
    if config.getoption("--server") or config.getoption("--every-server"):
        return names
    known = discover(REPOSITORY)[:SEVEN]
    return [name for name in names if name in REPRESENTATIVES[mark] or name not in known]


def binary_path(config: pytest.Config, name: str) -> Path:
    return Path(config.getoption("--bin-dir")).resolve() / name


def pytest_configure(config: pytest.Config) -> None:
    """Stretch the deadlines for sanitizer builds, and prepare to detect orphans."""
    binaries = [
        path for name in discover(REPOSITORY) if (path := binary_path(config, name)).exists()
    ]
    config.stash[PLAIN] = any(lacks_second_storey(path) for path in binaries)
    if any(is_sanitized(path) for path in binaries):
        PACE.sanitized = True
        PACE.slowness = 6
    adopt_orphans()  # to detect servers that leave processes behind
    # The servers would inherit SIG_IGN for SIGHUP from nohup(1), but they do not inherit a handler.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


PLAIN = pytest.StashKey[bool]()
SECOND_STOREY = toml_of(Path(__file__).with_name("second_storey.toml"))


def pytest_report_header(config: pytest.Config) -> str:
    names = " ".join(chosen_servers(config))
    return f"servers: {names} (from {config.getoption('--bin-dir')})"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that has the argument `arch` once for each server. The groups are for xdist:
    tests of one file that share a server run in one process."""
    if "arch" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        names = chosen_servers(metafunc.config)
        marker = metafunc.definition.get_closest_marker("of_servers")
        if marker is not None:
            names = [name for name in names if name in marker.args]
        for kind in metafunc.definition.iter_markers("of_kind"):
            fact, is_so = kind.args[0].removeprefix("not "), not kind.args[0].startswith("not ")
            names = [name for name in names if getattr(architecture(name), fact) == is_so]
        values: list[object] = list(names)
        if {"server", "faulty"} & set(metafunc.fixturenames):
            groups = [pytest.mark.xdist_group(f"{module}-{name}") for name in names]
            values = [pytest.param(n, marks=g) for n, g in zip(names, groups, strict=True)]
        metafunc.parametrize("arch", values, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Test shared code only with the representatives. If --bin-dir is not the repository, leave out
    tests that use no server. Skip tests that a sanitizer prevents. With servers of `make plain`,
    skip the tests for ops/."""
    left_out = set()
    if Path(config.getoption("--bin-dir")).resolve() != REPOSITORY:
        left_out = {item for item in items if not {"arch", "everyone"} & set(item.fixturenames)}
    for mark in REPRESENTATIVES:
        few = representatives(config, mark)
        shared = [item for item in items if item.get_closest_marker(mark) is not None]
        left_out |= {item for item in shared if item.callspec.params["arch"] not in few}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    for item in items if PACE.sanitized else ():
        marker = item.get_closest_marker("plain_build")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
    for item in items if config.stash[PLAIN] else ():
        for place, instead in SECOND_STOREY.items():
            if item.nodeid.partition("[")[0].startswith(f"tests/e2e/{place}"):
                item.add_marker(pytest.mark.skip(reason=f"make plain: {instead}"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the --root of nearly all tests: the project's own site and the tests' files."""
    return build_site(tmp_path_factory.mktemp("site"), REPOSITORY)


@pytest.fixture(scope="session")
def redis() -> Iterator[PrivateRedis]:
    """Yield a Redis for all tests of this process; no test may disturb it."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture(scope="module")
def database(redis: PrivateRedis, arch: str) -> Iterator[RedisClient]:
    """Yield a client of the database that `server` uses."""
    client = redis.client(redis.unused())
    yield client
    client.close()


@pytest.fixture
def store(database: RedisClient) -> RedisClient:
    """Empty the database that `server` uses, and return its client."""
    database.do("FLUSHDB")
    return database


@pytest.fixture
def own() -> Iterator[PrivateRedis]:
    """Yield a Redis that only this test uses, and may disturb."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def own_network(redis: PrivateRedis) -> Iterator[None]:
    """Run the test and its programs in a network namespace of their own."""
    with contextlib.ExitStack() as stack:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, before)
        try:
            unshare(NEW_NETWORK)
            stack.callback(enter, before, NEW_NETWORK)
            bring_up_loopback()
            PORTS.write_text(PORTS.read_text())
        except OSError as error:  # in most containers
            pytest.skip(f"no network namespace with settings of its own: {error}")
        yield


@pytest.fixture(scope="module")
def binary(request: pytest.FixtureRequest, arch: str) -> Path:
    path = binary_path(request.config, arch)
    if not path.exists():
        pytest.fail(f"{path} is missing: build it first (make all)", pytrace=False)
    return path


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest,
    binary: Path,
    site: Path,
    redis: PrivateRedis,
    database: RedisClient,
) -> Iterator[Server]:
    """Yield a running server that the tests of one file share and do not disturb. Its options are
    the file's SERVER_OPTIONS, by default WORKERS."""
    options = getattr(request.module, "SERVER_OPTIONS", WORKERS)
    with Server(binary, site, redis.url(database.database), options) as running:
        yield running


@pytest.fixture
def start(binary: Path, site: Path, redis: PrivateRedis) -> Iterator[Start]:
    """Return a function that starts a server: start(*options, redis=, root=, prefix=, stdout=).
    With `at_rest` the function waits until the server has all its workers. After the test, servers
    that still run are stopped and checked."""
    started: list[Server] = []

    def start_one(
        *options: str,
        prefix: tuple[str, ...] = (),
        stdout: int | None = None,
        at_rest: bool = False,
        **choices: str | Path,
    ) -> Server:
        url = str(choices.get("redis", redis.url(redis.unused())))
        root = Path(choices.get("root", site))
        if "--workers" not in options:
            options += ("--workers", "4")
        server = Server(binary, root, url, options, prefix, stdout)
        started.append(server)
        server.start()
        if at_rest:
            workers = int(options[options.index("--workers") + 1])
            wait_until(lambda: server.is_at_rest(workers), "the server has all workers")
        return server

    yield start_one
    try:
        with ThreadPoolExecutor(max(len(started), 1)) as pool:
            list(pool.map(Server.finish, [one for one in started if one.running()]))
        for one in started:
            one.assert_no_report()
    finally:
        for one in started:
            one.kill()
