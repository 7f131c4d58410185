# SPDX-License-Identifier: MIT
"""The server serves files and pages."""

import contextlib
import html
import os
import time
from collections.abc import Iterator
from urllib.parse import quote_plus

from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    CHILD_ACCEPTS,
    FIXED_ANSWER,
    LOSES_PIPELINED,
    NEVER_CLOSES,
    NO_REDIS,
    SHORT_WRITE,
    WRONG_ANSWER,
    WRONG_LENGTH,
)
from bench.grade.proof import MOST_LINES
from bench.grade.scene import CLOSE, FORM, SMALL_BUFFER, Scene
from bench.grade.site import word
from bench.grade.stage import Failed
from bench.grade.stages.holding import burst
from bench.grade.waiting import in_accept
from bench.load.client import Client, NoAnswer, request
from bench.services.redis_server import connect

FULL_SECONDS, SOON_SECONDS = 0.3, 0.4
OLD_REMARKS = 60
CHILDREN = 6


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


@contextlib.contextmanager
def slowly(scene: Scene, path: str, *fields: str) -> Iterator[Client]:
    """Yield a client that has requested a large file and read nothing yet; the server's send buffer
    is full."""
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", path, *fields))
        time.sleep(FULL_SECONDS)
        yield client


def big(scene: Scene) -> None:
    """A slow client receives a file that is larger than the socket buffers."""
    path, content = scene.site.big
    with slowly(scene, path, CLOSE) as client:
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
    content, name = scene.site.big[1], f"{word(scene.dice)}.bin"
    scene.site.put(name, content)
    with slowly(scene, f"/{name}", CLOSE) as client:
        scene.site.put(name, b"new")
        if scene.stalled_by != "one" and scene.get(f"/{name}").body != b"new":
            raise Failed(WRONG_ANSWER, f"/{name} was replaced, but not served as it is now")
        answer = scene.talk(client, b"", fault=SHORT_WRITE)
    if answer.body != content:
        raise Failed(
            SHORT_WRITE, f"/{name} was replaced while a client received it; it got wrong bytes"
        )


def shortened(scene: Scene) -> None:
    """A file becomes shorter while it is sent: the connection ends, for the rest cannot come."""
    file = scene.site.put(f"{word(scene.dice)}.bin", scene.site.big[1])
    with slowly(scene, f"/{file.name}") as client:
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
