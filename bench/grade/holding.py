# SPDX-License-Identifier: MIT
"""Stage 3: some clients are silent, and the others are served."""

import time
from contextlib import ExitStack

from bench.grade.answering import SMALL_BUFFER
from bench.grade.faults import BY_NATURE, NO_PATIENCE, ONE_STOPS_ALL, SPINS
from bench.grade.scene import CLOSE, Scene
from bench.grade.stage import Check, Failed, Stage
from bench.load.client import Client, request

SETTLE_SECONDS = 0.3
TIME_SCALE = 10
"""With it who may take 10 s has 1."""
CUT_OFF_SECONDS = 7.0
WATCHED_SECONDS = 0.6
BUSY_SHARE = 0.5


def hold(scene: Scene, stack: ExitStack, count: int) -> list[Client]:
    """Clients that have sent half a request and say no more."""
    held = []
    for _ in range(count):
        client = stack.enter_context(scene.client())
        data = request("GET", scene.dice.choice(list(scene.site.small)), CLOSE)
        client.send(data[: scene.dice.randint(5, len(data) - 3)])
        held.append(client)
    scene.watch.sleep(SETTLE_SECONDS)  # so that they come first
    return held


def stand_still(scene: Scene, stack: ExitStack) -> Client:
    """A client that asks for the big file and takes nothing of it."""
    client = stack.enter_context(scene.client(SMALL_BUFFER))
    client.send(request("GET", scene.site.big[0], CLOSE))
    return client


def others(scene: Scene) -> str | None:
    """Files and pages for others, while some say nothing, and some take nothing."""
    silent, slow = scene.dice.randint(2, 5), scene.dice.randint(1, 3)
    paths = [*scene.site.small, "/guestbook"] * 2
    with ExitStack() as stack:
        held = [stand_still(scene, stack) for _ in range(slow)]
        held += hold(scene, stack, silent)
        begun = time.monotonic()
        try:
            scene.together([lambda path=path: scene.get(path) for path in paths])  # type: ignore[misc]
        except Failed as failed:
            scene.alive()
            nature = scene.stalled_by == "one"
            raise Failed(
                BY_NATURE if nature else ONE_STOPS_ALL,
                f"{silent} clients sent half a request, {slow} asked for a big file and read "
                f"nothing of it; of {len(paths)} others one had no answer within "
                f"{scene.patience:.0f} s",
                held[0].port,
                sure=nature,
            ) from failed
        return f"{silent + slow} silent, {len(paths)} served in {time.monotonic() - begun:.2f} s"


def cut_off(scene: Scene) -> str | None:
    """Who is silent for longer than its time is sent away."""
    with ExitStack() as stack:
        held = hold(scene, stack, 1)[0]
        begun = time.monotonic()
        if not held.ends(CUT_OFF_SECONDS):
            scene.alive()
            raise Failed(
                NO_PATIENCE,
                f"started with --time-scale {TIME_SCALE}, a request may take a second; a client "
                f"with half of one was still connected after {CUT_OFF_SECONDS:.0f}",
                held.port,
            )
        return f"sent away after {time.monotonic() - begun:.1f} s"


def sleeps(scene: Scene) -> str | None:
    """With silent and idle clients, it uses no processor."""
    with ExitStack() as stack:
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", next(iter(scene.site.small))))
        held = hold(scene, stack, scene.dice.randint(2, 4))
        before, begun = scene.demand_seconds(), time.monotonic()
        scene.watch.sleep(WATCHED_SECONDS)
        share = (scene.demand_seconds() - before) / (time.monotonic() - begun)
    scene.alive()
    if share > BUSY_SHARE:
        raise Failed(
            SPINS,
            f"all clients were silent for {WATCHED_SECONDS} s, and for {share:.0%} of that time one "
            "of its threads ran, or wanted to",
            held[0].port,
        )
    return None


SILENT = Stage(
    "silent",
    "One is silent, the others are served",
    (
        Check("others are served", 9, others),
        Check("who is silent is sent away", 4, cut_off, ("--time-scale", str(TIME_SCALE))),
        Check("it sleeps meanwhile", 2, sleeps, seconds=2),
    ),
)
