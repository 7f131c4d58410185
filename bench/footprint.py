"""What a server uses under load: CPU time, context switches, memory, processes, descriptors.

CPU time is exact: of the server's own control group (see `bench.measure.accounting`), so that
processes that have ended are in it; where there is none, of its life as the kernel accounts it
when it is buried, divided by all requests of its life.

Context switches are counted by the kernel for each task. Where the same tasks are there before and
after the load their difference is exact. Where tasks come and go (a process or a thread for each
connection) only the sum over the server's life holds those of the ended ones.

Memory, processes and descriptors are looked at several times a second, as far as looking costs
little: it is done on the CPU of the load.
"""

import random
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.counters import CpuTicks, TcpCounters, cpu_ticks, tcp_counters
from bench.measure.accounting import CpuTime
from bench.measurement import ProcessFigures
from bench.server_process import RunningServer

LOOKS_PER_SECOND = 5
COST_OF_LOOKING = 0.04
"""At most this share of the time is spent on looking."""
MOST_LOOKED_AT = 64
"""Of more processes only so many, chosen by lot, are looked into; the sum is scaled up."""


class Switches(NamedTuple):
    """Context switches."""

    voluntary: int
    involuntary: int

    def __sub__(self, other: "Switches") -> "Switches":
        return Switches(self.voluntary - other.voluntary, self.involuntary - other.involuntary)


@dataclass(frozen=True)
class Look:
    """The server's processes at one moment."""

    processes: int
    threads: int
    descriptors: int
    pss_mb: float


@dataclass(frozen=True)
class _Moment:
    """What is read before and after the load."""

    cpu: CpuTime | None
    starved_us: float | None
    switches: dict[int, Switches]
    """By task."""
    tcp: TcpCounters | None
    ticks: CpuTicks


@dataclass(frozen=True)
class Lifetime:
    """What the kernel says of a buried server and all that it waited for."""

    cpu: CpuTime
    switches: Switches


class Footprint:
    """Watches one server during one load: begin, look (often), end; then `figures`."""

    def __init__(self, server: RunningServer, cpus: Sequence[int]) -> None:
        self._server, self._cpus = server, cpus
        self._looks: list[Look] = []
        self._next_look = 0.0

    def begin(self) -> None:
        """Immediately before the load."""
        self._before = self._moment()
        self._next_look = time.monotonic() + 0.1

    def look(self) -> None:
        """Look at memory, processes and descriptors, if it is time to."""
        now = time.monotonic()
        if now < self._next_look:
            return
        seen = look_at(self._server.pids())
        if seen.processes:
            self._looks.append(seen)
        cost = time.monotonic() - now
        self._next_look = now + max(1 / LOOKS_PER_SECOND, cost / COST_OF_LOOKING)

    def end(self) -> None:
        """After the load, when the last children have ended; the server still runs."""
        if not self._looks:
            self._next_look = 0.0
            self.look()
        self._after = self._moment()

    def busy(self) -> float | None:
        """How busy the server's CPUs were during the load, whoever kept them so."""
        return self._after.ticks.busy_since(self._before.ticks)

    def demand(self, seconds: float) -> float | None:
        """The share of the load's time in which the server ran or wanted to run. Where that is not
        known: in which its CPUs were busy, with whatever."""
        before, after = self._before, self._after
        if before.cpu is None or after.cpu is None:
            return self.busy()
        if before.starved_us is None or after.starved_us is None:
            return self.busy()
        spent = (after.cpu - before.cpu).total + after.starved_us - before.starved_us
        return min(1.0, spent / 1e6 / seconds)

    def figures(
        self, requests: int, all_requests: int, seconds: float, life: Lifetime
    ) -> ProcessFigures:
        """The figures; `requests` of the load, which took `seconds`, `all_requests` with those
        before it, `life` once the server is buried."""
        cpu, scope = self._cpu(requests, all_requests, life)
        switches, counted = self._switches(requests, all_requests, life)
        tcp = self._tcp()
        looks = self._looks
        share = cpu.total / 1e6 / seconds if seconds > 0 else None
        busy = self.busy()
        return ProcessFigures(
            cpu_user_s=round(cpu.user / 1e6, 6),
            cpu_system_s=round(cpu.system / 1e6, 6),
            cpu_us_per_request=round(cpu.total / requests, 3),
            cpu_user_us_per_request=round(cpu.user / requests, 3),
            cpu_system_us_per_request=round(cpu.system / requests, 3),
            cpu_share=None if share is None else round(share, 4),
            foreign_share=None
            if share is None or busy is None or not self._cpus
            else round(max(0.0, busy - share / len(self._cpus)), 4),
            voluntary_switches_per_request=round(switches[0], 4),
            involuntary_switches_per_request=round(switches[1], 4),
            pss_peak_mb=round(max(look.pss_mb for look in looks), 3) if looks else None,
            pss_mean_mb=round(sum(x.pss_mb for x in looks) / len(looks), 3) if looks else None,
            processes_peak=max((look.processes for look in looks), default=None),
            threads_peak=max((look.threads for look in looks), default=None),
            descriptors_peak=max((look.descriptors for look in looks), default=None),
            listen_overflows=tcp.listen_overflows if tcp else None,
            listen_drops=tcp.listen_drops if tcp else None,
            retransmits=tcp.retransmits if tcp else None,
            samples=len(looks),
            source=f"CPU: {scope}; switches: {counted}",
        )

    def _moment(self) -> _Moment:
        server = self._server
        return _Moment(
            server.cpu(),
            server.starved_us(),
            switches_of(server.pids()),
            tcp_counters(),
            cpu_ticks(self._cpus),
        )

    def _cpu(self, requests: int, all_requests: int, life: Lifetime) -> tuple[CpuTime, str]:
        if self._before.cpu and self._after.cpu:
            return self._after.cpu - self._before.cpu, "control group during the load"
        part = requests / all_requests
        return (
            CpuTime(life.cpu.user * part, life.cpu.system * part),
            "the server's life, over all its requests",
        )

    def _switches(
        self, requests: int, all_requests: int, life: Lifetime
    ) -> tuple[tuple[float, float], str]:
        before, after = self._before.switches, self._after.switches
        if before.keys() == after.keys():
            spent = [after[task] - before[task] for task in after]
            pair = sum(s.voluntary for s in spent), sum(s.involuntary for s in spent)
            return (pair[0] / requests, pair[1] / requests), "its tasks during the load"
        whole = life.switches
        return (
            (whole.voluntary / all_requests, whole.involuntary / all_requests),
            "the server's life, over all its requests",
        )

    def _tcp(self) -> TcpCounters | None:
        before, after = self._before.tcp, self._after.tcp
        return after - before if before and after else None


