# SPDX-License-Identifier: MIT
"""Run a check once: start and trace the server, and name the cause of a failure."""

import contextlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import redis

from bench.grade.findings import (
    TRACE,
    CheckOutcome,
    Failed,
    FaultName,
    NotHere,
    excerpt,
    shorter,
)
from bench.grade.inspection import require_restored
from bench.grade.sandbox import REDIS_LIMITS, Limits
from bench.grade.scene import Scene
from bench.grade.server import ENDED_BY, LOOK_SECONDS
from bench.grade.threads import ASLEEP, kept_lock
from bench.host.process import SignalWatch, StartError
from bench.host.project import call_name
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.timeline.record import TRACED, Refused, require_tracing

DATABASE = 7
"""The number of the Redis database. A server that uses database 0 instead finds no data."""
STRACE = ("strace", "-f", "-DD", "-q", "-ttt", "-T", "-yy", "-s", "32")
CALLS_ONLY = ("--seccomp-bpf", "-e")
CLOSES_ONLY = (*CALLS_ONLY, "trace=close")
"""Options of strace for a check with `traced`. Every trace also has the ends of processes."""
_UNLISTED = re.compile(r".*system call +(\d+) is not in its list.*")
KILLED = r"\+\+\+ killed by SIG(?:ABRT|BUS|FPE|ILL|PIPE|SEGV).*"
"""Matches the trace line of a process that one of these signals killed (SIGSYS: a refused call)."""
ONLY_SLEEP = {"nanosleep", "clock_nanosleep", "sched_yield"}
"""Calls whose refusal cannot cause a failure; the report only mentions the refusal."""
LOCKS = re.compile(r"pthread_|sem_|futex|THREADED_CALLS")


@dataclass(frozen=True)
class Trial:
    """A check of one ability of a server."""

    name: str
    points: int
    run: Callable[[Scene], str | None]
    """Runs the check. Raises Failed or NotHere; may return a note for the report."""
    time_scale: int = 1
    """The divisor of the server's timeouts. On a busy machine a client may exceed such a timeout;
    therefore a check with a missing or wrong response is repeated."""
    gate: bool = False
    """Whether this check runs before all others. After some failures of this check, e.g. if no
    correct file came (`Scene.sent_file`), only `also_closed` checks run."""
    also_closed: bool = False
    """Whether the check runs even after a failed gate, to find the cause. Then a pass gives no
    points."""
    traced: bool = False
    """Whether strace records calls of close() and ends of processes even in the first attempt."""
    nohup: bool = False  # See `GradedServer.nohup`.
    injected: Sequence[str] = ()
    """Options of strace that make system calls fail: CALLS:error=NAME:when=WHICH (strace(1))."""
    starts_server: bool = True
    limits: Limits = field(default_factory=Limits)
    redis_delay_ms: float = 0  # The delay that is added to each reply of Redis.
    alone: bool = False
    """Whether the check runs alone, because it measures CPU time or changes a shared limit. If the
    grader has namespaces, other checks run at the same time, each with its own server and Redis."""
    seconds: float = 3
    """The usual duration without a fault. If less time is left, the check is not started."""

    def untried(self, note: str = "no program") -> CheckOutcome:
        """Return the result of a check that was not run. `note` is the reason."""
        return CheckOutcome(check=self.name, points=0, of=self.points, came="not tried", note=note)


class Attempt(NamedTuple):
    """The result of running a check once."""

    note: str = ""
    failed: Failed | None = None
    proof: Sequence[str] = ()  # Lines of the trace.
    not_here: str = ""  # The reason why this machine cannot run the check.


def own_redis(watch: SignalWatch) -> PrivateRedis:
    """Start and return a Redis for graded programs."""
    return PrivateRedis((), watch, REDIS_LIMITS, database=DATABASE)


def can_trace() -> bool:
    """Return whether strace works on this machine."""
    with contextlib.suppress(Refused):
        require_tracing((*STRACE, "--seccomp-bpf"))
        return True
    return False


