# SPDX-License-Identifier: MIT
"""Fixtures of the robustness tests, with a real Redis and real servers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.load.client import Client, request
from bench.load.crowd import FORM, Page
from bench.records.environment import Placement
from bench.records.torture import CrowdTally, Ending, Phase, Record, Remarks, TortureCell
from bench.services.redis_server import PrivateRedis
from bench.subjects.subject import Subject, select
from bench.torture.attacks import ATTACKS, AttackScene
from bench.torture.ground import KEPT, Ground

from ..whole_sweep import SECONDS

NOWHERE = Placement(server=[], load=[], note="")


def subject(name: str) -> Subject:
    """Return a server of the project; skip the test if it is not built."""
    if not (ROOT / name).exists():
        pytest.skip(f"{name} is not built")
    return select([name])[0]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """Yield a Ground with one Redis for all tests of a file."""
    watch = SignalWatch()
    with PrivateRedis([], watch, KEPT) as redis:
        yield Ground(redis, NOWHERE, watch)


@pytest.fixture
def scene(ground: Ground) -> Iterator[Callable[..., AttackScene]]:
    """Yield a function that starts a server for an attack; all servers end with the test."""
    with ExitStack() as made:

        def start(name: str, attack: str = "flood") -> AttackScene:
            ground.redis.prepare()
            return made.enter_context(AttackScene(subject(name), ATTACKS[attack], ground))

        yield start


def status(of: AttackScene, path: str, form: str = "") -> int:
    wanted = Page("", path).request()
    if form:
        wanted = request(
            "POST", path, "Connection: close", f"Content-Type: {FORM}", body=form.encode()
        )
    with Client((of.host, of.port), SECONDS) as client:
        return client.ask(wanted).status


def sign(of: AttackScene, remark: str) -> int:
    return status(of, "/guestbook", f"guest-name=Ann&guest-remarks={remark}")


def phase(rate: float = 800.0, **outcomes: int) -> Phase:
    return Phase(seconds=0.4, rate=rate, outcomes=outcomes or {"good": round(rate * 0.4)})


def made_cell(
    subject: str = "epoll", attack: str = "connect-only", **fields: object
) -> TortureCell:
    """Return the result of a test without a fault, with these fields replaced."""
    usual: dict[str, object] = {
        "before": phase(),
        "during": phase(),
        "settling": phase(),
        "after": phase(),
        "back_after_s": 0.0,
        "wanted": 800.0,
        "course": [80] * 16,
        "attack_from_s": 0.4,
        "attack_to_s": 1.2,
        "remarks": Remarks(answered=100),
        "ended": [Ending(obeyed=True, well=True, words="ended with status 0")],
    }
    kind = "reference" if subject in ("nginx", "go") else "server"
    return TortureCell(subject=subject, kind=kind, attack=attack, **{**usual, **fields})  # type: ignore


def made_record(*cells: TortureCell) -> Record:
    subjects = list(dict.fromkeys(cell.subject for cell in cells))
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    return Record(
        state="complete",
        started="2026-02-03T04:05:06+00:00",  # type: ignore[arg-type]
        seconds=61.0,
        machine={"cpu_model": "A CPU", "cpus": 2, "kernel": "6.1"},
        settings={"attack_seconds": 0.8, "visitors": 16, "think_seconds": 0.02},
        subjects=subjects,
        attacks=[ATTACKS[name] for name in attacks],
        cells=list(cells),
    )


def eventful() -> Record:
    """Return a record with every kind of result."""
    lost = Remarks(answered=100, missing=3)
    crowd = CrowdTally(opened=40, answers={"good": 30, "failed": 10}, why={"failed": {"reset": 10}})
    return made_record(
        made_cell(),
        made_cell("iterative", during=phase(0.0, good=0)),
        made_cell("nginx", during=phase(500.0)),
        made_cell("epoll", "redis-killed", remarks=lost, after=phase(800.0, good=9, failed=1)),
        made_cell("iterative", "redis-killed", during=phase(300.0, good=90, unavailable=77)),
        TortureCell(
            subject="nginx", kind="reference", attack="redis-killed", reason="uses no Redis"
        ),
        made_cell("epoll", "sigterm", crowd=crowd, back_after_s=0.7),
        made_cell("iterative", "sigterm", before=phase(100.0)),
        TortureCell(
            subject="nginx", kind="reference", attack="sigterm", reached=False, reason="too late"
        ),
    )
