# SPDX-License-Identifier: MIT
"""What is left when clients have gone, and where the system gives no more."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError

from bench.grade import sandbox
from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    DESCRIPTOR_LEAK,
    DIES_AT_LIMIT,
    NOT_JOINED,
    REDIS_LEAK,
    WORKERS_PILE_UP,
    ZOMBIES,
)
from bench.grade.sandbox import Limits
from bench.grade.scene import CLOSE, WORKERS, Scene
from bench.grade.stage import Failed, NotHere
from bench.host.sockets import accept_queue
from bench.load.client import NoAnswer, request

FEW_TASKS = 40
"""More than the workers that it is started with, fewer than the clients."""
CROWD = 70
ACCEPTED_IN = 1.0
"""Seconds within which a server takes a crowd, or as much of it as it wants."""
RESETS, RESET_SECONDS = 50, 0.01
PAGES = (30, 40)
"""More than it may have connections to Redis."""
SLACK = 4
"""What may be left of clients who are just leaving, and of workers."""


def visit(scene: Scene, count: int) -> None:
    """Clients of all kinds, one after another: served, refused, silent, and some that leave."""
    paths = [*scene.site.small, "/guestbook"]
    for number in range(count):
        with scene.client() as client:
            kind = number % 5
            if kind < 2:
                scene.talk(client, request("GET", paths[number % len(paths)], CLOSE))
            elif kind == 2:
                scene.talk(client, b"GET / HTTP/1.1\r\nBroken\r\n\r\n")
            elif kind == 3:
                client.send(b"GET / HT")
            else:
                client.send(request("GET", scene.site.big[0]))
                client.reset()


def reset(scene: Scene) -> None:
    """Clients that reset their connection, half of them in the middle of a head and half in the
    middle of a body. Raises Failed if their descriptors stay open."""
    body = b"POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n" + (
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\nguest-name="
    )
    for number in range(RESETS):
        with scene.client() as client:
            client.send(body if number % 2 else b"GET / HTTP/1.1\r\nHo")
            scene.watch.sleep(RESET_SECONDS)  # until the server waits for the rest
            client.reset()
    if not scene.until(lambda: scene.useless_descriptors() <= SLACK):
        scene.alive()
        raise Failed(
            DESCRIPTOR_LEAK,
            f"{RESETS} clients reset their connection in the middle of a head or a body; "
            f"{scene.useless_descriptors()} descriptors that lead to none of them are still open",
        )


def descriptors(scene: Scene) -> None:
    """None is open that leads to a client who has gone."""
    scene.must_look()
    reset(scene)
    count = scene.dice.randint(50, 70)
    visit(scene, count)
    if not scene.until(lambda: scene.useless_descriptors() <= SLACK):
        scene.alive()
        raise Failed(
            DESCRIPTOR_LEAK,
            f"{count} clients came and went; {scene.useless_descriptors()} descriptors are still "
            "open that lead to none of them",
        )
    redis(scene)


def redis(scene: Scene) -> None:
    """A page gives its connection to Redis back. Where none did, the last of the pages may be
    without an answer: the server waits for a connection that it has lost."""
    pages = scene.dice.randint(*PAGES)
    unanswered: Failed | None = None
    read = 0
    try:
        while read < pages:
            read += 1
            scene.get("/guestbook")
    except Failed as failed:
        unanswered = failed
    if not scene.until(lambda: scene.redis_connections() <= WORKERS + SLACK):
        raise Failed(
            REDIS_LEAK,
            f"{read} clients read the guestbook, one after another; {scene.redis_connections()} "
            "connections to Redis are open now",
        )
    if unanswered is not None:
        raise unanswered


def processes(scene: Scene) -> None:
    """No zombies, and nobody who serves no one."""
    scene.must_look()
    visit(scene, 10)
    scene.until(lambda: False, 0.3)
    before, mapped = scene.tasks(), scene.mappings()
    count = scene.dice.randint(30, 40)
    visit(scene, count)
    if not scene.until(lambda: not scene.zombies()):
        raise Failed(
            ZOMBIES,
            f"{count} clients have come and gone; {len(scene.zombies())} children that have ended "
            f"are still in the process table (state Z)",
        )
    if not scene.until(lambda: scene.tasks() <= before + SLACK):
        raise Failed(
            WORKERS_PILE_UP,
            f"there were {before} processes and threads; {count} clients came and went, and now "
            f"there are {scene.tasks()}",
        )
    # A stack and the page that guards it, of each; the heaps of threads are fewer.
    if not scene.until(lambda: scene.mappings() < mapped + count):
        raise Failed(
            NOT_JOINED,
            f"{count} clients came and went, and the processes and threads that served them; but "
            f"where {mapped} pieces of memory were mapped, it is {scene.mappings()} now",
        )


def limit(scene: Scene) -> None:
    """More clients at once than it may have processes and threads: all are served in the end."""
    if sandbox.user() is None:
        raise NotHere("only root can limit its processes apart from our own")
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    # Who is never answered must be told from who waits on a busy machine.
    scene.patience *= 3
    scene.gives_up = DIES_AT_LIMIT

    def one() -> str:
        with scene.client() as client:
            client.send(data[:-2])
            with suppress(BrokenBarrierError):
                all_there.wait(scene.patience)
            try:
                return str(client.ask(data[-2:]).status)
            except NoAnswer as error:
                return "dropped" if error.in_time else "late"
            except OSError:
                return "dropped"

    def accepted() -> None:
        """Who is not accepted yet would find the first ones gone."""
        scene.until(lambda: accept_queue(scene.address[1]) == 0, ACCEPTED_IN)

    all_there = Barrier(CROWD, accepted)
    came = scene.together([one] * CROWD)
    scene.alive()
    if came.count("200") < CROWD:
        raise Failed(
            DIES_AT_LIMIT,
            f"{CROWD} clients came at once where {FEW_TASKS} processes and threads are allowed; "
            f"{came.count('dropped')} of them were dropped, {came.count('late')} had to wait for "
            "longer than they did",
        )


LEAVES_NOTHING = Stage(
    "leaves-nothing",
    "It leaves nothing behind, and lives within limits",
    (
        Trial("descriptors", 6, descriptors),
        Trial("processes and threads", 5, processes),
        Trial("at the limit", 4, limit, limits=Limits(tasks=FEW_TASKS, others=0)),
    ),
)
