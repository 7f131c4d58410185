# SPDX-License-Identifier: MIT
"""More clients than the server may have processes, threads or descriptors."""

import time
from contextlib import ExitStack, suppress
from threading import Barrier, BrokenBarrierError

from bench.grade import sandbox
from bench.grade.check import Trial
from bench.grade.faults import CRASH, DIES_AT_LIMIT, SPINS
from bench.grade.sandbox import Limits
from bench.grade.scene import BUSY_SHARE, CLOSE, Scene
from bench.grade.stage import Failed, NotHere
from bench.host.sockets import accept_queue
from bench.load.client import NoAnswer, request

FEW_TASKS = 40
"""The limit of processes and threads: more than the workers, fewer than the clients."""
FEW_DESCRIPTORS, HALVES = 100, 140
CROWD = 70
ACCEPTED_IN = 1.0
"""The time in seconds for a server to accept the crowd, or as many as it can."""


def limit(scene: Scene) -> None:
    """More clients at once than processes and threads are allowed: all are served in the end."""
    if sandbox.user() is None:
        raise NotHere("only root can limit the server's processes without limiting the grader's")
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    # The longer timeout separates a client without a response from a slow response.
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
            DIES_AT_LIMIT,
            f"{CROWD} clients came at once, and {FEW_TASKS} processes and threads are allowed; "
            f"{came.count('dropped')} clients were disconnected, and {came.count('late')} got no "
            f"response within {scene.patience:.0f} s",
        )
    few = f"{CROWD} clients came at once, and few processes and threads were allowed"
    if max(shares) > BUSY_SHARE:
        raise Failed(
            SPINS,
            f"{few}; while some clients waited, one thread ran or waited for a CPU for "
            f"{max(shares):.0%} of the time",
            sure=False,
        )
    scene.require_end(f"{few}; all were served")
    if (ended := scene.stop()) and ended.status != 0:
        raise Failed(CRASH, f"{few}; after SIGTERM the server {ended.describe()}")


def descriptor_limit(scene: Scene) -> None:
    """More clients than descriptors are allowed, each with half a request: the server waits without
    using the CPU, and answers all of them when they send the rest, one after another."""
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    scene.gives_up = DIES_AT_LIMIT
    seen = f"{HALVES} clients sent half a request, and {FEW_DESCRIPTORS} descriptors were allowed"
    with ExitStack() as stack:
        clients = [stack.enter_context(scene.client()) for _ in range(HALVES)]
        for client in clients:
            client.send(data[:-2])
        scene.watch.sleep(ACCEPTED_IN)
        share = scene.busy_share(ACCEPTED_IN / 2)
        scene.alive()
        if share > BUSY_SHARE:
            raise Failed(
                SPINS, f"{seen}; one thread ran or waited for a CPU for {share:.0%} of the time"
            )
        for number, client in enumerate(clients, 1):
            with scene.unanswered(
                DIES_AT_LIMIT,
                f"{seen}; then each sent the rest and left, and number {number} got no response",
                client.port,
            ):
                answer = scene.talk(client, data[-2:])
            if answer.status != 503:  # the file needs a descriptor, too
                scene.same(answer, path)
            client.close()
    scene.file(path)


AT_LIMITS = (
    Trial("at the limit of processes", 3, limit, limits=Limits(tasks=FEW_TASKS, others=0)),
    Trial(
        *("at the limit of descriptors", 1, descriptor_limit),
        limits=Limits(descriptors=FEW_DESCRIPTORS),
    ),
)
