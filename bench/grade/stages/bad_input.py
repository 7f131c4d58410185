# SPDX-License-Identifier: MIT
"""Requests in pieces, invalid requests, and clients that leave."""

import contextlib
import socket
import time

from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    BELIEVES,
    IGNORES_END,
    LOSES_PIPELINED,
    NO_ANSWER,
    NOT_KEPT,
    ONE_RECV,
    WRONG_ANSWER,
)
from bench.grade.scene import BUSY_SHARE, CLOSE, FORM, SMALL_BUFFER, Scene
from bench.grade.site import word
from bench.grade.stage import Failed
from bench.load.client import request

ALONE_SECONDS = 0.05
LONG_BODY = 9000
RESETS, LEAVE_SECONDS = 12, 0.03
LEAVERS, SOON_SECONDS = 3, 0.4
MANY = 30
"""Calls of recv that return 0 above which the server ignores the end of a connection."""
SHORTEST = b"GET /? HTTP/1.1\r\nHost:\r\n\r\n"
BAD = (
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nBroken field\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n continued: no\r\n\r\n",
    b"GET / HTTP/9.1\r\nHost: a\r\n\r\n",
    # A valid form with either of the two lengths.
    b"POST /guestbook HTTP/1.1\r\nHost: a\r\n" + FORM.encode() + b"\r\nContent-Length: 28\r\n"
    b"Content-Length: 29\r\n\r\nguest-name=a&guest-remarks=bb",
    b"POST /guestbook HTTP/1.1\r\nHost: a\r\n" + FORM.encode() + b"\r\nContent-Length: 40\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n1d\r\nguest-name=a&guest-remarks=bb\r\n0\r\n\r\n",
    b"POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
)
"""Requests that must be answered with any error status."""
ENDLESS = (
    ("Content-Length: 1000000000", b"guest-name=a"),
    ("Transfer-Encoding: chunked", b"3b9aca00\r\nguest-name=a"),
    ("Transfer-Encoding: chunked", (b"2000\r\n" + 8192 * b"a" + b"\r\n") * 40),
)
"""Announcements of bodies that are too large, and what comes of the bodies."""


def pieces(scene: Scene) -> None:
    """The server answers a request that arrives in pieces."""
    path = scene.dice.choice(list(scene.site.small))
    with scene.client() as client:
        data = request("GET", path, CLOSE)
        while data:
            size = scene.dice.randint(1, 9)
            try:
                client.send(data[:size])
            except OSError:
                break  # the server's response is checked below
            data = data[size:]
            time.sleep(0.01)
        answer = scene.talk(client, b"", fault=ONE_RECV)
    if answer.body != scene.site.small[path]:
        raise Failed(
            ONE_RECV, f"{path}, requested in pieces, was answered {answer.status}", client.port
        )
    last_byte(scene)
    half_closed(scene)
    long_body(scene)
    ends_of_requests(scene)


def last_byte(scene: Scene) -> None:
    """The last byte of a long head comes alone; a short request follows on the same connection."""
    long, short = scene.dice.sample(list(scene.site.small), 2)
    data = request("GET", long, f"X-Padding: {700 * 'a'}")
    with scene.client() as client:
        client.send(data[:-1])
        time.sleep(ALONE_SECONDS)
        answer = scene.talk(client, data[-1:], fault=ONE_RECV)
        scene.same(answer, long)
        if not answer.closes:
            scene.same(scene.talk(client, request("GET", short), fault=NOT_KEPT), short)


def half_closed(scene: Scene) -> None:
    """A client that ends its side (FIN) after its request, as `nc -N` does, is still answered."""
    for path in (scene.dice.choice(list(scene.site.small)), "/guestbook"):
        with scene.client() as client:
            client.send(request("GET", path, CLOSE))
            client.socket.shutdown(socket.SHUT_WR)
            answer = scene.talk(client, b"")
        if answer.status != 200:
            raise Failed(
                WRONG_ANSWER,
                f"a client requested {path} and ended its side (FIN) after the request; it was "
                f"answered {answer.status}, not 200",
            )


def long_body(scene: Scene) -> None:
    """Send a form in pieces that is larger than the buffer for a head."""
    padding, remark = word(scene.dice, LONG_BODY), word(scene.dice)
    body = f"padding={padding}&guest-name=a&guest-remarks={remark}".encode()
    data = request("POST", "/guestbook", CLOSE, FORM, body=body)
    with scene.client() as client:
        while data:
            size = scene.dice.randint(500, 2000)
            client.send(data[:size])
            data = data[size:]
            time.sleep(0.005)
        answer = scene.talk(client, b"", fault=ONE_RECV)
    if answer.status != 303 or remark not in scene.get("/guestbook").body.decode(errors="replace"):
        raise Failed(
            ONE_RECV,
            f"a form of {len(body)} bytes, in pieces, was answered {answer.status} (correct: 303), "
            "or its remark is not on the page",
        )


