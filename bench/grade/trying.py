# SPDX-License-Identifier: MIT
"""Checks and stages: run a check, repeat it after a failure, and trace it for a proof."""

import contextlib
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import redis

from bench.grade.findings import (
    FILE,
    OVER,
    TRACE,
    CheckOutcome,
    Failed,
    FaultName,
    NotHere,
    StageOutcome,
    excerpt,
    finding,
)
from bench.grade.inspection import busy_others, require_restored
from bench.grade.sandbox import REDIS_LIMITS, Limits, apart
from bench.grade.scene import BUSY_SHARE, ENDED_BY, LOOK_SECONDS, Scene
from bench.grade.threads import kept_lock
from bench.host.process import StartError
from bench.host.programs import call_name
from bench.host.signals import SignalWatch
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.timeline.record import TRACED, Refused, require_tracing

AT_ONCE = 8
"""The number of checks that run at the same time; together they use less than one CPU."""
SLOWER = 1.5
"""A server is too slow if its checks take this many times the usual time, and some checks are
beyond the time limit."""
LANES = 2
"""The number of lanes of a check: for the graded server, and for the reference server."""
DATABASE = 7
"""The number of the database in Redis: a server that ignores the number in its URL finds no
data."""
STRACE = ("strace", "-f", "-DD", "-q", "-ttt", "-T", "-yy", "-s", "32")
CALLS_ONLY = ("--seccomp-bpf", "-e")
CLOSES_ONLY = (*CALLS_ONLY, "trace=close")
"""Options of strace for a check with `traced`; process ends are in every trace."""
_UNLISTED = re.compile(r".*system call +(\d+) is not in its list.*")
KILLED = r"\+\+\+ killed by SIG(?:ABRT|BUS|FPE|ILL|PIPE|SEGV).*"
"""Ends by a signal, except SIGKILL, which the grader sends, and SIGSYS, which has its own fault."""
ONLY_SLEEP = {"nanosleep", "clock_nanosleep", "sched_yield"}
"""Refused calls that are not the cause of a failure; the report only mentions them."""
LOCKS = re.compile(r"pthread_|sem_|futex|THREADED_CALLS")
PROC = "/proc/PID/task/TID/syscall: thread, call"


@dataclass(frozen=True)
class Trial:
    """A check of one ability of a server."""

    name: str
    points: int
    run: Callable[[Scene], str | None]
    """Raises Failed; may return a note for the report."""
    options: tuple[str, ...] = ()
    """Additional options of the server's command line."""
    gate: bool = False
    """This check runs before all others. If it fails, the checks after it are not run."""
    also_closed: bool = False
    """The check runs even after a failed gate, to find the cause. If the check passes then, it
    gives no points."""
    traced: bool = False
    """strace records process ends and close(2) from the first attempt, if tracing is allowed."""
    nohup: bool = False
    """See `Scene.nohup`."""
    injected: Sequence[str] = ()
    """Options of strace that let system calls fail: CALLS:error=NAME:when=FIRST+STEP."""
    starts_server: bool = True
    limits: Limits = field(default_factory=Limits)
    redis_delay_ms: float = 0
    """The delay that is added to each reply of Redis."""
    alone: bool = False
    """The check runs alone: it measures CPU time, or changes a limit that others share. The first
    attempts of all other checks run at the same time, each with a server, a user and a Redis of its
    own."""
    seconds: float = 3
    """The usual duration without a fault. The check is not started if less time is left."""

    def untried(self, note: str = "no program") -> CheckOutcome:
        """Return the result of a check that was not run; `note`: the reason."""
        return CheckOutcome(check=self.name, points=0, of=self.points, came="not tried", note=note)


@dataclass(frozen=True)
class Stage:
    """A group of checks."""

    name: str
    title: str
    checks: Sequence[Trial]

    def outcome(self, checks: Iterable[CheckOutcome]) -> StageOutcome:
        """Return the result of the stage."""
        return StageOutcome(stage=self.name, title=self.title, checks=list(checks))


class Attempt(NamedTuple):
    """The result of running a check once."""

    note: str = ""
    failed: Failed | None = None
    proof: Sequence[str] = ()
    """Lines of the trace."""
    not_here: str = ""
    """The reason why this machine cannot run the check."""


