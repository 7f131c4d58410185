# SPDX-License-Identifier: MIT
"""Which bytes are an answer. No process is started."""

import json

import pytest

from bench.load.crowd import Exchange, Late, Outcome, Page, judge, told

FILE = Page("small", "/files/small.txt", 200)
REMARK = Page("sign", "/guestbook", 303, posts=True)
HEAD = b"HTTP/1.1 %s\r\nDate: x\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("received", "outcome", "detail"),
    [
        (HEAD % (b"200 OK", 5) + b"hello", "good", ""),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "good", ""),
        (b"", "failed", "closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nDate", "failed", "cut off in the head, after 21 bytes"),
        (b"+PONG\r\n\r\n", "failed", "cut off in the head, after 9 bytes"),
        (HEAD % (b"200 OK", 5) + b"hell", "failed", "cut off at 4 of 5 bytes"),
        (HEAD % (b"503 Service Unavailable", 5) + b"sorr", "failed", "cut off at 4 of 5 bytes"),
        (HEAD % (b"503 Service Unavailable", 5) + b"sorry", "unavailable", "503"),
        (HEAD % (b"502 Bad Gateway", 5) + b"sorry", "unavailable", "502"),
        (HEAD % (b"500 Oh", 5) + b"sorry", "wrong", "status 500"),
        (HEAD % (b"200 OK", 5) + b"hello!", "wrong", "6 bytes, but Content-Length: 5"),
        (HEAD % (b"200 OK", 5) + b"jello", "wrong", "another body"),
    ],
)
def test_judge(received: bytes, outcome: Outcome, detail: str) -> None:
    assert judge(received, FILE, b"hello") == (outcome, detail)


def test_a_body_that_nobody_knows_may_be_any() -> None:
    assert judge(HEAD % (b"200 OK", 3) + b"abc", FILE)[0] == "good"
    assert judge(HEAD % (b"303 See Other", 0), REMARK)[0] == "good"


def test_requests() -> None:
    assert FILE.request() == (
        b"GET /files/small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    head, _, body = REMARK.request("epoll-1").partition(b"\r\n\r\n")
    assert body == b"guest-name=Visitor&guest-remarks=epoll-1"
    assert b"Content-Length: %d" % len(body) in head


def test_lines_come_back() -> None:
    done = [
        Exchange(1.25, 2.5, "small", "good", ""),
        Late(1.0, 2.0),
        Exchange(2.5, 3.0, "sign", "failed", "no answer in time, after 0 bytes"),
    ]
    text = "0\n" + "".join(json.dumps(one) + "\n" for one in done)
    assert told(text) == done
    assert told(text + "[3.0, 4.0, ") == done, "half a line is left for later"
