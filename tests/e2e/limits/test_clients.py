# SPDX-License-Identifier: MIT
"""Clients written by others: curl and Apache Bench."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..harness import Server
from ..markup import remarks
from ..redisbox import PrivateRedis, RedisClient
from ..site import BIG_SIZE, SECRET, eighty_kilobytes
from ..sockets import forgotten_connections
from ..timing import PACE, PATIENCE, TRIES, undisturbed

# Slightly less than the time for which a server reads on after an early error.
LINGER = 1.5


@pytest.fixture(scope="module")
def server(
    binary: Path, site: Path, redis: PrivateRedis, database: RedisClient
) -> Iterator[Server]:
    """Yield a server with a worker for each of ab's connections. With fewer, the idle connections
    that `ab -k` leaves open hold all workers at its end, and the other connections wait for the
    idle timeout."""
    options = ("--workers", "60")
    with Server(binary, site, redis.url(database.database), options) as running:
        yield running


def _run(*command: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=5 * PATIENCE * PACE.slowness, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done


def curl(server: Server, target: str, *options: str, stdin: bytes | None = None) -> bytes:
    """Run curl without the user's settings or proxies; return what it prints."""
    always = ("curl", "-q", "--silent", "--show-error", "--noproxy", "*")
    return _run(*always, *options, server.url.rstrip("/") + target, stdin=stdin).stdout


@pytest.mark.shared_code
def test_get(server: Server) -> None:
    """curl gets files and pages by HTTP/1.1 and 1.0."""
    assert curl(server, "/t/80k.bin") == eighty_kilobytes()
    assert curl(server, "/t/digits.txt", "--http1.0") == b"0123456789"
    assert b'id="count"' in curl(server, "/guestbook", "--http1.1")
    assert curl(server, "/t/sub", "--location") == b"<!DOCTYPE html><title>sub</title>"


@pytest.mark.shared_code
def test_head(server: Server) -> None:
    """curl -I waits for no body."""
    assert b"Content-Length: 80000\r\n" in curl(server, "/t/80k.bin", "--head")


@pytest.mark.shared_code
def test_upgrade_is_declined(server: Server) -> None:
    """An offer of HTTP/2 is answered in HTTP/1.1 (RFC 9110, section 7.8)."""
    assert curl(server, "/t/digits.txt", "--http2") == b"0123456789"


def test_connection_is_reused(server: Server) -> None:
    """curl gets two URLs of one command line over one connection."""
    url = server.url.rstrip("/")
    out = curl(
        server,
        "/t/digits.txt",
        "--write-out",
        " %{num_connects}\n",
        f"{url}/t/digits.txt",
        f"{url}/t/digits.txt",
    )
    counts = [int(line.split()[1]) for line in out.decode().splitlines()]
    assert counts == ([1, 0, 0] if server.kind.keeps_alive else [1, 1, 1])


@pytest.mark.shared_code
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--http1.0",),
        ("--header", "Transfer-Encoding: chunked"),
        ("--header", "Expect: 100-continue"),
        ("--header", "Expect: 100-continue", "--header", "Transfer-Encoding: chunked"),
    ],
)
def test_post(server: Server, store: RedisClient, options: tuple[str, ...]) -> None:
    """The form is accepted in each way in which curl can send it."""
    fields = ("--data-urlencode", "guest-name=Ann & Bob")
    fields += ("--data-urlencode", "guest-remarks=<b>50 % + 50 %</b>")
    curl(server, "/guestbook", *fields, *options)
    assert store.remarks() == [b"<b>50 % + 50 %</b> - Ann & Bob"]


@pytest.mark.shared_code
def test_post_and_follow(server: Server, store: RedisClient) -> None:
    """curl follows the redirect to the page, where the remark is the first."""
    store.do("RPUSH", "guestbook_remarks", "older - A")
    fields = ("--data-urlencode", "guest-name=Ann", "--data-urlencode", "guest-remarks=new & neat")
    page = curl(server, "/guestbook", "--location", *fields).decode()
    assert remarks(page) == ["new & neat - Ann", "older - A"]


