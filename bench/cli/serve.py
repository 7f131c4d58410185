# SPDX-License-Identifier: MIT
"""`zerohttpd serve`: run servers, each with its own Redis, to look at them in a browser, and a live
page that shows what each of their processes, threads and connections waits for."""

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import psutil

from bench.host.process import Child
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.live.look import Look
from bench.live.look import Server as Looked
from bench.live.room_page import RoomPage, room_page
from bench.live.web import Live
from bench.records.errors import Interrupted, UserError
from bench.records.values import add_value, milliseconds, positive
from bench.services.redis_server import ExistingRedis, PrivateRedis, SlowRedis
from bench.subjects.running import STOP_SECONDS, lines_of, url_in
from bench.subjects.subject import Subject, select, server_names

ADDRESS = "127.0.0.1"
LIVE_PORT = 8090
ROOM_PORT = 8091
LOOK_SECONDS = 0.1


def run(words: Sequence[str]) -> int:
    """Serve until Ctrl-C. Return the exit status: 0 after Ctrl-C, 1 if a server ended before.

    Raises UserError if a server is unknown or not built, a port in use, or Redis missing.
    """
    options = _parser().parse_args(words)
    servers = select(server_names(options.server))
    if options.redis and len(servers) > 1:
        raise UserError("--redis goes with one server: two would write the same guestbook")
    ports = [options.port + place if options.port else 0 for place in range(len(servers))]
    for port in ports:
        require_free(port)
    room = None if options.room is None else room_page(options.room, options.room_port)
    with SignalWatch() as watch, ExitStack() as stack:
        try:
            running = [
                _started(server, port, options, watch, stack)
                for server, port in zip(servers, ports, strict=True)
            ]
            return _Foreground(running, watch, options.live_port, room).run()
        except Interrupted as interrupted:
            return 0 if interrupted.number == signal.SIGINT else interrupted.exit_status


def _started(
    server: Subject, port: int, options: argparse.Namespace, watch: SignalWatch, stack: ExitStack
) -> "_Running":
    """Start a server and its Redis; both end with the stack. May raise UserError, Interrupted."""
    redis = ExistingRedis(options.redis) if options.redis else PrivateRedis((), watch)
    own = stack.enter_context(redis)
    own.prepare()
    url = own.url
    if options.redis_delay:
        slow = SlowRedis(url, options.redis_delay, (), watch)
        stack.callback(slow.close)
        url = slow.url
    command = [str(server.executable), "--port", str(port), "--redis", url]
    if options.workers:
        command += ["--workers", str(options.workers)]
    child = Child(command, cwd=ROOT)
    stack.callback(child.end, STOP_SECONDS)  # if the next one cannot be started
    return _Running(server.name, child, url, own.private)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zerohttpd serve",
        allow_abbrev=False,
        description="Run servers, each with a private Redis, until Ctrl-C.",
    )
    add = parser.add_argument
    names = "iterative, ..., epoll; several are shown side by side on the live page"
    add("server", nargs="+", metavar="SERVER", help=names)
    value = partial(add_value, parser)
    port = partial(value, parse=port_number, example="8000", metavar="PORT")
    port(
        "--port",
        default=8000,
        help="port of the first server (default %(default)s; 0: any free ports)",
    )
    live = "port of the live page (default %(default)s; if in use: any free port)"
    port("--live-port", default=LIVE_PORT, help=live)
    room = (
        "let the browsers of other machines predict: listen also on ADDRESS of this machine "
        "(default with --room: its address in the network; 0.0.0.0: all)"
    )
    add("--room", nargs="?", const="", metavar="ADDRESS", help=room)
    port("--room-port", default=ROOM_PORT, help="port for the room (default %(default)s)")
    redis = "use this Redis (default: a private one, deleted at the end)"
    add("--redis", metavar="URL", help=redis)
    delay = "delay each reply of Redis by MS milliseconds (default 0)"
    value("--redis-delay", parse=milliseconds, example="5", metavar="MS", help=delay)
    workers = (
        "processes of preforking and multicore, threads of prethreading (default: the server's own)"
    )
    value("--workers", parse=positive, example="100", metavar="N", help=workers)
    return parser


