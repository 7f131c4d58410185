# SPDX-License-Identifier: MIT
"""Requests in pieces, invalid requests, and clients that leave."""

import contextlib
import socket

from bench.grade.scene import SMALL_BUFFER, Scene, in_words
from bench.grade.stage import Failed
from bench.grade.stages.comparing import defects, in_pieces, keeps, packets
from bench.grade.trying import Stage, Trial
from bench.load.client import request

RESETS, LEAVE_SECONDS = 12, 0.03
LEAVERS, SOON_SECONDS = 3, 0.4
FRUITLESS = r"(?:recv|read).* = 0 "
MANY = 30
"""FRUITLESS calls of recv above which the server ignores the end of a connection."""
FEW, UNREAD = 30, 300


def pieces(scene: Scene) -> None:
    """The server answers requests that arrive in pieces, and notices clients that leave."""
    in_pieces(scene)
    ends_of_requests(scene)


def pipelined(scene: Scene) -> str | None:
    """The server answers several requests in one packet, and many that are as short as possible."""
    if not keeps(scene):
        return "it keeps no connection open"
    packets(scene)
    unread(scene)
    return None


def unread(scene: Scene) -> None:
    """A client sends many requests and reads their responses later: more than the socket buffers
    can hold, so that the server waits in the middle of a response with requests in its buffer."""
    paths = scene.dice.choices([*scene.site.small, scene.site.big[0]], [1, 1, 1, 0.02], k=UNREAD)
    batch = [scene.site.file(path) for path in (*paths, scene.site.big[0], *paths[:FEW])]
    with scene.client(SMALL_BUFFER) as client:
        client.send(b"".join(one.data for one in batch))
        scene.watch.sleep(SOON_SECONDS)
        for number, one in enumerate(batch):
            answer = scene.talk(client, b"", fault="loses-pipelined" if number else "no-answer")
            scene.require(one, answer, "loses-pipelined", client.port)
            if answer.closes:
                return


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
        busy = share > scene.most_share or len(scene.traced(FRUITLESS)) > MANY
        if busy and not all(scene.let_go(port) for port in ports):
            raise Failed(
                "ignores-end",
                f"{LEAVERS} clients sent half a request and ended their side (FIN); {SOON_SECONDS} "
                f"s later {in_words(share)}",
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
        Trial("pipelined requests", 2, pipelined, seconds=5),
        Trial("bad requests", 4, defects),
        Trial("clients that leave", 5, resets, traced=True),
    ),
)
