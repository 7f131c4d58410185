# SPDX-License-Identifier: MIT
"""A sweep under way: all its runs in order, from the words before it to the words after it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.doctor.limits import impossible_levels
from bench.host.signals import Interrupted
from bench.readers.console import say
from bench.records import results, store
from bench.records.conditions import Conditions
from bench.records.environment import Finding
from bench.records.errors import UserError
from bench.records.plan import RunSpec
from bench.records.results import Results
from bench.records.run import Run
from bench.services.private_redis import RunRedis
from bench.stations.remote import HostLost
from bench.stations.site import Site
from bench.subjects.subject import Subject
from bench.sweep.beginning import log_into
from bench.sweep.cell import Bench, all_held, answer_bytes, measure, skipped
from bench.sweep.display import display_for, line_for, took
from bench.sweep.estimate import Estimate
from bench.sweep.runs import Planned

LABEL_IMPOSSIBLE = "not possible"
LABEL_CELL_FAILED = "run failed"
log = logging.getLogger(__name__)


@dataclass
class Sweeper:
    """All runs of a sweep, one after another; what was measured is kept at once."""

    results: Results
    folder: Path
    planned: Planned
    findings: Sequence[Finding]
    """Some may say that a level cannot be run."""
    site: Site
    redis: RunRedis
    redis_url: str | None
    """Of one that was there; None: should it be lost with its host, another is started."""
    out: Console

    def run(self) -> int:
        """Make those that are not there yet. Exit status: 0 all cells hold, 1 some do not, 128 + n
        after signal n."""
        self.impossible = impossible_levels(self.findings)
        self.estimate = Estimate(self.impossible)
        self.bench = Bench(self.site, self.redis, self.site.watch)
        with log_into(self.folder):
            words = " ".join(self.results.command)
            log.info("zerohttpd %s; %s", words, self.site.placement.note)
            for line in self.results.doctor:
                log.info("doctor: %s: %s: %s; needed: %s", *line.in_words())
            return self._measure_all()

    def _measure_all(self) -> int:
        """All runs in order that are not there yet. Keeps what was measured whatever ends it."""
        there = {(run.key, run.run) for run in self.results.runs}
        rest = [spec for spec in self.planned.runs if (spec.key, spec.run) not in there]
        for run in self.results.runs:
            self.estimate.learn(run)
        status = 1
        try:
            with display_for(self.out, self.results, len(rest)) as display:
                while rest:
                    self.site.watch.check()
                    spec = rest[0]
                    display.begin(spec, self.estimate.seconds_left(rest))
                    run = self._one(spec)
                    rest.pop(0)
                    self._keep(run)
                    display.end(run, self.estimate.seconds_left(rest))
                    if self.site.lost:
                        self._recover()
            self.results.state = "complete"
            status = 0 if all_held(self.results.runs) else 1
        except Interrupted as interrupted:
            self.results.state = "interrupted"
            log.info("interrupted by %s", interrupted)
            status = interrupted.exit_status
        except (HostLost, UserError) as lost:  # and could not be had back
            self.results.state = "interrupted"
            log.info("ended: %s", lost)
            say(self.out, f"Ended: {lost}", "red")
        return status

    def _recover(self) -> None:
        """Start all agents anew, and a new Redis. Raises HostLost or UserError."""
        log.info("a host was lost: all agents are started anew")
        self.site.reopen()
        self.bench.redis = self.site.open_redis(self.redis_url)

    def _one(self, spec: RunSpec) -> Run:
        """One run, unless it is known already that it cannot give a figure."""
        subject = self.planned.subjects[spec.subject]
        finding = self.impossible.get(spec.connections)
        if finding:
            return skipped(subject, spec, LABEL_IMPOSSIBLE, finding.describe())
        failed = self._failed_before(spec)
        if failed and failed.reason:
            words = f"run {failed.run} failed, so the cell has no figure: {failed.reason.text}"
            return skipped(subject, spec, LABEL_CELL_FAILED, words)
        if subject.kind == "floor":
            self._learn_answer(subject, spec.conditions)
        run, report = measure(subject, spec, self.bench)
        if report:
            tool = "oha" if spec.conditions.mode == "open" else "ab"
            place = f"{spec.subject}_{spec.conditions.slug()}_{spec.concurrency}"
            store.replace(self.folder / f"{tool}_{place}_run{spec.run}.txt", report)
        return run

    def _learn_answer(self, floor: Subject, conditions: Conditions) -> None:
        """How long a floor's answer must be: as long as that of the server above it."""
        key = (conditions.workload, conditions.server_keeps)
        if key not in self.bench.answer_bytes:
            self.bench.answer_bytes[key] = answer_bytes(floor, conditions, self.bench)

    def _failed_before(self, spec: RunSpec) -> Run | None:
        return next(
            (run for run in self.results.runs if run.key == spec.key and run.state == "failed"),
            None,
        )

    def _keep(self, run: Run) -> None:
        self.estimate.learn(run)
        self.results.runs.append(run)
        results.flag_outliers([other for other in self.results.runs if other.key == run.key])
        store.save(self.results, self.folder)
        log.info("%s  (%s)", line_for(run), took(run))
