# SPDX-License-Identifier: MIT
"""The server serves files and pages."""

import os
from functools import partial

from bench.grade.afterwards import QUIET_SECONDS
from bench.grade.building import word
from bench.grade.inspection import in_accept
from bench.grade.scene import CLOSE, Scene
from bench.grade.stage import MOST_LINES, Failed
from bench.grade.stages.comparing import same_bytes
from bench.grade.stages.holding import burst, slowly
from bench.grade.stages.situations import play
from bench.grade.trying import Stage, Trial
from bench.load.client import NoAnswer, request

SOON_SECONDS = 0.4
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
        raise Failed("fixed-answer", f"three different files were requested, and all were {body!r}")
    for path, answer in answers.items():
        scene.same(answer, path)


def announced(scene: Scene, path: str) -> None:
    """Raise Failed if the Content-Length in a response to HEAD is not the file's length."""
    with scene.client() as client:
        head = scene.talk(client, request("GET", path, CLOSE), method="HEAD")
    length, there = (head.field("Content-Length") or "")[:30], len(scene.site.small[path])
    if head.status == 200 and length != str(there):
        raise Failed(
            "wrong-length", f"{path} has {there} bytes; the head said Content-Length: {length}"
        )


def closes(scene: Scene) -> None:
    """The server closes the connection after a response that announces it, and with HTTP/1.0."""
    path = scene.dice.choice(list(scene.site.small))
    for data, what in (
        (request("GET", path, CLOSE), f"the response for {path} was complete"),
        (
            f"GET {path} HTTP/1.0\r\n\r\n".encode(),
            f"{path} was requested with HTTP/1.0, which closes the connection after each response",
        ),
    ):
        with scene.client() as client:
            answer = scene.talk(client, data)
            extra, ended = client.rest()
            if extra:
                told, length = answer.field("Content-Length"), len(answer.body) + len(extra)
                raise Failed(
                    "wrong-length",
                    f"{path}: the head said Content-Length: {told}, but {length} bytes came after "
                    f"the head; the last were {extra[-40:]!r}",
                    client.port,
                )
            # shutdown(2) may end the connection; the descriptor stays open until close(2).
            if not (ended and scene.until(partial(scene.let_go, client.port))):
                left = "still had the descriptor of" if ended else "had not closed"
                late = f"{scene.timeout:.0f} s later the server {left} the connection"
                raise Failed("never-closes", f"{what}; {late}", client.port)
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
            "child-accepts",
            f"{CHILDREN} clients were served, one after another; now {len(processes)} new "
            "processes wait in accept()",
            sure=False,
            proof=[f"{pid} accept4( <has not returned>" for pid in processes][:MOST_LINES],
            proof_kind="/proc/PID/syscall: process, call",
        )


def big(scene: Scene) -> None:
    """A slow client receives a file that is larger than the socket buffers. After that the server
    sleeps, also if it keeps the connection."""
    path, content = scene.site.big
    with slowly(scene, path) as client:
        try:
            answer = client.answer()
            scene.require_sleep(QUIET_SECONDS, f"a client had received {path}", client.port)
        except NoAnswer as error:
            scene.alive()
            raise Failed(
                "short-write",
                f"{path}: {error}; the file has {len(content):,} bytes",
                client.port,
                sure=error.in_time,
            ) from error
    if answer.body != content:
        raise Failed("short-write", f"{path} arrived with wrong bytes")
    shortened(scene)


def shortened(scene: Scene) -> None:
    """A file becomes shorter while it is sent: the connection ends without the rest."""
    file = scene.site.put(f"{word(scene.dice)}.bin", scene.site.big[1])
    with slowly(scene, f"/{file.name}") as client:
        os.truncate(file, 1000)
        try:
            client.answer()
        except NoAnswer as error:
            if error.in_time:
                return
        raise Failed(
            "never-closes",
            f"/{file.name} became shorter while it was sent; {scene.timeout:.0f} s later the "
            "connection was still open",
            client.port,
        )


SERVES = Stage(
    "serves",
    "It serves",
    (
        Trial("files", 4, files, gate=True),
        Trial("the guestbook", 2, partial(play, check="guestbook")),
        Trial("the same bytes as a reference server", 2, same_bytes, seconds=2),
        Trial("unusual situations", 2, partial(play, check="usual"), nohup=True, seconds=2),
        Trial("the connection ends", 3, closes, seconds=1),
        Trial("many clients at the same time", 2, burst, seconds=2),
        Trial("a big file", 2, big),
    ),
)
