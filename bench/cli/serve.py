# SPDX-License-Identifier: MIT
"""`zerohttpd serve`: run servers, each with its own Redis if --redis gives none. A live page shows
what each process, thread and connection of a server waits for."""

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial

import psutil

from bench.host.process import ERRORS, OUTPUT, SignalWatch
from bench.host.project import ROOT
from bench.live.look import Look
from bench.live.room import Room, RoomPage, questions
from bench.live.web import Live
from bench.records.errors import Interrupted, UserError
from bench.records.values import Parser, add_value, milliseconds, positive, words_of
from bench.services.redis_server import ExistingRedis, PrivateRedis, SlowRedis
from bench.subjects.running import RunningServer, lines_of
from bench.subjects.subject import NO_CONDITIONS, Place, Subject, select, server_names

ADDRESS = "127.0.0.1"
LIVE_PORT = 8090
ROOM_PORT = 8091
LOOK_SECONDS = 0.1


def run(words: Sequence[str]) -> int:
    """Serve until a signal. Return the exit status: 0 after Ctrl-C, 128 + n after another signal n,
    1 if a server ended by itself. Raises UserError."""
    options = _parser().parse_args(words)
    servers = select(server_names(words_of(options.server)))
    if options.redis and len(servers) > 1:
        raise UserError("--redis: give one server; several servers would share the guestbook")
    ports = [options.port + place if options.port else 0 for place in range(len(servers))]
    for port in ports:
        require_free(port)
    room = None
    if options.room is not None:
        room = RoomPage(Room(questions()), options.room, options.room_port)
    with SignalWatch() as watch, ExitStack() as stack:
        try:
            started = [
                _started(server, port, options, watch, stack)
                for server, port in zip(servers, ports, strict=True)
            ]
            live = Live([look for look, _ in started], options.live_port, room)
            stack.callback(live.close)
            urls = " and ".join(look.url for look, _ in started)
            waits = f"What each process and connection waits for: {live.url}"
            print(f"\nOpen {urls} in a browser. {waits}")
            if room:
                print(f"Students predict at {room.url}")
            print("Ctrl-C ends all processes started here.\n", flush=True)
            while not (ended := [one for one in started if not one[1].running()]):
                for _, process in started:
                    _print_output(process)
                watch.sleep(LOOK_SECONDS)
        except Interrupted as interrupted:
            return 0 if interrupted.number == signal.SIGINT else interrupted.exit_status
    look, process = ended[0]
    print(f"{look.name} ended by itself with status {process.exit_status}.", file=sys.stderr)
    return 1


def _started(
    server: Subject, port: int, options: argparse.Namespace, watch: SignalWatch, stack: ExitStack
) -> tuple[Look, RunningServer]:
    """Start a server and, without --redis, its Redis; both end when `stack` is closed. Return the
    server's `Look` for the live page, and the server. Raises UserError, NoFigure or Interrupted."""
    redis = ExistingRedis(options.redis) if options.redis else PrivateRedis((), watch)
    own = stack.enter_context(redis)
    own.prepare()
    url = own.url
    if options.redis_delay:
        url = stack.enter_context(SlowRedis(url, options.redis_delay, (), watch)).url
    conditions = NO_CONDITIONS._replace(workers=options.workers or 0)
    process = RunningServer(server, Place(url, ROOT, port, conditions), (), watch)
    stack.callback(_print_output, process)
    stack.callback(process.stop)
    _print_output(process)
    said = lines_of(process.stdout).get("architecture", server.name)
    summary = said.removeprefix(f"{server.name}: ")
    look = Look(server.name, summary, process.url, process.pid, url, own.private)
    return look, process


def _print_output(process: RunningServer) -> None:
    """Print the lines that the server has written since the last call."""
    for stream, file in ((OUTPUT, sys.stdout), (ERRORS, sys.stderr)):
        print(process.next_lines(stream), end="", file=file, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="zerohttpd serve",
        allow_abbrev=False,
        description="Run servers, each with a private Redis, until Ctrl-C.",
    )
    add = parser.add_argument
    names = "name of a server, e.g. epoll; the live page shows several servers side by side"
    add("server", nargs="+", metavar="SERVER", help=names)
    value = partial(add_value, parser)
    port = partial(value, parse=port_number, example="8000", metavar="PORT")
    first = "port of the first server (default %(default)s; 0: any free ports)"
    port("--port", default=8000, help=first)
    live = "port of the live page (default %(default)s; if in use: any free port)"
    port("--live-port", default=LIVE_PORT, help=live)
    room = (
        "let students on other machines enter predictions in a browser: also listen on ADDRESS "
        "(default with --room: this machine's network address; 0.0.0.0: all addresses)"
    )
    add("--room", nargs="?", const="", metavar="ADDRESS", help=room)
    port("--room-port", default=ROOM_PORT, help="port for the room (default %(default)s)")
    redis = "use this Redis (default: a private one, deleted at the end)"
    add("--redis", metavar="URL", help=redis)
    delay = "delay each reply of Redis by MS milliseconds (default 0)"
    value("--redis-delay", parse=milliseconds, example="5", metavar="MS", help=delay)
    workers = (
        "number of processes (preforking, multicore) or threads (prethreading) (default: the "
        "server's default)"
    )
    value("--workers", parse=positive, example="100", metavar="N", help=workers)
    return parser


def port_number(text: str) -> int:
    """Return the port number in a text. Raises UserError."""
    if not text.isdecimal() or int(text) > 65535:
        raise UserError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)


def require_free(port: int) -> None:
    """Raise UserError if the port (0: any port) is in use, or if its use is not permitted."""
    try:
        socket.create_server((ADDRESS, port)).close()
    except PermissionError as error:
        raise UserError(f"only root may listen on port {port}; choose a port above 1023") from error
    except OSError as error:
        fix = f"make serve SERVER=... ARGS='--port {port + 1}'"
        used = f"port {port} is in use{_listener(port)}"
        raise UserError(f"{used}. End that program or choose another port: {fix}") from error


def _listener(port: int) -> str:
    """Return " by NAME" for the process that listens on a port; empty if it is unknown."""
    for one in psutil.net_connections("tcp"):
        listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        if listens and one.pid:
            with suppress(psutil.Error):
                return f" by {psutil.Process(one.pid).name()}"
    return ""