@dataclass
class World:
    """The state that all checks of an examination share."""

    scene: Scene
    """The scene that each check copies."""
    seed: int
    can_trace: bool
    selected: Sequence[Stage] = ()
    """The stages that are reported."""
    _first: dict[Trial, Attempt | None] = field(default_factory=dict)
    """The first attempts of the checks that are run at the same time."""
    _early: dict[Trial, CheckOutcome] = field(default_factory=dict)
    """Outcomes of checks that are later in the report."""
    _traces: Iterator[int] = field(default_factory=count)
    _served: bool = False
    """Whether the server has printed its url at least once."""
    _pages: bool = False
    """Whether the server has served a page with data from Redis at least once."""
    _closed: str = ""
    """The reason why no further check runs; empty if further checks run."""
    _waits_idle: bool = False
    """Whether threads wait for a lock without clients, because a thread holds the lock in
    accept()."""
    others_busy: Callable[[], float] = field(default_factory=busy_others)
    """Returns the share of the CPUs' time that other programs have used."""
    _took: list[tuple[float, Trial]] = field(default_factory=list)
    """The seconds of each attempt."""
    _found: list[FaultName] = field(default_factory=list)
    """Names of the faults so far, without consequences."""

    def outcomes(self, stages: Sequence[Stage]) -> Iterator[StageOutcome]:
        """Run the checks of these stages; yield the outcomes of the selected stages. The gates of
        the other stages run without a report, because later checks need them."""
        for stage in stages:
            wanted = stage in self.selected
            came = [self.check(one) for one in stage.checks if wanted or one.gate]
            if wanted:
                yield stage.outcome(came)

    def check(self, check: Trial) -> CheckOutcome:
        """Return the outcome of a check. The first check after the gates starts all checks that can
        run at the same time."""
        if not (check.gate or self._first or self._closed) and apart():
            self._run_together()
        return self._early.pop(check, None) or self._outcome(check)

    def _run_together(self) -> None:
        """Make the first attempts of the checks that can run at the same time. Faults that may
        cause many others are judged first, so that the others count as consequences."""
        every = [one for stage in self.selected for one in stage.checks]
        together = [one for one in every if not (one.gate or one.alone)]
        longest_first = sorted(together, key=lambda one: -one.seconds)
        with ThreadPoolExecutor(AT_ONCE) as lanes:
            begun = {
                one: lanes.submit(self._attempt, one, again=False, lane=LANES * number)
                for number, one in enumerate(longest_first, 1)
            }
        self._first = {one: attempt.result() for one, attempt in begun.items()}
        bury_orphans()
        causes = [
            (first.failed.fault == "crash", one)  # other faults may explain a crash
            for one in together
            if (first := self._first[one]) and first.failed
            if FILE.breaks_service(first.failed.fault)
        ]
        for _, one in sorted(causes, key=itemgetter(0)):
            self._early[one] = self._outcome(one)

    def _outcome(self, check: Trial) -> CheckOutcome:
        """Run a check and return its outcome. After a failure the check is repeated, to exclude a
        busy machine as the cause and to trace a proof."""
        outcome = check.untried(self._closed)
        if self._closed and not (check.also_closed and self._served):
            return outcome
        first = self._first[check] if check in self._first else self._attempt(check, again=False)
        attempts = [first] if first else []
        while self._must_repeat(attempts):
            if not (further := self._attempt(check, again=True)):
                break
            attempts.append(further)
        failures = [one.failed for one in attempts if one.failed]
        too_late = len(attempts) == 1 and self._must_repeat(attempts)
        if too_late and not failures[0].sure and self._is_busy():
            outcome.note = f"{OVER}; first attempt on a busy machine: {failures[0].seen}"
            return outcome
        if reason := next((one.not_here for one in attempts if one.not_here), ""):
            outcome.note, outcome.of = reason, 0
            return outcome
        if not attempts:
            outcome.note = OVER
            usual = sum(one.seconds for _, one in self._took)
            was_quick = sum(took for took, _ in self._took) < SLOWER * usual
            if self._found or was_quick or self._is_busy():
                return outcome
            failures.append(self._too_slow())
        elif attempts[-1].failed is None and not (failures and failures[0].sure):
            return self._passed(outcome, attempts[-1].note, failures)
        proof = next((one.proof for one in reversed(attempts) if one.proof), ())
        return self._judged(outcome, check, failures, proof)

    def _attempt(self, check: Trial, again: bool, lane: int = 0) -> Attempt | None:
        """Run a check once. Return None if too little time is left, or if the time was over when
        the check failed. `lane`: see `Scene.lane`. Raises Interrupted, UserError."""
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
            # With --time-scale a client on a busy machine may be later than the server's timeout.
            if "--time-scale" in check.options and failed.fault in ("no-answer", "wrong-answer"):
                failed.sure = False
            return Attempt("", failed, excerpt(trace, failed) if trace else ())
        finally:
            self._took.append((time.monotonic() - begun, check))
            if not lane:  # in a lane, this would also reap the children of other checks
                bury_orphans()

    def _tracer(self, check: Trial, again: bool) -> tuple[Path | None, Sequence[str]]:
        """Return the file of a check's trace and the command line that writes the trace; (None, ())
        without a trace. At the second attempt the trace is a proof."""
        proves = again and check.starts_server
        if not (self.can_trace and (proves or check.traced or check.injected)):
            return None, ()
        file = self.scene.folder / f"{next(self._traces)}.trace"
        calls: Sequence[str] = ("-e", f"trace={TRACED}") if proves else CLOSES_ONLY
        if check.injected:
            failing = ",".join(one.partition(":")[0] for one in check.injected)
            calls = [*CALLS_ONLY, f"trace={failing}", *(f"--inject={x}" for x in check.injected)]
        return file, (*STRACE, *calls, "-o", str(file))

    def _too_slow(self) -> Failed:
        """Return "too-slow": the time for all checks is over, and no check has found a fault."""
        took, check = max(self._took, key=lambda one: one[0])
        return Failed(
            "too-slow",
            f"the longest check was `{check.name}`: {took:.0f} s (usually {check.seconds:.0f} s); "
            f"other programs used {self.others_busy():.0%} of this machine's CPUs meanwhile",
        )

    def _passed(self, outcome: CheckOutcome, note: str, failures: Sequence[Failed]) -> CheckOutcome:
        """Return the outcome of a check that has passed, perhaps after failures."""
        if self._closed:
            return outcome
        outcome.points, outcome.came, outcome.note = outcome.of, "right", note
        if failures:
            count = len(failures) + 1
            outcome.note = f"passed at attempt {count}; first attempt: {failures[0].seen}"
        return outcome

    def _judged(
        self, outcome: CheckOutcome, check: Trial, failures: Sequence[Failed], trace: Sequence[str]
    ) -> CheckOutcome:
        """Return the outcome of a failed check. It names the first failure with a proof other than
        the trace; if there is none, it names the first failure."""
        cause = next((one for one in failures if one.proof), failures[0])
        outcome.came = "failed"
        outcome.finding = finding(cause, trace)
        outcome.finding.follows = self._cause_of(cause)
        if cause.fault == "by-nature":
            outcome.came = "by nature"
        elif outcome.finding.follows:
            outcome.came, outcome.points = "follows", check.points
        else:
            self._found.append(cause.fault)
        if check.gate or (cause.fault == "never-serves" and not self._served):
            never = cause.fault == "never-serves"
            self._closed = "the server does not start" if never else "the server serves no file yet"
        return outcome

    def _cause_of(self, failed: Failed) -> str:
        """Return the name of the earlier fault that may be the cause, or an empty string."""
        if failed.afterwards and failed.fault in self._found:
            return failed.fault
        return next((n for n in self._found if FILE.may_cause(n, failed.fault)), "")

    def _must_repeat(self, attempts: Sequence[Attempt]) -> bool:
        """Return whether a check must be run again after these attempts. If both attempts failed
        on a busy machine, and other programs may be the cause, a third attempt decides."""
        failures = [one.failed for one in attempts if one.failed]
        if not failures or len(failures) < len(attempts) or self._is_plain(failures[-1]):
            return False
        doubtful = not any(one.sure for one in failures)
        return len(attempts) == 1 or (len(attempts) == 2 and doubtful and self._is_busy())

    def _is_busy(self) -> bool:
        """Return whether other programs have used so much CPU time that responses may be late."""
        return self.others_busy() > BUSY_SHARE

    def _is_plain(self, failed: Failed) -> bool:
        """Return whether a second attempt of the check is unnecessary, even for a proof."""
        if failed.fault == "never-serves":
            return not self._served
        if failed.proof and failed.sure:
            return True
        known = failed.fault in ("by-nature", *self._found)
        return known or bool(self._cause_of(failed))

    @contextlib.contextmanager
    def _prepared(self, check: Trial, trace: Path | None, lane: int) -> Iterator[Scene]:
        """Yield the scene of a check, and stop the server of the scene afterwards."""
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
                failed.since = scene.ready
                raise

    def _once(
        self, check: Trial, trace: Path | None, tracer: Sequence[str], lane: int
    ) -> str | None:
        """Start the server and run a check once. Raises Failed, Interrupted, UserError."""
        with self._prepared(check, trace, lane) as scene:
            try:
                scene.redis.prepare()
                if check.starts_server:
                    scene.start(check.options, tracer)
                    self._served = True
                tasks = scene.tasks()
                note = check.run(scene)
                if check.gate:
                    self._waits_idle = bool(kept_lock(scene.pids()))
                scene.require_own_program()
                if check.starts_server:
                    scene.alive(LOOK_SECONDS)
                    if not check.gate:
                        self._pages = restored(scene, tasks, self._pages)
                return note
            except ConnectionError as error:
                scene.alive()
                broken = f"a client's connection broke: {error}"
                raise Failed("no-answer", broken, sure=False) from error
            except Failed as failed:
                raise cause_of(failed, scene, self._waits_idle) from failed
            except StartError as error:
                fault = ENDED_BY.get(-(error.status or 0), "never-serves")
                raise Failed(fault, str(error), sure=False) from error
            except redis.RedisError as error:
                raise NotHere(f"the grader's Redis did not answer: {error}") from error


