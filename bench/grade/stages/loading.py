# SPDX-License-Identifier: MIT
"""The server under load, compared with the seven servers.

The load is generated and checked as in a sweep, by `bench.load.ab` and `bench.sweep.checks`. The
start of a server and the measurement of its CPU time differ. A sweep's agent starts servers with
full rights; here the graded server and the seven servers run in the sandbox (`Scene.guarded`). A
sweep reads the server's CPU time during the load from a cgroup, which not every sandbox allows.
Therefore the CPU time from start to end of each server is compared.
"""

import shutil
import statistics
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from bench.grade.check import Stage, Trial
from bench.grade.faults import DEAR, FAILS_UNDER_LOAD, WORKERS_END
from bench.grade.scene import Scene
from bench.grade.stage import Failed
from bench.host.accounting import rusage_of_buried
from bench.host.project import ROOT
from bench.load import ab
from bench.load.ab import AbOutcome
from bench.load.outcome import Load
from bench.subjects.subject import discover, server_subject
from bench.sweep.checks import Evidence, first_failure, judge

REQUESTS, CLIENTS = 1500, 30
AB_SECONDS = 12.0
END_SECONDS = 6.0
REPLACED_SECONDS = 1.0
"""The time in which a server replaces workers that have ended."""
DEAR_RATIO = 3.0
"""The limit: this many times the CPU time a request of the most expensive of the seven servers."""


def load(scene: Scene) -> str:
    """Run ab and compare the CPU time a request with the seven servers; return the result."""
    cost = _loaded(scene)
    others = {}
    for name in discover(ROOT)[:7]:
        if (ROOT / name).exists():
            # A copy, because the server's user may have no access to this project's folder.
            server = server_subject(name, Path(shutil.copy(ROOT / name, scene.folder / name)))
            others[name] = _loaded(replace(scene, server=server, running=None, ended=None))
    place = 1 + sum(other < cost for other in others.values())
    dearest = max(others, key=lambda name: others[name])
    middle = statistics.median(others.values())
    told = (
        f"{cost:.0f} us of CPU time a request: place {place} of {len(others) + 1}; median of the "
        f"seven servers: {middle:.0f} us; most expensive: {dearest} with {others[dearest]:.0f} us"
    )
    if cost > DEAR_RATIO * others[dearest]:
        raise Failed(DEAR, told, sure=False)
    return told


def _loaded(scene: Scene) -> float:
    """Return the CPU time a request in microseconds. Raises Failed if a request fails."""
    scene.start()
    assert scene.running is not None
    path, content = next(iter(scene.site.small.items()))
    order = Load(f"{scene.running.url}{path[1:]}", REQUESTS, CLIENTS, AB_SECONDS)
    before = scene.tasks()
    try:
        came = ab.run(order, (), scene.watch)
        scene.alive()
        _require_all(came, len(content))
        if not scene.until(lambda: scene.tasks() >= before, REPLACED_SECONDS):
            raise Failed(
                WORKERS_END,
                f"before {REQUESTS} requests from {CLIENTS} concurrent clients the server had "
                f"{before} processes and threads, afterwards {scene.tasks()}",
            )
        return _used(scene) / REQUESTS
    finally:
        scene.stop()


def _require_all(came: AbOutcome, length: int) -> None:
    """Raise Failed unless every request got a complete response with a body of this length."""
    seen = Evidence(
        asked=REQUESTS,
        timeout=AB_SECONDS,
        probe_status=HTTPStatus.OK,
        died="",
        stopped="",
        statistics=None,
        silent=True,  # other checks judge the server's own statistics
        ab=came,
        page_bytes=length,
    )
    if failure := first_failure(judge(seen)):
        asked = f"{REQUESTS} requests from {CLIENTS} concurrent clients"
        raise Failed(FAILS_UNDER_LOAD, f"{asked}: {failure.detail}")


def _used(scene: Scene) -> float:
    """End the server; return the CPU time of all its processes in microseconds, from the kernel
    (getrusage(2)) and not from the server's own output."""
    before = rusage_of_buried()
    scene.end_by_itself(END_SECONDS)
    scene.stop()
    return (rusage_of_buried() - before).total


UNDER_LOAD = Stage(
    "load",
    "Under load, compared with the seven servers",
    (Trial("load", 10, load, starts_server=False, seconds=8),),
)