@dataclass
class CheckRunner:
    """Runs checks, and stores facts about the server and this machine."""

    scene: Scene  # The scene that each attempt copies.
    seed: int
    can_trace: bool = field(default_factory=can_trace)
    served: bool = False  # Whether the server has printed its url at least once.
    sent_file: bool = False  # Whether a client received a correct file in a gate check that failed.
    took: list[tuple[float, Trial]] = field(default_factory=list)
    """The duration of each attempt in seconds, and its check."""
    _pages: bool = False  # Whether the server has served a page with data from Redis at least once.
    _waits_idle: bool = False
    """Whether threads wait for a lock even without clients, as for a lock around accept()."""
    _traces: Iterator[int] = field(default_factory=count)

    def attempt(self, check: Trial, again: bool, lane: int = 0) -> Attempt | None:
        """Run a check once. Return None if too little time is left, or if the check failed after
        the time limit. `lane`: see `GradedServer.lane`. Raises Interrupted, UserError."""
        if self.scene.left() < check.seconds:
            return None
        if check.injected and not self.can_trace:
            return Attempt(not_here="strace does not work here")
        trace, tracer = self._tracer(check, again)
        begun = time.monotonic()
        try:
            return Attempt(self._once(check, trace, tracer, lane) or "")
        except NotHere as reason:
            return Attempt(not_here=str(reason))
        except Failed as failed:
            if self.scene.left() <= 0:
                return None
            if check.time_scale > 1 and failed.fault in ("no-answer", "wrong-answer"):
                failed.sure = False
            if failed.is_cut and failed.fault in ("no-answer", "loses-pipelined"):
                failed.fault = "short-write"
            return Attempt("", failed, excerpt(trace, failed) if trace else ())
        finally:
            self.took.append((time.monotonic() - begun, check))
            if not lane:  # in a lane, this would also reap the children of other checks
                bury_orphans()

    def _tracer(self, check: Trial, again: bool) -> tuple[Path | None, Sequence[str]]:
        """Return the file of a check's trace and the command line that writes the trace; (None, ())
        without a trace. A repeated attempt is traced for a proof."""
        proves = again and check.starts_server
        if not (self.can_trace and (proves or check.traced or check.injected)):
            return None, ()
        file = self.scene.folder / f"{next(self._traces)}.trace"
        calls: Sequence[str] = ("-e", f"trace={TRACED}") if proves else CLOSES_ONLY
        if check.injected:
            failing = ",".join(one.partition(":")[0] for one in check.injected)
            calls = [*CALLS_ONLY, f"trace={failing}", *(f"--inject={x}" for x in check.injected)]
        return file, (*STRACE, *calls, "-o", str(file))

    @contextlib.contextmanager
    def _prepared(self, check: Trial, trace: Path | None, lane: int) -> Iterator[Scene]:
        """Yield the scene of a check, and stop its server afterwards."""
        with ExitStack() as stack:
            store, slow = self.scene.redis, None
            if lane:
                store = stack.enter_context(own_redis(self.scene.watch))
            if check.redis_delay_ms:
                # Replies in pieces reveal a server that takes the first piece for the whole reply.
                slow = SlowRedis(store.url, check.redis_delay_ms, (), self.scene.watch, split=True)
                stack.callback(slow.close)
            scene = replace(
                self.scene,
                redis=store,
                dice=random.Random(f"{self.seed} {check.name}"),
                trace=trace,
                limits=check.limits,
                nohup=check.nohup,
                slow=slow,
                redis_url=slow.url if slow else store.url,
                answered=[],
                lane=lane,
                stopping=RLock(),
            )
            stack.callback(scene.stop)
            stack.enter_context(scene.guarded())
            try:
                yield scene
            except Failed as failed:
                self.sent_file |= scene.sent_file
                failed.since, failed.redis_port = scene.ready, scene.redis_port
                raise

    def _once(
        self, check: Trial, trace: Path | None, tracer: Sequence[str], lane: int
    ) -> str | None:
        """Start the server, unless the check does this, and run the check once. Raises Failed,
        NotHere, Interrupted, UserError."""
        scaled = ("--time-scale", str(check.time_scale)) if check.time_scale > 1 else ()
        with self._prepared(check, trace, lane) as scene:
            passed = False
            try:
                scene.redis.prepare()
                if check.starts_server:
                    scene.start(scaled, tracer)
                    self.served = True
                tasks = scene.tasks()
                if check.gate:
                    scene.watch.sleep(5 * LOOK_SECONDS)  # until idle threads wait
                    self._waits_idle = bool(kept_lock(scene.pids()))
                note = check.run(scene)
                scene.require_own_program()
                if check.starts_server:
                    scene.alive(LOOK_SECONDS)
                    passed = True
                    if not check.gate:
                        self._pages = require_restored(scene, tasks, self._pages)
                return note
            except ConnectionError as error:
                scene.alive()
                broken = f"a client's connection broke: {error}"
                raise Failed("no-answer", broken, sure=False) from error
            except Failed as failed:
                failed.afterwards |= passed
                raise cause_of(failed, scene, self._waits_idle) from failed
            except StartError as error:
                fault = ENDED_BY.get(-(error.status or 0), "never-serves")
                raise Failed(fault, str(error), sure=False) from error
            except redis.RedisError as error:
                raise NotHere(f"the grader's Redis did not answer: {error}") from error


