# SPDX-License-Identifier: MIT
"""The end."""

import contextlib

from bench.grade.check import Stage, Trial
from bench.grade.faults import BAD_STATUS, CUTS_OFF, DEAF, ORPHANS
from bench.grade.scene import CLOSE, Scene
from bench.grade.stage import Failed
from bench.grade.stages.holding import SETTLE_SECONDS, hold
from bench.load.client import NoAnswer, request

END_SECONDS = 9.0
"""5 s are granted to requests in flight (STOP_TIMEOUT in lib/config.h), the rest to a busy
machine."""


def finishes(scene: Scene) -> None:
    """Who is half served when the signal comes is served."""
    path = scene.dice.choice(list(scene.site.small))
    data = request("GET", path, CLOSE)
    cut = scene.dice.randint(5, len(data) - 3)
    with scene.client() as client:
        client.send(data[:cut])
        scene.watch.sleep(SETTLE_SECONDS)
        scene.tell_to_stop()
        scene.watch.sleep(SETTLE_SECONDS)
        try:
            whole = client.ask(data[cut:]).body == scene.site.small[path]
        except (NoAnswer, OSError):
            whole = False
        if not whole:
            raise Failed(
                CUTS_OFF,
                f"the second half of a request for {path} came {SETTLE_SECONDS} s after SIGTERM, "
                "and was not answered",
                client.port,
                sure=False,
            )


def ends(scene: Scene) -> None:
    """It is gone in time, with all its processes and a good status, whoever is connected."""
    scene.get("/guestbook")
    with contextlib.ExitStack() as stack:
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", next(iter(scene.site.small))))
        hold(scene, stack, 1)
        if not scene.end_by_itself(END_SECONDS):
            raise Failed(
                DEAF, f"SIGTERM was sent; {END_SECONDS:.0f} s later the server is still there"
            )
    left = scene.left_behind()
    ended = scene.stop()
    if left:
        raise Failed(ORPHANS, f"the server has ended; {len(left)} of its processes have not")
    if ended is not None and ended.status != 0:
        raise Failed(BAD_STATUS, f"after SIGTERM it {ended.describe()}")


ENDS = Stage(
    "ends",
    "A graceful end",
    (
        Trial("whom it serves it serves", 5, finishes),
        Trial("it ends", 5, ends, seconds=6),
    ),
)
