# SPDX-License-Identifier: MIT
"""Start a server, send it requests, stop it, and check that none of its processes is left."""

import contextlib
import functools
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from pydantic import ConfigDict
from typing_extensions import Self

from bench.host.process import guarded
from bench.host.project import declaration
from bench.subjects.running import lines_of
from bench.subjects.subject import ServerFacts, limits_of

from . import processes, sockets
from .client import FORM, HALF, Client, Response, form, request, split_responses
from .timing import PACE, TIMEOUT, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
SANITIZER_REPORTS = (
    "ERROR: AddressSanitizer",
    "ERROR: LeakSanitizer",
    "runtime error:",
    "WARNING: ThreadSanitizer",
    "Sanitizer:DEADLYSIGNAL",
)


of, of_kind = pytest.mark.of_servers, pytest.mark.of_kind
shared = functools.partial(pytest.param, marks=pytest.mark.shared_code)
"""Make a parameter that is tested only with the servers of the mark shared_code."""


class Architecture(ServerFacts):
    """The properties of a server that the tests need: its name, and its NN_name/tests.toml. Without
    this file the tests expect one process that no client can stall."""

    model_config = ConfigDict(extra="forbid")
    name: str
    keeps_alive: bool = True
    """Whether the server serves more than one request per connection."""
    stalled_by: Literal["none", "one", "workers"] = "none"
    """How many silent clients stall all others: no number, one, or as many as there are workers."""
    workers: Literal["", "processes", "threads"] = ""
    """What --workers counts; empty if the option has no effect."""
    lends_redis: bool = False
    """Whether a worker serves only one connection, and borrows a connection to Redis."""
    shares_redis: bool = False
    """Whether threads share a pool of Redis connections. The pool opens a new connection only if
    all its connections are in use."""
    listener_each: bool = False
    """Whether each worker has its own listener; the first process has a descriptor of each."""
    completes: bool = False
    """Whether the kernel accepts, receives and sends by itself (io_uring): a test that counts or
    replaces these calls sees none."""

    @property
    def is_stalled_by_one(self) -> bool:
        """Return whether one silent client stalls all others."""
        return self.stalled_by == "one"

    @property
    def has_workers(self) -> bool:
        return self.workers != ""

    @property
    def worker_per_client(self) -> bool:
        """Return whether each client, also a silent one, takes one of a fixed number of workers."""
        return self.stalled_by == "workers"

    @property
    def is_pool_of_loops(self) -> bool:
        """Return whether each worker serves many clients at once."""
        return self.has_workers and not self.worker_per_client

    def listeners(self, workers: int) -> int:
        """Return the number of listening sockets of the server with this number of workers."""
        return workers if self.listener_each else 1

    def workers_within(self, connections: int, most: int) -> str:
        """Return the highest --workers, up to `most`, for which this number of connections to Redis
        suffices. Each event loop keeps a connection; all other workers can take turns."""
        return str(min(connections, most) if self.is_pool_of_loops else most)


@functools.cache
def architecture(name: str) -> Architecture:
    """Return the properties of a server, from its folder."""
    (folder,) = REPOSITORY.glob(f"[0-9][0-9]_{name}")
    return declaration(Architecture, folder / "tests.toml", name=name)


def limit(name: str) -> int:
    """Return a number that lib/config.h or ops/limits.h defines."""
    texts = "".join((REPOSITORY / file).read_text() for file in ("lib/config.h", "ops/limits.h"))
    return int(limits_of(texts)[name])


def is_sanitized(binary: Path) -> bool:
    content = binary.read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


def lacks_second_storey(binary: Path) -> bool:
    """Return whether `make plain` built this server, that is, without ops/."""
    return b"no (make plain)" in binary.read_bytes()


