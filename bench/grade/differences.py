# SPDX-License-Identifier: MIT
"""Name the fault of a server that sends other bytes than the reference server, and show where the
bytes differ."""

import re
from itertools import takewhile

from bench.grade.findings import Failed, FaultName
from bench.load.client import Response

REFERENCE = "epoll"
STATUS_LINE = re.compile(rb"HTTP/1\.[01] \d{3} ")
SHOWN, SHOWN_BEFORE = 80, 30
"""The number of bytes of a response in a finding, and how many of them precede the difference."""
REMARK = b'class="remark"'
STRAY = 100
"""If a response begins after 1 to STRAY other bytes, these bytes are the rest of the previous
response."""
UNAVAILABLE = {502, 503}
"""The correct statuses if Redis is down, or if its data have the wrong type."""
BROKEN = b"\r\nthe connection was reset"
OPEN = b"\r\nthe connection stayed open"
"""After the received bytes, BROKEN marks a reset, and OPEN a connection that stayed open."""


def parted(received: bytes) -> tuple[bytes, str]:
    """Return the received bytes without BROKEN or OPEN, and the end of the connection in words."""
    data = received.removesuffix(BROKEN).removesuffix(OPEN)
    return data, received[len(data) :].decode().strip() or "the connection ended"


def difference(what: str, fault: FaultName, mine: bytes, its: bytes, sure: bool = True) -> Failed:
    """Return the failure of a server that sends wrong bytes. `what`: the requests in words."""
    (mine, end), (its, usual) = parted(mine), parted(its)
    reference = f"the reference server ({REFERENCE})"
    if mine == its:
        equal = f"the same {len(its)} bytes" if its else "no byte,"
        seen = f"{what} was answered with {equal} as by {reference}, but {end}"
        return Failed(fault, seen, sure=sure)
    end = "" if end == usual else f", and {end}"
    lines = zip(mine.split(b"\r\n"), its.split(b"\r\n"), strict=False)
    differ = [pair for pair in lines if pair[0] != pair[1]] or [(mine[-40:], its[-40:])]
    # Different bytes of a body explain more than a different Content-Length.
    here, right = next((one for one in differ if b"Content-Length: " not in one[0]), differ[0])
    begin = max(0, same_bytes(here, right) - SHOWN_BEFORE)
    here, right = (one[begin : begin + SHOWN] for one in (here, right))
    answer = repr(here) if here else "without this line"
    if its.startswith(mine):
        answer = f"with only the first {len(mine)} bytes" if mine else "with no byte"
    return Failed(
        fault,
        f"{what} was answered {answer}{end}; {reference} answers {right!r} (bytes that the "
        f"client read, without the date: {len(mine)} and {len(its)})",
        sure=sure,
    )


def resets(mine: bytes, its: bytes) -> bool:
    """Return whether only the graded server has reset the connection."""
    return mine.endswith(BROKEN) and not its.endswith(BROKEN)


def cause(data: bytes, mine: bytes, its: bytes, later: bool = False) -> FaultName:
    """Return the fault of the first response that differs from the correct one. `data`: the
    request; `later`: whether a response preceded these on the connection."""
    received, correct = parted(mine)[0], parted(its)[0]
    if received == correct:
        if not mine.endswith(OPEN):
            return "resets" if resets(mine, its) else "wrong-answer"
        last = Response.of(correct[begin_of(correct, len(correct)) :])
        return "never-closes" if last and last.closes else "ignores-end"
    if correct and (extra := received.removeprefix(correct)) != received:
        is_response = STATUS_LINE.match(extra) or data.startswith(b"HEAD ")
        return "wrong-answer" if is_response else "wrong-length"
    begin = begin_of(correct, same_bytes(received, correct))
    found = received[begin:]
    if (begin or later) and found.find(b"HTTP/1.", 0, STRAY) > 0:
        return "wrong-length"
    here, right = (Response.of(first_of(one[begin:])) for one in (received, correct))
    if here:
        needs_redis = not begin and asks_redis(data)
        was_reset = resets(mine, its)
        return cause_in_response(here, right, needs_redis, was_reset) if right else "wrong-answer"
    missing: FaultName = "loses-pipelined" if begin and not found else "no-answer"
    return missing if correct.startswith(received) else "bad-head"


def cause_in_response(
    here: Response, right: Response, needs_redis: bool, was_reset: bool
) -> FaultName:
    """Return the fault of the response `here` if `right` is correct. `needs_redis`: whether the
    request needs Redis; `was_reset`: whether only the graded server has reset the connection."""
    got, wanted, whole = here.status, right.status, len(right.body)
    is_cut = right.announced == here.announced == whole > len(here.body)
    stays = got == wanted and here.closes < right.closes
    found: list[tuple[bool, FaultName]] = [
        (is_cut and not was_reset, "short-write"),
        (wanted == 404 and got < 400, "wrong-answer"),
        (wanted in UNAVAILABLE and got < 400, "wrong-reply"),
        (stays and (wanted < 400 or here.body == right.body), "never-closes"),
        # A correct server closes after a request that is not valid HTTP.
        (wanted >= 400 and right.closes and (got < 400 or not here.closes), "believes-anything"),
        (got in UNAVAILABLE and wanted < 400 and needs_redis, "no-redis"),
        (got == wanted and here.closes > right.closes, "not-kept"),
        (
            needs_redis and got == wanted and REMARK in right.body and REMARK not in here.body,
            "no-redis",
        ),
        # After a reset the body may be cut off, although its announced length is right.
        (
            not is_cut
            and right.announced == whole
            and here.announced not in (None, len(here.body)),
            "wrong-length",
        ),
        (was_reset, "resets"),
    ]
    return next((name for holds, name in found if holds), "wrong-answer")


def same_bytes(one: bytes, other: bytes) -> int:
    """Return the number of equal bytes at the beginning of both."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def asks_redis(data: bytes) -> bool:
    """Return whether a request is for the guestbook or for a short link."""
    return b" /g" in data.split(b"\r\n")[0]


def begin_of(received: bytes, place: int) -> int:
    """Return the offset of the response that has the byte at `place`, or that ends there last."""
    return max((one.start() for one in STATUS_LINE.finditer(received, 0, place + 13)), default=0)


def first_of(received: bytes) -> bytes:
    """Return the bytes of the first of several responses."""
    following = STATUS_LINE.search(received, 1)
    return received[: following.start()] if following else received
