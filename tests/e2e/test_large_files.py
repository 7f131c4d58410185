# SPDX-License-Identifier: MIT
"""Files larger than any buffer: whole, to slow readers, and without filling the memory."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from . import processes
from .client import Client, fetch, request
from .conftest import Start
from .harness import is_sanitized
from .site import BIG_SIZE, MB, big_pattern

BIG = request("GET", "/t/big.bin")
MEMORY_LIMIT_KB = 24 * 1024


def _download(client: Client) -> str:
    """Read the big file piece by piece; return its hash."""
    head = client.read_head()
    assert head.startswith(b"HTTP/1.1 200 ")
    digest = hashlib.sha256()
    for _ in range(BIG_SIZE // MB):
        digest.update(client.read_exactly(MB))
    return digest.hexdigest()


@pytest.fixture(scope="module")
def expected_hash() -> str:
    """The hash of the big file."""
    digest = hashlib.sha256()
    for number in range(BIG_SIZE // MB):
        digest.update(big_pattern(number * MB, MB))
    return digest.hexdigest()


def test_big_file_in_little_memory(start: Start, expected_hash: str) -> None:
    """110 MB arrive whole, and no process of the server has ever grown by a fraction of it."""
    server = start()
    with Client(server) as client:
        client.send(BIG)
        assert _download(client) == expected_hash
    if is_sanitized(server.binary):
        pytest.skip("memory under a sanitizer is the sanitizer's")
    peaks = [processes.status_kilobytes(pid, "VmHWM") for pid in server.pids()]
    assert max(peaks) < MEMORY_LIMIT_KB, f"peak memory of its processes in kB: {peaks}"


def test_slow_readers_do_not_wait_for_each_other(start: Start, expected_hash: str) -> None:
    """Three who read nothing for a while, one who reads at once; all get the whole file."""
    server = start()
    count = 1 if server.kind.waiters == 1 else 3
    slow = [Client(server, receive_buffer=1 << 17) for _ in range(count)]
    for client in slow:
        client.send(BIG)
    time.sleep(0.5)
    if count > 1:
        assert fetch(server, "/t/digits.txt").status == 200
    hashes: list[str] = []
    threads = [threading.Thread(target=lambda c=c: hashes.append(_download(c))) for c in slow]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 * processes.PACE.slowness)
    for client in slow:
        client.close()
    assert hashes == [expected_hash] * count


def test_slow_reader_of_many_small_answers(start: Start) -> None:
    """Who pipelines without reading stops being read from, and gets all in the end."""
    server = start()
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    count = 400
    with Client(server, receive_buffer=1 << 16) as client:
        sender = threading.Thread(target=client.send, args=(request("GET", "/t/80k.bin") * count,))
        sender.start()
        time.sleep(1)
        peaks = [processes.status_kilobytes(pid, "VmHWM") for pid in server.pids()]
        statuses = {client.read(seconds=30).status for _ in range(count)}
        sender.join()
    assert statuses == {200}
    assert is_sanitized(server.binary) or max(peaks) < MEMORY_LIMIT_KB
