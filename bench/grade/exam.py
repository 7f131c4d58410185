# SPDX-License-Identifier: MIT
"""The examination: all stages in order, within a time limit, with a proof for each fault."""

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.grade.building import ASSEMBLER, Built, NotBuilt, make_site
from bench.grade.sandbox import isolation
from bench.grade.scene import Scene
from bench.grade.stage import (
    HAS_ASSEMBLER,
    CheckOutcome,
    Grade,
    StageOutcome,
    build_failure,
    finding,
    shortened,
)
from bench.grade.stages import STAGES
from bench.grade.trying import Stage, Trial, World, can_trace, own_redis
from bench.host.signals import SignalWatch
from bench.services.redis_server import PrivateRedis
from bench.subjects.subject import Subject

BUDGET_SECONDS = 55.0
BUILD_POINTS = 3
Told = Callable[[StageOutcome], None]


@dataclass
class Exam:
    """The examination of one server. `run` may be called once."""

    source: Path
    seed: int
    watch: SignalWatch
    only: Sequence[str] = ()
    """Names of stages; empty: all."""
    told: Told = lambda outcome: None
    """Called with the outcome of each stage when it is finished."""
    stalled_by: str = "none"
    _begun: float = field(default_factory=time.monotonic)

    def run(self) -> Grade:
        """Grade the server. Raises UserError, Interrupted."""
        with tempfile.TemporaryDirectory(prefix="zerohttpd-grade-") as name:
            folder = Path(name)
            os.umask(0o022)  # the users of the servers read what the compiler's user has written
            folder.chmod(0o755)
            (folder / "project").mkdir()
            built = Built(self.source, folder / "project")
            stages = [self._build(built)]
            self.told(stages[0])
            if self._server is None:
                stages += [one.outcome(map(Trial.untried, one.checks)) for one in self._selected()]
            else:
                with own_redis(self.watch) as store:
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
        check = CheckOutcome(
            check="it compiles", points=BUILD_POINTS, of=BUILD_POINTS, came="right"
        )
        try:
            self._server, remarks = built.make("release")
            notes = [HAS_ASSEMBLER] if built.mentions(ASSEMBLER) else []
            if remarks:
                check.points -= 2
                warned = [line for line in remarks.splitlines() if "warning:" in line]
                notes.append("with warnings: " + shortened(warned or remarks.splitlines())[0])
            check.note = "; ".join(notes)
        except NotBuilt as error:
            check.points, check.came = 0, "failed"
            check.finding = finding(build_failure("does-not-compile", str(error)), ())
        return StageOutcome(stage="builds", title="It compiles", checks=[check])

    def _stages(self, built: Built, store: PrivateRedis, folder: Path) -> list[StageOutcome]:
        assert self._server is not None
        dice = random.Random(self.seed)
        scene = Scene(
            server=self._server,
            site=make_site(folder / "site", dice),
            redis=store,
            dice=dice,
            watch=self.watch,
            folder=folder,
            stalled_by=self.stalled_by,
            built=built,
            left=self.left,
        )
        selected = self._selected()
        together = [
            (stage, one)
            for stage in selected
            for one in stage.checks
            if not (one.gate or one.alone)
        ]
        world = World(scene, self.seed, can_trace(), together)
        found: list[StageOutcome] = []
        for stage in STAGES:
            wanted = stage in selected
            # The gates of unselected stages run too, without a report: later checks need them.
            checks = [world.check(stage, one) for one in stage.checks if wanted or one.gate]
            if wanted:
                found.append(stage.outcome(checks))
                self.told(found[-1])
        return found

    def _selected(self) -> list[Stage]:
        return [stage for stage in STAGES if not self.only or stage.name in self.only]

    def left(self) -> float:
        """Return the seconds that are left."""
        return BUDGET_SECONDS - (time.monotonic() - self._begun)
