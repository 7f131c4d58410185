# SPDX-License-Identifier: MIT
"""Check the responses to requests for files and pages, requests in pieces, and several requests in
a packet. Check that the server notices clients that leave."""

import contextlib
import os
import socket
from collections.abc import Sequence
from functools import partial

from bench.grade.building import Expected, word
from bench.grade.findings import Failed
from bench.grade.inspection import QUIET_SECONDS, require_alive
from bench.grade.scene import CLOSE, SMALL_BUFFER, Scene
from bench.grade.server import in_words
from bench.grade.stages.clients import slowly
from bench.grade.stages.comparing import in_pieces, packets
from bench.grade.threads import wait_for_clients
from bench.load.client import NoAnswer, request

SOON_SECONDS = 0.4
CHILDREN = 6
RESETS, LEAVE_SECONDS = 12, 0.03
LEAVERS = 3
COUNTS = (3, 5, 9, 17, 33, 65, 129, 257)
"""Numbers of requests in a packet. An event loop may pause after 2, 4, 8 ... requests."""
FRUITLESS = r"(?:recv|read).* = 0 "
MANY = 30
"""A server that makes more FRUITLESS calls than this ignores the end of connections."""


def files(scene: Scene) -> None:
    """The server sends small files, requested in random order."""
    paths = list(scene.site.small)
    scene.dice.shuffle(paths)
    answers = {}
    try:
        for path in paths:
            answers[path] = scene.get(path)
            scene.sent_file |= not scene.site.file(path).wrong(answers[path])
    except Failed:
        scene.stop()
        with scene.of(scene.server).started() as new:
            children_end(new, 1)
            for path in paths:
                announced(new, path)
        raise
    said = {(answer.status, answer.body) for answer in answers.values()}
    if len(said) == 1 and next(iter(said))[0] == 200:
        body = answers[paths[0]].body[:40]
        raise Failed("fixed-answer", f"3 different files were requested; each body was {body!r}")
    for path, answer in answers.items():
        scene.require(scene.site.file(path), answer)


def announced(scene: Scene, path: str) -> None:
    """Raise Failed if the Content-Length in a response to HEAD is not the file's length."""
    with scene.client() as client:
        head = scene.talk(client, request("GET", path, CLOSE), method="HEAD")
    length, there = (head.field("Content-Length") or "")[:30], len(scene.site.small[path])
    if head.status == 200 and length != str(there):
        seen = f"{path} has {there} bytes; the head said Content-Length: {length}"
        raise Failed("wrong-length", seen)


def closes(scene: Scene) -> None:
    """The server closes connections after requests with Connection: close or with HTTP/1.0."""
    path = scene.dice.choice(list(scene.site.small))
    old = f"{path} was requested with HTTP/1.0, which closes the connection after each response"
    for data, what in (
        (request("GET", path, CLOSE), f"the response for {path} was complete"),
        (f"GET {path} HTTP/1.0\r\n\r\n".encode(), old),
    ):
        with scene.client() as client:
            answer = scene.talk(client, data)
            extra, ended = client.rest()
            if extra:
                told, length = answer.field("Content-Length"), len(answer.body) + len(extra)
                seen = f"{path}: the head said Content-Length: {told}, but {length} bytes came "
                seen += f"after the head; the last were {extra[-40:]!r}"
                raise Failed("wrong-length", seen, client.port)
            # shutdown(2) may end the connection; the descriptor stays open until close(2).
            if not (ended and scene.until(partial(scene.let_go, client.port))):
                left = "still had the descriptor of" if ended else "had not closed"
                late = f"{scene.timeout:.0f} s later the server {left} the connection"
                raise Failed("never-closes", f"{what}; {late}", client.port)
    children_end(scene)