def port_number(text: str) -> int:
    """Return the port number in a text. Raises UserError."""
    if not text.isdecimal() or int(text) > 65535:
        raise UserError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)


@dataclass
class _Running:
    """A server that has been started, and how much of its output has been printed."""

    name: str
    child: Child
    redis_url: str
    """The URL of its Redis."""
    redis_is_ours: bool
    shown: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})

    @property
    def banner(self) -> str:
        """Its output that we have printed; our own text comes after it."""
        return self.child.stdout[: self.shown["stdout"]]

    def pass_on(self) -> None:
        """Print its new output."""
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            text = getattr(self.child, name)
            print(text[self.shown[name] :], end="", file=stream, flush=True)
            self.shown[name] = len(text)

    def look(self) -> Look:
        """Return its observer for the live page, once it listens."""
        url = url_in(self.banner) or ""
        said = lines_of(self.banner).get("architecture", self.name)
        server = Looked(
            name=self.name,
            summary=said.removeprefix(f"{self.name}: "),
            url=url,
            pid=self.child.pid,
            port=urlsplit(url).port or 80,
            redis_port=urlsplit(self.redis_url).port or 0,
        )
        return Look(server, self.redis_url if self.redis_is_ours else None)


class _Foreground:
    """Child processes whose output is copied to ours while they run."""

    def __init__(
        self, running: list[_Running], watch: SignalWatch, live_port: int, room: RoomPage | None
    ) -> None:
        self._running, self._watch = running, watch
        self._live_port, self._room = live_port, room
        self._live: Live | None = None

    def run(self) -> int:
        """Run until Ctrl-C, or until a server ends by itself. May raise Interrupted."""
        try:
            while all(one.child.running() for one in self._running):
                self._pass_on()
                self._watch.sleep(LOOK_SECONDS)
            ended = next(one for one in self._running if not one.child.running())
        finally:
            if self._live:
                self._live.close()
            for one in self._running:
                one.child.end(STOP_SECONDS)
                one.pass_on()
        status = ended.child.exit_status
        print(f"{ended.name} ended by itself with status {status}.", file=sys.stderr)
        return 1

    def _pass_on(self) -> None:
        """Print new output, and the addresses as soon as all listen. May raise OSError."""
        for one in self._running:
            one.pass_on()
        urls = [url_in(one.banner) for one in self._running]
        if self._live or not all(urls):
            return
        self._live = Live([one.look() for one in self._running], self._live_port, self._room)
        ends = "the server and its" if len(urls) == 1 else "the servers and their"
        students = f"Students predict at {self._room.url}\n" if self._room else ""
        print(
            f"\nOpen {' and '.join(map(str, urls))} in a browser. "
            f"What each process and connection waits for: {self._live.url}\n{students}"
            f"Ctrl-C ends {ends} Redis.\n",
            flush=True,
        )


def require_free(port: int) -> None:
    """Raise UserError if the port is in use, or if we have no permission to listen on it."""
    if port == 0:
        return
    try:
        socket.create_server((ADDRESS, port)).close()
    except PermissionError as error:
        raise UserError(f"port {port} is for root only; take one from 1024") from error
    except OSError as error:
        owner = _listener(port)
        raise UserError(
            f"port {port} is in use{owner}. End that program or take another port: "
            f"make serve SERVER=... ARGS='--port {port + 1}'"
        ) from error


def _listener(port: int) -> str:
    """Return the name of the process that listens on a port, if we may see it."""
    for one in psutil.net_connections("tcp"):
        listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        if listens and one.pid:
            with suppress(psutil.Error):
                return f" by {psutil.Process(one.pid).name()}"
    return ""