@dataclass
class Server:
    """One running server. Use it as a context manager, or call start() and finish()."""

    binary: Path
    root: Path
    redis: str
    options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    """The beginning of the command, e.g. a program that sets a limit and executes the server."""
    output: int | None = None
    """The descriptor for the server's standard output; None: a file that `stdout` reads."""
    pid: int = 0
    banner: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def name(self) -> str:
        return self.binary.name

    @property
    def kind(self) -> Architecture:
        return architecture(self.name)

    @property
    def url(self) -> str:
        return self.banner["url"]

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    @property
    def stdout(self) -> str:
        return self._output("stdout")

    @property
    def stderr(self) -> str:
        return self._output("stderr")

    def _output(self, name: str) -> str:
        assert self._folder is not None, "the server has not been started"
        return (Path(self._folder.name) / name).read_text(encoding="utf-8", errors="replace")

    def command(self) -> list[str]:
        fixed = ["--port", "0", "--redis", self.redis, "--root", str(self.root)]
        return [*self.prefix, str(self.binary), *fixed, *self.options]

    def start(self) -> Self:
        """Start the server and wait for its banner; raise AssertionError if none comes. Call this
        from the main thread: the server is killed when the calling thread ends."""
        self._folder = tempfile.TemporaryDirectory(prefix="zs-e2e-")
        with (
            Path(self._folder.name, "stdout").open("wb") as out,
            Path(self._folder.name, "stderr").open("wb") as err,
        ):
            self._process = subprocess.Popen(
                guarded(self.command()),
                stdin=subprocess.DEVNULL,
                stdout=out if self.output is None else self.output,
                stderr=err,
                env=environment(),
                start_new_session=True,
            )
        self.pid = self._process.pid
        try:
            wait_until(self._ready, f"{self.name} prints its banner")
        except BaseException:
            self.kill()
            raise
        return self

    def _ready(self) -> bool:
        assert self._process is not None
        text = self.stderr if "--log" in self.options else self.stdout
        self.banner = lines_of(text)
        if "redis" in self.banner and "url" in self.banner and text.endswith("\n"):
            return True
        status = self._process.poll()
        assert status is None, f"{self.name} exited with {status}: {self.stdout}{self.stderr}"
        return False

    def send_signal(self, number: int) -> None:
        """Send a signal to the server's first process only."""
        os.kill(self.pid, number)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop all processes of the server (SIGSTOP) for the `with` block. Afterwards only those
        that are still stopped get SIGCONT: when a process ends, the leak sanitizer uses SIGSTOP
        itself, and with an unexpected SIGCONT it would wait forever."""
        try:
            wait_until(self._is_stopped, f"{self.name} is stopped")
            yield
        finally:
            for pid in self.pids():
                if processes.state(pid) == "T":
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)

    def _is_stopped(self) -> bool:
        """Send SIGSTOP to each running process; return whether all were stopped already. The server
        may still fork children after its banner."""
        running = [pid for pid in self.pids() if processes.state(pid) != "T"]
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return not running

    def wait(self) -> int:
        """Wait until the server ends; return its exit status. Raise AssertionError on timeout."""
        assert self._process is not None
        try:
            return self._process.wait(TIMEOUT * PACE.slowness)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not exit") from None

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def begin_to_stop(self, number: int = signal.SIGTERM, busy: int | None = None) -> None:
        """Send the server a stop signal, and wait until it no longer listens. A parent signals its
        children only then. `busy`: wait also until at most this number of children is left."""
        self.send_signal(number)
        wait_until(lambda: not sockets.listens(self.port), f"{self.name} stops listening")
        if busy is not None:
            wait_until(
                lambda: len(processes.session_processes(self.pid)) <= 1 + busy,
                f"{self.name}'s idle children have ended",
            )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a stop signal and return the exit status. Requests in progress have at most 5 s."""
        if self.running():
            self.send_signal(number)
        return self.wait()

    def finish(self) -> None:
        """Stop the server. Assert exit status 0, no process left behind, no sanitizer report."""
        try:
            was_running = self.running()
            status = self.stop()
            left = {pid: processes.state(pid) for pid in processes.session_processes(self.pid)}
            assert not left, f"{self.name} left processes behind: {left}"
            self.assert_no_report()
            assert status == 0, f"{self.name} exited with {status}: {self.stderr}"
            assert was_running, f"{self.name} had ended by itself: {self.stderr}"
        finally:
            self.kill()

    def assert_no_report(self) -> None:
        text = self.stderr + self.stdout
        found = [report for report in SANITIZER_REPORTS if report in text]
        assert not found, f"{self.name}: {text}"

    def kill(self) -> None:
        """Kill all processes of the server, unless it was reaped and its PID is reused."""
        if self._process is None or (not self.running() and Path(f"/proc/{self.pid}").exists()):
            return
        processes.kill_session(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)

    # ---- Clients ----

    def client(self, receive_buffer: int = 0) -> Client:
        """Return a new connection, a context manager; `receive_buffer` in bytes, 0: the usual."""
        return Client((self.host, self.port), receive_buffer)

    def get(self, target: str, *fields: tuple[str, str], method: str = "GET") -> Response:
        """Send a request on a new connection; return the response."""
        return self.send(request(method, target, fields), method)

    def sign(self, name: str | bytes, remarks: str | bytes) -> Response:
        """Post a remark in the guestbook on a new connection; return the response."""
        body = form(guest_name=name, guest_remarks=remarks)
        return self.send(request("POST", "/guestbook", (FORM,), body))

    def send(self, data: bytes, method: str = "GET") -> Response:
        """Send bytes on a new connection; return the first response."""
        with self.client() as client:
            return client.exchange(data, method)

    def send_to_end(self, data: bytes) -> list[Response]:
        """Send bytes on a new connection; return all responses until the server closes."""
        with self.client() as client:
            client.send_if_open(data)
            return split_responses(client.read_to_end())

    @contextlib.contextmanager
    def crowd(self, count: int, data: bytes, receive_buffer: int = 0) -> Iterator[list[Client]]:
        """Yield connected clients, each of which has sent `data`."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.client(receive_buffer)) for _ in range(count)]
            for client in clients:
                client.send(data)
            yield clients

    @contextlib.contextmanager
    def silent(self, count: int, data: bytes = HALF) -> Iterator[list[Client]]:
        """Yield clients whose data, usually half a request, the server has read."""
        with self.crowd(count, data) as clients:
            for client in clients:
                client.wait_until_read()
            yield clients

    def statuses(self, target: str, count: int, at_once: int = 1) -> Counter[int]:
        """Send `count` requests, `at_once` of them at the same time, each on a new connection.
        Return the number of responses with each status."""
        if at_once == 1:  # so that an error ends the loop
            return Counter(self.get(target).status for _ in range(count))
        with ThreadPoolExecutor(at_once) as pool:
            return Counter(pool.map(lambda _: self.get(target).status, range(count)))

    # ---- Processes and output ----

    def statistics(self) -> dict[str, str]:
        """Return the values in the banner and the statistics, by the names of their lines."""
        text = self.stderr if "--log" in self.options else self.stdout
        figures = lines_of(text)
        assert "requests" in figures, f"{self.name} printed no statistics: {text}"
        return figures

    def pids(self) -> list[int]:
        return processes.living(self.pid)

    def is_at_rest(self, workers: int) -> bool:
        """Return whether only the processes and threads of an idle server exist, and no zombies."""
        found = processes.session_processes(self.pid)
        threads = sum(map(processes.own_threads, found))
        alone, threaded, forked = (1, 1), (1, 1 + workers), (1 + workers, 1 + workers)
        rest = {"": alone, "threads": threaded, "processes": forked}[self.kind.workers]
        return (len(found), threads) == rest

    def children(self) -> list[int]:
        """Return the PIDs of the server's processes without the first."""
        return [pid for pid in self.pids() if pid != self.pid]

    def __enter__(self) -> Self:
        return self if self.pid else self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.kill()


Start = Callable[..., Server]
"""The type of the fixture `start`."""


def environment() -> dict[str, str]:
    """Return the servers' environment, with short timeouts of the resolver. Without a name server
    the look-up of an unknown name may take minutes."""
    return {**os.environ, "RES_OPTIONS": "timeout:1 attempts:1"}


def run_to_end(binary: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a server that is expected to exit; return status, stdout, stderr."""
    done = subprocess.run(
        guarded([str(binary), *arguments]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=TIMEOUT * PACE.slowness,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
