# SPDX-License-Identifier: MIT
"""`make serve` for tests, with real servers and a real Redis."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.timing import TIMEOUT

REPOSITORY = Path(__file__).resolve().parents[3]
SERVERS = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")
SERVE = (sys.executable, "-m", "bench", "serve")


@dataclass(frozen=True)
class Served:
    """A running `make serve`."""

    program: subprocess.Popen[str]
    pid: int
    address: tuple[str, int]
    live: tuple[str, int]
    redis: str
    """The URL of the first server's Redis."""

    def ask(self, path: str = "/files/small.txt") -> int:
        """Send one request to the server, and return the status of the response."""
        return status_of(self.address, "GET", path, Connection="close")

    def live_answer(self, method: str, path: str, **headers: str) -> int:
        """Send one request to the web server of /live, and return the status of the response."""
        return status_of(self.live, method, path, **headers)

    def events(self) -> Iterator[dict[str, Any]]:
        """Return an iterator of the first server's observations, as a new page gets them."""
        return (event["servers"][0] for event in self.every())

    def now(self) -> dict[str, Any]:
        """Return a new observation of the first server. An open iterator may return older ones."""
        return next(self.events())

    def every(self) -> Iterator[dict[str, Any]]:
        """Yield the events that the server of /live sends to a newly opened page."""
        client = http.client.HTTPConnection(*self.live, timeout=TIMEOUT)
        with contextlib.closing(client):
            client.request("GET", "/live/events")
            response = client.getresponse()
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def end(self) -> str:
        """Send Ctrl-C to the program, and return the rest of its output."""
        self.program.send_signal(signal.SIGINT)
        said, _ = self.program.communicate(timeout=TIMEOUT)
        assert self.program.returncode == 0, said
        return said


def status_of(where: tuple[str, int], method: str, path: str, **headers: str) -> int:
    with contextlib.closing(http.client.HTTPConnection(*where, timeout=TIMEOUT)) as client:
        client.request(method, path, headers=headers)
        return client.getresponse().status


Event = dict[str, Any]


def seen(events: Iterator[Event], is_so: Callable[[Event], object]) -> Event:
    """Return the next event for which `is_so` is true. Raise AssertionError after TIMEOUT."""
    end = time.monotonic() + TIMEOUT
    for told in events:
        if is_so(told):
            return told
        assert time.monotonic() < end, told
    raise AssertionError("the events have ended")


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Yield a function that starts `make serve` with servers; all processes end with the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(names: str, *words: str) -> Served:
        command = [*SERVE, *names.split(), "--port", "0", "--live-port", "0", *words]
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
        )
        begun.append(program)
        said = ""
        for line in program.stdout:
            said += line
            if "/live" in line:
                break
        found = re.search(r"^pid +(\d+)$(?s:.*)Open (\S+) (?s:.*?)(http\S+/live)$", said, re.M)
        assert found, said
        places = [urlsplit(url) for url in found.groups()[1:]]
        addresses = [(str(place.hostname), place.port or 0) for place in places]
        redis = re.search(r"^redis +(\S+)$", said, re.M)
        assert redis, said
        return Served(program, int(found[1]), *addresses, redis[1])

    yield start
    for program in begun:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=TIMEOUT)
