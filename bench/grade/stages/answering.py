# SPDX-License-Identifier: MIT
"""The server serves files and pages, and handles bad input correctly."""

import contextlib
import html
import os
import socket
import time
from urllib.parse import quote_plus

from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    BELIEVES,
    CHILD_ACCEPTS,
    FIXED_ANSWER,
    IGNORES_END,
    LOSES_PIPELINED,
    NEVER_CLOSES,
    NO_ANSWER,
    NO_REDIS,
    NOT_KEPT,
    ONE_RECV,
    SHORT_WRITE,
    WRONG_ANSWER,
    WRONG_LENGTH,
)
from bench.grade.proof import MOST_LINES
from bench.grade.scene import BUSY_SHARE, CLOSE, FORM, SMALL_BUFFER, Scene
from bench.grade.site import word
from bench.grade.stage import Failed
from bench.grade.stages.holding import burst
from bench.grade.waiting import in_accept
from bench.load.client import NoAnswer, request
from bench.services.redis_server import connect

LONG_BODY = 9000
ALONE_SECONDS = 0.05
OLD_REMARKS = 60
RESETS, LEAVE_SECONDS = 12, 0.03
LEAVERS, SOON_SECONDS = 3, 0.4
MANY = 30
"""Calls of recv that return 0 above which the server ignores the end of a connection."""
CHILDREN = 6
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
ENDLESS = {
    "Content-Length: 1000000000": b"guest-name=a",
    "Transfer-Encoding: chunked": b"3b9aca00\r\nguest-name=a",
    "Transfer-encoding: chunked": (b"2000\r\n" + 8192 * b"a" + b"\r\n") * 40,
}
"""Announcements of bodies that are too large, and what comes of the bodies."""


def files(scene: Scene) -> None:
    """The server sends small files, requested in random order."""
    paths = list(scene.site.small)
    scene.dice.shuffle(paths)
    try:
        answers = {path: scene.get(path) for path in paths}
    except Failed:
        announced(scene, paths[0])
        raise
    said = {(answer.status, answer.body) for answer in answers.values()}
    if len(said) == 1 and next(iter(said))[0] == 200:
        body = answers[paths[0]].body[:40]
        raise Failed(FIXED_ANSWER, f"three different files were requested, and all were {body!r}")
    for path, answer in answers.items():
        scene.same(answer, path)


def announced(scene: Scene, path: str) -> None:
    """Raise Failed if the Content-Length in a response to HEAD is not the file's length."""
    with scene.client() as client:
        head = scene.talk(client, request("GET", path, CLOSE), method="HEAD")
    length, there = (head.field("Content-Length") or "")[:30], len(scene.site.small[path])
    if head.status == 200 and length != str(there):
        raise Failed(
            WRONG_LENGTH, f"{path} has {there} bytes; the head said Content-Length: {length}"
        )


def heads(scene: Scene) -> None:
    """The server answers HEAD, requests for missing files and for parts of files."""
    path = scene.dice.choice(list(scene.site.small))
    missing = f"/{word(scene.dice)}"
    status = scene.get(missing).status
    if status != 404:
        raise Failed(WRONG_ANSWER, f"{missing} does not exist, but was answered {status}, not 404")
    for asked, method, right in ((path, "DELETE", 405), ("/", "BREW", 501)):
        status = scene.get(asked, method=method).status
        if status != right:
            raise Failed(WRONG_ANSWER, f"{method} {asked} was answered {status}, not {right}")
    head = scene.get(path, method="HEAD")
    if head.field("Content-Length") != str(len(scene.site.small[path])):
        raise Failed(WRONG_ANSWER, f"HEAD {path} did not return the file's length")
    with scene.client() as client:
        scene.talk(client, request("HEAD", path, CLOSE), method="HEAD")
        if body := client.rest()[0]:
            raise Failed(WRONG_ANSWER, f"HEAD {path} was answered with a body of {len(body)} bytes")
    parts(scene, path, scene.site.small[path])
    parts(scene, *scene.site.big)


def parts(scene: Scene, path: str, content: bytes) -> None:
    """Request parts of a file (RFC 9110, section 14). Raises Failed unless they are correct."""
    first = scene.dice.randint(1, 9)
    last = scene.dice.randint(first, len(content) - 1)
    wanted = {
        f"bytes={first}-{last}": content[first : last + 1],
        f"bytes={len(content) - first}-": content[-first:],
        f"bytes=-{first}": content[-first:],
        f"bytes={first}-{len(content)}": content[first:],
    }
    for asked, part in wanted.items():
        answer = scene.get(path, f"Range: {asked}")
        if (answer.status, answer.body) != (206, part):
            raise Failed(
                WRONG_ANSWER,
                f"{path} with `Range: {asked}` was answered {answer.status} with "
                f"{len(answer.body)} bytes; correct: 206 with {len(part)} bytes of the file",
            )


