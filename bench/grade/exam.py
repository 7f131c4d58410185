# SPDX-License-Identifier: MIT
"""The examination: all stages in order, stopped early, with a proof for each fault."""

import contextlib
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import redis

from bench.grade.answering import BAD_INPUT, SERVES
from bench.grade.building import Built, NotBuilt
from bench.grade.check import Check, Stage
from bench.grade.ending import ENDS
from bench.grade.faults import BY_NATURE, CRASH, NO_ANSWER, Fault
from bench.grade.holding import SILENT
from bench.grade.leaving import LEAVES_NOTHING
from bench.grade.loading import UNDER_LOAD
from bench.grade.redis import REDIS
from bench.grade.sandbox import isolation
from bench.grade.scene import Scene, Site, make_site
from bench.grade.stage import Failed, Finding, Grade, NotHere, Outcome, StageOutcome
from bench.host.process import StartError
from bench.host.signals import SignalWatch
from bench.services.slow_redis import SlowRedis
from bench.subjects.subject import Subject
from bench.timeline.record import TRACED, Refused, require_tracing
from bench.torture.own_redis import OwnRedis

STAGES = (SERVES, BAD_INPUT, SILENT, LEAVES_NOTHING, REDIS, ENDS, UNDER_LOAD)
BUDGET_SECONDS = 57.0
BUILD_POINTS = 3
STRACE = ("strace", "-f", "-DD", "-q", "-ttt", "-T", "-yy", "-s", "32")
ENDS_ONLY = ("-e", "trace=none")
MOST_LINES = 8
MOST_COLUMNS = 110
TRIES = 3
Told = Callable[[StageOutcome], None]


