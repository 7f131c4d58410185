# SPDX-License-Identifier: MIT
"""Files that change, disappear or shrink while they are served, and files larger than any buffer.

Each process and each event loop has its own cache, so every server is tested.
"""

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from .. import processes
from ..client import Client, EndOfStreamError, request
from ..harness import Server, Start, is_sanitized, of_kind
from ..site import MB, big_pattern, eighty_kilobytes
from ..timing import wait_until

DIGITS = "/t/digits.txt"
NUMBERS = itertools.count()


@pytest.fixture
def file(server: Server, site: Path) -> Iterator[Path]:
    """Yield the path of a file for this test, with a name that no other test has used."""
    path = site / "public" / "t" / f"made-{server.name}-{next(NUMBERS)}.txt"
    yield path
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.of_servers("preforking", "epoll")
def test_public_is_replaced(start: Start, site: Path, tmp_path: Path) -> None:
    """A server serves a replaced file immediately, and a changed link `public` after a restart."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name.txt").write_text(name)
    for name in ("templates", "redirects"):
        (tmp_path / name).symlink_to(site / name)
    (tmp_path / "public").symlink_to("old")
    server = start(root=tmp_path)
    (tmp_path / "switched").symlink_to("new")
    (tmp_path / "switched").rename(tmp_path / "public")
    assert server.get("/name.txt").body == b"old"
    (tmp_path / "old/replaced.txt").write_text("replaced")
    (tmp_path / "old/replaced.txt").rename(tmp_path / "old/name.txt")
    assert server.get("/name.txt").body == b"replaced"
    assert server.stop(signal.SIGHUP) == 0
    assert start(root=tmp_path).get("/name.txt").body == b"new"


@pytest.mark.parametrize("instead", ["nothing", "folder", "link to outside", "another file"])
def test_deleted_file_is_released(server: Server, file: Path, instead: str) -> None:
    """After a file is deleted and requested again, no process keeps it open. The request gets
    status 404, or the file or folder that now has this name, with another ETag."""
    file.write_bytes(eighty_kilobytes())
    fields = {412: ("If-Match", '"x"'), 416: ("Range", "bytes=90000-"), 200: ("Range", "x")}
    with server.client() as client:
        for status, field in fields.items():
            raw = request("GET", f"/t/{file.name}", (field,))
            # On the same connection, so that the same worker serves it.
            before = client.exchange(raw) if server.kind.keeps_alive else server.send(raw)
            assert before.status == status
        file.unlink()
        if instead == "folder":
            file.mkdir()
        elif instead == "link to outside":
            file.symlink_to("/etc/passwd")
        elif instead == "another file":
            file.write_bytes(b"another")
        after = client.exchange(request("GET", f"/t/{file.name}"))
        assert after.status == {"folder": 301, "another file": 200}.get(instead, 404)
        assert after.field("ETag") != before.field("ETag")
        for pid in server.pids():
            for name in processes.descriptors(pid):
                assert not name.endswith(f"{file.name} (deleted)")


def test_file_from_the_future(server: Server, file: Path) -> None:
    """Last-Modified is never in the future (RFC 9110, section 8.8.2.1). The ETag changes with the
    file's time, even if the content is the same."""
    file.write_bytes(b"future")
    before = server.get(f"/t/{file.name}")
    future = 4_000_000_000  # the year 2096
    os.utime(file, (future, future))
    target = f"/t/{file.name}"
    for _ in range(2):
        modified = parsedate_to_datetime(server.get(target).field("Last-Modified") or "")
        assert modified.timestamp() <= time.time()
    assert server.get(target).field("ETag") != before.field("ETag")
    field = ("If-Modified-Since", formatdate(future, usegmt=True))
    assert server.get(target, field).status == 304


def test_change_is_seen_at_once(server: Server, file: Path) -> None:
    """A request sent after a change gets the new content. This is true even within one tick of the
    file clock, and while other clients receive the file."""
    target = f"/t/{file.name}"
    file.write_bytes(b"0000")
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            with server.client() as client:
                assert client.exchange(request("GET", target)).body.isdigit()
                # The server may close a kept connection because other clients wait.
                with contextlib.suppress(EndOfStreamError, ConnectionError):
                    for _ in range(19 if server.kind.keeps_alive else 0):
                        assert client.exchange(request("GET", target)).body.isdigit()

    with ThreadPoolExecutor() as pool, file.open("r+b", buffering=0) as changing:
        others = [pool.submit(ask_on) for _ in range(3)]
        try:
            for number in range(1, 200):
                os.pwrite(changing.fileno(), b"%04d" % number, 0)
                assert server.get(target).body == b"%04d" % number
        finally:
            over.set()
        for other in others:
            other.result()


