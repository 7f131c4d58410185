# SPDX-License-Identifier: MIT
"""Files larger than any buffer arrive whole, also at slow readers, and need little memory."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .. import processes
from ..client import Client, fetch, request
from ..conftest import Start
from ..harness import is_sanitized
from ..site import BIG_SIZE, MB, big_pattern
from ..timing import wait_until

BIG = request("GET", "/t/big.bin")
PART = 24 * MB
MEMORY_LIMIT_KB = 24 * 1024


def _download(client: Client, size: int) -> str:
    """Read a response with so many bytes piece by piece; return their hash."""
    head = client.read_head()
    assert head.startswith(b"HTTP/1.1 20")
    digest = hashlib.sha256()
    for _ in range(size // MB):
        digest.update(client.read_exactly(MB))
    return digest.hexdigest()


def _expected_hash(size: int) -> str:
    """Return the hash of the first bytes of the big file."""
    digest = hashlib.sha256()
    for number in range(size // MB):
        digest.update(big_pattern(number * MB, MB))
    return digest.hexdigest()


def test_big_file_in_little_memory(start: Start) -> None:
    """A file of 110 MB arrives whole, and each server process needs only a fraction of that in
    memory."""
    server = start()
    with Client(server) as client:
        client.send(BIG)
        assert _download(client, BIG_SIZE) == _expected_hash(BIG_SIZE)
    if is_sanitized(server.binary):
        pytest.skip("a sanitizer needs memory of its own")
    peaks = [processes.status_number(pid, "VmHWM") for pid in server.pids()]
    assert max(peaks) < MEMORY_LIMIT_KB, f"peak memory of its processes in kB: {peaks}"


def test_slow_readers_do_not_wait_for_each_other(start: Start) -> None:
    """Three clients that pause and a client that reads at once all get the whole file."""
    server = start()
    count = 1 if server.kind.is_stalled_by_one else 3
    slow = [Client(server, receive_buffer=1 << 17) for _ in range(count)]
    for client in slow:
        client.send(request("GET", "/t/big.bin", (("Range", f"bytes=0-{PART - 1}"),)))
        wait_until(lambda c=client: not c.is_quiet(0), "the answer has begun")
    if count > 1:
        assert fetch(server, "/t/digits.txt").status == 200
    with ThreadPoolExecutor(count) as pool:
        hashes = list(pool.map(_download, slow, [PART] * count))
    for client in slow:
        client.close()
    assert hashes == [_expected_hash(PART)] * count


def test_slow_reader_of_many_small_answers(start: Start) -> None:
    """The server stops reading from a client that pipelines without reading; it gets all responses
    later."""
    server = start()
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    count = 400
    with Client(server, receive_buffer=1 << 16) as client:
        sender = threading.Thread(target=client.send, args=(request("GET", "/t/80k.bin") * count,))
        sender.start()
        time.sleep(0.5)
        statuses = {client.read().status for _ in range(count - 1)}
        sender.join()
        peaks = [processes.status_number(pid, "VmHWM") for pid in server.pids()]
        statuses.add(client.read().status)
    assert statuses == {200}
    assert is_sanitized(server.binary) or max(peaks) < MEMORY_LIMIT_KB
