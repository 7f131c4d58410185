# SPDX-License-Identifier: MIT
"""Run nginx as a load balancer in front of one or more instances of a server.

Each run has its own configuration of nginx. nginx does not retry a request on another server, so
failures stay visible. If a server gives no response, nginx responds itself and logs this. The
number of these responses decides whether a run is valid.
"""

import contextlib
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import psutil
from jinja2 import StrictUndefined, Template
from pydantic import BaseModel, Field

from bench.host.accounting import CpuTime
from bench.host.kernel import demand_seconds, difference
from bench.host.process import (
    Child,
    SignalWatch,
    StartError,
    last_line,
    on_free_port,
    url_that_answers,
)
from bench.host.project import require


class BalancerOrder(BaseModel):
    """An order to start nginx in front of some servers."""

    servers: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+:[0-9]{1,5}$")]]
    """The host:port of each server, as in nginx' configuration."""
    keep: bool
    connections: int  # The maximum number of concurrent clients.


class BalancerUse(BaseModel):
    """The CPU time of all processes of nginx during the load."""

    cpu: CpuTime
    wanted_s: float | None
    """The seconds for which the busiest process of nginx ran or waited for a CPU."""


class BalancerEnd(BaseModel):
    """How nginx ended."""

    errors: int  # The number of requests to which nginx itself responded 502 or 504.
    last_error: str
    status: int | None


START_SECONDS = 10.0
STOP_SECONDS = 10.0
SPARE_DESCRIPTORS = 100

TEMPLATE = Template(
    Path(__file__).with_name("nginx.conf.j2").read_text(),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

Used = Mapping[int, tuple[CpuTime, float | None]]
"""For each process of nginx, by PID: its CPU time, and the seconds it ran or waited for a CPU."""


def used_between(before: Used, after: Used) -> BalancerUse:
    """Return the usage between two readings, without processes that started or ended meanwhile."""
    used = [difference(after[pid], before[pid]) for pid in before.keys() & after.keys()]
    cpu = CpuTime.of_all([each for each, _ in used]) or CpuTime(0.0, 0.0)
    waits = [wanted for _, wanted in used if wanted is not None]
    return BalancerUse(cpu=cpu, wanted_s=max(waits, default=None))


class Balancer:
    """A running nginx; the clients use `url`. End it with `stop`."""

    def __init__(
        self, order: BalancerOrder, address: str, cpus: Sequence[int], watch: SignalWatch
    ) -> None:
        """Start nginx and wait until it listens. Raises StartError, Interrupted or UserError."""
        program = require_nginx()
        self._folder = Path(tempfile.mkdtemp(prefix="zerohttpd-nginx-"))
        self._folder.chmod(0o755)  # if root starts nginx, the workers run as another user
        self._child: Child | None = None
        file, usable = self._folder / "nginx.conf", len(cpus) or len(os.sched_getaffinity(0))

        def start(port: int) -> str | None:
            if self._child:
                self._child.end()
            file.write_text(configuration(order, (address, port), self._folder, usable))
            # SIGTERM, not SIGKILL: the workers of a killed main process would not end.
            words = [program, "-p", str(self._folder), "-c", str(file)]
            child = self._child = Child(words, cpus, death_signal="TERM")
            return child.until(
                lambda: url_that_answers(address, port, child.running()), START_SECONDS, watch
            )

        with contextlib.ExitStack() as undo:
            undo.callback(self.stop)
            if not (url := on_free_port(address, start)):
                said = last_line(self._child.stderr) if self._child else ""
                raise StartError(f"nginx did not start: {said or 'no error message'}")
            self.url = url
            undo.pop_all()

    def use(self) -> Used:
        """Return the usage of all nginx processes so far, by PID."""
        assert self._child is not None
        found = {}
        with contextlib.suppress(psutil.Error):
            main = psutil.Process(self._child.pid)
            for process in (main, *main.children()):
                with contextlib.suppress(psutil.Error):  # the process has ended
                    spent = CpuTime(*(1e6 * seconds for seconds in process.cpu_times()[:2]))
                    found[process.pid] = (spent, demand_seconds(process.pid))
        return found

    def stop(self) -> BalancerEnd:
        """End nginx and return its errors."""
        status, errors, said = None, list[str](), ""
        if self._child is not None:
            self._child.end(STOP_SECONDS)
            status, errors = self._child.exit_status, self._child.stdout.splitlines()
            said = words_of(last_line(self._child.stderr))
        shutil.rmtree(self._folder, ignore_errors=True)
        last = said or (errors[-1] if errors else "")
        return BalancerEnd(errors=len(errors), last_error=last, status=status)


def require_nginx() -> str:
    """Return the path of nginx. Raise UserError if nginx is not installed."""
    return require("nginx", "bench")


def configuration(
    order: BalancerOrder,
    listen: tuple[str, int],
    folder: Path,
    cpus: int,
    descriptors: int | None = None,
) -> str:
    """Return nginx' configuration for `cpus` CPUs and `descriptors` descriptors in each process."""
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text: str = TEMPLATE.render(
        order=order,
        workers=workers_for(order.connections, cpus, descriptors),
        descriptors=descriptors,
        worker_connections=descriptors - SPARE_DESCRIPTORS,
        folder=folder,
        address=listen[0],
        port=listen[1],
    )
    return text


def workers_for(connections: int, cpus: int, descriptors: int) -> int:
    """Return the number of workers: one for each CPU, or more if they need more descriptors. Each
    connection needs two. A quarter is added: the kernel spreads connections only nearly evenly."""
    needed = 2 * connections * 5 // 4
    return max(cpus, -(-needed // max(1, descriptors - SPARE_DESCRIPTORS)))


def words_of(line: str) -> str:
    """Return the message in a line of nginx' error log, without time, process and request."""
    said = re.sub(r"^\S+ \S+ (\[\w+\]) \d+#\d+: (\*\d+ )?", r"\1 ", line)
    return said.partition(", client:")[0]
