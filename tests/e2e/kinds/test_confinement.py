# SPDX-License-Identifier: MIT
"""Confinement: the rights that a server drops after its start."""

import contextlib
import errno
import os
import pwd
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.grade import fence
from bench.host.project import toml_of
from tests.bench.commands import run

from ..client import CLOSE, FORM, form, request
from ..harness import REPOSITORY, Server, Start, of, run_to_end
from ..processes import log_writers, status
from ..redisbox import PrivateRedis
from ..site import build_project_site
from ..sockets import free_port
from ..timing import wait_until
from ..tracing import Trace, native, skip_unless_traceable

pytestmark = pytest.mark.plain_build("sanitizers make calls of their own: no confinement")

INTRUDER = REPOSITORY / "build" / "intruder.so"

NOT_ALWAYS = toml_of(Path(__file__).with_name("not_always.toml"))

BY_ITSELF = {"accept4", "recvfrom", "sendto", "sendmsg", "getsockopt"}
"""Calls that io_uring replaces. The filter allows them also in 08, because the ring can do the same
operations anyway."""


def listed(binary: Path) -> set[str]:
    """Return the calls that --print-syscalls prints. Assert that each name is printed once."""
    code, out, err = run_to_end(binary, "--print-syscalls")
    assert (code, err) == (0, "")
    names = out.split()
    assert len(names) == len(set(names))
    return set(names)


def test_list_of_calls(start: Start, own: PrivateRedis, tmp_path: Path) -> None:
    """A server makes only listed calls, and makes each listed call, except perhaps NOT_ALWAYS."""
    skip_unless_traceable()
    root = build_project_site(tmp_path, REPOSITORY)
    (root / "public" / "large").write_bytes(bytes(100_000))
    server = start("--log", root=root, redis=own.url(1))
    wait_until(lambda: log_writers(server.pid), "the log writer has left the session")
    wait_until(lambda: server.is_at_rest(4), "the server has all workers")
    trace = Trace(server, tmp_path / "trace")
    for _ in range(2):
        for target in ("/", "/large", "/guestbook", "/sorted", "/none", "/go/x", "/home"):
            server.get(target)
        os.utime(root / "templates" / "guestbook" / "index.html")  # the server reads it again
        assert server.sign("Ann", "traced").status == 303
        server.send_to_end(b"nonsense\r\n\r\n")
        own.kill()
        assert server.get("/guestbook").status == 503
        own.start()
        wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in server.pids():
            with contextlib.suppress(ProcessLookupError):  # a child of 02 that has ended
                os.kill(pid, number)
    if server.kind.has_workers and server.children():
        before = set(server.children())
        os.kill(min(before), signal.SIGKILL)
        wait_until(
            lambda: bool(set(server.children()) - before) and server.is_at_rest(4),
            "the worker is replaced",
        )
    server.get("/")
    assert server.stop() == 0
    made, kept = set(trace.calls()), set(map(native, listed(server.binary)))
    if "epoll_pwait" in made:  # for epoll_wait(3), with musl: lib/calls.h
        kept = kept - {"epoll_wait"} | {"epoll_pwait"}
    assert made - kept == set()
    not_always = {*NOT_ALWAYS, *(BY_ITSELF if server.kind.completes else ())}
    assert kept - made - not_always == set()


HEAP_FILES = {"/sys/devices/system/cpu/online", "/proc/stat", "/proc/sys/vm/overcommit_memory"}


@of("threading", "prethreading")
def test_heaps_of_threads(start: Start, tmp_path: Path) -> None:
    """For the heaps of threads the C library opens only HEAP_FILES. Landlock, if the kernel has it,
    refuses these files, and the server logs no error."""
    skip_unless_traceable()
    server = start("--workers", "8", at_rest=True)
    trace = Trace(server, tmp_path / "trace")
    for _ in range(3):  # heaps grow and shrink
        body = form(guest_name="x", guest_remarks="%" * 20000)
        with server.crowd(8, request("POST", "/guestbook", (FORM, *CLOSE), body)) as clients:
            assert {client.read().status for client in clients} == {400}
        with server.crowd(8, request("GET", "/sorted", CLOSE)) as clients:
            assert {client.read().status for client in clients} == {200}
    assert server.stop() == 0
    trace.calls()
    found = re.findall(r'openat\(AT_FDCWD, "(.*?)", .*? = (-?\d+)', trace.path.read_text())
    assert {name for name, _ in found} <= HEAP_FILES
    if fence.version() >= 1:
        assert {result for _, result in found} <= {"-1"}
    assert server.stderr == ""


def _intruded(binary: Path, root: Path, url: str, *options: str, **variables: str) -> Server:
    """Return a server under an attacker's control: see tests/faults/intruder.c."""
    if not INTRUDER.exists():
        pytest.fail(f"{INTRUDER} is missing: build it first (make faults)", pytrace=False)
    words = ("env", f"LD_PRELOAD={INTRUDER}", *(f"{key}={it}" for key, it in variables.items()))
    # With --log a server with io_uring calls getpeername(), which starts the intruder.
    return Server(binary, root, url, ("--workers", "2", "--log", *options), words)


