# SPDX-License-Identifier: MIT
"""Child processes that end with this process, and the signals that end this process.

Every child
  - has its own session. Ctrl-C at the terminal reaches only this process, which then ends the
    children in order;
  - gets `death_signal` (default: SIGKILL) when this process ends, even by SIGKILL. setpriv
    (util-linux) sets this signal and then executes the program. Python code between fork and exec
    could deadlock, because this process may have threads (e.g. the live table's);
  - is bound to the given CPUs by taskset before its first instruction, so that all its threads and
    children also run on these CPUs;
  - writes to unnamed files, because a full pipe would block it. With `piped`, stdout is a pipe.
"""

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import FrameType
from typing import IO, TypeVar

from bench.host.kernel import demand_seconds
from bench.host.project import ROOT, search_path
from bench.records.errors import Interrupted, NoFigure

POLL_SECONDS = 0.02
START_POLL_SECONDS = 0.005
OUTPUT, ERRORS = 0, 1
"""A child's standard output and standard error."""
FIRST_PORT = 10_000
ATTEMPTS = 5
LONG_FILE = 8 << 20

Found = TypeVar("Found")
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def signal_name(number: int) -> str:
    """Return a signal's name, e.g. SIGTERM; "signal N" for a real-time signal without a name."""
    names = {int(one): one.name for one in signal.Signals}
    return names.get(number, f"signal {number}")


class SignalWatch:
    """Stores the first SIGINT (Ctrl-C), SIGTERM or SIGHUP that arrives during the `with` block.

    If a handler raised an exception before a started child was assigned to a variable, no code
    would end the child. So the handler only stores the signal, and waiting loops call `check()`
    several times a second. The cleanup does not call `check()`, so a second Ctrl-C cannot interrupt
    the cleanup.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "SignalWatch":
        for number in WATCHED:
            # If nohup started the program, SIGHUP is ignored, and must stay ignored.
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGINT:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived."""
        if self.number is not None:
            raise Interrupted(self.number)

    def sleep(self, seconds: float) -> None:
        """Sleep, then raise Interrupted if a signal has arrived."""
        time.sleep(seconds)
        self.check()

    def until(self, ready: Callable[[], Found], seconds: float, pause: float = 0.02) -> Found:
        """Call `ready` until its result is true, at most for `seconds`. Return the last result."""
        deadline = time.monotonic() + seconds
        while not (found := ready()) and time.monotonic() < deadline:
            self.sleep(pause)
        return found


class Child:
    """A started child process. Call `end` in a `finally`."""

    def __init__(
        self,
        command: Sequence[str],
        cpus: Sequence[int] = (),
        cwd: Path | None = None,
        death_signal: str = "KILL",
        piped: bool = False,
    ) -> None:
        """Start the program. `death_signal`: the signal that the program gets when this process
        ends (not KILL if the program must end its children). `piped`: see `pipes`."""
        self.command = list(command)
        self._files = (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
        self._kept: tuple[bytes, bytes] | None = None
        self._read = [0, 0]
        self._obeyed = True
        self._process = subprocess.Popen(
            guarded(command, cpus, death_signal),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else self._files[OUTPUT],
            stderr=self._files[ERRORS],
            bufsize=0,
            cwd=cwd,
            # The command may begin with env or setpriv, which search PATH for the program.
            env={**os.environ, "PATH": search_path()},
            start_new_session=True,
        )
        self.pid = self._process.pid

    @property
    def pipes(self) -> list[IO[bytes]]:
        """Return the pipes of the child's standard input and output; empty without `piped`."""
        return [pipe for pipe in (self._process.stdin, self._process.stdout) if pipe]

    @property
    def stdout(self) -> str:
        """Return the text that the child has written to standard output so far."""
        return self._written(OUTPUT).decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Return the text that the child has written to standard error so far."""
        return self._written(ERRORS).decode(errors="replace")

    def next_lines(self, stream: int) -> str:
        """Return the complete lines that the child has written to OUTPUT or ERRORS since the last
        call. After `end`, also return an incomplete last line."""
        text = self._written(stream, self._read[stream])
        if not self._kept:
            text = text[: text.rfind(b"\n") + 1]
        self._read[stream] += len(text)
        return text.decode(errors="replace")

    def _written(self, stream: int, start: int = 0) -> bytes:
        if self._kept:
            return self._kept[stream][start:]
        # pread, because a seek would move the file position, which the child shares.
        descriptor = self._files[stream].fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size - start, start)

    def running(self) -> bool:
        """Return whether the child still runs. Do not reap the child, so its PID is not reused."""
        if self._process.returncode is not None:
            return False
        try:
            seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # another thread has reaped the child
            return False
        return seen is None

    def wait(
        self,
        seconds: float,
        watch: SignalWatch | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> bool:
        """Wait until the child ends, and call `meanwhile` several times a second. Return False if
        the child still runs after `seconds`. May raise Interrupted."""

        def has_ended() -> bool:
            running = self.running()
            if running and meanwhile:
                meanwhile()
            return not running

        return (watch or SignalWatch()).until(has_ended, seconds, POLL_SECONDS)

    def until(
        self, ready: Callable[[], Found | None], seconds: float, watch: SignalWatch
    ) -> Found | None:
        """Call `ready` until its result is true, and return the result. Return None after
        `seconds`, or when the child has ended. May raise Interrupted."""
        deadline = time.monotonic() + seconds
        while not (found := ready()):
            if not self.running() or time.monotonic() > deadline:
                return None
            watch.sleep(START_POLL_SECONDS)
        return found

    def demand_seconds(self) -> float | None:
        """Return the seconds for which the child's busiest task ran or waited for a CPU."""
        return demand_seconds(self.pid)

    def send(self, number: int) -> None:
        """Send a signal to the child only, not to its own children."""
        if self.running():
            self._process.send_signal(number)

    def end(self, timeout: float = 2.0, number: int = signal.SIGTERM) -> bool:
        """End the child and its group: send the child signal `number`, wait at most `timeout`
        seconds, then kill the group. The output stays readable. Return False if the child did not
        end in time. May be called twice."""
        if self._process.returncode is not None:
            return self._obeyed
        self.send(number)
        self._obeyed = self.wait(timeout)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-self.pid, 0)  # the child's orphans, if this process is the subreaper
        self._kept = (self._written(OUTPUT), self._written(ERRORS))
        for file in self._files:
            file.close()
        return self._obeyed

    @property
    def exit_status(self) -> int | None:
        """Return the exit status, or minus the signal that ended the child; None while it runs."""
        return self._process.poll()