@of_kind("keeps_alive")
def test_change_within_a_round(server: Server, file: Path) -> None:
    """A client accepted after a change of a file gets the new content, even in the loop iteration
    that served the old content. (An event loop checks a file once in an iteration.)"""
    wanted, long = request("GET", f"/t/{file.name}"), request("GET", "/sorted") * 16
    before, behind = b"before" * 4000, b"behind" * 4000  # a large file is cached even if it is new
    file.write_bytes(before)
    file.with_suffix(".new").write_bytes(behind)
    with server.crowd(10, b"") as (first, *busy), ExitStack() as stack:
        for client in (first, *busy):
            assert client.exchange(wanted).body == before
        busy[0].send(long)  # meanwhile the requests of the next iteration come, in this order
        first.send(wanted)
        for client in busy[1:]:
            client.send(long)
        last = stack.enter_context(server.client())
        last.send(wanted)
        assert first.read().body == before
        file.with_suffix(".new").rename(file)
        assert server.get(f"/t/{file.name}").body == behind


@pytest.mark.of_servers("poll", "epoll")
def test_change_in_a_long_round(server: Server, file: Path) -> None:
    """If a loop iteration lasts into the next second, the client served last gets the Date of that
    second. Last-Modified is never later than Date (RFC 9110, section 8.8.2.1)."""
    file.write_bytes(b"x")
    with server.crowd(120, b"") as (first, *busy, last):
        for client in (first, *busy, last):
            client.exchange(request("HEAD", DIGITS), "HEAD")
        time.sleep(-(time.time() + 0.15) % 1)
        for client in (first, *busy):  # the server serves all except `first` in one iteration
            client.send(request("GET", "/sorted") * 16)
        last.send(request("GET", f"/t/{file.name}"))
        while last.is_quiet(0.01):
            file.write_bytes(b"x")
        response = last.read()
    date, modified = (
        parsedate_to_datetime(response.field(name) or "") for name in ("Date", "Last-Modified")
    )
    assert modified <= date


def test_file_that_shrinks(server: Server, file: Path) -> None:
    """If a file shrinks while it is sent, its connection ends, and the server continues."""
    with file.open("wb") as big:
        big.truncate(50_000_000)
    with server.client(receive_buffer=4096) as client:
        client.send(request("GET", f"/t/{file.name}"))
        client.read_exactly(2000)
        os.truncate(file, 1000)
        assert len(client.read_to_end()) < 50_000_000
    assert server.get(DIGITS).status == 200


# ---- Large files ----

PART = 32 * MB
MEMORY_LIMIT_KB = 24 * 1024


def _download(client: Client) -> bool:
    """Read PART bytes of the big file in pieces; return whether they are correct."""
    assert client.read_head().startswith(b"HTTP/1.1 20")
    return all(client.read_exactly(MB) == big_pattern(at, MB) for at in range(0, PART, MB))


def _assert_little_memory(server: Server) -> None:
    """Assert that each process has used less than MEMORY_LIMIT_KB, except with a sanitizer."""
    peaks = [processes.status_number(pid, "VmHWM") for pid in server.pids()]
    assert is_sanitized(server.binary) or max(peaks) < MEMORY_LIMIT_KB, peaks


def test_slow_readers_do_not_wait_for_each_other(start: Start) -> None:
    """Clients that read nothing at first delay no other client (except in 01), and get 32 MB."""
    server = start()
    count = 1 if server.kind.is_stalled_by_one else 3
    raw = request("GET", "/t/big.bin", (("Range", f"bytes=0-{PART - 1}"),))
    with server.crowd(count, raw, receive_buffer=1 << 17) as slow:
        for client in slow:
            wait_until(lambda c=client: not c.is_quiet(0), "the answer has begun")
        if count > 1:
            assert server.get("/t/digits.txt").status == 200
        with ThreadPoolExecutor(count) as pool:
            assert all(pool.map(_download, slow))
        _assert_little_memory(server)


@of_kind("keeps_alive")
def test_slow_reader_of_many_small_answers(start: Start) -> None:
    """If a client pipelines and reads no response, the server stops reading requests. When the
    client reads again, it gets all responses."""
    server = start()
    count = 400
    with server.client(receive_buffer=1 << 16) as client:
        sender = threading.Thread(target=client.send, args=(request("GET", "/t/80k.bin") * count,))
        sender.start()
        time.sleep(0.5)
        statuses = {client.read().status for _ in range(count - 1)}
        sender.join()
        _assert_little_memory(server)
        statuses.add(client.read().status)
    assert statuses == {200}
