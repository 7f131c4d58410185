# SPDX-License-Identifier: MIT
"""The server with more clients than it may have processes, threads or descriptors."""

import time
from contextlib import ExitStack, suppress
from http import HTTPStatus
from threading import Barrier, BrokenBarrierError

from bench.grade.sandbox import Limits, user
from bench.grade.scene import CLOSE, Scene
from bench.grade.stage import Failed, NotHere
from bench.grade.stages.holding import WATCHED_SECONDS, crowd
from bench.grade.trying import Trial
from bench.host.sockets import accept_queue
from bench.load.client import NoAnswer, request

FEW_TASKS = 40
"""The limit of processes and threads: more than the workers, fewer than the clients."""
CROWD = 70
ACCEPTED_IN = 1.0
"""The time in seconds for a server to accept the crowd, or as many as it can."""
FEW_DESCRIPTORS, MORE = 100, 140
"""The number of allowed descriptors, and that of clients."""
ACCEPTS = 150
"""More than the clients for which FEW_DESCRIPTORS suffice."""
STAY_SECONDS = 3.0
"""Less than the time for which a server keeps an idle connection (IDLE_TIMEOUT, lib/config.h)."""


def limit(scene: Scene) -> None:
    """More clients at once than processes and threads are allowed: all are served in the end."""
    if user() is None:
        raise NotHere("only root can limit the server's processes without limiting the grader's")
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    # The longer timeout separates a client without a response from a slow response.
    scene.timeout *= 3
    scene.gives_up = "dies-at-limit"

    def one() -> str:
        with scene.client() as client:
            client.send(data[:-2])
            with suppress(BrokenBarrierError):
                all_there.wait(scene.timeout)
            try:
                return str(client.ask(data[-2:]).status)
            except NoAnswer as error:
                return "dropped" if error.in_time else "late"
            except OSError:
                return "dropped"

    def accepted() -> None:
        """Wait until all are accepted: later ones would find free threads and processes."""
        before, begun = scene.demand_seconds(), time.monotonic()
        scene.until(lambda: accept_queue(scene.address[1]) == 0, ACCEPTED_IN)
        took = time.monotonic() - begun
        shares.append((scene.demand_seconds() - before) / took if took > ACCEPTED_IN / 2 else 0)

    shares = [0.0]
    all_there = Barrier(CROWD, accepted)
    came = scene.together([one] * CROWD)
    scene.alive()
    if came.count("200") < CROWD:
        raise Failed(
            "dies-at-limit",
            f"{CROWD} clients came at once, and {FEW_TASKS} processes and threads are allowed; "
            f"{came.count('dropped')} clients were disconnected, and {came.count('late')} got no "
            f"response within {scene.timeout:.0f} s",
        )
    few = f"{CROWD} clients came at once, and few processes and threads were allowed"
    if max(shares) > scene.most_share:
        raise Failed(
            "spins",
            f"{few}; while some clients waited, one thread ran or waited for a CPU for "
            f"{max(shares):.0%} of the time",
            sure=False,
        )


AT_PROCESS_LIMIT = Trial(
    "at the limit of processes", 3, limit, limits=Limits(tasks=FEW_TASKS, others=0), alone=True
)


def at_descriptor_limit(scene: Scene) -> None:
    """More clients than descriptors are allowed, each with half a request: the server waits without
    using the CPU, and answers all of them. A file needs a descriptor, too."""
    scene.gives_up = "dies-at-limit"
    crowd(scene, MORE, "dies-at-limit", WATCHED_SECONDS, HTTPStatus.SERVICE_UNAVAILABLE)
    scene.file(next(iter(scene.site.small)))
    # Only an event loop: a pool, which may also grow, keeps as many connections as it has workers.
    if scene.stalled_by == "none" and scene.tasks() == 1:
        stay(scene)


def stay(scene: Scene) -> None:
    """More clients than the server can have send a request each and stay: all are answered soon,
    because the server keeps no connection while others wait."""
    scene.timeout = STAY_SECONDS
    one = scene.site.file(next(iter(scene.site.small)))
    with ExitStack() as stack:
        held = [stack.enter_context(scene.client()) for _ in range(MORE)]
        for client in held:
            client.send(one.data)
        for number, client in enumerate(held, 1):
            seen = f"of {MORE} clients that sent a request and stayed, number {number} got no "
            seen += f"response within {STAY_SECONDS:.0f} s"
            with scene.unanswered("keeps-too-long", seen, client.port, sure=False):
                scene.talk(client, b"")


AT_DESCRIPTOR_LIMIT = Trial(
    *("at the limit of descriptors", 1, at_descriptor_limit),
    limits=Limits(descriptors=FEW_DESCRIPTORS),
)


def fruitless_accepts(scene: Scene) -> None:
    """Each second accept() returns EAGAIN, as after its receive timeout without a client. All
    processes go on, and each client is served."""
    seen = "each second call of accept() returned EAGAIN, as if no client had come for a while"
    before = set(scene.pids())
    with scene.unanswered("interrupted-call", seen, sure=False):
        for _ in range(ACCEPTS):
            scene.file(next(iter(scene.site.small)))
    if ended := before - set(scene.pids()):
        what = f"{len(ended)} of {len(before)} processes ended"
        raise Failed("interrupted-call", f"{seen}; {what}")


ACCEPT_WITHOUT_CLIENT = Trial(
    *("accept() without a client", 1, fruitless_accepts),
    limits=Limits(descriptors=FEW_DESCRIPTORS),
    injected=("accept,accept4:error=EAGAIN:when=2+2",),
)
