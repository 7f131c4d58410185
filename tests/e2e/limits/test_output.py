# SPDX-License-Identifier: MIT
"""If nothing reads standard output or standard error, the server still answers. Takes 1 to 4 s
for each server."""

import contextlib
import fcntl
import itertools
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ..harness import Server, Start, limit, of
from ..processes import has_ended, has_signal, log_writers
from ..redisbox import FalseRedis, PrivateRedis, replying
from ..small import fill, redirected
from ..timing import PACE, TIMEOUT, wait_until

# All servers share the code for output, but in each a different call may wait for the reader.
pytestmark = of("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")
LONG = "/t/none-" + "x" * 400
Output = tuple[int, int]
"""The descriptor that the server writes to, and the descriptor that reads it."""
DROPPED = re.compile(r"\w+: (\d+) lines? (?:was|were) dropped here")


def _read_now(descriptor: int) -> str:
    """Return the text that can be read without waiting."""
    ready = select.select([descriptor], [], [], 0)[0]
    return os.read(descriptor, 1 << 20).decode() if ready else ""


def _pipe(stack: contextlib.ExitStack) -> Output:
    """Return a pipe of one page."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        stack.callback(os.close, end)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    return writer, reader


@pytest.fixture
def pipe() -> Iterator[Output]:
    """Yield a pipe that only the test reads."""
    with contextlib.ExitStack() as stack:
        yield _pipe(stack)


def _to(descriptor: int) -> str:
    """Return the shell's redirection of standard error to a descriptor of this process."""
    return f"2> /proc/{os.getpid()}/fd/{descriptor}"


def _ask(server: Server, target: str, times: int) -> None:
    """Send requests, and wait: the last log line may be written after its client has left."""
    for _ in range(times):
        assert server.get(target).status in (200, 404)
    time.sleep(0.2)


def _accounted(text: str) -> int:
    """Return the number of lines in an access log, plus the dropped lines that it reports."""
    dropped = sum(int(count) for count in DROPPED.findall(text))
    return dropped + len(re.findall(r"^127\.0\.0\.1 .* \d+\r?$", text, re.MULTILINE))


def test_full_pipe_of_standard_error(start: Start, own: PrivateRedis, pipe: Output) -> None:
    """Files are served although the pipe of standard error has no space for a line about Redis."""
    writer, reader = pipe
    server = start("--workers", "2", redis=own.url(1), prefix=redirected(_to(writer)))
    assert server.get("/guestbook").status == 200
    fill(writer)
    own.kill()
    # If a connection breaks in the clock tick of a reply, Redis counts as available.
    time.sleep(0.1)
    assert [server.get("/guestbook").status for _ in range(4)] == [503] * 4
    assert [server.get("/t/digits.txt").status for _ in range(4)] == [200] * 4
    _read_now(reader)
    own.start()
    wait_until(lambda: server.get("/guestbook").status == 200, "Redis is back")
    wait_until(lambda: DROPPED.search(_read_now(reader)), "the count is printed")
    server.finish()


def _socket(stack: contextlib.ExitStack) -> Output:
    """Return a socket, like the standard output of a service of systemd."""
    ours, theirs = map(stack.enter_context, socket.socketpair())
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return theirs.fileno(), ours.fileno()


def _terminal(stack: contextlib.ExitStack) -> Output:
    """Return a terminal that is stopped, as by Ctrl-S."""
    keyboard, screen = pty.openpty()
    for end in (keyboard, screen):
        stack.callback(os.close, end)
    termios.tcflow(screen, termios.TCOOFF)
    return screen, keyboard


@pytest.mark.parametrize("kind", [_pipe, _socket, _terminal])
def test_full_access_log(start: Start, kind: Callable[[contextlib.ExitStack], Output]) -> None:
    """The log has a line for each request, or a later line counts the dropped lines. The server
    does not change the flags of a descriptor that it shares with the process that
    started it."""
    with contextlib.ExitStack() as stack:
        ours, reader = kind(stack)
        flags = fcntl.fcntl(ours, fcntl.F_GETFL)
        server = start("--log", "--workers", "2", stdout=ours)
        assert server.statuses(LONG, 30) == {404: 30}
        if os.isatty(ours):
            termios.tcflow(ours, termios.TCOON)
        text = _read_now(reader)
        assert text.count("\n") < 30, "no line was dropped"

        asked = 30

        def all_there() -> bool:
            """Return whether all requests are logged or counted. If not, send a request, so that
            the server writes the count of dropped lines."""
            nonlocal text, asked
            text += _read_now(reader)
            if _accounted(text) == asked:
                return True
            assert server.get("/t/digits.txt").status == 200
            asked += 1
            return False

        wait_until(all_there, "each request is logged or counted")
        assert fcntl.fcntl(ours, fcntl.F_GETFL) == flags
        server.finish()


