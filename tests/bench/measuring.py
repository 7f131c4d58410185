# SPDX-License-Identifier: MIT
"""Run measurements of broken servers, for the tests."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.host.accounting import CpuTime
from bench.host.process import Child, SignalWatch
from bench.host.project import find_program
from bench.load.generators import OHA
from bench.records.conditions import Conditions, RunSpec
from bench.records.environment import Placement
from bench.records.figures import Kind, Run
from bench.stations.site import Site
from bench.subjects.running import RunningServer, url_in
from bench.subjects.subject import Place, Subject
from bench.sweep.cell import measure

from .whole_sweep import wait_for

SCRIPT = Path(__file__).parent / "broken_server.py"
REQUESTS = 600
TRIES = 10


class NoRedis:
    """A replacement for the Redis of a run, because the measured pages do not need Redis."""

    private = True
    url = "redis://127.0.0.1:1/0"

    def prepare(self) -> None:
        """Prepare nothing."""

    def counts(self) -> tuple[int, int]:
        """Return zero visits and zero remarks."""
        return 0, 0

    def use(self) -> CpuTime:
        return CpuTime(0.0, 0.0)


@contextmanager
def broken_server(mode: str) -> Iterator[str]:
    """Yield the URL of a running broken server."""
    child = Child([sys.executable, str(SCRIPT), mode, "0", NoRedis.url])
    try:
        yield wait_for(lambda: url_in(child.stdout), "the server printed no address")
    finally:
        child.end()


@contextmanager
def started(subject: Subject, cpus: Sequence[int] = (), **place: object) -> Iterator[RunningServer]:
    """Yield a running server, by default without Redis. Its folder is in the system's temporary
    folder, where Apache's workers can reach it."""
    with TemporaryDirectory(prefix="zerohttpd-subject-") as folder:
        known = {"redis_url": NoRedis.url, "folder": Path(folder)} | place
        server = RunningServer(subject, Place(**known), cpus, SignalWatch())  # type: ignore[arg-type]
        try:
            yield server
        finally:
            server.stop()


def broken(mode: str, kind: Kind = "reference") -> Subject:
    """Return a server with one fault, as a reference server or as one of the project's servers."""

    def command(place: Place) -> list[str]:
        return [sys.executable, str(SCRIPT), mode, str(place.port), place.redis_url]

    return Subject(name=mode, kind=kind, command=command)


def measured(fault: str, conditions: Conditions, timeout: float = 10.0) -> Run:
    """Return a run that had its full load. On a busy machine the load generator may have one or two
    requests under way instead of ten. Such a run fails, and is repeated; TRIES limits the runs."""
    for _ in range(TRIES):
        run = measured_of(broken(fault), conditions, timeout)
        if run.reason is None or run.reason.label != "too little load":
            break
    return run


def measured_of(
    subject: Subject, conditions: Conditions, timeout: float = 30.0, requests: int = REQUESTS
) -> Run:
    """Return a run of any server under test that needs no Redis."""
    if conditions.mode == "open" and OHA.version() is None:
        pytest.skip("oha is not installed")
    if conditions.mode == "closed" and shutil.which(conditions.generator) is None:
        pytest.skip(f"{conditions.generator} is not installed")
    if conditions.balancer != "none" and find_program("nginx") is None:
        pytest.skip("nginx is not installed")
    watch, spec = SignalWatch(), RunSpec(subject.name, conditions, 10, 1, requests, timeout)
    with closing(Site(watch, Placement(server=[], load=[], note=""))) as site:
        site.load.known[subject.name] = subject
        site.redis = NoRedis()  # type: ignore[assignment]
        run, _ = measure(subject, spec, site, {})
    return run
