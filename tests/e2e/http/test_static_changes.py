# SPDX-License-Identifier: MIT
"""Files that change, disappear or shrink while they are served. Each process and each event loop
has a cache of its own, so every server is tested."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from .. import processes
from ..client import Client, EndOfStreamError, fetch, request, send
from ..harness import Server
from ..site import MODIFIED, eighty_kilobytes
from ..timing import wait_until
from .test_static import DIGITS


def test_changed_file(server: Server, site: Path) -> None:
    """A changed file is served with its new content and another ETag; a deleted one is 404."""
    path = site / "public" / "t" / f"changing-{server.name}.txt"
    target = f"/t/{path.name}"
    path.write_bytes(b"first")
    os.utime(path, (MODIFIED, MODIFIED))
    before = fetch(server, target)
    assert before.body == b"first"
    path.write_bytes(b"other")
    wait_until(lambda: fetch(server, target).body == b"other", "the new content")
    assert fetch(server, target).field("ETag") != before.field("ETag")
    new = path.with_suffix(".new")
    new.write_bytes(b"replaced by another file")
    new.rename(path)
    wait_until(lambda: fetch(server, target).body == b"replaced by another file", "the new file")
    path.unlink()
    wait_until(lambda: fetch(server, target).status == 404, "404 for a deleted file")


@pytest.mark.parametrize("instead", ["nothing", "folder", "link that leads out", "another file"])
def test_deleted_file_is_let_go(server: Server, site: Path, instead: str) -> None:
    """A request for a deleted file is 404, and its space on the disk is free again."""
    path = site / "public" / "t" / f"deleted-{server.name}.bin"
    path.write_bytes(eighty_kilobytes())
    with Client(server) as client:
        asked = request("GET", f"/t/{path.name}")
        for status, field in (
            (412, ("If-Match", '"x"')),
            (416, ("Range", "bytes=90000-")),
            (200, ("Range", "x")),
        ):
            raw = request("GET", f"/t/{path.name}", (field,))
            # By the same worker, if possible.
            one = client.exchange(raw) if server.kind.keeps_alive else send(server, raw)
            assert one.status == status
        path.unlink()
        if instead == "folder":
            path.mkdir()
        elif instead == "link that leads out":
            path.symlink_to("/etc/passwd")
        elif instead == "another file":
            path.write_bytes(b"another")
        assert client.exchange(asked).status == {"folder": 301, "another file": 200}.get(
            instead, 404
        )
        for pid in server.pids():
            for name in processes.descriptors(pid):
                assert not name.endswith(f"{path.name} (deleted)")
    path.rmdir() if instead == "folder" else path.unlink(missing_ok=True)


def test_file_from_the_future(server: Server, site: Path) -> None:
    """Last-Modified is never in the future, whatever the file's date is (RFC 9110, section
    8.8.2.1)."""
    path = site / "public" / "t" / f"future-{server.name}.txt"
    path.write_bytes(b"future")
    future = 4_000_000_000  # the year 2096
    os.utime(path, (future, future))
    target = f"/t/{path.name}"
    for _ in range(2):
        modified = parsedate_to_datetime(fetch(server, target).field("Last-Modified") or "")
        assert modified.timestamp() <= time.time()
    field = ("If-Modified-Since", formatdate(future, usegmt=True))
    assert fetch(server, target, field).status == 304
    path.unlink()


def test_change_is_seen_at_once(server: Server, site: Path) -> None:
    """A request sent after a change gets the new content, even if the change is within one tick of
    the file clock, or if other clients are being sent the same file."""
    path = site / "public" / "t" / f"counting-{server.name}.txt"
    target = f"/t/{path.name}"
    path.write_bytes(b"0000")
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            with Client(server) as client:
                assert client.exchange(request("GET", target)).body.isdigit()
                # A kept connection may be closed because others wait.
                with contextlib.suppress(EndOfStreamError, ConnectionError):
                    for _ in range(19 if server.kind.keeps_alive else 0):
                        assert client.exchange(request("GET", target)).body.isdigit()

    with ThreadPoolExecutor() as pool, path.open("r+b", buffering=0) as file:
        others = [pool.submit(ask_on) for _ in range(3)]
        try:
            for number in range(1, 200):
                os.pwrite(file.fileno(), b"%04d" % number, 0)
                assert fetch(server, target).body == b"%04d" % number
        finally:
            over.set()
        for other in others:
            other.result()
    path.unlink()


def test_change_within_a_round(server: Server, site: Path) -> None:
    """An event loop checks a file once in an iteration. A client accepted in a long iteration,
    after the change, gets the new content."""
    if not server.kind.keeps_alive:
        pytest.skip("one client would hold up all others")
    path = site / "public" / "t" / f"round-{server.name}.txt"
    wanted, long = request("GET", f"/t/{path.name}"), request("GET", "/sorted") * 16
    before, behind = b"before" * 4000, b"behind" * 4000  # long: the connection stays open
    path.write_bytes(before)
    path.with_suffix(".new").write_bytes(behind)
    with ExitStack() as stack:
        first, *busy = [stack.enter_context(Client(server)) for _ in range(10)]
        for client in (first, *busy):
            assert client.exchange(wanted).body == before
        busy[0].send(long)  # while this is computed, the next loop iteration fills: in this order
        first.send(wanted)
        for client in busy[1:]:
            client.send(long)
        last = stack.enter_context(Client(server))
        last.send(wanted)
        assert first.read().body == before
        path.with_suffix(".new").rename(path)
        assert fetch(server, f"/t/{path.name}").body == behind
    path.unlink()


@pytest.mark.of_servers("poll", "epoll")
def test_change_in_a_long_round(server: Server, site: Path) -> None:
    """A client served last in an iteration that lasts into the next second gets the Date of that
    second: Last-Modified is never later (RFC 9110, section 8.8.2.1)."""
    path = site / "public" / "t" / f"second-{server.name}.txt"
    path.write_bytes(b"x")
    with ExitStack() as stack:
        first, *busy, last = [stack.enter_context(Client(server)) for _ in range(120)]
        for client in (first, *busy, last):
            client.exchange(request("HEAD", DIGITS), "HEAD")
        time.sleep(-(time.time() + 0.15) % 1)
        for client in (first, *busy):  # while the first is served the next iteration fills
            client.send(request("GET", "/sorted") * 16)
        last.send(request("GET", f"/t/{path.name}"))
        while last.is_quiet(0.01):
            path.write_bytes(b"x")
        response = last.read()
    date, modified = (
        parsedate_to_datetime(response.field(name) or "") for name in ("Date", "Last-Modified")
    )
    assert modified <= date
    path.unlink()


def test_file_that_shrinks(server: Server, site: Path) -> None:
    """A file that shrinks while it is sent ends that connection only, and the server continues."""
    path = site / "public" / "t" / f"shrinking-{server.name}.bin"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    with Client(server, receive_buffer=4096) as client:
        client.send(request("GET", f"/t/{path.name}"))
        client.read_exactly(2000)
        os.truncate(path, 1000)
        assert len(client.read_to_end()) < 50_000_000
    path.unlink()
    assert fetch(server, DIGITS).status == 200
