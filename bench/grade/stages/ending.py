# SPDX-License-Identifier: MIT
"""The server ends correctly after SIGTERM."""

import contextlib
import time

from bench.grade.building import Expected
from bench.grade.scene import CLOSE, FORM, WORKERS, Scene
from bench.grade.stage import Failed
from bench.grade.stages.holding import SETTLE_SECONDS, Half, finish, hold, slowly
from bench.grade.stages.redis import redis_silent
from bench.grade.trying import Stage, Trial
from bench.host.process import StartError
from bench.load.client import request

HALVES = WORKERS - 4
"""Clients that have sent half a request. With four other clients they occupy all workers."""
WAITING = 6
END_SECONDS = 9.0
"""5 s for requests in flight (STOP_TIMEOUT in lib/config.h), and the rest for a busy machine."""


def finishes(scene: Scene) -> None:
    """Clients that are in the middle of a request or response at SIGTERM are served."""
    alone = scene.stalled_by == "one"
    path, content = scene.site.big
    one = scene.site.file(next(iter(scene.site.small)))
    with contextlib.ExitStack() as stack:
        more: list[Half] = []
        if not alone:
            reader = stack.enter_context(slowly(scene, path, CLOSE))
            more = [Half(reader, Expected(path, b"", 200, content), b"")]
            idle = stack.enter_context(scene.client())
            scene.talk(idle, request("GET", next(iter(scene.site.small))))
        held = hold(scene, stack, 1 if alone else HALVES)
        kept = None if alone else stack.enter_context(scene.client())
        if kept is not None:
            kept.send(one.data[:-2])
        if not alone:
            asking = stack.enter_context(scene.client())
            stack.enter_context(redis_silent(scene))
            asking.send(request("GET", "/guestbook", CLOSE))
            more.append(Half(asking, Expected("a page that waited for Redis", b"", 200), b""))
        scene.watch.sleep(SETTLE_SECONDS)
        scene.tell_to_stop()
        scene.watch.sleep(SETTLE_SECONDS)
        scene.redis.go_on()
        if kept is not None and not scene.talk(kept, one.data[-2:], fault="cuts-off").closes:
            seen = "a client had sent half a request when SIGTERM came"
            told = "its response did not say Connection: close"
            raise Failed("keeps-at-end", f"{seen}; {told}", kept.port)
        seen = f"{len(held)} clients had sent half a request when SIGTERM came"
        if not alone:
            seen += ", one was reading a large file slowly, and one waited for a page from Redis"
        finish(scene, [*held, *more], "cuts-off", seen, wrong="cuts-off")
        scene.require_end("all requests were answered, and only idle clients were left", sure=False)
    finishes_last(scene)


def finishes_last(scene: Scene) -> None:
    """At SIGTERM the only client waits for a page from Redis, and it is served."""
    again = scene.of(scene.server)
    seen = "the only client waited for a page from Redis when SIGTERM came"
    try:
        again.start()
        with again.client() as asking, redis_silent(again):
            asking.send(request("GET", "/guestbook", CLOSE))
            scene.watch.sleep(SETTLE_SECONDS)
            again.tell_to_stop()
            scene.watch.sleep(SETTLE_SECONDS)
            scene.redis.go_on()
            one = Half(asking, Expected("a page that waited for Redis", b"", 200), b"")
            finish(again, [one], "cuts-off", seen, wrong="cuts-off")
    finally:
        again.stop()


def waiting(scene: Scene) -> None:
    """Clients that connected and sent their requests before SIGTERM, but that the server has not
    accepted yet, are served; and a client whose request was incomplete then."""
    one = scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
    scene.ask(one.data)
    with contextlib.ExitStack() as stack:
        held = hold(scene, stack, 0 if scene.stalled_by == "one" else 1)
        with scene.suspended(scene.pids()):
            clients = [stack.enter_context(scene.client()) for _ in range(WAITING)]
            for client in clients:
                client.send(one.data)
            scene.tell_to_stop()
        scene.watch.sleep(SETTLE_SECONDS)
        finish(
            scene,
            [*(Half(client, one, b"") for client in clients), *held],
            "cuts-off",
            "a client had sent half a request; the server was stopped (SIGSTOP), "
            f"{WAITING} clients connected and sent requests, SIGTERM was sent, the server "
            "continued (SIGCONT), and the first client sent the rest",
            wrong="cuts-off",
        )


def ends(scene: Scene) -> None:
    """The server ends in time with all its processes and status 0, although clients are there."""
    scene.get("/guestbook")
    with contextlib.ExitStack() as stack:
        if scene.stalled_by != "one":
            hold(scene, stack, 1)  # the client of the first child
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", next(iter(scene.site.small))))
        hold(scene, stack, 1)
        if scene.stalled_by != "one":
            stack.enter_context(slowly(scene, scene.site.big[0]))
            body = stack.enter_context(scene.client())
            body.send(request("POST", "/guestbook", FORM, body=b"guest-name=")[:-5])
        scene.tell_to_stop()
        until = time.monotonic() + END_SECONDS
        while not scene.end_by_itself(min(1.0, until - time.monotonic())):
            if time.monotonic() >= until:
                raise Failed(
                    "deaf",
                    f"SIGTERM and more signals came; after {END_SECONDS:.0f} s it still runs",
                )
            scene.interrupt()  # an impatient user
    left = scene.left_behind()
    ended = scene.stop()
    if left:
        raise Failed("orphans", f"the first process ended; {len(left)} other processes still run")
    if ended is not None and ended.status != 0:
        raise Failed("bad-status", f"after SIGTERM it {ended.describe()}")
    starts_again(scene)


def starts_again(scene: Scene) -> None:
    """The server starts again on the port on which it has just served clients. If its first process
    is killed (SIGKILL), its other processes end, too."""
    again = scene.of(scene.server)
    try:
        again.start(("--port", str(scene.address[1])))
        again.get("/guestbook")
        again.kill([again.pid])
        again.told = True
        if not scene.until(lambda: not again.left_behind()):
            left = f"{len(again.left_behind())} other processes still run and may hold the port"
            raise Failed("orphans", f"the first process was killed (kill -9); {left}")
    except StartError as error:
        seen = f"the server ended, and was started again on its port at once: {error}"
        raise Failed("no-restart", seen) from error
    finally:
        again.stop()


ENDS = Stage(
    "ends",
    "Graceful shutdown",
    (
        Trial("requests in flight are served", 3, finishes),
        Trial("clients that wait are served", 2, waiting, seconds=1),
        Trial("it ends", 5, ends, seconds=6),
    ),
)
