# SPDX-License-Identifier: MIT
"""The servers of one host during one run: started, watched under load, and ended."""

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
    """None at first; `stop` ends them and whoever watches them."""

    def __init__(self, cpus: list[int], others: list[int], watch: SignalWatch) -> None:
        """They are bound to these CPUs, one after another, or may use the others, too; to none if
        there are none."""
        self._cpus, self._watch = cpus, watch
        self._all = [*cpus, *others]
        self._spread = 0
        """Over how many CPUs each of those that run may spread; 0: it has one."""
        self._groups = parent_of_groups()
        if self._groups:
            remove_stale_groups(self._groups)
        else:
            adopt_orphans()
        self._slicing = find_slicing()
        self.slicing = self._slicing.how if self._slicing else ""
        """How one can be given a slice of a core, in words; empty: it cannot."""
        self._running: list[RunningServer] = []
        self._folders: list[str] = []
        self._footprint: footprint.Footprint | None = None
        self._tracer: Tracer | None = None
        self._sampler: Sampler | None = None
        self._profiled = False
        """Whether they look at their stacks themselves, for want of perf."""

    def start(self, subject: Subject, order: orders.ServerOrder, address: str) -> list[str]:
        """As many as are ordered; the URLs of all. Raises StartError, Interrupted or OSError."""
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
        """The load is about to begin."""
        if self._running:
            bound = [] if self._spread else self._cpus[: len(self._running)]
            self._footprint = footprint.Footprint(self._running, bound, self._spread)
            self._footprint.begin()

    def look(self) -> None:
        """Called often while the load runs."""
        if self._footprint:
            self._footprint.look()

    def end(self) -> orders.ServersUse | None:
        """What they used under the load; None if there are none."""
        watched, self._footprint = self._footprint, None
        return watched.end() if watched else None

    def weigh(self) -> orders.Weight:
        """What they hold now."""
        return footprint.weigh(self.pids())

    def start_trace(self) -> None:
        """Count their system calls from now on. Raises StartError."""
        self._tracer = Tracer(self.pids(), self._watch)

    def stop_trace(self) -> orders.Calls:
        """And until now."""
        tracer, self._tracer = self._tracer, None
        return tracer.stop() if tracer else orders.Calls()

    def start_sampling(self, cpus: list[int]) -> None:
        """Look at their stacks from now on, on these CPUs. Raises StartError."""
        if self._profiled:
            return  # they do since their start
        theirs = [] if self._spread else self._cpus
        self._sampler = Sampler(self.pids(), theirs, cpus, self._watch)

    def stop_sampling(self) -> StackFigures:
        """And until now. Those that look at themselves say it when they end. Raises StartError."""
        if self._profiled:
            for server in self._running:
                server.stop()
            return what_it_wrote(Path(self._folders[0], PROFILE_FILE))
        sampler, self._sampler = self._sampler, None
        if sampler is None:
            raise StartError("nothing is being sampled")
        return sampler.stop()

    def stop(self) -> orders.Stopped:
        """End them all at the same time; how they ended. May be called twice."""
        self.stop_trace()
        if self._sampler:
            self._sampler.close()
            self._sampler = None
        self._footprint = None
        found = orders.Stopped()
        if self._running:
            before = footprint.lives_buried()
            for server in self._running[1:]:
                server.ask_to_stop()  # so that all of them take no longer than one
            found.servers = [server.stop() for server in self._running]
            found.life = footprint.lifetime_between(before, footprint.lives_buried())
            self._running = []
            found.stacks = what_was_counted(Path(self._folders[0]))
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders = []
        return found

    def pids(self) -> list[int]:
        """Of all that run."""
        return [pid for server in self._running for pid in server.pids()]
