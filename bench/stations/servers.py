# SPDX-License-Identifier: MIT
"""Start, observe and end the servers of one host during one run."""

import os
import shutil
import tempfile
from pathlib import Path

from bench.host.accounting import adopt_orphans, find_slicing, parent_of_groups, remove_stale_groups
from bench.host.kernel import difference
from bench.host.signals import SignalWatch
from bench.records.figures import Mode
from bench.stations import footprint, orders
from bench.stations.counting import what_it_wrote, what_was_counted
from bench.stations.sampling import Sampler, Tracer, why_no_perf
from bench.subjects.running import RunningServer
from bench.subjects.subject import PROFILE_FILE, Place, Subject


class Servers:
    """The servers of a run; `stop` ends them and their tracers."""

    def __init__(self, cpus: list[int], others: list[int], watch: SignalWatch) -> None:
        """`cpus`: each server is bound to one of them in turn, or may use `others`, too; without
        CPUs servers are not bound."""
        self._cpus, self._others, self._watch = cpus, others, watch
        self._all = [*cpus, *others]
        self._spread = 0
        """The number of CPUs that each running server may use; 0: one."""
        self._groups = parent_of_groups()
        if self._groups:
            remove_stale_groups(self._groups)
        else:
            adopt_orphans()
        self._slicing = find_slicing()
        self.slicing = self._slicing.how if self._slicing else ""
        """The method that gives a server a CPU quota, in words; empty: impossible."""
        self._running: list[RunningServer] = []
        self._folders: list[str] = []
        self._footprint: footprint.Footprint | None = None
        self._profiler: Tracer | Sampler | None = None
        self._profiled = False
        """Whether the servers profile themselves because perf is not available."""

    def start(self, subject: Subject, order: orders.ServerOrder, address: str) -> list[str]:
        """Start servers and return their URLs. Raises StartError, Interrupted or OSError."""
        everywhere = order.conditions.cores == "all"
        self._spread = len(self._all or os.sched_getaffinity(0)) if everywhere else 0
        sampled = order.conditions.mode == "sampled"
        self._profiled = sampled and subject.profiles_itself and bool(why_no_perf())
        for number in range(order.instances):
            self._folders.append(tempfile.mkdtemp(prefix="zerohttpd-subject-"))
            place = Place(
                redis_url=order.redis_url,
                folder=Path(self._folders[-1]),
                conditions=order.conditions,
                answer_bytes=order.answer_bytes,
                address=address,
                profile=self._profiled,
            )
            cpu = [self._cpus[number % len(self._cpus)]] if self._cpus else []
            if everywhere:
                cpu = self._all
            server = RunningServer(subject, place, cpu, self._watch, self._groups, self._slicing)
            self._running.append(server)
        return [server.url for server in self._running]

    def profile(self, mode: Mode) -> None:
        """Start to count their system calls or to sample their stacks, if the mode needs it. A host
        without servers has nothing to profile. Raises StartError."""
        if mode == "traced" and self._running:
            self._profiler = Tracer(self.pids(), self._watch)
        if mode == "sampled" and self._running and not self._profiled:
            theirs = [] if self._spread else self._cpus
            self._profiler = Sampler(self.pids(), theirs, self._others, self._watch)

    def begin(self) -> None:
        """Start to observe the servers immediately before the load."""
        if self._running:
            bound = [] if self._spread else self._cpus[: len(self._running)]
            self._footprint = footprint.Footprint(self._running, bound, self._spread)
            self._footprint.begin()

    def look(self) -> None:
        """Sample the servers during the load."""
        if self._footprint:
            self._footprint.look()

    def end(self, report: orders.Report) -> None:
        """Stop observing and store what the servers used under load. Servers that profile
        themselves are ended. Raises StartError."""
        watched, self._footprint = self._footprint, None
        report.servers = watched.end() if watched else None
        profiler, self._profiler = self._profiler, None
        if isinstance(profiler, Tracer):
            report.calls = profiler.stop()
        elif profiler:
            report.stacks = profiler.stop()
        elif self._profiled and self._running:
            for server in self._running:
                server.stop()
            report.stacks = what_it_wrote(Path(self._folders[0], PROFILE_FILE))

    def stop(self) -> orders.Stopped:
        """End all servers at the same time and return how they ended. May be called twice."""
        if self._profiler:
            self._profiler.close()
        self._profiler = self._footprint = None
        found = orders.Stopped()
        if self._running:
            before = footprint.lives_buried()
            for server in self._running[1:]:
                server.ask_to_stop()  # so that they all end at the same time
            found.servers = [server.stop() for server in self._running]
            found.life = difference(footprint.lives_buried(), before)
            self._running = []
            found.stacks = what_was_counted(Path(self._folders[0]))
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders = []
        return found

    def weigh(self) -> orders.Weight:
        """Return the present usage of all running servers."""
        return footprint.weigh(self.pids())

    def pids(self) -> list[int]:
        """Return the PIDs of all running servers."""
        return [pid for server in self._running for pid in server.pids()]