def children_end(scene: Scene, least: int = CHILDREN // 2) -> None:
    """Raise Failed if at least `least` child processes wait for more clients after their first."""
    before: set[int] = set()
    while before != (now := set(scene.pids())):  # until the server starts no more processes
        before = now
        scene.watch.sleep(SOON_SECONDS)
    for _ in range(CHILDREN):
        with contextlib.suppress(Failed):  # children that accept may cause a failure
            scene.get(scene.site.first)

    def left() -> list[str]:
        return wait_for_clients([pid for pid in scene.pids() if pid not in before])

    scene.until(lambda: not left(), SOON_SECONDS)
    # If workers are replaced after each client, their number stays the same.
    more = len(scene.pids()) - len(before)
    if len(processes := left()) >= least and more >= least:
        seen = f"{CHILDREN} clients came, one after another; all have left, and the number of new "
        seen += f"processes that wait for clients is {len(processes)}"
        proof = "/proc/PID/syscall: process, call", processes
        raise Failed("child-accepts", seen, sure=False, proof=proof)


def big(scene: Scene) -> None:
    """A slow client receives a file that is larger than the socket buffers. Then the server sleeps,
    even with an open connection."""
    path, content = scene.site.big
    with slowly(scene, path) as client:
        try:
            answer = client.answer()
            scene.require_sleep(QUIET_SECONDS, f"a client had received {path}", client.port)
        except NoAnswer as error:
            scene.alive()
            seen = f"{path}: {error}; the file has {len(content):,} bytes"
            raise Failed("short-write", seen, client.port, error.in_time) from error
    if answer.body != content:
        raise Failed("short-write", f"{path} arrived with wrong bytes")
    shortened(scene)


def shortened(scene: Scene) -> None:
    """The server closes the connection if a file becomes shorter during the response."""
    file = scene.site.put(f"{word(scene.dice)}.bin", scene.site.big[1])
    with slowly(scene, f"/{file.name}") as client:
        os.truncate(file, 1000)
        try:
            client.answer()
        except NoAnswer as error:
            if error.in_time:
                return
        late = f"{scene.timeout:.0f} s later the connection was still open"
        seen = f"/{file.name} became shorter while it was sent; {late}"
        raise Failed("never-closes", seen, client.port)


def pieces(scene: Scene) -> None:
    """The server answers requests that arrive in pieces, and notices clients that leave."""
    in_pieces(scene)
    ends_of_requests(scene)


def pipelined(scene: Scene) -> str | None:
    """The server answers several requests in one packet, and many requests without pauses."""
    note = packets(scene)
    if note is None:
        for count in COUNTS:
            all_answered(scene, [scene.site.file(scene.site.first)] * count)
        unread(scene)
    return note


def all_answered(
    scene: Scene, batch: Sequence[Expected], buffer: int = 0, pause: float = 0.0
) -> None:
    """Send all requests together, wait, and read the responses up to the first that closes the
    connection. Raises Failed if a response is wrong. The client does not end its side."""
    with scene.client(buffer) as client:
        client.send(b"".join(one.data for one in batch))
        scene.watch.sleep(pause)
        for number, one in enumerate(batch):
            answer = scene.talk(client, b"", fault="loses-pipelined" if number else "no-answer")
            scene.require(one, answer, "loses-pipelined", client.port)
            if answer.closes:
                return


def unread(scene: Scene) -> None:
    """A client sends many requests and reads later. The responses exceed the socket buffers, so the
    server waits in the middle of a response, with requests in its buffer."""
    paths = scene.dice.choices([*scene.site.small, scene.site.big[0]], [1, 1, 1, 0.02], k=300)
    batch = [scene.site.file(path) for path in (*paths, scene.site.big[0], *paths[:30])]
    all_answered(scene, batch, SMALL_BUFFER, SOON_SECONDS)


def ends_of_requests(scene: Scene) -> None:
    """Let clients end their side (FIN) in the middle of a head. Raises Failed if a thread of the
    server then uses the CPU continuously."""
    with scene.clients(LEAVERS, b"GET /half") as clients:
        for client in clients:
            client.socket.shutdown(socket.SHUT_WR)
        scene.watch.sleep(SOON_SECONDS)
        share = scene.busy_share(SOON_SECONDS)
        # strace slows down the calls, so the number of calls counts, too.
        busy = share > scene.most_share or len(scene.traced(FRUITLESS)) > MANY
        if busy and not all(scene.let_go(client.port) for client in clients):
            seen = f"{LEAVERS} clients sent half a request and ended their side (FIN)"
            late = f"{SOON_SECONDS} s later {in_words(share)}"
            raise Failed("ignores-end", f"{seen}; {late}", sure=False)


def resets(scene: Scene) -> None:
    """No process of the server crashes when clients leave in the middle of their response."""
    path, _ = scene.site.big
    scene.get(scene.site.first)
    scene.watch.sleep(0.2)
    before = scene.pids()
    for number in range(RESETS):
        # If a process of the server ends, its clients get an error, which is ignored here:
        # require_alive() reports the process.
        with scene.client(SMALL_BUFFER) as client, contextlib.suppress(OSError):
            client.send(request("GET", path))
            client.socket.recv(100)
            scene.watch.sleep(LEAVE_SECONDS)  # until the server sleeps in send
            if number % 3 == 1:  # these clients send a FIN before the reset
                client.socket.shutdown(socket.SHUT_WR)
                scene.watch.sleep(LEAVE_SECONDS)
            if number % 3:
                client.reset()
    # The server may notice only later that clients have left.
    scene.until(lambda: scene.running is None or not scene.running.running(), 0.5)
    require_alive(scene, before, f"{RESETS} clients left in the middle of a response")
    scene.file()
