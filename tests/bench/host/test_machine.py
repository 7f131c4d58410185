# SPDX-License-Identifier: MIT
"""The description of a machine, the digest of its sources, and its sockets, also in TIME_WAIT."""

import os
import platform
import socket
from pathlib import Path

import pytest

from bench.deploy.pack import SOURCE_FILES, SOURCE_FOLDERS
from bench.host import sockets
from bench.host.machine import cpu_model
from bench.host.process import SignalWatch
from bench.host.project import SOURCES, source_digest
from bench.host.sockets import LISTEN, Socket, end, own_backlog, read, tcp_sockets
from bench.records.errors import Interrupted

from ..commands import in_path

ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("cpuinfo", "lscpu", "name"),
    [
        ("model\t\t: 2\nmodel name\t: AMD EPYC\n", "Model name:  Another\n", "AMD EPYC"),
        (f"{ARM}\nModel\t\t: Raspberry Pi 4\n", "Model name:  Cortex-A72\n", "Raspberry Pi 4"),
        (ARM, "Vendor ID:   ARM\nModel name:  Neoverse-N1\nModel:   1\n", "Neoverse-N1"),
        (ARM, "Vendor ID:   0x00\nModel name:  -\nModel:   0\n", platform.machine()),
    ],
)
def test_the_name_of_the_processor(
    cpuinfo: str, lscpu: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_path(monkeypatch, tmp_path, "lscpu", f"cat <<'END'\n{lscpu}END\n")
    assert cpu_model(cpuinfo) == name


class Kernel(SignalWatch):
    """A mock kernel that forgets some connections in TIME_WAIT at each sleep."""

    def __init__(self, proc: Path, now: int, at_most: int, forgets: int = 0) -> None:
        super().__init__()
        self.proc, self.now, self.forgets, self.slept = proc, now, forgets, 0.0
        (proc / "net").mkdir()
        (proc / "sys/net/ipv4").mkdir(parents=True)
        (proc / "sys/net/ipv4/tcp_max_tw_buckets").write_text(f"{at_most}\n")
        self._write()

    def _write(self) -> None:
        text = f"sockets: used 9\nTCP: inuse 4 orphan 0 tw {self.now} alloc 9 mem 2\n"
        (self.proc / "net/sockstat").write_text(text)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now = max(0, self.now - self.forgets)
        self._write()
        self.check()


def test_connections_in_time_wait_are_counted(tmp_path: Path) -> None:
    assert sockets.memory(tmp_path) is None
    Kernel(tmp_path, now=41, at_most=4096)
    assert sockets.memory(tmp_path) == sockets.Memory(now=41, at_most=4096)
    assert sockets.memory().at_most > 0


@pytest.mark.parametrize(
    ("now", "connections", "forgets", "slept"),
    [
        (4000, 1000, 100, 10 * sockets.LOOK_SECONDS),  # waits until the table has space
        (4000, 1000, 0, sockets.REST_SECONDS),  # waits for at most a minute
        (3096, 1000, 0, 0),  # no wait: the table has space
        (0, 4096, 0, 0),
        (4000, 4097, 0, 0),  # no wait: the table is too small
    ],
)
def test_waiting_for_space_takes_at_most_a_minute(
    tmp_path: Path, now: int, connections: int, forgets: int, slept: float
) -> None:
    kernel = Kernel(tmp_path, now, at_most=4096, forgets=forgets)
    sockets.wait_for_room(connections, kernel, tmp_path)
    assert kernel.slept == pytest.approx(slept)


def test_a_signal_ends_the_waiting(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, now=4000, at_most=4096)
    kernel.number = 2
    with pytest.raises(Interrupted):
        sockets.wait_for_room(1000, kernel, tmp_path)
    assert kernel.slept == pytest.approx(sockets.LOOK_SECONDS)


def test_the_kernel_and_the_text_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=7) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = client.getsockname()[1]
            assert [(one.received, one.unsent) for one in tcp_sockets(port, states=LISTEN)] == [
                (1, 7)
            ]
            server, _ = listener.accept()
            client.send(b"three")
            with server:
                assert (found := end(port, own)) is not None
                assert found == Socket("ESTABLISHED", port, own, 5, 0, inode(server))
                assert tcp_sockets(port, own) == [found]
                # /proc/net/tcp may have a line twice if the table changes during the reading.
                assert {*read(port, own)} == {found}
                assert {*tcp_sockets(remote=port)} == {*read(remote=port)}
                assert {one.inode for one in tcp_sockets(port)} == {inode(listener), inode(server)}
                monkeypatch.setattr(sockets, "_SOCK_DIAG", 1000)
                assert end(port, own) == found, "without sock_diag, /proc/net/tcp is read"
                assert [*tcp_sockets(port, own), *tcp_sockets(own, port)][:1] == [found]
        assert end(port, own) is None
        assert end(port, 1) is None, "the listening socket is no connection"


def inode(of: socket.socket) -> int:
    return os.fstat(of.fileno()).st_ino


def test_a_backlog_that_is_the_servers_own_and_not_the_kernels() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=7) as short,
        socket.create_server(("127.0.0.1", 0), backlog=9) as longer,
        socket.create_server(("127.0.0.1", 0), backlog=2**31 - 1) as longest,
    ):
        ports = [one.getsockname()[1] for one in (longest, longer, short)]
        assert own_backlog(ports) == 7
        assert own_backlog(ports[:2]) == 9
        assert own_backlog(ports[:1]) is None, "net.core.somaxconn limits this backlog"


FILES = (
    *("bench/cell.py", "bench/host/accounting.py", "bench/report/study.py"),
    *("bench/load/wrk.lua", "bench/studies/now.toml", "bench/references/go/main.go"),
    *("baselines/baseline.h", "lib/config.h", "lib/net/server.c", "07_epoll/main.c"),
    *("Makefile", "course/experiments/no-cache.patch", "public/files/small.txt", "redirects"),
    "templates/guestbook/index.html",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("changed", FILES)
def test_each_change_changes_the_digest(changed: str, project: Path) -> None:
    """Each change of a source changes the digest, so a sweep rejects hosts with other sources."""
    before = source_digest(project)
    assert source_digest(project) == before
    (project / changed).write_text("changed")
    assert source_digest(project) != before


def test_compiled_python_files_do_not_change_the_digest(project: Path) -> None:
    """Compiled Python files do not change the digest, because they differ between hosts."""
    before = source_digest(project)
    for folder in ("bench", "bench/studies", "bench/references", "baselines"):
        (project / folder / "__pycache__").mkdir()
        (project / folder / "__pycache__" / "study.cpython-313.pyc").write_bytes(b"\0")
    assert source_digest(project) == before


def test_all_files_of_the_digest_are_sent() -> None:
    """Each file of the digest is sent to the hosts; otherwise their digests would never match."""
    for pattern in SOURCES:
        top = pattern.split("/", maxsplit=1)[0]
        assert top in {*SOURCE_FILES, *SOURCE_FOLDERS, "*"}