def closes(scene: Scene) -> None:
    """The server closes the connection after a response that announces it."""
    path = scene.dice.choice(list(scene.site.small))
    with scene.client() as client:
        answer = scene.talk(client, request("GET", path, CLOSE))
        extra, ended = client.rest()
        if extra:
            raise Failed(
                WRONG_LENGTH,
                f"{path}: the head said Content-Length: {answer.field('Content-Length')}, but "
                f"{len(answer.body) + len(extra)} bytes came after the head; the last were "
                f"{extra[-40:]!r}",
                client.port,
            )
        if not ended:
            raise Failed(
                NEVER_CLOSES,
                f"the response for {path} was complete; {scene.patience:.0f} s later the "
                "connection was still open",
                client.port,
            )
        # shutdown(2) may end the connection; the descriptor stays open until close(2).
        if not scene.until(lambda: not scene.holds(client.port)):
            raise Failed(
                NEVER_CLOSES,
                f"the response for {path} was complete; {scene.patience:.0f} s later the server "
                "still had the descriptor of the connection",
                client.port,
            )
    with scene.client() as client:
        scene.talk(client, f"GET {path} HTTP/1.0\r\n\r\n".encode())
        if not client.rest()[1]:
            raise Failed(
                NEVER_CLOSES,
                f"{path} was requested with HTTP/1.0, which closes the connection after each "
                f"response; {scene.patience:.0f} s later it was still open",
                client.port,
            )
    children_end(scene)


def children_end(scene: Scene) -> None:
    """Raise Failed if child processes that have served a client wait in accept."""
    path = next(iter(scene.site.small))
    before: set[int] = set()
    while before != (now := set(scene.pids())):  # until all first processes have started
        before = now
        scene.watch.sleep(SOON_SECONDS)
    for _ in range(CHILDREN):
        scene.get(path)

    def left() -> list[int]:
        return in_accept([pid for pid in scene.pids() if pid not in before])

    scene.until(lambda: not left(), SOON_SECONDS)
    # If workers end after one client and are replaced, their number stays the same.
    more = len(scene.pids()) - len(before)
    if len(processes := left()) >= CHILDREN // 2 and more >= CHILDREN // 2:
        raise Failed(
            CHILD_ACCEPTS,
            f"{CHILDREN} clients were served, one after another; now {len(processes)} new "
            "processes wait in accept()",
            sure=False,
            proof=[f"{pid} accept4( <has not returned>" for pid in processes][:MOST_LINES],
            proof_kind="/proc/PID/syscall: process, call",
        )


def guestbook(scene: Scene) -> None:
    """A remark is saved and shown, escaped; a redirect has its target."""
    page = scene.get("/guestbook")
    if page.status != 200:
        raise Failed(NO_REDIS, f"the guestbook was answered {page.status}, not 200")
    with connect(scene.redis.url) as redis:
        redis.rpush("guestbook_remarks", *["old"] * OLD_REMARKS)  # more than a page shows
    remark = f"{word(scene.dice)} <b>&{word(scene.dice)}"
    body = f"guest-name={word(scene.dice)}&guest-remarks={quote_plus(remark)}".encode()
    signed = scene.ask(request("POST", "/guestbook", CLOSE, FORM, body=body))
    if signed.status not in (200, 303):
        raise Failed(NO_REDIS, f"a remark was answered {signed.status}")
    shown = scene.get("/guestbook").body.decode(errors="replace")
    if html.escape(remark, quote=False) not in shown:
        raise Failed(WRONG_ANSWER, f"the remark {remark!r} is not on the page (escaped)")
    quotes(scene)
    other_bodies(scene)
    path, target = scene.dice.choice(list(scene.site.moved.items()))
    if scene.get(path).field("Location") != target:
        raise Failed(WRONG_ANSWER, f"{path} does not redirect to {target}")


def quotes(scene: Scene) -> None:
    """A form without a remark is shown again: the name in its attribute is escaped."""
    name = f'{word(scene.dice)}" class="'
    body = f"guest-name={quote_plus(name)}&guest-remarks=".encode()
    page = scene.ask(request("POST", "/guestbook", CLOSE, FORM, body=body))
    if f'value="{name}' in page.body.decode(errors="replace"):
        raise Failed(WRONG_ANSWER, f"the name {name!r} is not escaped in the attribute of the form")


