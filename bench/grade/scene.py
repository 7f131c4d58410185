# SPDX-License-Identifier: MIT
"""The scene that a check works with: files, a Redis, a running server, clients."""

import contextlib
import math
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import psutil

from bench.grade.building import Built, Expected, SeededSite
from bench.grade.findings import Failed, FaultName, NotHere
from bench.grade.sandbox import MEMORY, Limits, confined, end_strangers, forget_strangers, user
from bench.grade.threads import kept_lock
from bench.host.kernel import demand_seconds, task_folders
from bench.host.process import StartError, lines_at_ends
from bench.host.signals import SignalWatch, signal_name
from bench.host.sockets import end
from bench.load.client import Client, NoAnswer, NotHttp, Response, request
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.subjects.running import Ended, RunningServer
from bench.subjects.subject import Place, Subject

TIMEOUT = 4.0
"""A client's timeout in seconds; a response takes milliseconds. The timeout is below
REQUEST_TIMEOUT, so that the server disconnects no other client meanwhile."""
START_SECONDS = 5.0
"""The time limit for the server to print its url, which usually takes milliseconds."""
LOOK_SECONDS = 0.02
DYING_SECONDS = 0.2
IDLE_END_SECONDS = 3.0
"""Less than STOP_TIMEOUT (5 s), because no requests are in flight."""
WORKERS = 16
CLOSE = "Connection: close"
FORM = "Content-Type: application/x-www-form-urlencoded"
INVALID = b"GET / HTTP/1.1\r\nBroken\r\n\r\n"
SMALL_BUFFER = 16_384
"""The receive buffer of a slow client in bytes."""
BUSY_SHARE = 0.5
"""The share of a CPU above which a thread counts as busy."""
TRACED_SHARE, TRACED_BYTES, ALL_CALLS = 0.15, 50_000, math.inf
"""TRACED_SHARE replaces BUSY_SHARE for a traced thread: strace stops a spinning thread for most of
its time. If the trace grows by more than TRACED_BYTES per second, the share is ALL_CALLS."""
SLEEP_ROUNDS = 4
NOHUP = ("sh", "-c", 'trap "" HUP; exec "$0" "$@" --log 2>&1')
"""Starts a program as nohup(1) does, and lets it write all its output to standard output."""
_STRANGE = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
"""Bytes that a line of a head must not have (RFC 9110, section 5.5)."""
_CALL = r"\d+ +[\d.]+ (?:<\.\.\. )?"
"""The beginning of a line of strace: process, time."""
ENDED_BY: dict[int, FaultName] = {signal.SIGPIPE: "sigpipe", signal.SIGSYS: "unlisted-call"}
"""The fault to report if this signal terminates the server."""
Found = TypeVar("Found")


