# SPDX-License-Identifier: MIT
"""Our parser and redis-py interpret replies of Redis in the same way."""

import io
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from redis._parsers.encoders import Encoder
from redis._parsers.resp2 import _RESP2Parser
from redis._parsers.socket import SocketBuffer
from redis.exceptions import RedisError, ResponseError

from .conftest import Parsers


class Bytes:
    """A socket that returns fixed bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def recv(self, size: int) -> bytes:
        return self._data.read(size)


def read_with_redis_py(data: bytes) -> tuple[Any, int]:
    """Parse a reply with redis-py; return its value and length. Raise RedisError or ValueError."""
    parser = _RESP2Parser(socket_read_size=1 << 20)
    parser._buffer = SocketBuffer(Bytes(data), 1 << 20, 1.0)  # type: ignore[arg-type]
    parser.encoder = Encoder("utf-8", "strict", decode_responses=False)
    reply = parser._read_response(disable_decoding=True)
    return reply, len(data) - parser._buffer.unread_bytes()


def plain(reply: Any) -> Any:
    """Return a reply of our parser in the form of redis-py: statuses and strings are both bytes."""
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    if isinstance(reply, dict):
        ((kind, text),) = reply.items()
        return "error" if kind == "error" else bytes.fromhex(text)
    return reply


def without_words(reply: Any) -> Any:
    """Return a reply in which errors have no text, because redis-py splits the text."""
    if isinstance(reply, list):
        return [without_words(item) for item in reply]
    return "error" if isinstance(reply, RedisError) else reply


lines = st.binary(max_size=12).map(lambda text: bytes(b for b in text if b not in b"\r\n"))
scalars = st.one_of(
    lines.map(lambda text: b"+" + text + b"\r\n"),
    lines.map(lambda text: b"-ERR " + text + b"\r\n"),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: b":%d\r\n" % number),
    st.binary(max_size=20).map(lambda text: b"$%d\r\n%s\r\n" % (len(text), text)),
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b":+7\r\n", b"$0\r\n\r\n"]),
)
replies = st.recursive(
    scalars,
    lambda items: st.lists(items, max_size=4).map(
        lambda parts: b"*%d\r\n%s" % (len(parts), b"".join(parts))
    ),
    max_leaves=8,
)


@given(replies, st.binary(max_size=8))
def test_what_redis_may_say_is_read_alike(parsers: Parsers, data: bytes, behind: bytes) -> None:
    """Both parsers read a valid reply exactly to its end, with the same value."""
    got = parsers.call("resp", data + behind)
    assert got["used"] == len(data)
    reply, used = read_with_redis_py(data + behind)
    assert used == len(data)
    assert plain(got["reply"]) == without_words(reply)


@st.composite
def spoiled_replies(draw: st.DrawFn) -> bytes:
    """Return a reply with a few changed bytes."""
    data = draw(replies)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from([b"", b"\r\n", b"\r", b"\n", b"-", b"1", b" ", b"_", b"\0"]))
        data = data[:at] + put + data[at + draw(st.integers(0, 2)) :]
    return data


@given(st.one_of(spoiled_replies(), st.binary(max_size=30)))
@example(b"*2\r\n:1\r\n")
def test_what_is_accepted_is_read_alike(parsers: Parsers, data: bytes) -> None:
    """Each reply that our parser accepts has the same value for redis-py."""
    got = parsers.call("resp", data)
    if got["used"] <= 0:
        return
    try:
        reply, used = read_with_redis_py(data)
    except ResponseError:
        reply, used = "error", got["used"]
    assert used == got["used"]
    assert plain(got["reply"]) == without_words(reply)


@given(replies, st.data())
def test_half_a_reply_needs_more(parsers: Parsers, data: bytes, draw: st.DataObject) -> None:
    """An incomplete reply is neither accepted nor rejected."""
    cut = draw.draw(st.integers(0, len(data) - 1))
    assert parsers.call("resp", data[:cut]) == {"used": 0}
