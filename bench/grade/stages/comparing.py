# SPDX-License-Identifier: MIT
"""Compare the graded server with a reference server: both get the same requests, and each byte of
their responses must be the same, except the date."""

import re
import shutil
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.grade.faults import FaultName
from bench.grade.scene import CLOSE, FORM, Scene
from bench.grade.stage import Failed, NotHere
from bench.host.project import ROOT
from bench.load.client import Response, request
from bench.services.redis_server import connect
from bench.subjects.subject import server_subject

REFERENCE = "epoll"
REQUESTS = Path(__file__).parents[1] / "requests.txt"
DATE = re.compile(rb"\r\nDate: [^\r]*GMT")
KEPT = re.compile(rb"\r\nConnection: (?:close|keep-alive)")
REPEATED = re.compile(rb"\{([^{}]+)\*(\d+)\}")
DEFECTS, SHORT, TOGETHER, CLIENTS = 120, 400, 6, 6
"""The number of requests with random defects, the longest request that gets one, the number of
requests in one packet, and of clients at the same time."""
SHORTEST, KEEP_ALIVE = b"GET /? HTTP/1.1\r\nHost:\r\n\r\n", 1000
"""A request that is as short as possible, and the requests of a connection (KEEP_ALIVE_REQUESTS in
lib/config.h)."""
DELAY_SECONDS, DELAY_RATIO = 0.03, 5
"""A delayed ACK takes 40 ms; on a busy machine both servers are slow."""
CUTS, PIECE_SECONDS = 2, 0.001
MOST_FIELDS, NEWER = 4, 0.8
"""The limit of additional fields of a composed request, and the share of HTTP/1.1."""
REPLACED = [*(bytes([one]) for one in range(256)), b"", b"\r\n", b"close", b"chunked", b"\r\nX: y"]
"""What may replace a part of a request."""


Command = tuple[str | bytes, ...]
REMARKS, VISITORS, LINK = "guestbook_remarks", "visitor_count", "link:odd"
UNUSUAL: list[list[Command]] = [
    [("DEL", REMARKS, VISITORS, LINK)],
    [("RPUSH", REMARKS, "", b"a\0b\r\n\r\n\xff<&", "\u20ac"), ("SET", LINK, "/a b\r\nX: y")],
    [("SET", VISITORS, "none"), ("SET", LINK, "")],
    [("SET", VISITORS, "998"), ("SET", LINK, b"//a/" + 900 * b"\xc3\xa9")],
    [("RPUSH", REMARKS, *[9000 * "<"] * 55), ("DEL", LINK), ("RPUSH", LINK, "a")],
    [("RPUSH", REMARKS, 1100 * 1024 * "a"), ("SET", LINK, 70_000 * "a")],
    [("SET", VISITORS, "9" * 18), ("DEL", REMARKS), ("SET", REMARKS, "a")],
]
"""Data in Redis that another program may have written."""
UNAVAILABLE = {502, 503}
"""Either status is right if the data in Redis have the wrong type."""


BROKEN = b"\r\nthe connection was reset"
"""Is appended to the bytes of a connection that did not end with FIN."""


class Sent(NamedTuple):
    """The bytes that a client sends on a connection, before it ends its side (FIN)."""

    data: bytes
    cuts: Sequence[int] = ()
    """The offsets of the pieces that are sent to the graded server after a pause."""
    commands: Sequence[Command] | None = None
    """What Redis executes before, after it has got the usual data; None: nothing."""
    fault: FaultName | None = None
    """The fault that a difference proves; None: that of the other batches."""


def keeps(scene: Scene) -> bool:
    """Return whether the server keeps a connection open."""
    path = next(iter(scene.site.small))
    return scene.stalled_by != "one" and not scene.ask(request("GET", path)).closes


def lines_of(scene: Scene, section: str) -> list[bytes]:
    """Return the lines of a section of the file, with this examination's names."""
    path = next(iter(scene.site.small))
    answer = scene.get(path)
    names = {
        "{small}": path,
        "{big}": scene.site.big[0],
        **scene.site.others,
        "{moved}": next(iter(scene.site.moved)),
        "{etag}": answer.field("ETag") or "",
        "{date}": answer.field("Last-Modified") or "",
        "{form}": FORM,
        "|": "\r\n",
    }
    text = REQUESTS.read_text().partition(f"\n[{section}]\n")[2].partition("\n[")[0]
    for name, value in names.items():
        text = text.replace(name, value)
    found = []
    for line in text.replace("\r\n", "\\r\\n").splitlines():
        data = line.encode().decode("unicode_escape").encode("latin-1")
        found.append(REPEATED.sub(lambda one: one[1] * int(one[2]), data))
    return found


