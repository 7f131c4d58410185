# SPDX-License-Identifier: MIT
"""Run a check, repeat it after a failure, and trace it for a proof."""

import contextlib
import os
import random
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import redis

from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    BY_NATURE,
    CRASH,
    FAULTS,
    LOCK_KEPT,
    NEVER_SERVES,
    NO_ANSWER,
    REDIS_LEAK,
    SIGPIPE,
    UNLISTED_CALL,
)
from bench.grade.proof import TRACE, excerpt, finding, shortened
from bench.grade.scene import ENDED_BY, LOOK_SECONDS, Scene
from bench.grade.stage import OVER, CheckOutcome, Failed, NotHere
from bench.grade.waiting import call_name, kept_lock
from bench.host.process import StartError
from bench.services.redis_server import SlowRedis
from bench.timeline.record import TRACED, Refused, require_tracing

STRACE = ("strace", "-f", "-DD", "-q", "-ttt", "-T", "-yy", "-s", "32")
CLOSES_ONLY = ("--seccomp-bpf", "-e", "trace=close")
"""Options of a trace for a check that needs one: process ends are in each trace."""
TRIES = 3
_UNLISTED = re.compile(r".*system call +(\d+) is not in its list.*")
ONLY_SLEEP = {"nanosleep", "clock_nanosleep", "sched_yield"}
"""Calls whose refusal breaks nothing: the report mentions them and keeps the finding."""
LOCKS = re.compile(r"pthread_|sem_|futex|THREADED_CALLS")
PROC = "/proc/PID/task/TID/syscall: thread, call"


def can_trace() -> bool:
    """Return whether strace works on this machine; otherwise no proof has a trace."""
    try:
        require_tracing((*STRACE, "--seccomp-bpf"))
    except Refused:
        return False
    return True


@dataclass
class World:
    """The state that all checks of an examination share."""

    scene: Scene
    """The scene that each check copies."""
    seed: int
    can_trace: bool
    _scenes: int = 0
    _ready: float = 0
    """The time when the server of the last check was ready; earlier trace lines prove nothing."""
    _served: bool = False
    """The server has printed its url at least once."""
    _closed: str = ""
    """The reason why no further check runs; empty if they run."""
    _waits_idle: bool = False
    """Threads wait for a lock although no client is connected: its holder waits in accept()."""
    _found: list[str] = field(default_factory=list)
    """Names of the faults so far, without consequences."""

    def check(self, stage: Stage, check: Trial) -> CheckOutcome:
        """Run a check and return its outcome. After a failure it is repeated, to exclude a busy
        machine as the cause and to trace a proof."""
        outcome = CheckOutcome(check=check.name, points=0, of=check.points, came="failed")
        if self._closed and not (check.also_closed and self._served):
            outcome.came, outcome.note = "not tried", self._closed
            return outcome
        failures: list[Failed] = []
        proof: list[str] = []
        for attempt in range(TRIES):
            if self.scene.left() < check.seconds:
                break
            traced = attempt > 0 and self.can_trace and check.starts_server
            trace = self._file() if traced or (check.traced and self.can_trace) else None
            try:
                note = self._once(stage, check, trace, traced)
            except NotHere as reason:
                outcome.came, outcome.note, outcome.of = "not tried", str(reason), 0
                return outcome
            except Failed as failed:
                if self.scene.left() <= 0:
                    break
                failures.append(failed)
                if trace and (attempt or check.traced):
                    proof = excerpt(trace, failed, self._ready) or proof
                if attempt or (failed.proof and failed.sure) or self._is_plain(failed):
                    break
                continue
            if not failures or (attempt and not failures[0].sure):
                if self._closed:
                    outcome.came, outcome.note = "not tried", self._closed
                    return outcome
                outcome.points, outcome.came = check.points, "right"
                outcome.note = note or ""
                if failures:
                    outcome.note = f"at the second attempt; first attempt: {failures[0].seen}"
                return outcome
            break
        if not failures:
            outcome.came, outcome.note = "not tried", OVER
            return outcome
        return self._judged(outcome, check, failures, proof)

    def _judged(
        self, outcome: CheckOutcome, check: Trial, failures: Sequence[Failed], trace: Sequence[str]
    ) -> CheckOutcome:
        """Return the outcome of a failed check. A failure with its own proof is the cause."""
        cause = next((one for one in failures if one.proof), failures[0])
        outcome.finding = finding(cause, trace)
        outcome.finding.follows = self._cause_of(cause)
        if cause.fault is BY_NATURE:
            outcome.came = "by nature"
        elif outcome.finding.follows:
            outcome.came, outcome.points = "follows", check.points
        else:
            self._found.append(cause.fault.name)
        if check.gate or (cause.fault is NEVER_SERVES and not self._served):
            never = cause.fault is NEVER_SERVES
            self._closed = "the server does not start" if never else "the server serves no file yet"
        return outcome

    def _cause_of(self, failed: Failed) -> str:
        """Return the name of the earlier fault that may be the cause, or an empty string."""
        return next((n for n in self._found if failed.fault.name in FAULTS[n].brings), "")

    def _is_plain(self, failed: Failed) -> bool:
        """Return whether the check needs no second attempt, not even for a proof."""
        if failed.fault is NEVER_SERVES:
            return not self._served
        return failed.fault is BY_NATURE or bool(self._cause_of(failed))

    def _once(self, stage: Stage, check: Trial, trace: Path | None, whole: bool) -> str | None:
        """Start the server and run a check once. Raises Failed, Interrupted, UserError."""
        with ExitStack() as stack:
            stack.callback(bury_orphans)
            url = ""
            if check.redis_delay_ms:
                # In pieces: a server that takes the first piece for the whole reply is found.
                slow = SlowRedis(
                    self.scene.redis.url, check.redis_delay_ms, (), self.scene.watch, split=True
                )
                stack.callback(slow.close)
                url = slow.url
            scene = replace(
                self.scene,
                dice=random.Random(f"{self.seed} {stage.name} {check.name}"),
                trace=trace,
                limits=check.limits,
                redis_url=url,
            )
            stack.callback(scene.stop)
            stack.enter_context(scene.guarded())
            tracer: tuple[str, ...] = ()
            if trace:
                tracer = (*STRACE, *(("-e", f"trace={TRACED}") if whole else CLOSES_ONLY))
                tracer = (*tracer, "-o", str(trace))
            try:
                scene.redis.prepare()
                if check.starts_server:
                    scene.start(check.options, tracer)
                    self._served = True
                self._ready = time.time()
                note = self._run(check, scene)
                if check.starts_server:
                    scene.alive(LOOK_SECONDS)
                return note
            except StartError as error:
                fault = ENDED_BY.get(-(error.status or 0), NEVER_SERVES)
                raise Failed(fault, str(error), sure=False) from error
            except redis.RedisError as error:
                raise NotHere(f"the grader's Redis did not answer: {error}") from error

    def _run(self, check: Trial, scene: Scene) -> str | None:
        """Run a check and return its note. Raises Failed with the cause that the server shows."""
        try:
            note = check.run(scene)
            if check.gate:
                self._waits_idle = bool(kept_lock(scene.pids()))
            return note
        except ConnectionError as error:
            scene.alive()
            raise Failed(NO_ANSWER, f"a client's connection broke: {error}", sure=False) from error
        except Failed as failed:
            raise cause_of(failed, scene, self._waits_idle) from failed

    def _file(self) -> Path:
        self._scenes += 1
        return self.scene.folder / f"{self._scenes}.trace"


