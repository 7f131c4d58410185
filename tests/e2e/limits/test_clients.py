# SPDX-License-Identifier: MIT
"""Clients of other projects: curl and Apache Bench."""

import re

import pytest

from tests.bench.commands import run

from ..harness import Server, shared
from ..redisbox import RedisClient
from ..sockets import forgotten_connections
from ..timing import PACE, TIMEOUT, TRIES, undisturbed

# Seconds: slightly less than the time for which a server reads after an early error response.
LINGER = 1.5

SERVER_OPTIONS = ("--workers", "60")
"""A worker for each of ab's connections. With fewer workers, idle connections of `ab -k` would
occupy all workers, and other connections would wait for the idle timeout."""


@pytest.mark.shared_code
def test_upload_too_large(server: Server) -> None:
    """curl gets 413 for an upload that is too large, before its connection is reset. (The server
    would reset an upload of many megabytes, because it stops reading.)"""
    form = "guest-name=a&guest-remarks=" + "x" * 800_000
    always = ("curl", "-q", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}")
    command = (*always, f"{server.url}guestbook", "--data-binary", "@-", "--header")
    for field in ("X: y", "Expect: 100-continue", "Transfer-Encoding: chunked"):
        done = undisturbed(LINGER, lambda f=field: run(*command, f, input=form))
        assert done.stdout == "413", field


ELSEWHERE = ("/t/digits.txt", "/t/80k.bin", "/go/name")
"""Paths that all servers handle with the same code."""


def apache_bench(server: Server, target: str, count: int, *options: str) -> dict[str, str]:
    """Send requests, fifty at once; return the figures that ab prints. Assert that no request
    fails. ab is run again if the kernel has reset clients (TIME_WAIT was full)."""
    url = server.url.rstrip("/") + target
    timeout = str(int(TIMEOUT * PACE.slowness))
    for _ in range(TRIES):
        before = forgotten_connections()
        command = ("ab", "-q", "-l", "-n", str(count), "-c", "50", "-s", timeout, *options, url)
        out = run(*command).stdout
        if re.search(r"^Failed requests: +0$", out, re.M) or forgotten_connections() == before:
            break
    figures = dict(re.findall(r"^([A-Z][^:\n]+): +(\S+)", out, re.MULTILINE))
    assert (figures["Complete requests"], figures["Failed requests"]) == (str(count), "0"), out
    return figures


@pytest.mark.parametrize("target", ["/guestbook", *map(shared, ELSEWHERE)])
@pytest.mark.parametrize("options", [(), ("-k",)], ids=["close", "keep-alive"])
def test_apache_bench(
    server: Server, store: RedisClient, target: str, options: tuple[str, ...]
) -> None:
    figures = apache_bench(server, target, 1000, *options)
    assert figures.get("Write errors", "0") == "0"
    assert figures.get("Non-2xx responses") == ("1000" if target == "/go/name" else None)
    if options:
        kept = int(figures["Keep-Alive requests"])
        # A worker for one client closes its connection when others wait, often on a busy machine.
        least = 1 if server.kind.worker_per_client else 500
        assert kept >= least if server.kind.keeps_alive else kept == 0
    if target == "/guestbook":
        assert store.number("visitor_count") >= 1000