@dataclass
class Exam:
    """One server's. `run` may be called once."""

    source: Path
    seed: int
    watch: SignalWatch
    only: Sequence[str] = ()
    """Names of stages; none: all."""
    told: Told = lambda outcome: None
    """Called with each stage's outcome as it comes."""
    stalled_by: str = "nobody"
    _begun: float = field(default_factory=time.monotonic)
    _can_trace: bool = True

    def run(self) -> Grade:
        """Raises UserError, Interrupted."""
        try:
            require_tracing()
        except Refused:
            self._can_trace = False
        with tempfile.TemporaryDirectory(prefix="zerohttpd-grade-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "project").mkdir()
            built = Built(self.source, folder / "project")
            stages = [self._build(built)]
            self.told(stages[0])
            if self._server is not None:
                with OwnRedis((), self.watch) as store:
                    stages += self._stages(built, store, folder)
        checks = [check for stage in stages for check in stage.checks]
        return Grade(
            server=built.name,
            points=sum(check.points for check in checks),
            of=sum(check.of for check in checks),
            seed=self.seed,
            seconds=round(time.monotonic() - self._begun, 1),
            isolation=isolation(),
            stages=stages,
            faults=list(dict.fromkeys(c.finding.fault for c in checks if c.finding)),
        )

    _server: Subject | None = None

    def _build(self, built: Built) -> StageOutcome:
        check = Outcome(check="it compiles", points=BUILD_POINTS, of=BUILD_POINTS, came="right")
        try:
            self._server, remarks = built.make("release")
            if remarks:
                check.points -= 2
                check.note = "with warnings: " + remarks.splitlines()[0]
        except NotBuilt as error:
            check.points, check.came = 0, "failed"
            lines = str(error).splitlines()
            mistakes = [line for line in lines if "error" in line] or lines
            check.finding = Finding(
                fault="does-not-compile",
                title="It does not compile",
                meaning="Nothing else can be tried until it does.",
                read="the compiler's first message; the later ones may follow from it",
                seen=mistakes[0][:200],
                proof=lines[:MOST_LINES],
            )
        return StageOutcome(stage="builds", title="It compiles", checks=[check])

    def _stages(self, built: Built, store: OwnRedis, folder: Path) -> list[StageOutcome]:
        site = make_site(folder / "site", random.Random(self.seed))
        world = World(self, built, store, site, folder)
        found: list[StageOutcome] = []
        for stage in STAGES:
            if self.only and stage.name not in self.only:
                continue
            checks = [world.check(stage, check) for check in stage.checks]
            found.append(StageOutcome(stage=stage.name, title=stage.title, checks=checks))
            self.told(found[-1])
        return found

    def left(self) -> float:
        """Seconds."""
        return BUDGET_SECONDS - (time.monotonic() - self._begun)


@dataclass
class World:
    """What all checks of an examination have in common."""

    exam: Exam
    built: Built
    store: OwnRedis
    site: Site
    folder: Path
    _scenes: int = 0
    _ready: float = 0
    """When the server of the last check listened; what it did before is no proof."""
    _closed: str = ""
    """Why nothing else is tried; empty while it is."""

    def check(self, stage: Stage, check: Check) -> Outcome:
        """One check, tried again where its failure may be the machine's, and once more for a
        proof."""
        outcome = Outcome(check=check.name, points=0, of=check.points, came="failed")
        if self._closed:
            outcome.came, outcome.note = "not tried", self._closed
            return outcome
        failures: list[Failed] = []
        proof: list[str] = []
        for attempt in range(TRIES):
            if self.exam.left() < check.seconds:
                break
            traced = attempt > 0 and self.exam._can_trace and check.starts_server
            trace = self._file() if traced or (check.traced and self.exam._can_trace) else None
            try:
                note = self._once(stage, check, trace, traced)
            except NotHere as reason:
                outcome.came, outcome.note, outcome.of = "not tried", str(reason), 0
                return outcome
            except Failed as failed:
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
            outcome.came, outcome.note = "not tried", "the minute was over"
            return outcome
        first = failures[0]
        if first.fault is BY_NATURE:
            outcome.came = "by nature"
        if check.gate:
            self._closed = "it serves no file yet"
        outcome.finding = finding(first, first.proof or proof)
        return outcome

    def _once(self, stage: Stage, check: Check, trace: Path | None, whole: bool) -> str | None:
        """Raises Failed, Interrupted, UserError."""
        with ExitStack() as stack:
            stack.callback(bury_orphans)
            url = ""
            if check.redis_delay_ms:
                slow = SlowRedis(self.store.url, check.redis_delay_ms, (), self.exam.watch)
                stack.callback(slow.close)
                url = slow.url
            assert self.exam._server is not None
            scene = Scene(
                server=self.exam._server,
                site=self.site,
                redis=self.store,
                dice=random.Random(f"{self.exam.seed} {stage.name} {check.name}"),
                watch=self.exam.watch,
                folder=self.folder,
                stalled_by=self.exam.stalled_by,
                trace=trace,
                limits=check.limits,
                redis_url=url,
                built=self.built,
            )
            self.store.prepare()
            stack.callback(scene.stop)
            stack.enter_context(scene.guarded())
            tracer: tuple[str, ...] = ()
            if trace:
                tracer = (*STRACE, *(("-e", f"trace={TRACED}") if whole else ENDS_ONLY))
                tracer = (*tracer, "-o", str(trace))
            try:
                if check.starts_server:
                    scene.start(check.options, tracer)
                self._ready = time.time()
                note = check.run(scene)
                if check.starts_server:
                    scene.alive()
                return note
            except StartError as error:
                raise Failed(NO_ANSWER, str(error)) from error
            except redis.RedisError as error:
                raise Failed(CRASH, f"the Redis of the examination broke: {error}") from error

    def _file(self) -> Path:
        self._scenes += 1
        return self.folder / f"{self._scenes}.trace"


def bury_orphans() -> None:
    """In a table of processes of our own we are the first one, to whom those fall whose parent has
    died. Nobody else waits for them, and a zombie counts against the limit of processes."""
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass


def finding(failed: Failed, proof: Sequence[str]) -> Finding:
    """What is told of a failure."""
    fault: Fault = failed.fault
    return Finding(
        fault=fault.name,
        title=fault.title,
        meaning=fault.meaning,
        read=fault.read,
        seen=failed.seen,
        proof=list(proof),
    )


def excerpt(trace: Path, failed: Failed, since: float) -> list[str]:
    """The lines of a trace that prove a fault: those that concern the client, or show what the
    fault is known by; the first and the last of them. `since`: seconds of the system's clock."""
    text = trace.read_text(errors="replace") if trace.exists() else ""
    lines = [line for line in text.splitlines() if _when(line) >= since]
    about = [line for line in lines if failed.port and f":{failed.port}]" in line]
    if not about and failed.fault.trace:
        wanted = re.compile(failed.fault.trace)
        about = [line for line in lines if wanted.search(line)]
    if len(about) > MOST_LINES:
        half = MOST_LINES // 2
        about = [*about[:half], f"... {len(about) - 2 * half} more ...", *about[-half:]]
    return [shorter(line) for line in about]


def _when(line: str) -> float:
    """The time in a line of strace; 0: there is none."""
    match = re.match(r"\d+ +(\d+\.\d+) ", line)
    return float(match[1]) if match else 0.0


def shorter(line: str) -> str:
    """A line of strace without what nobody reads."""
    line = re.sub(r"^(\d+) +\d+(\.\d{3})\d*", r"\1 \2", line)
    line = re.sub(r"<TCP:\[[^\]>]*:\d+->[^\]>]*:(\d+)\]>", r"<client \1>", line)
    line = re.sub(r"<TCP:\[[^\]>]*\]>", "<listener>", line)
    line = re.sub(r"<[^>]*/public/([^>]*)>", r"<\1>", line)
    over = len(line) - MOST_COLUMNS
    return line if over <= 0 else f"{line[:70]} ... {line[75 + over :]}"
