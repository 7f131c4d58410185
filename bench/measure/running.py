"""A subject that runs."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

from bench.host.accounting import CpuTime, parent_of_groups, rusage_of_buried
from bench.host.ports import free_port
from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.records.workloads import Workload
from bench.services.private_redis import RunRedis
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, Subject


class Bench:
    """What all runs share."""

    def __init__(
        self,
        redis: RunRedis,
        placement: Placement,
        watch: SignalWatch,
        say: Callable[[str], None],
    ) -> None:
        self.redis, self.placement, self.watch = redis, placement, watch
        self.say = say
        """Tells whoever watches what is being done."""
        self.groups = parent_of_groups()
        self._idle: dict[Subject, CpuTime] = {}

    @property
    def accounting(self) -> str:
        """How CPU time is measured, in words."""
        if self.groups:
            return "cpu.stat of a control group of the server's own, from warm-up to end of load"
        return "rusage of the server and its children at their end, minus a start without requests"

    def idle_cost(self, subject: Subject, workload: Workload) -> CpuTime:
        """Where there are no groups: what the subject uses to start and end. Measured once."""
        if subject not in self._idle:
            running = Running(subject, workload, self)
            running.stop()
            assert running.lifetime is not None
            self._idle[subject] = running.lifetime
        return self._idle[subject]


class Running:
    """A started subject. Use in a `with` block, or call `stop`."""

    def __init__(
        self,
        subject: Subject,
        workload: Workload,
        bench: Bench,
        keep_alive: bool = False,
        answer_bytes: int = 0,
    ) -> None:
        """Start it and wait until it listens; `answer_bytes` is for floors. Raises StartError,
        OSError or Interrupted."""
        self.subject, self.workload = subject, workload
        self.lifetime: CpuTime | None = None
        """After `stop`: all it used."""
        self._folder = Path(tempfile.mkdtemp(prefix="zerohttpd-measure-"))
        self._server: RunningServer | None = None
        place = Place(
            port=0 if subject.announces else free_port(),
            redis_url=bench.redis.url,
            folder=self._folder,
            keep_alive=keep_alive,
            answer_bytes=answer_bytes,
            workload=workload.name,
        )
        try:
            cpus = bench.placement.server
            self._server = RunningServer(subject, place, cpus, bench.watch, bench.groups)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def server(self) -> RunningServer:
        """The server itself."""
        assert self._server is not None
        return self._server

    @property
    def url(self) -> str:
        """The address of what it is asked for."""
        return urljoin(self.server.url, self.workload.path)

    @property
    def status(self) -> int:
        """That of all its answers. Floors answer 200 to everything."""
        return 200 if self.subject.kind == "floor" else self.workload.status or 200

    def stop(self) -> None:
        """End it by SIGTERM, by SIGKILL if it does not obey. May be called twice."""
        if self._server is not None and self.lifetime is None:
            before = rusage_of_buried()  # now: what ab used is buried already
            self._server.stop()
            self.lifetime = rusage_of_buried() - before
        shutil.rmtree(self._folder, ignore_errors=True)
