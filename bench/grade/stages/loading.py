# SPDX-License-Identifier: MIT
"""The server under load, compared with the seven servers, and with more clients than it may have
processes, threads or descriptors.

The load is generated and checked as in a sweep, by `bench.load.ab` and `bench.sweep.checks`. The
start of a server and the measurement of its CPU time differ. A sweep's agent starts servers with
full rights; here the graded server and the seven servers run in the sandbox (`Scene.guarded`). A
sweep reads the server's CPU time during the load from a cgroup, which not every sandbox allows.
Therefore the CPU time from start to end of each server is compared.
"""

import shutil
import statistics
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Barrier, BrokenBarrierError

from bench.grade import sandbox
from bench.grade.sandbox import Limits
from bench.grade.scene import BUSY_SHARE, CLOSE, Scene
from bench.grade.stage import Failed, NotHere
from bench.grade.trying import Stage, Trial
from bench.host.accounting import rusage_of_buried
from bench.host.project import ROOT
from bench.host.sockets import accept_queue
from bench.load.ab import AB
from bench.load.client import NoAnswer, request
from bench.load.outcome import Load, Outcome
from bench.subjects.subject import discover, server_subject
from bench.sweep.checks import Evidence, first_failure, judge

REQUESTS, CLIENTS = 1500, 30
AB_SECONDS = 12.0
END_SECONDS = 6.0
REPLACED_SECONDS = 1.0
"""The time in which a server replaces workers that have ended."""
DEAR_RATIO = 3.0
"""The limit: this many times the CPU time a request of the most expensive of the seven servers."""
FEW_TASKS = 40
"""The limit of processes and threads: more than the workers, fewer than the clients."""
CROWD = 70
ACCEPTED_IN = 1.0
"""The time in seconds for a server to accept the crowd, or as many as it can."""


def load(scene: Scene) -> str:
    """Run ab and compare the CPU time a request with the seven servers; return the result. The
    comparison comes before the time limit of ab: on a busy machine a server that uses much CPU
    time also exceeds the limit, and its CPU time is the cause."""
    cost, late = _loaded(scene)
    others = {}
    for name in discover(ROOT)[:7]:
        if (ROOT / name).exists():
            # A copy, because the server's user may have no access to this project's folder.
            server = server_subject(name, Path(shutil.copy(ROOT / name, scene.folder / name)))
            others[name], _ = _loaded(scene.of(server))
    place = 1 + sum(other < cost for other in others.values())
    dearest = max(others, key=lambda name: others[name])
    middle = statistics.median(others.values())
    told = (
        f"{cost:.0f} us of CPU time a request: place {place} of {len(others) + 1}; median of the "
        f"seven servers: {middle:.0f} us; most expensive: {dearest} with {others[dearest]:.0f} us"
    )
    if cost > DEAR_RATIO * others[dearest]:
        raise Failed("dear", told, sure=False)
    if late:
        raise late
    return told


def _loaded(scene: Scene) -> tuple[float, Failed | None]:
    """Return the CPU time a request in microseconds, and a failure if ab reached its time limit
    although each response was right. Raises Failed if a request fails."""
    scene.start()
    assert scene.running is not None
    path, content = next(iter(scene.site.small.items()))
    order = Load(f"{scene.running.url}{path[1:]}", REQUESTS, CLIENTS, AB_SECONDS)
    before = scene.tasks()
    try:
        came = AB.run(order, (), scene.watch)
        scene.alive()
        failure, answered = _failure(came, len(content))
        if failure and not answered:
            raise failure
        if not scene.until(lambda: scene.tasks() >= before, REPLACED_SECONDS):
            raise Failed(
                "workers-end",
                f"before {REQUESTS} requests from {CLIENTS} concurrent clients the server had "
                f"{before} processes and threads, afterwards {scene.tasks()}",
            )
        # From the kernel (getrusage(2)), not from the server's own output.
        used = rusage_of_buried().total
        scene.end_by_itself(END_SECONDS)
        ended = scene.stop()
        counted = ended and ended.statistics and ended.statistics.requests
        if counted not in (None, REQUESTS) and failure is None:
            seen = f"{REQUESTS} requests from {CLIENTS} concurrent clients were answered"
            raise Failed("miscounts", f"{seen}; its statistics at the end counted {counted}")
        took = rusage_of_buried().total - used
        return took / (answered or REQUESTS), failure
    finally:
        scene.stop()


def _failure(came: Outcome, length: int) -> tuple[Failed | None, int]:
    """Return a failure unless every request got a complete response with a body of this length.
    If only the time limit was reached, return also the number of requests that were answered."""
    seen = Evidence(
        asked=REQUESTS,
        timeout=AB_SECONDS,
        probe_status=HTTPStatus.OK,
        died="",
        stopped="",
        statistics=None,
        silent=True,  # other checks judge the server's own statistics
        load=came,
        page_bytes=length,
    )
    checks = judge(seen)
    failure = first_failure(checks)
    if failure is None:
        return None, 0
    asked = f"{REQUESTS} requests from {CLIENTS} concurrent clients"
    some_failed = any(check.name == "none failed" and not check.holds for check in checks)
    only_late = came.timed_out and came.figures and not some_failed
    answered = came.completed if only_late else 0
    return Failed("fails-under-load", f"{asked}: {failure.detail}"), answered or 0


def limit(scene: Scene) -> None:
    """More clients at once than processes and threads are allowed: all are served in the end."""
    if sandbox.user() is None:
        raise NotHere("only root can limit the server's processes without limiting the grader's")
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    # The longer timeout separates a client without a response from a slow response.
    scene.patience *= 3
    scene.gives_up = "dies-at-limit"

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
            "dies-at-limit",
            f"{CROWD} clients came at once, and {FEW_TASKS} processes and threads are allowed; "
            f"{came.count('dropped')} clients were disconnected, and {came.count('late')} got no "
            f"response within {scene.patience:.0f} s",
        )
    few = f"{CROWD} clients came at once, and few processes and threads were allowed"
    if max(shares) > BUSY_SHARE:
        raise Failed(
            "spins",
            f"{few}; while some clients waited, one thread ran or waited for a CPU for "
            f"{max(shares):.0%} of the time",
            sure=False,
        )


AT_PROCESS_LIMIT = Trial(
    "at the limit of processes", 3, limit, limits=Limits(tasks=FEW_TASKS, others=0)
)

UNDER_LOAD = Stage(
    "load",
    "Under load, compared with the seven servers",
    (Trial("load", 10, load, starts_server=False, seconds=8),),
)
