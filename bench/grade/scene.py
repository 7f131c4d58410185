# SPDX-License-Identifier: MIT
"""What a check works with: a site, a Redis, a running server, clients."""

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
from urllib.parse import urlsplit

import psutil

from bench.grade.building import Built
from bench.grade.faults import (
    BAD_HEAD,
    CRASH,
    NO_ANSWER,
    SIGPIPE,
    TAKES_MEMORY,
    UNLISTED_CALL,
    WRONG_ANSWER,
    WRONG_LENGTH,
    FaultKind,
)
from bench.grade.sandbox import MEMORY, Limits, confined, end_strangers, forget_strangers, user
from bench.grade.site import SeededSite
from bench.grade.stage import Failed, NotHere
from bench.host.process import StartError, demand_seconds
from bench.host.signals import SignalWatch, signal_name
from bench.host.sockets import end
from bench.load.client import Client, NoAnswer, Response, request
from bench.services.private_redis import PrivateRedis
from bench.subjects.running import Ended, RunningServer
from bench.subjects.subject import Place, Subject

PATIENCE = 4.0
"""Seconds that a client waits for what takes milliseconds. Short of REQUEST_TIMEOUT: nobody else's
time may be over meanwhile."""
START_SECONDS = 5.0
"""Within which it prints its url. It takes milliseconds."""
LOOK_SECONDS = 0.02
DYING_SECONDS = 0.2
WORKERS = 16
CLOSE = "Connection: close"
FORM = "Content-Type: application/x-www-form-urlencoded"
SMALL_BUFFER = 16_384
"""Bytes that a client receives before it reads."""
BUSY_SHARE = 0.5
"""Of a processor: a thread that takes more does not sleep."""
_STRANGE = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
"""RFC 9110, section 5.5: in no line of a head."""
ENDED_BY: dict[int, FaultKind] = {signal.SIGPIPE: SIGPIPE, signal.SIGSYS: UNLISTED_CALL}
"""By what these signals tell."""