@pytest.mark.shared_code
def test_upload_too_large(server: Server) -> None:
    """curl reads 413 while it still sends, before its connection is reset. (With an upload of many
    megabytes it would be reset: the server stops reading.)"""
    form = b"guest-name=a&guest-remarks=" + b"x" * 800_000
    code = ("--output", "/dev/null", "--write-out", "%{http_code}")
    chunked = ("--header", "Transfer-Encoding: chunked")
    for more in ((), ("--header", "Expect: 100-continue"), chunked):
        options = (*code, "--data-binary", "@-", *more)
        out = undisturbed(LINGER, lambda o=options: curl(server, "/guestbook", *o, stdin=form))
        assert out == b"413", more


@pytest.mark.shared_code
def test_large_download(server: Server, site: Path, tmp_path: Path) -> None:
    """A large file arrives in two parts, the second requested with a range."""
    whole, parts = site / "public/t/big.bin", tmp_path / "parts"
    curl(server, "/t/big.bin", "--output", str(parts), "--range", f"0-{BIG_SIZE // 3}")
    curl(server, "/t/big.bin", "--output", str(parts), "--continue-at", "-")
    hashes = [hashlib.sha256(path.read_bytes()).digest() for path in (whole, parts)]
    assert hashes[0] == hashes[1]
    parts.unlink()


@pytest.mark.shared_code
def test_conditional(server: Server, tmp_path: Path) -> None:
    """curl gets 304 when it sends an ETag or date."""
    etag, copy = str(tmp_path / "etag"), tmp_path / "copy"
    curl(server, "/t/digits.txt", "--etag-save", etag, "--output", str(copy), "--remote-time")
    code = ("--output", "/dev/null", "--write-out", "%{http_code}")
    assert curl(server, "/t/digits.txt", "--etag-compare", etag, *code) == b"304"
    assert curl(server, "/t/digits.txt", "--time-cond", str(copy), *code) == b"304"


@pytest.mark.shared_code
def test_path_as_is(server: Server) -> None:
    """A path with dot segments that curl does not remove is refused."""
    for target in ("/../secret.txt", "/t/../../secret.txt", "/%2e%2e/secret.txt"):
        assert SECRET not in curl(server, target, "--path-as-is")


def _bench(server: Server, target: str, *options: str) -> str:
    """Run Apache Bench; return what it prints. Lengths may differ: the count grows. With much other
    traffic the kernel may have reset a client. Such a failure is not the server's, and ab is run
    again."""
    url = server.url.rstrip("/") + target
    patience = str(int(PATIENCE * PACE.slowness))
    for _ in range(TRIES):
        before = forgotten_connections()
        command = ("ab", "-q", "-l", "-n", "1000", "-c", "50", "-s", patience, *options, url)
        out = _run(*command).stdout.decode()
        if re.search(r"^Failed requests: +0$", out, re.M) or forgotten_connections() == before:
            break
    return out


@pytest.mark.parametrize("target", ["/guestbook", "/t/digits.txt", "/t/80k.bin", "/go/name"])
@pytest.mark.parametrize("options", [(), ("-k",)], ids=["close", "keep-alive"])
def test_apache_bench(
    server: Server, store: RedisClient, target: str, options: tuple[str, ...]
) -> None:
    """A thousand requests, fifty at once, are all complete, and none fails."""
    printed = _bench(server, target, *options)
    figures = dict(re.findall(r"^([A-Z][^:\n]+): +(\S+)", printed, re.MULTILINE))
    assert figures["Complete requests"] == "1000", printed
    assert figures["Failed requests"] == "0", printed
    assert figures.get("Write errors", "0") == "0", printed
    assert figures.get("Non-2xx responses") == ("1000" if target == "/go/name" else None)
    if options:
        kept = int(figures["Keep-Alive requests"])
        # A fixed number of workers mostly keeps no connection while others wait: on a busy machine.
        least = 1 if server.kind.worker_per_client else 500
        assert kept >= least if server.kind.keeps_alive else kept == 0
    if target == "/guestbook":
        assert store.number("visitor_count") >= 1000
