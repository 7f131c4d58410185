# SPDX-License-Identifier: MIT
"""Compare the server under load with the seven servers.

The load and its checks are as in a sweep, but the servers run in the sandbox, perhaps without
cgroups. Therefore the CPU times from each server's start to its end are compared.
"""

import statistics
from http import HTTPStatus

from bench.grade.findings import Failed
from bench.grade.scene import Scene
from bench.grade.stages.comparing import of_project
from bench.host.accounting import rusage_of_reaped
from bench.host.project import ROOT
from bench.load.generators import AB
from bench.load.running import Load, Outcome
from bench.subjects.subject import discover
from bench.sweep.checks import Asked, first_failure, load_checks

REQUESTS, CLIENTS = 1000, 30
ASKED = f"{REQUESTS} requests from {CLIENTS} concurrent clients"
AB_SECONDS = 12.0
DEAR_RATIO = 3.0
"""The limit of the CPU time per request, relative to the most expensive of the seven servers."""


def load(scene: Scene) -> str:
    """Run ab, compare the CPU time per request with the seven servers, and return the result. A
    high CPU time is reported first, because it may delay ab beyond its time limit."""
    cost, late = _loaded(scene)
    seven = [name for name in discover(ROOT)[:7] if (ROOT / name).exists()]
    others = {name: _loaded(of_project(scene, name))[0] for name in seven}
    rank = 1 + sum(other < cost for other in others.values())
    dearest = max(others, key=lambda name: others[name])
    middle = statistics.median(others.values())
    told = (
        f"{cost:.0f} us of CPU time per request: rank {rank} of {len(others) + 1}; median of the "
        f"seven servers: {middle:.0f} us; most expensive: {dearest} with {others[dearest]:.0f} us"
    )
    if cost > DEAR_RATIO * others[dearest]:
        raise Failed("dear", told, sure=cost > 2 * DEAR_RATIO * others[dearest])
    if late:
        raise late
    return told


def _loaded(scene: Scene) -> tuple[float, Failed | None]:
    """Return the CPU time per request in microseconds, and a failure if ab reached its time limit
    although each response was correct. Raises Failed if a request fails."""
    path, content = next(iter(scene.site.small.items()))
    with scene.started():
        assert scene.running is not None
        order = Load(f"{scene.running.url}{path[1:]}", REQUESTS, CLIENTS, AB_SECONDS)
        before = scene.tasks()
        came = AB.run(order, (), scene.watch)
        scene.alive()
        failure, answered = _failure(came, len(content))
        if failure and not answered:
            raise failure
        # A server has a second to replace workers that have ended.
        if not scene.until(lambda: scene.tasks() >= before, 1.0):
            had = f"the server had {before} processes and threads, afterwards {scene.tasks()}"
            raise Failed("workers-end", f"before {ASKED} {had}")
        # From the kernel (getrusage(2)), not from the server's output.
        used = rusage_of_reaped().total
        scene.end_by_itself(6.0)  # more than STOP_TIMEOUT (5 s)
        ended = scene.stop()
        took = rusage_of_reaped().total - used
    counted = ended and ended.statistics and ended.statistics.requests
    if counted not in (None, REQUESTS) and failure is None:
        told = f"the server's statistics at its end have {counted}"
        raise Failed("miscounts", f"{ASKED} were answered; {told}")
    return took / (answered or REQUESTS), failure


def _failure(came: Outcome, length: int) -> tuple[Failed | None, int]:
    """Return a failure unless every request got a complete response with a body of this length. If
    the time limit is the only failure, also return the number of answered requests, otherwise 0."""
    checks = list(load_checks(Asked(REQUESTS, AB_SECONDS, HTTPStatus.OK, length), came))
    failure = first_failure(checks)
    if failure is None:
        return None, 0
    some_failed = any(check.name == "none failed" and not check.holds for check in checks)
    only_late = came.timed_out and came.figures and not some_failed
    answered = came.completed if only_late else 0
    return Failed("fails-under-load", f"{ASKED}: {failure.detail}"), answered or 0