@of("preforking", "epoll", "multicore")
def test_end_without_a_reader(start: Start, pipe: Output) -> None:
    """A stopping server waits for the reader of its statistics for one second only."""
    server = start("--workers", "2")
    server.finish()
    fill(pipe[0])
    shell = [*redirected(_to(pipe[0])), *server.command(), "--log"]
    with subprocess.Popen(shell, stdout=subprocess.DEVNULL) as process:
        has_handler = partial(has_signal, process.pid, "SigCgt", signal.SIGTERM)
        wait_until(has_handler, "the server handles the signal")
        process.terminate()
        assert process.wait(TIMEOUT * PACE.slowness) == 0


@pytest.fixture
def frozen_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system that a test can freeze; it is thawed at the end."""
    if shutil.which("fsfreeze") is None or shutil.which("mkfs.ext4") is None:
        pytest.skip("fsfreeze or mkfs.ext4 is not installed")
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    image.write_bytes(bytes(8 << 20))
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mount = ["mount", "-o", "loop", str(image), str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user is not allowed to mount")
    yield disk
    subprocess.run(["fsfreeze", "-u", str(disk)], capture_output=True, check=False)
    subprocess.run(["umount", str(disk)], check=True)


def test_log_on_a_disk_that_hangs(
    frozen_disk: Path, start: Start, own: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are served although a write(2) to the frozen log does not return. This is true for
    the access log and for standard error. Takes 1 s."""
    monkeypatch.setattr(tempfile, "tempdir", str(frozen_disk))
    server = start("--log", "--workers", "2", redis=own.url())
    _ask(server, "/t/digits.txt", 1)
    subprocess.run(["fsfreeze", "-f", str(frozen_disk)], check=True)
    try:
        own.kill()
        assert server.get("/guestbook").status == 503
        _ask(server, LONG, 30)
    finally:
        subprocess.run(["fsfreeze", "-u", str(frozen_disk)], check=True)
    wait_until(lambda: server.stdout.count("\n") == 32, "all lines are in the log")
    wait_until(lambda: "unavailable: " in server.stderr, "the line about Redis is printed")
    server.finish()


@of("preforking", "epoll")
def test_log_writer_is_killed(start: Start) -> None:
    """The server reports a killed log writer once for each log, and logs all later lines."""
    server = start("--log", "--workers", "2")
    wait_until(lambda: len(log_writers(server.pid)) == 2, "the log writers run")
    _ask(server, "/t/digits.txt", 5)
    for writer in log_writers(server.pid):
        writer.kill()
        wait_until(lambda pid=writer.pid: has_ended(pid), "the log writer has ended")
    _ask(server, "/t/digits.txt", 5)
    assert server.stdout.count("\n") == 10
    for name in ("output", "error"):
        assert server.stderr.count(f"the log writer for standard {name} was killed") == 1
    server.finish()


@of("preforking")
def test_each_reason_is_logged(start: Start) -> None:
    """A new reason is logged at once, even if the message was just logged with another reason. The
    number of reasons is limited, because Redis may send a new one each time."""
    numbers = itertools.count()
    script = replying(lambda words: b"-ERR reason %d\r\n" % (next(numbers) // 2))
    most = limit("LOG_TEXTS")
    with FalseRedis(script) as false:
        server = start("--workers", "2", redis=false.url)
        assert server.statuses("/go/name", 2 * most + 10) == {502: 2 * most + 10}
        logged = re.findall(r"unexpected reply: ERR reason (\d+)", server.stderr)
        assert logged == [str(number) for number in range(most)]


@of("preforking", "epoll")
def test_log_on_a_full_disk(start: Start, tmp_path: Path) -> None:
    """The log continues when a full disk (here: a file size limit) has free space again."""
    log, whole = tmp_path / "log", 8 * 512
    how = f"trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\" >> '{log}'"
    server = start("--log", "--workers", "2", prefix=("sh", "-c", how))
    _ask(server, LONG, 30)
    text = ""

    def all_there() -> bool:
        nonlocal text
        if log.stat().st_size == whole:
            text += log.read_text()
            os.truncate(log, 0)
        return _accounted(text + log.read_text()) == 30

    wait_until(all_there, "all lines are in the log")
    assert text.count("\n") >= 8, "the disk was never full"
    server.finish()


@of("preforking", "epoll", "multicore")
def test_log_of_the_last_requests(start: Start, tmp_path: Path) -> None:
    """No log line is lost if all processes of the server's session get SIGINT. Takes 1 s."""
    log = tmp_path / "log"
    server = start("--log", "--workers", "2", prefix=redirected(f">> '{log}'"))
    assert server.statuses("/t/digits.txt", 20) == {200: 20}
    for pid in server.pids():
        with contextlib.suppress(ProcessLookupError):  # the parent has ended this process meanwhile
            os.kill(pid, signal.SIGINT)
    assert server.wait() == 0
    wait_until(lambda: log.read_text().count("\n") == 20, "all lines are in the log")
