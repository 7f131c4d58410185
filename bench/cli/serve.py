# SPDX-License-Identifier: MIT
"""`zerohttpd serve`: one server with a Redis to go with it, to look at in a browser, and beside it
a page that shows who waits for what."""

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
from bench.services.slow_redis import SlowRedis
from bench.subjects.banner import lines_of, url_in
from bench.subjects.running import STOP_SECONDS
from bench.subjects.subject import select, server_names

ADDRESS = "127.0.0.1"
LIVE_PORT = 8090
LOOK_SECONDS = 0.1


def run(words: Sequence[str]) -> int:
    """Serve until Ctrl-C. Exit status: 0 after Ctrl-C, 1 if the server ended by itself.

    Raises UserError for an unknown server, one not built, an occupied port, no Redis.
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
        description="Serve with a private Redis until Ctrl-C.",
    )
    add = parser.add_argument
    add("server", metavar="SERVER", help="iterative, ..., epoll")
    value = partial(add_value, parser)
    port = partial(value, parse=port_number, example="8000", metavar="PORT")
    port("--port", default=8000, help="(%(default)s; 0: any free one)")
    live = "of the page that shows who waits for what (%(default)s; if taken: any free one)"
    port("--live-port", default=LIVE_PORT, help=live)
    add("--redis", metavar="URL", help="use this Redis; default: a private one, thrown away")
    delay = "delay each reply of Redis (0)"
    value("--redis-delay", parse=milliseconds, example="5", metavar="MS", help=delay)
    workers = "processes of preforking, threads of prethreading (their own default)"
    value("--workers", parse=positive, example="100", metavar="N", help=workers)
    return parser


def port_number(text: str) -> int:
    """A port number. Raises UserError."""
    if not text.isdecimal() or int(text) > 65535:
        raise UserError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def open_live(
    name: str, redis_url: str, redis_is_ours: bool, port: int, banner: str, pid: int
) -> Live:
    """The page /live, once the server listens: `banner` is what it has said. Raises OSError."""
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
    """A child whose output is passed on while it runs."""

    def __init__(
        self, command: list[str], watch: SignalWatch, open_live: Callable[[str, int], Live]
    ) -> None:
        self._child = Child(command, cwd=ROOT)
        self._watch = watch
        self._shown = {"stdout": 0, "stderr": 0}
        self._open_live = open_live
        self._live: Live | None = None

    def run(self) -> int:
        """Until Ctrl-C, or until the server ends by itself."""
        try:
            while self._child.running():
                self._pass_on()
                self._watch.sleep(LOOK_SECONDS)
        finally:
            if self._live:
                self._live.close()
            self._child.end(STOP_SECONDS)
            self._pass_on()
        print(f"The server ended by itself, status {self._child.exit_status}.", file=sys.stderr)
        return 1

    def _pass_on(self) -> None:
        """Write what is new, and invite to the browser as soon as the server listens."""
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            text = getattr(self._child, name)
            print(text[self._shown[name] :], end="", file=stream, flush=True)
            self._shown[name] = len(text)
        banner = self._child.stdout[: self._shown["stdout"]]  # the invitation stands behind it
        url = url_in(banner)
        if url and self._live is None and self._child.running():
            self._live = self._open_live(banner, self._child.pid)
            print(
                f"\nOpen {url} in a browser. Who waits for what: {self._live.url}\n"
                "Ctrl-C ends the server and its Redis.\n",
                flush=True,
            )


def require_free(port: int) -> None:
    """Raise UserError if somebody listens on the port already, or if we may not."""
    if port == 0:
        return
    try:
        socket.create_server((ADDRESS, port)).close()
    except PermissionError as error:
        raise UserError(f"port {port} is for the administrator only; take one from 1024") from error
    except OSError as error:
        owner = _listener(port)
        raise UserError(
            f"port {port} is in use{owner}. End that program or take another port: "
            f"make serve SERVER=... ARGS='--port {port + 1}'"
        ) from error


def _listener(port: int) -> str:
    """Who listens on a port, as far as we may know."""
    for one in psutil.net_connections("tcp"):
        listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        if listens and one.pid:
            with suppress(psutil.Error):
                return f" by {psutil.Process(one.pid).name()}"
    return ""