@dataclass
class Scene:
    """A server with its files, Redis and clients during one check."""

    server: Subject
    site: SeededSite
    redis: PrivateRedis
    dice: random.Random
    watch: SignalWatch
    folder: Path
    """The folder for files of this examination."""
    stalled_by: str = "none"
    """The value from the server's tests.toml."""
    trace: Path | None = None
    """The output file of strace; None: no trace."""
    timeout: float = TIMEOUT
    limits: Limits = field(default_factory=Limits)
    program: Path = Path()
    """The compiled server."""
    running: RunningServer | None = None
    ready: float = 0
    """The time when the server was ready (Unix time)."""
    ended: Ended | None = None
    told: bool = False
    """Whether the grader has sent SIGTERM to the server, or has killed it."""
    died: FaultName | None = None
    """The reason why the grader killed the server."""
    gives_up: FaultName = "crash"
    """The fault that is reported if the server exits by itself with an error."""
    killed: int = 0
    """The number of connections to Redis that were open when the grader killed Redis."""
    slow: SlowRedis | None = None
    """A proxy in front of Redis."""
    redis_url: str = ""
    """The URL of the server's database, in `redis` or through `slow`."""
    environment: Sequence[str] = ()
    """The server's environment variables, NAME=value each."""
    built: Built | None = None
    """The copy from which the server can be built again, with other flags."""
    stopping: AbstractContextManager[object] = field(default_factory=threading.RLock)
    answered: list[int] = field(default_factory=list)
    """The statuses of the responses that clients have received."""
    nohup: bool = False
    """Whether the server is started with NOHUP."""
    lane: int = 0
    """The number of the lane: servers that run at the same time have different lanes and users."""
    left: Callable[[], float] = lambda: math.inf
    """Returns the seconds that the examination still has."""

    def start(self, options: Sequence[str] = (), tracer: Sequence[str] = ()) -> None:
        """Start the server. Raises StartError, Interrupted or NotHere."""
        # Processes of the previous server must not count against the limit.
        if self.limits.tasks < Limits.tasks and not forget_strangers():
            raise NotHere("ended processes still count against the limit: init does not reap them")
        place = Place(self.redis_url, self.folder)
        words = [*self.server.command(place), "--root", str(self.site.root)]
        words += ["--workers", str(WORKERS), *options]
        self.program = Path(words[0])
        limited = confined(
            [*(NOHUP if self.nohup else ()), *words],
            self.limits,
            reads=[self.folder, self.program],
            environment=self.environment,
            lane=self.lane,
        )
        server = replace(
            self.server, command=lambda _: [*tracer, *limited], start_seconds=START_SECONDS
        )
        try:
            self.running = RunningServer(server, place, (), self.watch)
        except StartError:
            end_strangers(self.lane)
            raise
        self.ready = time.time()
        if not listens_here(self.running.url):
            raise StartError(f"the url is {self.running.url[:60]!r}, not a loopback address")
        self.require_own_program()

    def require_own_program(self) -> None:
        """Raise Failed if a process of the server executes a file other than the compiled
        server."""
        for pid in self.pids():
            with contextlib.suppress(OSError):  # the process has ended, or cannot be inspected
                other = Path(f"/proc/{pid}/exe")
                if not other.samefile(self.program):
                    seen = f"process {pid} executes {str(other.readlink())[:60]!r}"
                    raise Failed("another-program", f"{seen}, not the file that was compiled")

    def of(self, server: Subject) -> "Scene":
        """Return a copy of this scene for another server, which has not been started."""
        return replace(self, server=server, running=None, ended=None, told=False)

    @contextlib.contextmanager
    def started(self, *options: str) -> Iterator["Scene"]:
        """Start the server, yield this scene, and stop the server. Raises the errors of `start`."""
        try:
            self.start(options)
            yield self
        finally:
            self.stop()

    def stop(self) -> Ended | None:
        """Kill the server and return how it ended. Several threads may call this at once."""
        with self.stopping:
            if self.running is not None and self.ended is None:
                self._kill()
                self.ended = self.running.stop()
                end_strangers(self.lane)
                self.until(lambda: not self.left_behind())
            return self.ended

    def end_by_itself(self, seconds: float) -> bool:
        """Send SIGTERM, if it has not been sent; return whether the server ended in time. `stop`
        returns how it ended."""
        if not self.told:
            self.tell_to_stop()
        running = self.running
        return running is None or self.until(lambda: not running.running(), seconds)

    def tell_to_stop(self) -> None:
        """Send SIGTERM to the server."""
        assert self.running is not None
        self.running.ask_to_stop()
        self.told = True

    def interrupt(self) -> None:
        """Send SIGINT to all processes of the server, as a terminal does after Ctrl-C."""
        self.told = True
        self.kill(self.pids(), signal.SIGINT)

    def _kill(self) -> None:
        """Kill all processes of the server. Do nothing if the first process has ended by itself."""
        if self.running is not None and self.running.running():
            self.told = True
            self.kill(self.pids())

    @staticmethod
    def kill(pids: Collection[int], number: int = signal.SIGKILL) -> None:
        """Send a signal to processes; ignore those that have ended."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextlib.contextmanager
    def suspended(self, pids: Collection[int]) -> Iterator[None]:
        """Stop processes during the `with` block (SIGSTOP), then let them continue (SIGCONT)."""
        self.kill(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            self.kill(pids, signal.SIGCONT)

    def require_end(self, what: str, sure: bool = True) -> None:
        """Raise Failed if the server still runs IDLE_END_SECONDS after SIGTERM; `what`: the actions
        before. No client may be connected."""
        if not self.end_by_itself(IDLE_END_SECONDS):
            late = f"{IDLE_END_SECONDS:.0f} s after SIGTERM the server still runs"
            raise Failed("deaf", f"{what}; {late}", sure=sure)

    def left_behind(self) -> list[int]:
        """Return the running processes of the server's session or user, except the first one."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                own = os.getsid(process.pid) == self.pid or process.uids().real == user(self.lane)
                if own and process.pid != self.pid and not is_zombie(process.pid):
                    found.append(process.pid)
        return found

    # ---- Clients ----

    @property
    def several(self) -> bool:
        """Return whether the server says that it serves several clients at the same time."""
        return self.stalled_by != "one"

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port on which the server listens."""
        assert self.running is not None
        parts = urlsplit(self.running.url)
        return parts.hostname or "", parts.port or 80

    def client(self, buffer: int = 0) -> Client:
        """Return a new connection to the server. Raises Failed if it cannot be made."""
        try:
            return Client(self.address, self.timeout, buffer)
        except OSError as error:
            self.alive()
            raise Failed(
                "no-answer", f"a client could not connect: {error.strerror or error}", sure=False
            ) from error

    @contextlib.contextmanager
    def clients(self, count: int, data: bytes = b"") -> Iterator[list[Client]]:
        """Yield connected clients, each of which has sent `data`."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(count)]
            for client in clients:
                client.send(data)
            yield clients

    def get(
        self, path: str, *fields: str, method: str = "GET", fault: FaultName = "no-answer"
    ) -> Response:
        """Send a request on a new connection; return the response. `fault`: see `talk`."""
        return self.ask(request(method, path, CLOSE, *fields), method, fault)

    def ask(self, data: bytes, method: str = "GET", fault: FaultName = "no-answer") -> Response:
        """Send any bytes on a new connection; return the response. `fault`: see `talk`."""
        with self.client() as client:
            return self.talk(client, data, method, fault)

    def talk(
        self, client: Client, data: bytes, method: str = "GET", fault: FaultName = "no-answer"
    ) -> Response:
        """Send bytes on an open connection and return the response. Raises Failed; `fault`: the
        fault if no response arrives."""
        try:
            answer = client.ask(data, method)
        except (NoAnswer, OSError) as error:
            self.alive()
            received, in_time = b"", False
            if isinstance(error, NoAnswer):
                received, in_time = error.received, error.in_time
            if (extra := received.find(b"HTTP/1.")) > 0:
                raise Failed(
                    "wrong-length",
                    f"{extra} bytes came after the Content-Length bytes of the previous response: "
                    f"{received[: min(extra, 40)]!r}",
                    client.port,
                ) from error
            first = data.split(b"\r\n", 1)[0]
            is_line = b" HTTP/1." in first  # otherwise the data are a later part of a request
            asked = f"`{first[:60].decode('latin-1')}`: " if is_line else ""
            fault = "bad-head" if isinstance(error, NotHttp) else fault
            failed = Failed(fault, f"{asked}{error}", client.port, sure=in_time)
            failed.locked = () if in_time else kept_lock(self.pids())
            raise failed from error
        strange = next((line for line in answer.head.split(b"\r\n") if _STRANGE.search(line)), None)
        if strange is not None:
            raise Failed("bad-head", f"the head has invalid bytes: {strange[:60]!r}", client.port)
        if answer.status >= 200:
            self.answered.append(answer.status)
        return answer

    def file(self, path: str = "") -> None:
        """Request a small file. Raises Failed unless the file arrives complete and correct."""
        path = path or self.site.first
        self.require(self.site.file(path), self.get(path))

    def require(
        self,
        one: Expected,
        answer: Response,
        fault: FaultName = "wrong-answer",
        port: int = 0,
        sure: bool = True,
    ) -> None:
        """Raise Failed unless a response is the expected one; `fault`: the fault of a wrong
        response."""
        if told := one.wrong_length(answer):
            there = f"{one.name} has {len(one.body or b'')} bytes"
            raise Failed("wrong-length", f"{there}; the head said Content-Length: {told[:30]}")
        if wrong := one.wrong(answer):
            raise Failed(fault, f"{one.name} was answered {wrong}", port, sure)

    @contextlib.contextmanager
    def unanswered(
        self,
        fault: FaultName,
        seen: str,
        port: int = 0,
        *,
        sure: bool | None = None,
        also_in_time: bool = True,
    ) -> Iterator[None]:
        """Report a missing response as this fault. `seen`: the actions and their result. `sure`:
        see `Failed`; None: unchanged. `also_in_time`: whether this fault is also reported if the
        connection ended before the timeout."""
        try:
            yield
        except Failed as failed:
            self.alive()
            if failed.fault != "no-answer" or (failed.sure and not also_in_time):
                raise
            sure = failed.sure if sure is None else sure
            again = Failed(fault, f"{seen} ({failed.seen})", port, sure)
            again.locked = failed.locked
            raise again from failed

    def together(self, what: Sequence[Callable[[], Found]]) -> list[Found]:
        """Call all functions at once, each in a thread, and return their results in order. Raises
        the first error."""
        with ThreadPoolExecutor(len(what)) as actors:
            return [one.result() for one in [actors.submit(act) for act in what]]

    # ---- The server from outside ----

    @property
    def pid(self) -> int:
        """Return the PID of the server's first process."""
        assert self.running is not None
        return self.running.pid

    def pids(self) -> list[int]:
        """Return the PIDs of all processes of the server."""
        return self.running.pids() if self.running is not None else []

    def said(self) -> str:
        """Return the server's standard error; if `nohup`, its standard output and error."""
        if self.running is None:
            return ""
        return self.running.stdout if self.nohup else self.running.stderr

    def alive(self, seconds: float = DYING_SECONDS) -> None:
        """Raise Failed if the server's first process ends within this time without SIGTERM. A
        process may end a little later than its connections."""
        running = self.running
        if running is None:
            return
        if self.died is not None:
            raise Failed(self.died, f"the server used more than {MEMORY >> 20} MB and was killed")
        if self.told or not self.until(lambda: not running.running(), seconds):
            return
        ended = self.stop()
        status = ended.status if ended else None
        fault = fault_of_end(status, self.gives_up)
        said = f"; its last output: {ended.last_words}" if ended and ended.last_words else ""
        raise Failed(fault, f"the server ended during the check ({_status_words(status)}){said}")

    def let_go(self, port: int) -> bool:
        """Return whether no process has a descriptor for the server's end of the connection to this
        port."""
        own = end(self.address[1], port)
        return own is None or own.inode == 0

    @property
    def redis_port(self) -> int | None:
        """Return the port of the server's Redis, or of the proxy in front of Redis."""
        return urlsplit(self.redis_url).port

    def tasks(self) -> int:
        """Return the number of processes and threads of the server."""
        return sum(len(task_folders(pid)) for pid in self.pids())

    def traced(self, pattern: str) -> list[str]:
        """Return the matching beginnings of trace lines; `pattern` begins after process and time.
        Without a trace, return an empty list."""
        if self.trace is None or not self.trace.exists():
            return []
        wanted = re.compile(_CALL + pattern)
        found = map(wanted.match, lines_at_ends(self.trace))
        return [line.group() for line in found if line]

    @property
    def most_share(self) -> float:
        """Return the share of a CPU above which a thread of this server counts as busy."""
        return TRACED_SHARE if self.trace else BUSY_SHARE

    def busy_meter(self) -> Callable[[], float]:
        """Return a function that returns the share of the time since this call in which the busiest
        thread ran or waited for a CPU."""

        def demand() -> float:
            return max((demand_seconds(pid) or 0.0 for pid in self.pids()), default=0.0)

        def traced_bytes() -> int:
            return self.trace.stat().st_size if self.trace and self.trace.exists() else 0

        def share() -> float:
            took = time.monotonic() - begun
            if traced_bytes() - written > TRACED_BYTES * took:
                return ALL_CALLS
            return (demand() - before) / took

        before, written, begun = demand(), traced_bytes(), time.monotonic()
        return share

    def busy_share(self, seconds: float) -> float:
        """Wait; return the share of this time in which the busiest thread ran or waited for a
        CPU."""
        share = self.busy_meter()
        self.watch.sleep(seconds)
        return share()

    def is_busy(self, seconds: float) -> bool:
        """Wait; return whether the busiest thread ran or waited for a CPU for most of this time."""
        return self.busy_share(seconds) > self.most_share

    def require_sleep(self, seconds: float, seen: str, port: int = 0, sure: bool = False) -> None:
        """Wait. Raise Failed if one thread runs or waits for a CPU for most of the time; `seen`:
        the events meanwhile. On a busy machine a thread may run late before it can sleep. Therefore
        the wait is repeated up to SLEEP_ROUNDS times, and twice as often for a traced thread."""
        for _ in range((2 if self.trace else 1) * SLEEP_ROUNDS):
            share = self.busy_share(seconds)
            self.alive(0)
            if share <= self.most_share:
                return
        raise Failed("spins", f"{seen}; {in_words(share)}", port, sure)

    def until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until the condition is true; return whether it became true in time."""
        limit = self.timeout if seconds is None else seconds
        return self.watch.until(condition, limit, LOOK_SECONDS)

    # ---- Memory ----

    def guarded(self) -> AbstractContextManager[None]:
        """Kill the server during the `with` block if it uses more memory than MEMORY, or if the
        examination's time is over. Failures after this time are not reported."""

        def look() -> None:
            if self.memory() > MEMORY or self.left() <= 0:
                self.died = "takes-memory"
                self._kill()

        return meanwhile(look, 0.1)

    def memory(self) -> int:
        """Return the bytes that the server's processes use. Pages that processes share are counted
        (once) only above MEMORY, because counting takes a millisecond for each process."""

        def own(process: psutil.Process) -> int:
            held = process.memory_info()
            return int(held.rss - held.shared)

        def total(count: Callable[[psutil.Process], int]) -> int:
            found = 0
            for pid in self.pids():
                with contextlib.suppress(psutil.Error):
                    found += count(psutil.Process(pid))
            return found

        roughly = total(own)
        return roughly if roughly <= MEMORY else total(lambda one: int(one.memory_full_info().pss))


