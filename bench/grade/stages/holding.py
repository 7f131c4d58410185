# SPDX-License-Identifier: MIT
"""Clients that hold their connection: some are silent, and the others are served."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bench.grade.building import Expected
from bench.grade.faults import FaultName
from bench.grade.inspection import sleeping
from bench.grade.scene import CLOSE, SMALL_BUFFER, Scene
from bench.grade.stage import Failed, shortened
from bench.load.client import Client, request

SETTLE_SECONDS, FULL_SECONDS = 0.3, 0.3
LEAVING = 4
"""The first and each fourth client after it leaves before its request is complete."""
MANY_CLIENTS = 1100
"""More than the usual table sizes (64, 100, 256, 1024)."""
WATCHED_SECONDS = 0.6
TOGETHER = 80


class Half(NamedTuple):
    """A client that has sent a part of its request."""

    client: Client
    one: Expected
    rest: bytes


def hold(scene: Scene, stack: ExitStack, count: int) -> list[Half]:
    """Return connected clients that have sent half a request and are silent."""
    held = []
    for _ in range(count):
        one = scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
        size = scene.dice.randint(5, len(one.data) - 3)
        held.append(Half(stack.enter_context(scene.client()), one, one.data[size:]))
        held[-1].client.send(one.data[:size])
    scene.watch.sleep(SETTLE_SECONDS)  # so that the server accepts them first
    return held


def finish(
    scene: Scene, held: Sequence[Half], fault: FaultName, seen: str, wrong: FaultName | None = None
) -> None:
    """Let clients send the rest, and close. Raises Failed unless each is answered;
    `seen`: what has happened before, `wrong`: the fault if a response is wrong."""
    for number, (client, one, rest) in enumerate(held, 1):
        what = f"{seen}; number {number} of {len(held)} clients got no complete response"
        with scene.unanswered(fault, what, client.port, sure=False if wrong else None):
            answer = scene.talk(client, rest)
        scene.require(one, answer, wrong or "wrong-answer", client.port, sure=not wrong)
        client.close()


@contextlib.contextmanager
def slowly(scene: Scene, path: str, *fields: str) -> Iterator[Client]:
    """Yield a client that has requested a large file and read nothing yet; the server's send buffer
    is full."""
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", path, *fields))
        scene.watch.sleep(FULL_SECONDS)
        yield client


def others(scene: Scene) -> str | None:
    """Other clients are served while some are silent and some read nothing."""
    silent, slow = scene.dice.randint(2, 5), scene.dice.randint(1, 3)
    paths = [*scene.site.small, "/guestbook"] * 2
    nature = scene.stalled_by == "one"
    with ExitStack() as stack:
        held = hold(scene, stack, silent)
        for _ in range(slow):
            stack.enter_context(slowly(scene, scene.site.big[0], CLOSE))
        begun = time.monotonic()
        with scene.unanswered(
            "by-nature" if nature else "one-stops-all",
            f"{silent} clients sent half a request, {slow} read nothing of a large file; one of "
            f"{len(paths)} other clients got no response within {scene.timeout:.0f} s",
            held[0].client.port,
            sure=nature,
            also_in_time=False,
        ):
            scene.together([partial(scene.get, path) for path in paths])
        took = time.monotonic() - begun
        if nature:
            seen = f"{silent} clients were silent, and {len(paths)} others were served"
            raise Failed("says-one", seen, proof=['stalled_by = "one"'], proof_kind="tests.toml")
    crowd(scene, MANY_CLIENTS, "fails-under-load", SETTLE_SECONDS)
    return f"{silent + slow} silent or slow, {len(paths)} others served in {took:.2f} s"


def crowd(scene: Scene, count: int, fault: FaultName, seconds: float, also: int = 0) -> None:
    """Many clients send half a request, and the server sleeps. Then some of them leave, and the
    others send the rest in the order of connecting. `also`: another status that is right."""
    with ExitStack() as stack:
        held = hold(scene, stack, count)
        seen = f"{count} clients had sent half a request and were silent"
        scene.require_sleep(seconds, seen)
        leaving = held[::LEAVING]
        for half in leaving:
            half.client.close()
        expected = [half._replace(one=replace(half.one, also=also)) for half in held]
        del expected[::LEAVING]
        finish(scene, expected, fault, f"{seen}; {len(leaving)} left, and the others sent the rest")


def burst(scene: Scene) -> None:
    """Clients connect while the server is stopped; later it answers each of them."""
    path = scene.dice.choice(list(scene.site.small))
    scene.watch.sleep(WATCHED_SECONDS)  # until all its workers wait
    with contextlib.ExitStack() as stack:
        with scene.suspended(scene.pids()):
            clients = [stack.enter_context(scene.client()) for _ in range(TOGETHER)]
            for client in clients:
                client.send(request("GET", path, CLOSE))
        for number, client in enumerate(clients, 1):
            try:
                scene.same(scene.talk(client, b""), path)
            except Failed as failed:
                if failed.fault != "no-answer":
                    raise
                before = scene.demand_seconds()
                scene.watch.sleep(WATCHED_SECONDS)
                sleeps = scene.demand_seconds() - before < WATCHED_SECONDS * scene.most_share
                lost = sleeps and not failed.sure
                raise Failed(
                    "lost-wakeup" if lost else "fails-under-load",
                    f"the server was stopped (SIGSTOP), {TOGETHER} clients connected and sent "
                    f"their requests, and it continued (SIGCONT); client {number} got no complete "
                    f"response ({failed.seen})",
                    client.port,
                    sure=lost or failed.sure,
                    proof=shortened(sleeping(scene.pids())) if lost else (),
                    proof_kind="/proc/PID/task/TID/syscall: thread, the call in which it sleeps",
                ) from failed