def requests(scene: Scene, section: str) -> list[bytes]:
    """Return the requests of a section of the file."""
    return closing(scene, lines_of(scene, section))


def closing(scene: Scene, found: Sequence[bytes]) -> list[bytes]:
    """Return the requests, with "Connection: close" if the server keeps no connection."""
    field = b"\r\n" if keeps(scene) else b"\r\nConnection: close\r\n"
    return [data.replace(b"\r\n", field, 1) for data in found]


def composed(scene: Scene) -> list[bytes]:
    """Return requests of random parts: each method and each target occurs."""
    names, dice = ("method", "target", "field", "body"), scene.dice
    methods, targets, fields, bodies = (lines_of(scene, name) for name in names)
    targets += [path.encode() for path in scene.site.unusual]
    pairs = [(dice.choice(methods), target) for target in targets for _ in range(2)]
    pairs += [(method, dice.choice(targets)) for method in set(methods) for _ in range(2)]
    found = []
    for method, target in dice.sample(pairs, len(pairs)):
        line = b"%s %s HTTP/1.%d" % (method, target, dice.random() < NEWER)
        some = [b"Host: a", *dice.sample(fields, dice.randrange(MOST_FIELDS))]
        found.append(b"\r\n".join([line, *some, b"", dice.choice(bodies)]))
    return closing(scene, found)


def compare(scene: Scene, batches: Sequence[Sent], fault: FaultName) -> list[bytes]:
    """Send each batch to both servers, and return the responses. Raises Failed with this fault if
    they differ, and NotHere if the reference server is not built."""
    program = ROOT / REFERENCE
    if not program.exists():
        raise NotHere(f"{REFERENCE} is not built; use `make grade`, which builds it first")
    # A copy, because the server's user may have no access to this project's folder.
    copy = Path(shutil.copy(program, scene.folder / "reference"))
    other = replace(scene.of(server_subject(REFERENCE, copy)), lane=scene.lane + 1)
    kept = keeps(scene)
    times: list[float] = []
    its_times: list[float] = []
    scene.redis.prepare()
    try:
        other.start()
        right = [timed(other, batch._replace(cuts=()), its_times) for batch in batches]
    finally:
        other.stop()
    scene.redis.prepare()
    for batch, its in zip(batches, right, strict=True):
        require_same(batch, timed(scene, batch, times), its, batch.fault or fault, kept)
    scene.redis.prepare()
    mine, its_median = statistics.median(times), statistics.median(its_times)
    if not batches[0].cuts and mine > DELAY_SECONDS + DELAY_RATIO * its_median:
        told = f"{mine * 1000:.0f} ms, of the reference server after {its_median * 1000:.0f} ms"
        raise Failed("delays", f"half of {len(times)} responses came after {told}", sure=False)
    return right


def timed(scene: Scene, batch: Sent, times: list[float]) -> bytes:
    """Call `responses`, and append the seconds that it takes."""
    begun = time.monotonic()
    try:
        return responses(scene, batch)
    finally:
        times.append(time.monotonic() - begun)


def prepare(scene: Scene, commands: Sequence[Command]) -> None:
    """Write the usual data into Redis, and let it execute these commands."""
    scene.redis.prepare()
    with connect(scene.redis.url) as client:
        for command in commands:
            client.execute_command(*command)


def responses(scene: Scene, batch: Sent) -> bytes:
    """Send a batch on a new connection; return all bytes that come, without the dates."""
    if batch.commands is not None:
        prepare(scene, batch.commands)
    with scene.client() as client:
        try:
            for start, end in pairwise((0, *batch.cuts, len(batch.data))):
                client.send(batch.data[start:end])
                time.sleep(PIECE_SECONDS if end < len(batch.data) else 0)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:  # the server has reset the connection, and recv would not report it again
            client.broke = True
        received, ended = client.rest()
        if not ended:
            scene.alive()
            late = f"{scene.timeout:.0f} s later the connection was still open"
            asked = f"a client sent {batch.data[:100]!r} and ended its side (FIN)"
            raise Failed("ignores-end", f"{asked}; {late}", client.port, sure=False)
    return DATE.sub(b"", received) + (BROKEN if client.broke else b"")


