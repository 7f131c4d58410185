# SPDX-License-Identifier: MIT
"""`zerohttpd serve`: run one server with its own Redis, to look at it in a browser, and a live page
that shows what each of its processes and threads waits for."""

import argparse
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from urllib.parse import urlsplit

import psutil

from bench.host.process import Child
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.live.look import Server as Looked
from bench.live.web import Live
from bench.records.errors import Interrupted, UserError
from bench.records.values import add_value, milliseconds, positive
from bench.services.private_redis import ExistingRedis, PrivateRedis
from bench.services.redis_server import SlowRedis
from bench.subjects.running import STOP_SECONDS, lines_of, url_in
from bench.subjects.subject import select, server_names

ADDRESS = "127.0.0.1"
LIVE_PORT = 8090
LOOK_SECONDS = 0.1


def run(words: Sequence[str]) -> int:
    """Serve until Ctrl-C. Return the exit status: 0 after Ctrl-C, 1 if the server ended before.

    Raises UserError if the server is unknown or not built, the port in use, or Redis missing.
    """
    options = _parser().parse_args(words)
    server = select(server_names([options.server]))[0]
    require_free(options.port)
    with SignalWatch() as watch:
        try:
            url = options.redis
            own = ExistingRedis(url) if url else PrivateRedis((), watch)
            with own as redis, ExitStack() as stack:
                redis.prepare()
                url = redis.url
                if options.redis_delay:
                    slow = SlowRedis(url, options.redis_delay, (), watch)
                    stack.callback(slow.close)
                    url = slow.url
                command = [str(server.executable), "--port", str(options.port), "--redis", url]
                if options.workers:
                    command += ["--workers", str(options.workers)]
                live = partial(open_live, server.name, url, redis.private, options.live_port)
                return _Foreground(command, watch, live).run()
        except Interrupted as interrupted:
            return 0 if interrupted.number == signal.SIGINT else interrupted.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zerohttpd serve",
        allow_abbrev=False,
        description="Run one server and a private Redis until Ctrl-C.",
    )
    add = parser.add_argument
    add("server", metavar="SERVER", help="the server's name: iterative, ..., epoll")
    value = partial(add_value, parser)
    port = partial(value, parse=port_number, example="8000", metavar="PORT")
    port("--port", default=8000, help="port of the server (default %(default)s; 0: any free port)")
    live = "port of the live page (default %(default)s; if in use: any free port)"
    port("--live-port", default=LIVE_PORT, help=live)
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


def open_live(
    name: str, redis_url: str, redis_is_ours: bool, port: int, banner: str, pid: int
) -> Live:
    """Start the page /live once the server listens; `banner`: its first lines. Raises OSError."""
    url = url_in(banner) or ""
    said = lines_of(banner).get("architecture", name)
    server = Looked(
        name=name,
        summary=said.removeprefix(f"{name}: "),
        url=url,
        pid=pid,
        port=urlsplit(url).port or 80,
        redis_port=urlsplit(redis_url).port or 0,
    )
    return Live(server, redis_url if redis_is_ours else None, port)


class _Foreground:
    """A child process whose output is copied to ours while it runs."""

    def __init__(
        self, command: list[str], watch: SignalWatch, open_live: Callable[[str, int], Live]
    ) -> None:
        self._child = Child(command, cwd=ROOT)
        self._watch = watch
        self._shown = {"stdout": 0, "stderr": 0}
        self._open_live = open_live
        self._live: Live | None = None

    def run(self) -> int:
        """Run until Ctrl-C, or until the server ends by itself."""
        try:
            while self._child.running():
                self._pass_on()
                self._watch.sleep(LOOK_SECONDS)
        finally:
            if self._live:
                self._live.close()
            self._child.end(STOP_SECONDS)
            self._pass_on()
        print(f"The server ended by itself with status {self._child.exit_status}.", file=sys.stderr)
        return 1

    def _pass_on(self) -> None:
        """Print new output, and the server's URL as soon as it listens."""
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            text = getattr(self._child, name)
            print(text[self._shown[name] :], end="", file=stream, flush=True)
            self._shown[name] = len(text)
        banner = self._child.stdout[: self._shown["stdout"]]  # our own text is printed after it
        url = url_in(banner)
        if url and self._live is None and self._child.running():
            self._live = self._open_live(banner, self._child.pid)
            print(
                f"\nOpen {url} in a browser. What each process waits for: {self._live.url}\n"
                "Ctrl-C ends the server and its Redis.\n",
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
