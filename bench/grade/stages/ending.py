# SPDX-License-Identifier: MIT
"""The server ends correctly after SIGTERM."""

import contextlib

from bench.grade.check import Stage, Trial
from bench.grade.faults import BAD_STATUS, CUTS_OFF, DEAF, ORPHANS
from bench.grade.scene import CLOSE, IDLE_END_SECONDS, SMALL_BUFFER, WORKERS, Scene
from bench.grade.stage import Failed
from bench.grade.stages.holding import SETTLE_SECONDS, hold
from bench.load.client import Client, NoAnswer, request

HALVES = WORKERS - 3
"""With a client that is idle, another that reads and another that waits for Redis: the workers."""
WAITING = 6
END_SECONDS = 9.0
"""5 s for requests in flight (STOP_TIMEOUT in lib/config.h), and the rest for a busy machine."""


def finishes(scene: Scene) -> None:
    """Clients that are in the middle of a request or response at SIGTERM are served."""
    path = scene.dice.choice(list(scene.site.small))
    data = request("GET", path, CLOSE)
    cut = scene.dice.randint(5, len(data) - 3)
    alone = scene.stalled_by == "one"
    with contextlib.ExitStack() as stack:
        if not alone:
            reader = stack.enter_context(scene.client(SMALL_BUFFER))
            reader.send(request("GET", scene.site.big[0], CLOSE))
            idle = stack.enter_context(scene.client())
            scene.talk(idle, request("GET", path))
        clients = [stack.enter_context(scene.client()) for _ in range(1 if alone else HALVES)]
        for client in clients:
            client.send(data[:cut])
        if not alone:
            asking = stack.enter_context(scene.client())
            scene.redis.stop()
            stack.callback(scene.redis.go_on)
            asking.send(request("GET", "/guestbook", CLOSE))
        scene.watch.sleep(SETTLE_SECONDS)
        scene.tell_to_stop()
        scene.watch.sleep(SETTLE_SECONDS)
        scene.redis.go_on()
        answered = [_answers(client, data[cut:], scene.site.small[path]) for client in clients]
        if not all(answered):
            raise Failed(
                CUTS_OFF,
                f"the second halves of {len(clients)} requests for {path} came {SETTLE_SECONDS} s "
                f"after SIGTERM; {answered.count(False)} requests were not answered correctly",
                clients[answered.index(False)].port,
                sure=False,
            )
        if not alone and not _answers(reader, b"", scene.site.big[1]):
            raise Failed(
                CUTS_OFF,
                f"a client was reading {scene.site.big[0]} slowly when SIGTERM came, and did not "
                "get all of it",
                reader.port,
                sure=False,
            )
        if not alone and (status := scene.talk(asking, b"", fault=CUTS_OFF).status) != 200:
            raise Failed(
                CUTS_OFF,
                f"a page waited for Redis when SIGTERM came, and was answered {status}",
                asking.port,
                sure=False,
            )
        for client in (reader, asking, *clients) if not alone else clients:
            client.close()  # the server waits for this after its last response
        running = scene.running
        if running and not scene.until(lambda: not running.running(), IDLE_END_SECONDS):
            raise Failed(
                DEAF,
                f"after SIGTERM all requests were answered, and only idle clients were left; "
                f"{IDLE_END_SECONDS:.0f} s later the server still runs",
                sure=False,
            )


def waiting(scene: Scene) -> None:
    """Clients that connected and sent their requests before SIGTERM, but that the server has not
    accepted yet, are served; and a client whose request was incomplete then."""
    path = scene.dice.choice(list(scene.site.small))
    data = request("GET", path, CLOSE)
    scene.get(path)
    with contextlib.ExitStack() as stack:
        half = stack.enter_context(scene.client())
        if scene.stalled_by != "one":
            half.send(data[:-2])
        scene.watch.sleep(SETTLE_SECONDS)
        with scene.suspended(scene.pids()):
            clients = [stack.enter_context(scene.client()) for _ in range(WAITING)]
            for client in clients:
                client.send(data)
            scene.tell_to_stop()
        answered = [_answers(client, b"", scene.site.small[path]) for client in clients]
        if scene.stalled_by != "one":
            scene.watch.sleep(SETTLE_SECONDS)
            clients.append(half)
            answered.append(_answers(half, data[-2:], scene.site.small[path]))
    if not all(answered):
        raise Failed(
            CUTS_OFF,
            "a client had sent half a request; the server was stopped (SIGSTOP), "
            f"{WAITING} clients connected and sent requests, SIGTERM was sent, the server "
            "continued (SIGCONT), and the first client sent the rest; "
            f"{answered.count(False)} requests were not answered correctly",
            clients[answered.index(False)].port,
            sure=False,
        )


def _answers(client: Client, rest: bytes, content: bytes) -> bool:
    """Return whether the response to the rest of a request has this content."""
    try:
        return client.ask(rest).body == content
    except (NoAnswer, OSError):
        return False


def ends(scene: Scene) -> None:
    """The server ends in time with all its processes and status 0, although clients are there."""
    scene.get("/guestbook")
    with contextlib.ExitStack() as stack:
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", next(iter(scene.site.small))))
        hold(scene, stack, 1)
        if not scene.end_by_itself(END_SECONDS):
            raise Failed(DEAF, f"SIGTERM was sent; {END_SECONDS:.0f} s later the server still runs")
    left = scene.left_behind()
    ended = scene.stop()
    if left:
        raise Failed(ORPHANS, f"the first process ended; {len(left)} other processes still run")
    if ended is not None and ended.status != 0:
        raise Failed(BAD_STATUS, f"after SIGTERM it {ended.describe()}")


ENDS = Stage(
    "ends",
    "Graceful shutdown",
    (
        Trial("requests in flight are served", 3, finishes),
        Trial("clients that wait are served", 2, waiting, seconds=1),
        Trial("it ends", 5, ends, seconds=6),
    ),
)