def look_at(pids: Sequence[int]) -> Look:
    """The processes as they are now; those that end meanwhile do not count."""
    chosen = pids if len(pids) <= MOST_LOOKED_AT else random.sample(pids, MOST_LOOKED_AT)
    found = [seen for pid in chosen if (seen := _process(Path("/proc", str(pid))))]
    scale = len(pids) / len(chosen) if chosen else 0
    return Look(
        processes=round(len(found) * scale),
        threads=round(sum(threads for threads, _, _ in found) * scale),
        descriptors=round(sum(descriptors for _, descriptors, _ in found) * scale),
        pss_mb=sum(pss for _, _, pss in found) * scale,
    )


def switches_of(pids: Sequence[int]) -> dict[int, Switches]:
    """Context switches of all tasks of some processes, by task."""
    found = {}
    for pid in pids:
        try:
            for task in Path("/proc", str(pid), "task").iterdir():
                found[int(task.name)] = _switches_in((task / "status").read_text())
        except OSError:
            continue  # it has ended
    return found


def rusage_of_buried() -> Lifetime:
    """What all children that were waited for so far have used, and those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Lifetime(
        CpuTime(used.ru_utime * 1e6, used.ru_stime * 1e6),
        Switches(used.ru_nvcsw, used.ru_nivcsw),
    )


def lifetime_between(before: Lifetime, after: Lifetime) -> Lifetime:
    """What was buried in between."""
    return Lifetime(after.cpu - before.cpu, after.switches - before.switches)


def _process(folder: Path) -> tuple[int, int, float] | None:
    """Threads, descriptors and PSS in megabytes; None if it has ended."""
    try:
        status = (folder / "status").read_text()
        descriptors = (folder / "fd").stat().st_size or len([*(folder / "fd").iterdir()])
        memory = (folder / "smaps_rollup").read_text()
    except OSError:
        return None
    pss = next((line for line in memory.splitlines() if line.startswith("Pss:")), None)
    if pss is None:
        return None
    return _field(status, "Threads"), descriptors, int(pss.split()[1]) * 1024 / 1e6


def _switches_in(status: str) -> Switches:
    return Switches(
        _field(status, "voluntary_ctxt_switches"), _field(status, "nonvoluntary_ctxt_switches")
    )


def _field(status: str, name: str) -> int:
    return next(
        (int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:")), 0
    )
