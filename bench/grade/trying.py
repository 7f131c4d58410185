# SPDX-License-Identifier: MIT
"""One check: tried, tried again, and traced for a proof."""

import contextlib
import os
import random
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import redis

from bench.grade.check import Stage, Trial
from bench.grade.faults import BY_NATURE, CRASH, NO_ANSWER, UNLISTED_CALL
from bench.grade.proof import excerpt, finding
from bench.grade.scene import ENDED_BY, Scene
from bench.grade.stage import OVER, CheckOutcome, Failed, NotHere
from bench.host.process import StartError
from bench.host.programs import output_of
from bench.services.slow_redis import SlowRedis
from bench.timeline.record import TRACED

STRACE = ("strace", "-f", "-DD", "-q", "-ttt", "-T", "-yy", "-s", "32")
ENDS_ONLY = ("-e", "trace=none")
TRIES = 3
_UNLISTED = re.compile(r"system call +(\d+) is not in its list")


@dataclass
class World:
    """What all checks of an examination have in common."""

    scene: Scene
    """As each check finds it, but for what it brings itself."""
    seed: int
    can_trace: bool
    _scenes: int = 0
    _ready: float = 0
    """When the server of the last check listened; what it did before is no proof."""
    _closed: str = ""
    """Why nothing else is tried; empty while it is."""

    def check(self, stage: Stage, check: Trial) -> CheckOutcome:
        """One check, tried again where its failure may be the machine's, and once more for a
        proof."""
        outcome = CheckOutcome(check=check.name, points=0, of=check.points, came="failed")
        if self._closed:
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
                    proof = proof or excerpt(trace, failed, self._ready)
                if failed.fault is BY_NATURE or failed.proof or attempt:
                    break
                continue
            if not failures or (attempt and not failures[0].sure):
                outcome.points, outcome.came = check.points, "right"
                outcome.note = note or ""
                if failures:
                    outcome.note = f"the second time; at first: {failures[0].seen}"
                return outcome
            break
        if not failures:
            outcome.came, outcome.note = "not tried", OVER
            return outcome
        first = failures[0]
        outcome.came = "by nature" if first.fault is BY_NATURE else "failed"
        if check.gate:
            self._closed = "it serves no file yet"
        outcome.finding = finding(first, first.proof or proof)
        return outcome

    def _once(self, stage: Stage, check: Trial, trace: Path | None, whole: bool) -> str | None:
        """Raises Failed, Interrupted, UserError."""
        with ExitStack() as stack:
            stack.callback(bury_orphans)
            url = ""
            if check.redis_delay_ms:
                slow = SlowRedis(self.scene.redis.url, check.redis_delay_ms, (), self.scene.watch)
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
                tracer = (*STRACE, *(("-e", f"trace={TRACED}") if whole else ENDS_ONLY))
                tracer = (*tracer, "-o", str(trace))
            try:
                scene.redis.prepare()
                if check.starts_server:
                    scene.start(check.options, tracer)
                self._ready = time.time()
                note = self._run(check, scene)
                if check.starts_server:
                    scene.alive()
                return note
            except StartError as error:
                raise Failed(ENDED_BY.get(-(error.status or 0), NO_ANSWER), str(error)) from error
            except redis.RedisError as error:
                raise Failed(CRASH, f"the Redis of the examination broke: {error}") from error

    @staticmethod
    def _run(check: Trial, scene: Scene) -> str | None:
        """Raises Failed."""
        try:
            return check.run(scene)
        except ConnectionError as error:
            scene.alive()
            raise Failed(NO_ANSWER, f"a client's connection broke: {error}", sure=False) from error
        except Failed as failed:
            unlisted = _UNLISTED.search(scene.said())
            if unlisted is None:
                raise
            seen = f"the server said: {unlisted[0]} (it is {call_name(int(unlisted[1]))}); {failed}"
            raise Failed(UNLISTED_CALL, seen, proof=[unlisted.string.splitlines()[0]]) from failed

    def _file(self) -> Path:
        self._scenes += 1
        return self.scene.folder / f"{self._scenes}.trace"


def call_name(number: int) -> str:
    """A system call's, as the C library's headers have it."""
    said = output_of(["cc", "-dM", "-E", "-include", "sys/syscall.h", "-x", "c", "/dev/null"])
    found = re.search(rf"#define __NR_(\w+) {number}\n", said)
    return found[1] if found else "one that the C library's headers do not name"


def bury_orphans() -> None:
    """In a table of processes of our own we are the first one, to whom those fall whose parent has
    died. Nobody else waits for them, and a zombie counts against the limit of processes."""
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
