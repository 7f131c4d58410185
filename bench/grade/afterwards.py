# SPDX-License-Identifier: MIT
"""The state that a server must have again after each check, when its clients have left: nothing is
leaked, all workers serve, and the server ends by itself."""

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import cycle, islice

from bench.grade.building import Expected
from bench.grade.inspection import can_look, redis_connections, useless_descriptors
from bench.grade.scene import CLOSE, IDLE_END_SECONDS, WORKERS, Scene
from bench.grade.stage import Failed
from bench.load.client import request

SLACK = 4
"""The allowance for clients that are just leaving, and for workers."""
QUIET_SECONDS, RETRY_SECONDS = 0.06, 3.0
"""How long the server must sleep, and how soon it must use Redis again after a failure."""


def require_closed(
    scene: Scene, seen: str, which: str = "without a client", most: int = SLACK
) -> None:
    """Raise Failed if more than `most` useless descriptors stay open; `seen`: what has happened."""
    if not scene.until(lambda: useless_descriptors(scene) <= most):
        scene.alive()
        left = f"{useless_descriptors(scene)} descriptors {which} are still open"
        raise Failed("descriptor-leak", f"{seen}; {left}")


def require_reaped(scene: Scene, seen: str) -> None:
    """Raise Failed if the server has zombies; `seen`: what has happened."""
    if not scene.until(lambda: not scene.zombies()):
        left = (
            f"{len(scene.zombies())} ended child processes are still in the process table (state Z)"
        )
        raise Failed("zombies", f"{seen}; {left}")


def require_restored(scene: Scene, tasks: int, had_pages: bool) -> bool:
    """Raise Failed unless the server is in the state from before the check, and ends after Ctrl-C.
    `tasks`: its processes and threads before; `had_pages`: whether it has ever served a page with
    data from Redis. Return whether it serves such pages."""
    pages = had_pages
    seen = "all clients of this check had left"
    if scene.ended is None and not scene.told:
        if can_look(scene):
            # Sockets that a Redis has reset when it was killed may stay open until they are used.
            require_closed(scene, seen, most=scene.killed)
            require_reaped(scene, seen)
        if not scene.until(lambda: scene.tasks() >= tasks):
            fewer = f"of {tasks} processes and threads {scene.tasks()} were left"
            raise Failed("workers-end", f"{seen}; {fewer}", sure=False)
        shown = scene.until(lambda: scene.get("/guestbook").status == 200, RETRY_SECONDS)
        pages = shown or had_pages
        # A slow Redis would take too long.
        paths = ["/guestbook"] if pages and not scene.redis_url else []
        require_capacity(scene, seen, [*paths, *scene.site.small])
        scene.require_sleep(QUIET_SECONDS, seen)
        scene.interrupt()
    if scene.ended is None and not scene.end_by_itself(IDLE_END_SECONDS):
        late = f"{IDLE_END_SECONDS:.0f} s after the signal to end the server still runs"
        raise Failed("deaf", f"{seen}; {late}", sure=False)
    ended = scene.stop()
    if ended is None or ended.status != 0:
        how = ended.describe() if ended else "did not end"
        raise Failed("bad-status", f"{seen}; after the signal to end it {how}")
    counted = ended.statistics.requests if ended.statistics else None
    if (counted or 0) + SLACK < len(scene.answered):
        raise Failed(
            "miscounts",
            f"clients got {len(scene.answered)} responses; its statistics at the end counted "
            f"{counted}",
        )
    return pages


def require_capacity(scene: Scene, seen: str, paths: Iterable[str]) -> None:
    """As many clients as workers send half a request each, and the last one sends its rest first:
    it is served only if all workers serve."""
    several = scene.stalled_by != "one"
    with ExitStack() as stack:
        held = []
        for path in islice(cycle(paths), WORKERS if several else 1):
            client = stack.enter_context(scene.client())
            client.send(request("GET", path, CLOSE)[:-2])
            held.append((client, path))
        for number, (client, path) in enumerate(reversed(held), 1):
            what = f"{seen}; then {len(held)} clients sent half a request each; number {number}"
            with scene.unanswered("workers-stuck", what, client.port, sure=False):
                answer = scene.talk(client, b"\r\n")
            client.close()
            if answer.status != 200 and path == "/guestbook":
                lent = redis_connections(scene)
                raise Failed(
                    "redis-leak" if lent >= WORKERS else "redis-not-back",
                    f"{seen}; {path} was answered {answer.status}, with {lent} Redis connections",
                    client.port,
                    sure=False,
                )
            scene.require(Expected(path, b"", 200, scene.site.small.get(path)), answer)
