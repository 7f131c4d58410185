# SPDX-License-Identifier: MIT
"""Under load, beside the seven.

The load is made and judged as that of a sweep: by `bench.load.ab` and `bench.sweep.checks`. How the
server is started and what it has used is the examination's own. A station starts servers with all
our rights; here whoever is graded, and the seven beside him, run behind the fence, as nobody, and
are ended if they take too much (`Scene.guarded`). And a control group, by which a sweep knows what
the load alone has cost, is not to be had in every sandbox: so that points mean the same everywhere,
what is compared is the whole life of each.
"""

import shutil
import statistics
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from bench.grade.check import Stage, Trial
from bench.grade.faults import DEAR, FAILS_UNDER_LOAD
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
DEAR_RATIO = 3.0
"""So many times what the dearest of the seven needs for a request is too much, on any machine."""


def load(scene: Scene) -> str:
    """ab, and what a request costs, beside the seven."""
    cost = _loaded(scene)
    others = {}
    for name in discover(ROOT)[:7]:
        if (ROOT / name).exists():
            # A copy: its user may not come to where this project is, below /root say.
            server = server_subject(name, Path(shutil.copy(ROOT / name, scene.folder / name)))
            others[name] = _loaded(replace(scene, server=server, running=None, ended=None))
    place = 1 + sum(other < cost for other in others.values())
    dearest = max(others, key=lambda name: others[name])
    middle = statistics.median(others.values())
    told = (
        f"{cost:.0f} us of processor time a request: place {place} of {len(others) + 1}; the "
        f"median of the seven is {middle:.0f}, the dearest ({dearest}) {others[dearest]:.0f}"
    )
    if cost > DEAR_RATIO * others[dearest]:
        raise Failed(DEAR, told, sure=False)
    return told


def _loaded(scene: Scene) -> float:
    """What a request costs, in microseconds of processor time. Raises Failed where one fails."""
    scene.start()
    assert scene.running is not None
    path, content = next(iter(scene.site.small.items()))
    order = Load(f"{scene.running.url}{path[1:]}", REQUESTS, CLIENTS, AB_SECONDS)
    try:
        came = ab.run(order, (), scene.watch)
        scene.alive()
        _require_all(came, len(content))
        return _used(scene) / REQUESTS
    finally:
        scene.stop()


def _require_all(came: AbOutcome, length: int) -> None:
    """Raises Failed unless every request had its whole answer, with a body of that length."""
    seen = Evidence(
        asked=REQUESTS,
        timeout=AB_SECONDS,
        probe_status=HTTPStatus.OK,
        died="",
        stopped="",
        statistics=None,
        silent=True,  # what it says of itself is judged elsewhere
        ab=came,
        page_bytes=length,
    )
    if failure := first_failure(judge(seen)):
        asked = f"{REQUESTS} requests of {CLIENTS} clients at once"
        raise Failed(FAILS_UNDER_LOAD, f"{asked}: {failure.detail}")


def _used(scene: Scene) -> float:
    """Microseconds of all its processes from start to end, as the kernel has counted them for us,
    who bury it; not as it says itself."""
    before = rusage_of_buried()
    scene.end_by_itself(END_SECONDS)
    scene.stop()
    return (rusage_of_buried() - before).total


UNDER_LOAD = Stage(
    "load",
    "Under load, with the seven servers",
    (Trial("load", 10, load, starts_server=False, seconds=8),),
)