@dataclass
class Scene:
    """One check's world."""

    server: Subject
    site: SeededSite
    redis: PrivateRedis
    dice: random.Random
    watch: SignalWatch
    folder: Path
    """For what is written meanwhile."""
    stalled_by: str = "nobody"
    """As the server's tests.toml says."""
    trace: Path | None = None
    """Where strace writes, if it shall be traced."""
    patience: float = PATIENCE
    limits: Limits = field(default_factory=Limits)
    running: RunningServer | None = None
    ended: Ended | None = None
    told: bool = False
    """To stop."""
    died: FaultKind | None = None
    """How it was ended by us before its time."""
    gives_up: FaultKind = CRASH
    """What it is if it exits by itself with an error."""
    redis_url: str = ""
    """In place of the Redis' own: of something in between."""
    environment: Sequence[str] = ()
    """Variables that the server gets, NAME=value each."""
    built: Built | None = None
    """From which it can be built once more, with other flags."""
    stopping: AbstractContextManager[object] = field(default_factory=threading.RLock)
    left: Callable[[], float] = lambda: math.inf
    """Seconds that the examination still has."""

    def start(self, options: Sequence[str] = (), tracer: Sequence[str] = ()) -> None:
        """Start the server; raises StartError, Interrupted or NotHere."""
        plain = self.server.command

        def command(place: Place) -> list[str]:
            words = [*plain(place), "--root", str(self.site.root), "--workers", str(WORKERS)]
            reads = [self.folder, Path(words[0])]
            limited = confined([*words, *options], self.limits, reads, environment=self.environment)
            return [*tracer, *limited]

        # Those of the last server must not count.
        if self.limits.tasks < Limits.tasks and not forget_strangers():
            raise NotHere("processes that have ended still count here: init does not wait for them")
        place = Place(self.redis_url or self.redis.url, self.folder)
        server = replace(self.server, command=command, start_seconds=START_SECONDS)
        try:
            self.running = RunningServer(server, place, (), self.watch)
        except StartError:
            end_strangers()
            raise
        if not listens_here(self.running.url):
            raise StartError(f"it listens at {self.running.url[:60]!r}, which is no address here")

    def stop(self) -> Ended | None:
        """End the server at once; return how it ended. Clients in several threads may call it."""
        with self.stopping:
            if self.running is not None and self.ended is None:
                self._kill()
                self.ended = self.running.stop()
                end_strangers()
                self.until(lambda: not self.left_behind())
            return self.ended

    def end_by_itself(self, seconds: float) -> bool:
        """Tell it to stop; whether it was gone within so long. How is told by `stop`."""
        assert self.running is not None
        running = self.running
        self.tell_to_stop()
        return self.until(lambda: not running.running(), seconds)

    def tell_to_stop(self) -> None:
        """By SIGTERM."""
        assert self.running is not None
        self.running.ask_to_stop()
        self.told = True

    def _kill(self) -> None:
        """All its processes, but none that has ended by itself: its status is worth knowing."""
        if self.running is not None and self.running.running():
            self.kill(self.pids())

    @staticmethod
    def kill(pids: Collection[int], number: int = signal.SIGKILL) -> None:
        """Send a signal to some of its processes; one may have ended meanwhile."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def left_behind(self) -> list[int]:
        """Processes of its session, or of its user where it has one, that are still there, but for
        the first."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                own = os.getsid(process.pid) == self.pid or process.uids().real == user()
                if own and process.pid != self.pid and not is_zombie(process.pid):
                    found.append(process.pid)
        return found

    # ---- Clients ----

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self.running is not None
        parts = urlsplit(self.running.url)
        return parts.hostname or "", parts.port or 80

    def client(self, buffer: int = 0) -> Client:
        """A connection. Raises Failed where there is none to be had."""
        try:
            return Client(self.address, self.patience, buffer)
        except OSError as error:
            self.alive()
            raise Failed(
                NO_ANSWER, f"no connection could be made: {error.strerror or error}", sure=False
            ) from error

    def get(self, path: str, *fields: str, method: str = "GET") -> Response:
        """One request on a connection of its own. Raises Failed where there is no whole answer."""
        return self.ask(request(method, path, CLOSE, *fields), method)

    def ask(self, data: bytes, method: str = "GET", fault: FaultKind = NO_ANSWER) -> Response:
        """The same for any bytes; `fault`: what it is if nothing comes."""
        with self.client() as client:
            return self.talk(client, data, method, fault)

    def talk(
        self, client: Client, data: bytes, method: str = "GET", fault: FaultKind = NO_ANSWER
    ) -> Response:
        """Ask on a connection that stands. Raises Failed."""
        try:
            answer = client.ask(data, method)
        except (NoAnswer, OSError) as error:
            self.alive()
            first = data.split(b"\r\n", 1)[0][:60].decode("latin-1")
            in_time = isinstance(error, NoAnswer) and error.in_time
            if isinstance(error, NoAnswer) and (extra := error.received.find(b"HTTP/1.")) > 0:
                raise Failed(
                    WRONG_LENGTH,
                    f"{extra} bytes more than the Content-Length of the answer before came: "
                    f"{error.received[: min(extra, 40)]!r}",
                    client.port,
                ) from error
            raise Failed(fault, f"`{first}`: {error}", client.port, sure=in_time) from error
        strange = next((line for line in answer.head.split(b"\r\n") if _STRANGE.search(line)), None)
        if strange is not None:
            raise Failed(BAD_HEAD, f"a line of the head was {strange[:60]!r}", client.port)
        return answer

    def file(self, path: str) -> None:
        """One of the small files, whole and right. Raises Failed."""
        self.same(self.get(path), path)

    def same(self, answer: Response, path: str) -> None:
        """Raises Failed unless an answer is one of the small files."""
        content = self.site.small[path]
        told, length = answer.field("Content-Length"), len(content)
        if answer.status == 200 and told != str(length) and content.startswith(answer.body):
            raise Failed(
                WRONG_LENGTH, f"{path} has {length} bytes, and the head says Content-Length: {told}"
            )
        if answer.status != 200 or answer.body != content:
            raise Failed(
                WRONG_ANSWER,
                f"{path} was answered {answer.status} with {len(answer.body)} bytes; "
                f"the file has {length}, and they are others",
            )

    @contextlib.contextmanager
    def unanswered(
        self,
        fault: FaultKind,
        seen: str,
        port: int = 0,
        *,
        sure: bool | None = None,
        also_in_time: bool = True,
    ) -> Iterator[None]:
        """A missing answer is reported as this fault meanwhile. `seen`: what was done and what came
        of it; `sure`: if not, as sure as the missing answer was. `also_in_time`: not only where
        the time was over."""
        try:
            yield
        except Failed as failed:
            self.alive()
            if failed.fault is not NO_ANSWER or (failed.sure and not also_in_time):
                raise
            sure = failed.sure if sure is None else sure
            raise Failed(fault, f"{seen} ({failed.seen})", port, sure=sure) from failed

    def ask_for(self, path: str, fault: FaultKind) -> int:
        """The status of a page; `fault`: what it is if no answer comes."""
        return self.ask(request("GET", path, CLOSE), fault=fault).status

    def together(self, what: Sequence[Callable[[], object]]) -> list[object]:
        """Do all of it at once, a thread each; the results in the same order. Raises the first
        error."""
        with ThreadPoolExecutor(len(what)) as actors:
            return [one.result() for one in [actors.submit(act) for act in what]]

    # ---- The server from outside ----

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self.running is not None
        return self.running.pid

    def pids(self) -> list[int]:
        """All its processes."""
        assert self.running is not None
        return self.running.pids()

    def said(self) -> str:
        """All that it has written to standard error."""
        return self.running.stderr if self.running is not None else ""

    def alive(self, seconds: float = DYING_SECONDS) -> None:
        """Raises Failed if its first process is gone within so long, and was not told to stop. One
        whose last connection has just broken may take a moment."""
        running = self.running
        if running is None:
            return
        if self.died is not None:
            raise Failed(self.died, "it was ended for what it took")
        if self.told or not self.until(lambda: not running.running(), seconds):
            return
        ended = self.stop()
        status = ended.status if ended else None
        fault = CRASH
        if status is not None:
            fault = ENDED_BY.get(-status, self.gives_up if status > 0 else CRASH)
        said = f"; its last words: {ended.last_words}" if ended and ended.last_words else ""
        raise Failed(fault, f"the server ended meanwhile ({_in_words(status)}){said}")

    def holds(self, port: int) -> bool:
        """Whether somebody has a descriptor of its end of the connection to the client's port."""
        own = end(self.address[1], port)
        return own is not None and own.inode != 0

    @property
    def redis_port(self) -> int | None:
        """Of the Redis that it is told to ask, or of what stands in between."""
        return urlsplit(self.redis_url or self.redis.url).port

    def mappings(self) -> int:
        """How many pieces of memory its processes have mapped: a thread's stack is one."""
        count = 0
        for pid in self.there():
            with contextlib.suppress(OSError):  # it has just ended
                count += Path(f"/proc/{pid}/maps").read_text().count("\n")
        return count

    def tasks(self) -> int:
        """How many processes and threads there are."""
        return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in self.there())

    def zombies(self) -> list[int]:
        """Its processes that have ended and that nobody has waited for."""
        return [pid for pid in self.pids() if is_zombie(pid)]

    def fallen(self, before: Collection[int]) -> list[str]:
        """By which signals processes of it have died, as a trace tells. Where there is none: an
        entry for each of those `before` that are gone."""
        if self.trace is not None and self.trace.exists():
            return re.findall(r"\+\+\+ killed by (SIG\w+)", self.trace.read_text(errors="replace"))
        return ["a signal or an exit"] * len(set(before) - set(self.pids()))

    def killed(self) -> list[str]:
        """The lines of a trace that tell of processes that died by a signal of their own making;
        not by SIGKILL, which is ours, nor by SIGSYS, which tells more by itself."""
        return self._traced(r".*\+\+\+ killed by SIG(?:ABRT|BUS|FPE|ILL|PIPE|SEGV).*")

    def closed_twice(self) -> list[str]:
        """The calls of close that failed with EBADF, as a trace shows; close(-1) does no harm."""
        return self._traced(r"\d+ +[\d.]+ (?:close\(\d|<\.\.\. close resumed).* = -1 EBADF.*")

    def fruitless(self) -> list[str]:
        """The calls of recv that returned 0, as a trace shows."""
        return self._traced(r"(?:recv|read).* = 0 ")

    def _traced(self, pattern: str) -> list[str]:
        """What a trace has of that; nothing where there is no trace."""
        if self.trace is None or not self.trace.exists():
            return []
        return re.findall(pattern, self.trace.read_text(errors="replace"))

    def demand_seconds(self) -> float:
        """For how long the busiest of its threads has run, or wanted to, so far."""
        return max((demand_seconds(pid) or 0.0 for pid in self.pids()), default=0.0)

    def until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until it is true; whether it became so in time."""
        deadline = time.monotonic() + (self.patience if seconds is None else seconds)
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.watch.sleep(LOOK_SECONDS)
        return True

    def there(self) -> Iterator[int]:
        """Its processes whose /proc can be read just now."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                list(Path(f"/proc/{pid}/fd").iterdir())
                yield pid

    # ---- Memory ----

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Meanwhile the server is ended if it takes more memory than it may, or more time; of what
        fails after that nothing is told."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.1):
                if self.running is not None and (self.memory() > MEMORY or self.left() <= 0):
                    self.died = TAKES_MEMORY
                    self._kill()

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def memory(self) -> int:
        """Bytes that its processes hold and share with nobody else, nearly."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(psutil.Error):
                held = psutil.Process(pid).memory_info()
                total += held.rss - held.shared
        return total


def listens_here(url: str) -> bool:
    """Whether a server's url line is one, and of this machine: the client goes where it leads."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.port != 0 and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has waited for it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return False


def _in_words(status: int | None) -> str:
    if status is None:
        return "how is not known"
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"