def intrude(binary: Path, root: Path, redis: PrivateRedis, *options: str) -> dict[str, int]:
    """Return the result of each of the intruder's attempts, by name: an errno, or 0 for success."""
    with PrivateRedis() as other:
        variables = {
            "ROOT": f"{root}/",
            "REDIS_PORT": str(redis.port),
            "OTHER_PORT": str(other.port),
            "TEST_PID": str(os.getpid()),
        }
        with _intruded(binary, root, redis.url(), *options, **variables) as server:
            assert server.get("/t/digits.txt").status == 200
            wait_until(lambda: "intruder kill" in server.stderr, "the last result is logged")
            found = re.findall(r"^intruder (\w+) (\d+)$", server.stderr, re.MULTILINE)
            return {name: int(number) for name, number in found}


def test_intruder(binary: Path, site: Path, redis: PrivateRedis) -> None:
    """An attacker who controls a server can do little more than the server itself."""
    version = fence.version()
    denied = errno.EACCES if version >= 1 else 0
    got = intrude(binary, site, redis)
    assert got["page"] == got["template"] == got["redis"] == 0
    assert got["overwrite"] == got["redirects"] == got["passwd"] == got["environment"] == denied
    assert got["connect"] == (errno.EACCES if version >= 4 else 0)
    for name in ("bind", "execve", "ptrace", "setuid"):
        assert got[name] == errno.ENOSYS, name
    may_open, may_kill = ("openat" in listed(binary)), ("kill" in listed(binary))
    assert got["open"] == (denied if may_open else errno.ENOSYS)
    assert got["kill"] == (
        0 if may_kill and version < 6 else errno.EPERM if may_kill else errno.ENOSYS
    )


@pytest.mark.shared_code
def test_refused_under_a_long_name(
    binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path
) -> None:
    link = tmp_path / ("x" * 200)
    link.symlink_to(binary)
    assert intrude(link, site, redis)["execve"] == errno.ENOSYS


@pytest.mark.shared_code
def test_intruder_unconfined(binary: Path, site: Path, redis: PrivateRedis) -> None:
    """With --no-confinement the same attempts succeed, so only the confinement prevents them."""
    got = intrude(binary, site, redis, "--no-confinement")
    # These two fail even without confinement, because the program and the process do not exist.
    assert (got.pop("execve"), got.pop("ptrace")) == (errno.ENOENT, errno.ESRCH)
    # The ring always refuses operations that the server does not need: test_ring.py.
    assert {error for name, error in got.items() if not name.startswith("ring_")} == {0}, got


@pytest.mark.shared_code
def test_crash_reports_its_kind(binary: Path, site: Path, redis: PrivateRedis) -> None:
    """A crashing server prints the C library's message about a corrupt heap."""
    server = _intruded(binary, site, redis.url(), FREE_TWICE="1").start()
    try:
        with server.client() as client:
            client.send(request("GET", "/"))
            wait_until(lambda: "double free" in server.stderr, "the message is printed")
        assert "is not in its list" not in server.stderr
    finally:
        server.kill()


def test_a_stop_signal_after_main_has_returned(
    binary: Path, site: Path, redis: PrivateRedis
) -> None:
    """A second stop signal, which comes during exit(3), changes nothing."""
    server = _intruded(binary, site, redis.url(), SIGNAL_AT_EXIT="1").start()
    assert server.stop() == 0


def test_banner(start: Start) -> None:
    """The banner shows how far the server is confined, and the kernel confirms it."""
    server = start()
    calls = len(listed(server.binary))
    assert server.banner["confined"].startswith(f"to {calls} system calls, ")
    for pid in server.pids():
        assert status(pid, "NoNewPrivs") == ["1"]
        assert status(pid, "Seccomp") == ["2"]
    server = start("--no-confinement")
    assert server.banner["confined"] == "no"
    ours = status(os.getpid(), "Seccomp")  # in a container this process has a filter, too
    for pid in server.pids():
        assert status(pid, "Seccomp") == ours


@pytest.fixture
def open_site() -> Iterator[Path]:
    """Yield a copy of the project's site that every user may read."""
    with tempfile.TemporaryDirectory(prefix="zs-user-") as folder:
        Path(folder).chmod(0o755)
        yield build_project_site(Path(folder), REPOSITORY)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")


@as_root
def test_user(start: Start, open_site: Path, redis: PrivateRedis) -> None:
    """With --user all processes run as this user, with its groups and without root's rights."""
    nobody = pwd.getpwnam("nobody")
    server = start("--user", "nobody", root=open_site, redis=redis.url(redis.unused()))
    for pid in server.pids():
        assert status(pid, "Uid") == [str(nobody.pw_uid)] * 4
        assert status(pid, "Gid") == [str(nobody.pw_gid)] * 4
        assert "0" not in status(pid, "Groups")
        assert int(status(pid, "CapEff")[0], 16) == int(status(pid, "CapPrm")[0], 16) == 0
    assert server.get("/").status == 200
    assert server.sign("Ann", "as nobody").status == 303
    # The server answers 404 for a file that only root may read.
    secret = open_site / "public" / "secret.txt"
    secret.write_text("for root")
    secret.chmod(0o600)
    assert server.get("/secret.txt").status == 404


@pytest.mark.shared_code
@as_root
def test_user_errors(binary: Path, open_site: Path) -> None:
    """The start fails with one line if the user is unknown, or if only root may change to it."""
    shutil.copy(binary, open_site / binary.name)
    options = ("--port", str(free_port()), "--root", str(open_site))
    code, out, err = run_to_end(binary, *options, "--user", "no-such-user")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no-such-user" in err
    words = ["setpriv", "--reuid=65534", "--clear-groups", str(open_site / binary.name)]
    done = run(*words, *options, "--user", "root", status=1)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "only root can" in done.stderr
