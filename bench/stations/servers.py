# SPDX-License-Identifier: MIT
"""Start, observe and end the servers of one host during one run."""

import os
import shutil
import tempfile
from pathlib import Path

from bench.host.accounting import adopt_orphans, parent_of_groups, remove_stale_groups
from bench.host.process import StartError
from bench.host.signals import SignalWatch
from bench.host.slices import find_slicing
from bench.records.figures import StackFigures
from bench.stations import footprint, orders
from bench.stations.counting import what_it_wrote, what_was_counted
from bench.stations.sampling import Sampler, why_no_perf
from bench.stations.tracing import Tracer
from bench.subjects.running import RunningServer
from bench.subjects.subject import PROFILE_FILE, Place, Subject


class Servers:
    """The servers of a run; `stop` ends them and their tracers."""

    def __init__(self, cpus: list[int], others: list[int], watch: SignalWatch) -> None:
        """`cpus`: each server is bound to one of them in turn, or may use `others`, too; without
        CPUs servers are not bound."""
        self._cpus, self._watch = cpus, watch
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
        """How a server gets a CPU quota, in words; empty: impossible."""
        self._running: list[RunningServer] = []
        self._folders: list[str] = []
        self._footprint: footprint.Footprint | None = None
        self._tracer: Tracer | None = None
        self._sampler: Sampler | None = None
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

    def begin(self) -> None:
        """Start to observe the servers before the load."""
        if self._running:
            bound = [] if self._spread else self._cpus[: len(self._running)]
            self._footprint = footprint.Footprint(self._running, bound, self._spread)
            self._footprint.begin()

    def look(self) -> None:
        """Sample the servers during the load."""
        if self._footprint:
            self._footprint.look()

    def end(self) -> orders.ServersUse | None:
        """Return what the servers used under load; None if there are none."""
        watched, self._footprint = self._footprint, None
        return watched.end() if watched else None

    def weigh(self) -> orders.Weight:
        """Return what the servers use now."""
        return footprint.weigh(self.pids())

    def start_trace(self) -> None:
        """Start to count their system calls. Raises StartError."""
        self._tracer = Tracer(self.pids(), self._watch)

    def stop_trace(self) -> orders.Calls:
        """Stop tracing and return the counts."""
        tracer, self._tracer = self._tracer, None
        return tracer.stop() if tracer else orders.Calls()

    def start_sampling(self, cpus: list[int]) -> None:
        """Start to sample their stacks; perf runs on these CPUs. Raises StartError."""
        if self._profiled:
            return  # the servers have done so since their start
        theirs = [] if self._spread else self._cpus
        self._sampler = Sampler(self.pids(), theirs, cpus, self._watch)

    def stop_sampling(self) -> StackFigures:
        """Return the sampled stacks; end servers that profile themselves. Raises StartError."""
        if self._profiled:
            for server in self._running:
                server.stop()
            return what_it_wrote(Path(self._folders[0], PROFILE_FILE))
        sampler, self._sampler = self._sampler, None
        if sampler is None:
            raise StartError("nothing is being sampled")
        return sampler.stop()

    def stop(self) -> orders.Stopped:
        """End all servers at the same time and return how they ended. May be called twice."""
        self.stop_trace()
        if self._sampler:
            self._sampler.close()
            self._sampler = None
        self._footprint = None
        found = orders.Stopped()
        if self._running:
            before = footprint.lives_buried()
            for server in self._running[1:]:
                server.ask_to_stop()  # so that they all end at the same time
            found.servers = [server.stop() for server in self._running]
            found.life = footprint.lifetime_between(before, footprint.lives_buried())
            self._running = []
            found.stacks = what_was_counted(Path(self._folders[0]))
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders = []
        return found

    def pids(self) -> list[int]:
        """Return the PIDs of all running servers."""
        return [pid for server in self._running for pid in server.pids()]