def cause_of(failed: Failed, scene: Scene, waits_idle: bool = False) -> Failed:
    """Return the failure, or one with its cause: a kept lock, a refused call, or a crash.
    `waits_idle`: ignore waiting for locks, because this server does so without clients, too."""
    if failed.proof or failed.fault is BY_NATURE:
        return failed
    looked_at = scene.pids() if scene.running is not None and not waits_idle else []
    if locked := kept_lock(looked_at):
        seen = f"{failed.seen}; {len(locked)} threads of the server wait for the same lock"
        return Failed(LOCK_KEPT, seen, proof=shortened(locked), proof_kind=PROC)
    refused = {call_name(int(found[1])): found[0] for found in _UNLISTED.finditer(scene.said())}
    if "futex" in refused and waits_for_redis(scene):
        seen = (
            f"{failed.seen}; a process without threads was refused futex(2), and its source "
            "uses no lock: only redis_pool_borrow() calls futex(2) then, when all connections "
            "are lent and none is returned"
        )
        return Failed(REDIS_LEAK, seen, proof=[refused["futex"]], proof_kind="standard error")
    unlisted = [name for name in refused if name not in ONLY_SLEEP]
    died = scene.killed()
    # The C library ends the process with SIGABRT if a call that it needs is refused.
    if died and not (unlisted and all("SIGABRT" in line for line in died)):
        how = ", ".join(sorted(set(re.findall(r"SIG\w+", " ".join(died)))))
        seen = f"{failed.seen}; {len(died)} processes of the server were killed by {how} meanwhile"
        fault = SIGPIPE if how == "SIGPIPE" else CRASH
        return Failed(fault, seen, proof=shortened(died), proof_kind=TRACE)
    if unlisted:
        name = unlisted[0]
        seen = f"the server reported that the system call {name} is not in its list; {failed}"
        return Failed(UNLISTED_CALL, seen, proof=[refused[name]], proof_kind="standard error")
    if refused:
        failed.seen += f" (it was also refused {', '.join(refused)}, which is not in its list)"
    return failed


def waits_for_redis(scene: Scene) -> bool:
    """Return whether a futex(2) of the server must be a wait for a connection to Redis, because the
    server has no threads and no locks."""
    threads = scene.tasks() > len(scene.pids()) if scene.running is not None else True
    return not threads and scene.built is not None and not scene.built.mentions(LOCKS)


def bury_orphans() -> None:
    """Reap orphaned processes if this process is PID 1 of its namespace. Their zombies would count
    against the limit of processes."""
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
