"""Load by Apache Bench, and whether a run is a figure."""

import re
import socket
from dataclasses import dataclass

from bench.ab_output import AbFigures, parse_report
from bench.measure.running import Bench, Running
from bench.process import Child
from bench.server_process import last_line

TIMEOUT = 120.0
"""Seconds until ab is given up."""

REDIRECT, GUESTBOOK = "/redirect", "/guestbook"
STATUS = {REDIRECT: 302, GUESTBOOK: 200}


class NoFigure(Exception):
    """A run that does not hold; the message is the reason."""


@dataclass(frozen=True)
class Load:
    """What ab is asked to do."""

    path: str
    keep_alive: bool
    requests: int
    concurrency: int
    timeout: float = TIMEOUT
    """Seconds."""

    def command(self, url: str) -> list[str]:
        """ab's command line. Without -r and -l: see bench.ab."""
        return [
            "ab",
            "-q",
            *(["-k"] if self.keep_alive else []),
            *("-s", str(int(self.timeout))),
            *("-n", str(self.requests)),
            *("-c", str(self.concurrency)),
            url,
        ]


def expected_status(running: Running, path: str) -> int:
    """Floors answer 200 to everything."""
    return 200 if running.subject.kind == "floor" else STATUS[path]


def run(load: Load, running: Running, bench: Bench) -> AbFigures:
    """Run ab and check everything. Raises NoFigure; may raise Interrupted, and ab is gone then."""
    visitors = bench.redis.visitor_count()
    child = Child(load.command(running.url(load.path)), bench.placement.load)
    try:
        in_time = child.wait(load.timeout + 10, bench.watch)
    finally:
        child.end()
    if not in_time:
        raise NoFigure(f"ab was not done after {load.timeout:.0f} s")
    figures = parse_report(child.stdout)
    if child.exit_status != 0 or figures is None:
        raise NoFigure(f"ab: {last_line(child.stderr) or 'no report'}")
    try:
        _check(figures, load, expected_status(running, load.path))
    except NoFigure as problem:
        said = running.last_words()
        raise NoFigure(f"{problem}; the server said: {said}" if said else str(problem)) from None
    if not running.running():
        raise NoFigure("the server died")
    counted = bench.redis.visitor_count() - visitors
    if load.path == GUESTBOOK and counted != load.requests:
        raise NoFigure(f"{load.requests:,} pages, but Redis counted {counted:,} visitors")
    return figures


def _check(figures: AbFigures, load: Load, status: int) -> None:
    if figures.complete != load.requests:
        raise NoFigure(f"{figures.complete:,} of {load.requests:,} requests completed")
    if figures.failed or figures.write_errors:
        kinds = [f"{kind} {n:,}" for kind, n in figures.failures.items() if n]
        kinds.append(f"other status than 2xx {figures.non_2xx:,}")
        failed = figures.failed + figures.write_errors
        raise NoFigure(f"{failed:,} requests failed ({', '.join(kinds)})")
    others = figures.non_2xx if status < 300 else load.requests - figures.non_2xx
    if others:
        raise NoFigure(f"{others:,} responses had another status than {status}")


def probe(running: Running, path: str) -> int:
    """Ask once as ab would, check the status; return the length of the whole response in bytes.

    Raises NoFigure.
    """
    request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: probe\r\nAccept: */*\r\n\r\n"
    response = b""
    try:
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
            connection.sendall(request.encode())
            while piece := connection.recv(65536):
                response += piece
    except OSError as error:
        raise NoFigure(f"no answer: {error}") from error
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", response)
    status, wanted = int(match[1]) if match else 0, expected_status(running, path)
    if status != wanted:
        raise NoFigure(f"the first answer had status {status} and not {wanted}")
    return len(response)
