# SPDX-License-Identifier: MIT
"""The access log: one line in Common Log Format for each response."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from ..client import FORM, form, request
from ..harness import Server, Start
from ..timing import wait_until

LINE = re.compile(
    r"127\.0\.0\.1 - - \[(?P<time>[^\]]+)\] "
    r'"(?P<request>(?:[^"\\\x00-\x1f]|\\.)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
)


def _lines(server: Server, count: int) -> list[re.Match[str]]:
    """Wait for `count` lines in the log. Return the matches of LINE; assert that all lines
    match."""
    wait_until(lambda: server.stdout.count("\n") >= count, f"{count} lines in the log")
    time.sleep(0.1)
    lines = server.stdout.removesuffix("\n").split("\n")
    assert len(lines) == count, lines
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [match for match in found if match]


@pytest.mark.shared_code
def test_lines(start: Start) -> None:
    """A log line has host, time, request line, status and size of the body. All other output of the
    server goes to standard error."""
    server = start("--log")
    body = form(guest_name="Ann", guest_remarks="Hi")
    raws = [
        request("GET", "/t/80k.bin"),
        request("GET", "/t/none?x=1"),
        request("HEAD", "/t/digits.txt"),
        request("POST", "/guestbook", (FORM,), body),
        b"GET /t/digits.txt HTTP/1.0\r\n\r\n",
    ]
    for number, raw in enumerate(raws, 1):
        server.send(raw, "HEAD" if raw.startswith(b"HEAD") else "GET")
        found = _lines(server, number)  # wait, so that the order of the lines is fixed
    assert [(m["request"], m["status"]) for m in found] == [
        ("GET /t/80k.bin HTTP/1.1", "200"),
        ("GET /t/none?x=1 HTTP/1.1", "404"),
        ("HEAD /t/digits.txt HTTP/1.1", "200"),
        ("POST /guestbook HTTP/1.1", "303"),
        ("GET /t/digits.txt HTTP/1.0", "200"),
    ]
    assert found[0]["bytes"] == "80000"
    assert found[2]["bytes"] in ("-", "0")
    assert found[4]["bytes"] == "10"
    moment = datetime.strptime(found[0]["time"], "%d/%b/%Y:%H:%M:%S %z")
    assert abs(moment.timestamp() - time.time()) < 120
    assert server.stderr.startswith("architecture")
    assert server.stop() == 0
    assert server.statistics()["requests"] == str(len(raws))
    assert len(_lines(server, len(raws))) == len(raws)


@pytest.mark.shared_code
def test_no_forged_lines(start: Start) -> None:
    """In the log, a client's request line stays in its quotes and on its line, in printable
    characters."""
    server = start("--log")
    raws = [
        b'GET /a"b HTTP/1.1\r\nHost: a\r\n\r\n',
        b'GET /" 200 1 HTTP/1.1\r\nHost: a\r\n\r\n',
        b"GET /\x1b[31mred HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a\nb HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%0a%22%1b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /back\\slash\\ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"\xff\xfe \xfd HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 9000,
        b"GET / HTTP/1.1\r\nbad\r\n\r\n",
    ]
    for raw in raws:
        assert server.send(raw).status >= 400
    found = _lines(server, len(raws))
    assert all(int(m["status"]) >= 400 for m in found)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", server.stdout)


def test_whole_lines_from_many(start: Start) -> None:
    """Lines of requests served at the same time are not mixed, and none is missing."""
    server = start("--log", "--workers", "8")
    target = "/t/none-" + "x" * 500

    def work(_number: int) -> None:
        for _ in range(50):
            with server.client() as client:
                client.exchange(request("GET", target))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert {m["request"] for m in _lines(server, 300)} == {f"GET {target} HTTP/1.1"}