def guarded(
    command: Sequence[str], cpus: Sequence[int] = (), death_signal: str = "KILL"
) -> list[str]:
    """Return the command line that starts the program with taskset and setpriv."""
    placed = ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []
    return [*placed, "setpriv", "--pdeathsig", death_signal, "--", *command]


def raise_descriptors() -> None:
    """Raise the limit of descriptors of this process and its children to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class StartError(NoFigure):
    """A server did not start. The message gives the reason, if possible from the server."""

    label = "no start"
    status: int | None = None
    """The server's exit status, or minus the number of the signal that ended it."""


def lines_at_ends(file: Path) -> list[str]:
    """Return the lines of a file. If the file has more than twice LONG_FILE bytes, return only the
    lines in its first and last LONG_FILE bytes. Raises OSError."""
    with file.open("rb") as opened:
        text = opened.read(LONG_FILE)
        opened.seek(max(opened.tell(), opened.seek(0, os.SEEK_END) - LONG_FILE))
        return (text + opened.read()).decode(errors="replace").splitlines()


def last_line(text: str) -> str:
    """Return the last line that is not blank, without outer spaces; empty if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def url_that_answers(address: str, port: int, running: bool, ready: str = "") -> str | None:
    """Return the URL of a server that accepts a connection and is `running`; otherwise None.
    `ready`: a path to which the server must respond without an error."""
    with contextlib.suppress(OSError, HTTPException):
        client = HTTPConnection(address, port, timeout=1)
        with contextlib.closing(client):
            client.connect()
            if ready:
                client.request("GET", ready)
                running = running and client.getresponse().status < HTTPStatus.BAD_REQUEST
        return f"http://{address}:{port}/" if running else None
    return None


def free_port(address: str = "127.0.0.1") -> int:
    """Return a free port of an address of this host. May raise OSError. If possible, the port is
    below the ephemeral range, so that no client gets it while its server is down."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(FIRST_PORT, first), 50) if first > 2 * FIRST_PORT else ():
        with contextlib.suppress(OSError), socket.create_server((address, port)):
            return port
    with socket.create_server((address, 0)) as listener:
        return int(listener.getsockname()[1])


def on_free_port(address: str, start: Callable[[int], Found | None]) -> Found | None:
    """Call `start` with a free port of an address until its result is true, and return the result;
    None after several attempts. An attempt fails if another process takes the port first."""
    for _ in range(ATTEMPTS):
        if found := start(free_port(address)):
            return found
    return None


# ---- Helper processes that run during a load ----

START_SECONDS = 10.0


class HelperError(NoFigure):
    """A helper process did not start, or failed; the message gives the reason."""

    label = "no start"


Own = TypeVar("Own", bound="Helper")


class Helper(Child):
    """A module of this package as a child process. Use in a `with` block."""

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        cpus: Sequence[int],
        watch: SignalWatch,
        inside: Sequence[str] = (),
    ) -> None:
        """Start the module and wait for its first line, a number. `inside`: a command that starts
        Python, for example in another namespace. Raises HelperError or Interrupted."""
        # -S: Python starts faster without site-packages.
        super().__init__([*inside, sys.executable, "-S", "-m", module, *words], cpus, cwd=ROOT)
        try:
            if not self.until(lambda: "\n" in self.stdout, START_SECONDS, watch):
                said = last_line(self.stderr) or "it printed no error"
                raise HelperError(f"{module} did not start: {said}")
            self.first = int(self.stdout.split("\n")[0])
        except BaseException:
            self.end()
            raise

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self.end()