def cause_of(failed: Failed, scene: Scene, waits_idle: bool) -> Failed:
    """Return the failure, or a failure that names the cause, e.g. a kept lock or a crash.
    `waits_idle`: ignore kept locks, because threads of this server also wait without clients."""
    if failed.proof[1] or failed.fault == "by-nature":
        return failed
    if locked := () if waits_idle else failed.locked or kept_lock(scene.pids()):
        seen = f"{failed.seen}; threads of the server that wait for the same lock: {len(locked)}"
        return Failed("lock-kept", seen, proof=(ASLEEP, locked))
    refused = {call_name(int(found[1])): found[0] for found in _UNLISTED.finditer(scene.said())}
    if "futex" in refused and waits_for_redis(scene):
        seen = (
            f"{failed.seen}; the kernel refused futex(2) in a process without threads and locks. "
            "There, only redis_pool_borrow() makes this call, to wait for a returned connection"
        )
        return Failed("redis-leak", seen, proof=("standard error", [refused["futex"]]))
    unlisted = [name for name in refused if name not in ONLY_SLEEP]
    died = scene.traced(KILLED)
    # The C library ends the process with SIGABRT if a call that the library needs is refused.
    if died and not (unlisted and all("SIGABRT" in line for line in died)):
        how = ", ".join(sorted(set(re.findall(r"SIG\w+", " ".join(died)))))
        meanwhile = f"; meanwhile a process of the server was killed by {how}"
        seen = failed.seen + ("" if how in failed.seen else meanwhile)
        fault: FaultName = "sigpipe" if how == "SIGPIPE" else "crash"
        lines = [shorter(line, scene.ready, scene.redis_port) for line in died]  # one per thread
        return Failed(fault, seen, proof=(TRACE, lines))
    if unlisted:
        name = unlisted[0]
        seen = f"the server reported that the system call {name} is not in its list; {failed.seen}"
        return Failed("unlisted-call", seen, proof=("standard error", [refused[name]]))
    if refused:
        failed.seen += f" (the kernel also refused unlisted calls: {', '.join(refused)})"
    return failed


def waits_for_redis(scene: Scene) -> bool:
    """Return whether the server has no threads and no locks, so that futex waits only for Redis."""
    alone = 0 < scene.tasks() == len(scene.pids())
    return alone and scene.built is not None and not scene.built.mentions(LOCKS)


def bury_orphans() -> None:
    """Reap orphaned processes if this process is PID 1 of its namespace, because zombies count
    against the limit of processes."""
    with contextlib.suppress(ChildProcessError):
        while os.getpid() == 1 and os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