def bad_requests(scene: Scene) -> None:
    """Invalid requests are answered with an error, and no path leads out of public/."""
    for data in scene.dice.sample(BAD, len(BAD)):
        answer = scene.ask(data)
        if not 400 <= answer.status < 600:
            raise Failed(BELIEVES, f"{data[:70]!r} was answered {answer.status}")
    for field, body in ENDLESS:
        data = request("POST", "/guestbook", FORM, field) + body
        status = scene.ask(data, fault=BELIEVES).status
        if not 400 <= status < 600:
            raise Failed(BELIEVES, f"a body that is too large (`{field}`) was answered {status}")
    secret = next(scene.site.root.glob("*.secret")).name
    for path in (f"/../{secret}", f"/%2e%2e/{secret}", f"/files/..%2f..%2f{secret}"):
        answer = scene.get(path)
        if scene.site.secret.encode() in answer.body:
            raise Failed(BELIEVES, f"{path} returned a file outside of public/")
    scene.file(next(iter(scene.site.small)))


def pipelined(scene: Scene) -> str | None:
    """The server answers several requests in one packet, and many that are as short as possible."""
    with scene.client() as client:
        client.send(SHORTEST * MANY)
        for number in range(MANY):
            answer = scene.talk(client, b"", fault=LOSES_PIPELINED if number else NO_ANSWER)
            if answer.closes:
                break
    paths = scene.dice.choices(list(scene.site.small), k=scene.dice.randint(18, 24))
    with scene.client() as client:
        client.send(b"".join(request("GET", path) for path in paths))
        for number, path in enumerate(paths):
            answer = scene.talk(client, b"", fault=LOSES_PIPELINED if number else NO_ANSWER)
            if number and answer.status == 400:
                raise Failed(
                    LOSES_PIPELINED,
                    f"{len(paths)} valid requests came in one packet; number {number + 1} was "
                    "answered 400",
                    client.port,
                )
            scene.same(answer, path)
            if answer.closes:
                return "it keeps no connection open" if number == 0 else None
    return None


def ends_of_requests(scene: Scene) -> None:
    """End clients' sides (FIN) in the middle of a head. Raises Failed if a thread then uses the CPU
    continuously."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(LEAVERS):
            client = stack.enter_context(scene.client())
            ports.append(client.port)
            client.send(b"GET /half")
            client.socket.shutdown(socket.SHUT_WR)
        scene.watch.sleep(SOON_SECONDS)
        share = scene.busy_share(SOON_SECONDS)
        # strace slows each call down, so calls are counted, too.
        busy = share > BUSY_SHARE or len(scene.fruitless()) > MANY
        if busy and any(scene.holds(port) for port in ports):
            raise Failed(
                IGNORES_END,
                f"{LEAVERS} clients sent half a request and ended their side (FIN); {SOON_SECONDS} "
                f"s later one thread ran or waited for a CPU for {share:.0%} of the time",
                sure=False,
            )


def resets(scene: Scene) -> None:
    """No process of the server ends when clients leave in the middle of their response."""
    path, _ = scene.site.big
    scene.get(next(iter(scene.site.small)))
    scene.watch.sleep(0.2)
    before = scene.pids()
    for number in range(RESETS):
        # A process that dies resets its clients; the code below looks for it.
        with scene.client(SMALL_BUFFER) as client, contextlib.suppress(OSError):
            client.send(request("GET", path))
            client.socket.recv(100)
            scene.watch.sleep(LEAVE_SECONDS)  # until the server's send sleeps
            if number % 3 == 1:  # a FIN before the reset
                client.socket.shutdown(socket.SHUT_WR)
                scene.watch.sleep(LEAVE_SECONDS)
            if number % 3:
                client.reset()
    # The server may notice only later that clients have left.
    scene.until(lambda: scene.running is None or not scene.running.running(), 0.5)
    scene.require_alive(before, f"{RESETS} clients left in the middle of a response")
    scene.file(next(iter(scene.site.small)))


BAD_INPUT = Stage(
    "bad-input",
    "Correct with bad input",
    (
        Trial("in pieces", 4, pieces),
        Trial("bad requests", 4, bad_requests),
        Trial("pipelined requests", 2, pipelined, seconds=1),
        Trial("clients that leave", 5, resets, traced=True),
    ),
)
