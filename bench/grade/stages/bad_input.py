# SPDX-License-Identifier: MIT
"""Requests in pieces, invalid requests, and clients that leave."""

import contextlib
import socket

from bench.grade.building import Expected, word
from bench.grade.scene import BUSY_SHARE, CLOSE, FORM, SMALL_BUFFER, Scene
from bench.grade.stage import Failed
from bench.grade.stages.mixing import Manner, ask, exchange, require_saved
from bench.grade.trying import Stage, Trial
from bench.load.client import request

ALONE_SECONDS = 0.05
LONG_BODY = 9000
RESETS, LEAVE_SECONDS = 12, 0.03
LEAVERS, SOON_SECONDS = 3, 0.4
FRUITLESS = r"(?:recv|read).* = 0 "
MANY = 30
"""FRUITLESS calls of recv above which the server ignores the end of a connection."""
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
ERRORS = range(400, 600)
ENDLESS = (
    ("Content-Length: 1000000000", b"guest-name=a"),
    ("Transfer-Encoding: chunked", b"3b9aca00\r\nguest-name=a"),
    ("Transfer-Encoding: chunked", (b"2000\r\n" + 8192 * b"a" + b"\r\n") * 40),
)
"""Heads that announce too large bodies, and the sent part of the bodies."""


def pieces(scene: Scene) -> None:
    """The server answers a request that arrives in pieces."""
    one = scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
    ask(scene, one, how=in_pieces(scene, one, (1, 9), 0.01))
    last_byte(scene)
    for path in (scene.dice.choice(list(scene.site.small)), "/guestbook"):
        name = f"{path}, requested by a client that ended its side (FIN), as `nc -N` does,"
        ask(scene, Expected(name, request("GET", path, CLOSE), 200), how=Manner(fin=True))
    # A form that is larger than the buffer for a head.
    remark = word(scene.dice)
    body = f"padding={word(scene.dice, LONG_BODY)}&guest-name=a&guest-remarks={remark}".encode()
    data = request("POST", "/guestbook", CLOSE, FORM, body=body)
    one = Expected(f"a form of {len(body)} bytes, in pieces,", data, 303)
    ask(scene, one, how=in_pieces(scene, one, (500, 2000), 0.005))
    require_saved(scene, {f"{remark} - a": 303}, "one-recv")
    ends_of_requests(scene)


def in_pieces(scene: Scene, one: Expected, sizes: tuple[int, int], pause: float) -> Manner:
    """Return the way to send a request in pieces of random sizes between these two."""
    cuts = [scene.dice.randint(*sizes)]
    while cuts[-1] < len(one.data) - sizes[1]:
        cuts.append(cuts[-1] + scene.dice.randint(*sizes))
    return Manner(cuts, pause, silent="one-recv", wrong="one-recv")


def last_byte(scene: Scene) -> None:
    """The last byte of a long head comes alone; a short request follows on the same connection."""
    long, short = scene.dice.sample(list(scene.site.small), 2)
    one = scene.site.file(long, f"X-Padding: {700 * 'a'}")
    with scene.client() as client:
        how = Manner([len(one.data) - 1], ALONE_SECONDS, silent="one-recv")
        (answer,) = exchange(scene, client, [one], how)
        if not answer.closes:
            exchange(scene, client, [scene.site.file(short)], Manner(silent="not-kept"))


def bad_requests(scene: Scene) -> None:
    """Invalid requests are answered with an error, and no path leads out of public/."""
    for data in scene.dice.sample(BAD, len(BAD)):
        ask(scene, Expected(f"{data[:70]!r}", data, ERRORS), how=Manner(wrong="believes-anything"))
    for field, body in ENDLESS:
        data = request("POST", "/guestbook", FORM, field) + body
        one = Expected(f"a body that is too large (`{field}`)", data, ERRORS)
        ask(scene, one, how=Manner(silent="believes-anything", wrong="believes-anything"))
    secret = next(scene.site.root.glob("*.secret")).name
    for path in (f"/../{secret}", f"/%2e%2e/{secret}", f"/files/..%2f..%2f{secret}"):
        answer = scene.get(path)
        if scene.site.secret.encode() in answer.body:
            raise Failed("believes-anything", f"{path} returned a file outside of public/")
    scene.file(next(iter(scene.site.small)))


def pipelined(scene: Scene) -> str | None:
    """The server answers several requests in one packet, and many that are as short as possible."""
    ask(scene, *[Expected("a short request", SHORTEST, range(200, 600))] * MANY)
    paths = scene.dice.choices(list(scene.site.small), k=scene.dice.randint(18, 24))
    batch = [scene.site.file(path) for path in paths]
    answers = ask(scene, *batch, how=Manner(wrong="loses-pipelined"))
    return "it keeps no connection open" if len(answers) == 1 else None


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
        share, _ = scene.busy_share(SOON_SECONDS)
        # strace slows each call down, so calls are counted, too.
        busy = share > BUSY_SHARE or len(scene.traced(FRUITLESS)) > MANY
        if busy and not all(scene.let_go(port) for port in ports):
            raise Failed(
                "ignores-end",
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