def require_same(batch: Sent, here: bytes, right: bytes, fault: FaultName, kept: bool) -> None:
    """Raise Failed if the responses differ from those of the reference server. `kept`: whether the
    field Connection must be the same, too."""
    if not kept:
        here, right = (KEPT.sub(b"", one) for one in (here, right))
    mine_status, its_status = (one.status if one else 0 for one in map(Response.of, (here, right)))
    if here == right or {mine_status, its_status} == UNAVAILABLE:
        return
    lines = zip(here.split(b"\r\n"), right.split(b"\r\n"), strict=False)
    mine, its = next((pair for pair in lines if pair[0] != pair[1]), (here[-40:], right[-40:]))
    accepts = mine_status in range(200, 400) and its_status >= 400
    if fault == "believes-anything" and not accepts:
        fault = "wrong-answer"
    if fault == "wrong-answer":
        fault = "believes-anything" if accepts else fault if here else "no-answer"
    what = f" in pieces, cut at {batch.cuts}" if batch.cuts else ""
    raise Failed(
        fault,
        f"the request {batch.data[:150]!r}{what} was answered {mine[:80]!r}; the reference server "
        f"({REFERENCE}) answers {its[:80]!r} ({len(here)} and {len(right)} bytes in all)",
    )


def same_bytes(scene: Scene) -> None:
    """Valid requests are answered as the reference server answers them, also to several clients at
    the same time, and with unusual data in Redis."""
    valid = [Sent(data) for data in requests(scene, "valid")]
    batches = [*valid, *(Sent(data) for data in composed(scene))]
    page, link = (request("GET", path, CLOSE) for path in ("/guestbook", "/go/odd"))
    for commands in UNUSUAL:
        batches += [Sent(page, commands=commands), Sent(link), Sent(page)]
    right = compare(scene, batches, "wrong-answer")
    pairs = zip(valid, right, strict=False)
    files = [pair for pair in pairs if not re.search(rb"guestbook|/go/odd", pair[0].data)]

    def run() -> None:
        for batch, its in files:
            # A server may close connections while other clients wait.
            require_same(batch, responses(scene, batch), its, "wrong-answer", kept=False)

    # All clients have the same order, so that the same handler works for several at once.
    scene.together([run] * CLIENTS)


def in_pieces(scene: Scene) -> None:
    """Valid requests that arrive in pieces are answered like whole ones: the first request cut at
    each offset, the others at random offsets."""
    whole = [data for data in requests(scene, "valid") if b"Expect" not in data]
    batches = [Sent(whole[0], cuts=[cut]) for cut in range(1, len(whole[0]))]
    for data in whole:
        batches.append(Sent(data, cuts=sorted(scene.dice.sample(range(1, len(data)), CUTS))))
    batches += [Sent(data, cuts=[len(data) - 1]) for data in whole[-TOGETHER:]]
    compare(scene, batches, "one-recv")


def defects(scene: Scene) -> None:
    """Invalid requests, and requests with random defects or letters of the other case, are answered
    as the reference server answers them; also if a body comes after its head was rejected."""
    found, dice = requests(scene, "invalid"), scene.dice
    heads = [(data, data.find(b"\r\n\r\n") + 4) for data in found]
    later = [Sent(data, cuts=[end]) for data, end in heads if 4 <= end < len(data)]
    large = (b"Expect", scene.site.big[0].encode(), scene.site.others["{huge}"].encode())
    valid = [one for one in requests(scene, "valid") if not any(name in one for name in large)]
    short = [one for one in valid if len(one) < SHORT]
    for data in dice.choices(short, k=DEFECTS):
        start = dice.randrange(len(data))
        end = start + dice.randint(0, 2)
        found.append(data[:start] + dice.choice(REPLACED) + data[end:])
    for data in short:
        line, *fields = data.split(b"\r\n")
        fields = [dice.choice((bytes.upper, bytes.lower, bytes))(one) for one in fields]
        found.append(b"\r\n".join([line, *fields]))
    compare(scene, [*map(Sent, found), *later], "believes-anything")


def packets(scene: Scene) -> None:
    """Several requests in one packet are answered as the reference server answers them."""
    listed = [*requests(scene, "valid"), *requests(scene, "invalid")]
    scene.dice.shuffle(listed)
    groups = [listed[i : i + TOGETHER] for i in range(0, len(listed), TOGETHER)]
    batches = [Sent(b"".join(group)) for group in groups]
    batches.append(Sent(SHORTEST * (KEEP_ALIVE + TOGETHER), fault="wrong-answer"))
    compare(scene, batches, "loses-pipelined")