def restored(scene: Scene, tasks: int, had_pages: bool) -> bool:
    """Call `require_restored`, and set `afterwards` in its failure."""
    try:
        return require_restored(scene, tasks, had_pages)
    except Failed as failed:
        failed.afterwards = True
        raise


def own_redis(watch: SignalWatch) -> PrivateRedis:
    """Start and return a Redis for graded servers."""
    return PrivateRedis((), watch, REDIS_LIMITS, database=DATABASE)


def can_trace() -> bool:
    """Return whether strace works on this machine; otherwise no proof has a trace."""
    try:
        require_tracing((*STRACE, "--seccomp-bpf"))
    except Refused:
        return False
    return True


def cause_of(failed: Failed, scene: Scene, waits_idle: bool = False) -> Failed:
    """Return the failure, or a failure that names the cause: a kept lock, a refused call, a crash.
    `waits_idle`: ignore waiting for locks, because this server does so without clients, too."""
    if failed.proof or failed.fault == "by-nature":
        return failed
    if locked := () if waits_idle else failed.locked or kept_lock(scene.pids()):
        seen = f"{failed.seen}; {len(locked)} threads of the server wait for the same lock"
        return Failed("lock-kept", seen, proof=(PROC, locked))
    refused = {call_name(int(found[1])): found[0] for found in _UNLISTED.finditer(scene.said())}
    if "futex" in refused and waits_for_redis(scene):
        seen = (
            f"{failed.seen}; the kernel refused futex(2) to a process without threads and locks. "
            "Only redis_pool_borrow() makes this call then, to wait until a connection is returned"
        )
        return Failed("redis-leak", seen, proof=("standard error", [refused["futex"]]))
    unlisted = [name for name in refused if name not in ONLY_SLEEP]
    died = scene.traced(KILLED)
    # The C library ends the process with SIGABRT if a call that the library needs is refused.
    if died and not (unlisted and all("SIGABRT" in line for line in died)):
        how = ", ".join(sorted(set(re.findall(r"SIG\w+", " ".join(died)))))
        seen = f"{failed.seen}; {len(died)} processes of the server were killed by {how} meanwhile"
        fault: FaultName = "sigpipe" if how == "SIGPIPE" else "crash"
        return Failed(fault, seen, proof=(TRACE, died))
    if unlisted:
        name = unlisted[0]
        seen = f"the server reported that the system call {name} is not in its list; {failed}"
        return Failed("unlisted-call", seen, proof=("standard error", [refused[name]]))
    if refused:
        failed.seen += f" (the kernel also refused unlisted calls: {', '.join(refused)})"
    return failed


def waits_for_redis(scene: Scene) -> bool:
    """Return whether a futex(2) of the server must be a wait for a connection to Redis, because the
    server has no threads and no locks."""
    alone = 0 < scene.tasks() == len(scene.pids())
    return alone and scene.built is not None and not scene.built.mentions(LOCKS)


def bury_orphans() -> None:
    """Reap orphaned processes if this process is PID 1 of its namespace. Zombies would count
    against the limit of processes."""
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