@contextlib.contextmanager
def meanwhile(act: Callable[[], object], pause: float) -> Iterator[None]:
    """Call a function repeatedly in a thread during the `with` block, with a pause in seconds
    before each call. Raise the function's error at the end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            act()

    with ThreadPoolExecutor(1) as actor:
        acting = actor.submit(repeat)
        try:
            yield
        finally:
            over.set()
        acting.result()


def listens_here(url: str) -> bool:
    """Return whether a URL is valid and its host is this machine, so that clients may connect."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.port != 0 and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def is_zombie(pid: int) -> bool:
    """Return whether a process is a zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return False


def in_words(share: float) -> str:
    """Return a share of `busy_share` in words, for a finding."""
    if share == ALL_CALLS:
        return "the server made system calls all the time"
    return f"one thread ran or waited for a CPU for {share:.0%} of the time"


def fault_of_end(status: int | None, otherwise: FaultName) -> FaultName:
    """Return the fault of a server that ended with this status, which is negative for a signal.
    `otherwise`: the fault if the server exited, or ended by SIGTERM or SIGINT."""
    if status is None:
        return "crash"
    if status >= 0 or -status in (signal.SIGTERM, signal.SIGINT):
        return otherwise
    return ENDED_BY.get(-status, "crash")


def _status_words(status: int | None) -> str:
    if status is None:
        return "unknown exit status"
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"