def other_bodies(scene: Scene) -> None:
    """Send a remark in chunks, and one with `Expect: 100-continue`."""
    remark = word(scene.dice, 40)
    body = f"guest-name={word(scene.dice)}&guest-remarks={remark}".encode()
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    head = request("POST", "/guestbook", CLOSE, FORM, "Transfer-Encoding: chunked")
    status = scene.ask(head + chunked).status
    if status != 303 or remark not in scene.get("/guestbook").body.decode(errors="replace"):
        raise Failed(
            WRONG_ANSWER,
            f"a remark in one chunk was answered {status} (correct: 303), or is not on the page",
        )
    path, content = scene.dice.choice(list(scene.site.small.items()))
    with scene.client() as client:
        kept = request("POST", "/guestbook", FORM, "Transfer-Encoding: chunked")
        client.send((kept + chunked) * 2 + request("GET", path, CLOSE))
        answers = [scene.talk(client, b"")]
        while not answers[-1].closes:
            answers.append(scene.talk(client, b"", fault=LOSES_PIPELINED))
        statuses = [answer.status for answer in answers]
        if statuses != [303, 303, 200][: len(statuses)] or (
            len(answers) > 2 and answers[2].body != content
        ):
            raise Failed(
                LOSES_PIPELINED,
                f"two remarks, each in one chunk, and a request for {path} came in one packet; "
                f"they were answered {statuses}",
                client.port,
            )
    length = f"Content-Length: {len(body)}"
    with scene.client() as client:
        client.send(request("POST", "/guestbook", CLOSE, FORM, length, "Expect: 100-continue"))
        answer = scene.talk(client, b"")
        if answer.status == 100:
            answer = scene.talk(client, body)
        if answer.status != 303:
            raise Failed(
                WRONG_ANSWER,
                f"a remark with `Expect: 100-continue` was answered {answer.status}, not 303",
                client.port,
            )


def big(scene: Scene) -> None:
    """A slow client receives a file that is larger than the socket buffers."""
    path, content = scene.site.big
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", path, CLOSE))
        time.sleep(0.3)  # until its send buffer is full
        try:
            answer = client.answer()
        except NoAnswer as error:
            scene.alive()
            raise Failed(
                SHORT_WRITE,
                f"{path}: {error}; the file has {len(content):,} bytes",
                client.port,
                sure=error.in_time,
            ) from error
    if answer.body != content:
        raise Failed(SHORT_WRITE, f"{path} arrived with wrong bytes")
    replaced(scene)
    shortened(scene)


def replaced(scene: Scene) -> None:
    """A file is replaced while a client receives it: this client gets the whole old file."""
    content = scene.site.big[1]
    file = scene.site.root / "public" / f"{word(scene.dice)}.bin"
    file.write_bytes(content)
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", f"/{file.name}", CLOSE))
        time.sleep(0.3)  # until its send buffer is full
        new = file.with_suffix(".new")
        new.write_bytes(b"new")
        new.replace(file)
        if scene.stalled_by != "one" and scene.get(f"/{file.name}").body != b"new":
            raise Failed(WRONG_ANSWER, f"/{file.name} was replaced, but not served as it is now")
        answer = scene.talk(client, b"", fault=SHORT_WRITE)
    if answer.body != content:
        raise Failed(
            SHORT_WRITE,
            f"/{file.name} was replaced while a client received it; it got wrong bytes",
        )


def shortened(scene: Scene) -> None:
    """A file becomes shorter while it is sent: the connection ends, for the rest cannot come."""
    file = scene.site.root / "public" / f"{word(scene.dice)}.bin"
    file.write_bytes(scene.site.big[1])
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", f"/{file.name}"))
        time.sleep(0.3)  # until its send buffer is full
        os.truncate(file, 1000)
        try:
            client.answer()
        except NoAnswer as error:
            if error.in_time:
                return
        raise Failed(
            NEVER_CLOSES,
            f"/{file.name} became shorter while it was sent; {scene.patience:.0f} s later the "
            "connection was still open",
            client.port,
        )


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
    for field, body in ENDLESS.items():
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
    """The server answers several requests in one packet."""
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
        before, begun = scene.demand_seconds(), time.monotonic()
        scene.watch.sleep(SOON_SECONDS)
        share = (scene.demand_seconds() - before) / (time.monotonic() - begun)
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


SERVES = Stage(
    "serves",
    "It serves",
    (
        Trial("files", 4, files, gate=True),
        Trial("HEAD, missing files, parts of files", 2, heads, seconds=1),
        Trial("the connection ends", 3, closes, seconds=1),
        Trial("many clients at the same time", 2, burst, seconds=2),
        Trial("the guestbook", 3, guestbook),
        Trial("a big file", 3, big),
    ),
)
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
