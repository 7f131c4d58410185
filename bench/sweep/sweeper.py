# SPDX-License-Identifier: MIT
"""Run a sweep: print its plan, make all runs in order, store and print the results."""

import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.doctor.doctor import Diagnosis
from bench.readers.console import console, say
from bench.records import store
from bench.records.conditions import RunSpec
from bench.records.errors import Interrupted, UserError
from bench.records.figures import Run
from bench.records.results import Results, flag_outliers
from bench.stations.site import Site
from bench.studies.runs import Planned
from bench.sweep import display
from bench.sweep.cell import Lengths, empty_run, measure


@dataclass
class Sweeper:
    """Makes the missing runs of a sweep in order, and stores the results after each run."""

    results: Results
    folder: Path
    planned: Planned
    diagnosis: Diagnosis
    site: Site
    concludes: bool  # Whether the sweep prints all rates at the end.
    lengths: Lengths = field(default_factory=dict)
    out: Console = field(default_factory=console)

    def run(self) -> int:
        """Make the missing runs. Return the exit status: 0 all results valid, 1 not all valid, 128
        + n after signal n. Raises UserError if another process runs this sweep."""
        results = self.results
        with store.alone(self.folder):
            display.announce(self.planned, self.site, self.diagnosis, self.out)
            if results.runs:
                there, all_of_them = len(results.runs), len(self.planned.runs)
                say(self.out, f"Resumed: {there} of {all_of_them} runs are done")
            store.save(results, self.folder)
            try:
                self._log(f"zerohttpd {' '.join(results.command)}; {self.site.placement.note}")
                for line in results.doctor:
                    words = f"{line.topic}: {line.have}; needed: {line.need}"
                    self._log(f"doctor: {line.state}: {words}")
                status = self._measure_all()
            finally:  # even if the terminal was closed
                self._end()
            display.conclude(results, self.folder, self.out, self.concludes)
        return status

    def _log(self, text: str) -> None:
        """Append a line to the sweep's log. Ignore errors, e.g. if the disk is full."""
        with contextlib.suppress(OSError), (self.folder / display.LOG).open("a") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}\n")

    def _end(self) -> None:
        """Store the end of the sweep. Raises UserError if this fails; older data remain."""
        if self.results.state != "complete":
            self.results.state = "interrupted"
        self.results.finished = datetime.now().astimezone()
        try:
            store.save(self.results, self.folder)
        except OSError as error:
            words = f"cannot write the results: {error}. Free some space, then resume: "
            raise UserError(words + display.how_to_go_on(self.folder)) from error

    def _measure_all(self) -> int:
        """Make all missing runs in order. Return the exit status, as `run` does."""
        results = self.results
        there = {(run.key, run.run) for run in results.runs}
        rest = [spec for spec in self.planned.runs if (spec.key, spec.run) not in there]
        warm_ups = {name: one.warm_up for name, one in self.planned.subjects.items()}
        estimate = display.Estimate(self.diagnosis.why_not, warm_ups)
        for run in results.runs:
            estimate.learn(run)
        try:
            with display.progress_of(self.out, results, len(rest)) as progress:
                while rest:
                    self.site.watch.check()
                    spec, left = rest[0], display.in_words(estimate.seconds_left(rest))
                    progress.begin(spec, display.words_for(spec, results), left)
                    run = self._one(rest.pop(0))
                    estimate.learn(run)
                    self._keep(run)
                    left = display.in_words(estimate.seconds_left(rest))
                    line = f"{display.line_for(run)}  ({display.took(run)}, {left} left)"
                    progress.end(line, left)
                    if self.site.lost:
                        self._log("a host was lost: restarting all agents")
                        self.site.reopen()
            results.state = "complete"
            return int(any(run.state != "held" for run in results.runs))
        except Interrupted as interrupted:
            self._log(f"interrupted by {interrupted}")
            return interrupted.exit_status
        except UserError as lost:  # the agents could not be restarted
            self._log(f"ended: {lost}")
            say(self.out, f"Ended: {lost}", "red")
            return 1

    def _one(self, spec: RunSpec) -> Run:
        """Make one run. Skip it if it is impossible, or another run of its configuration failed."""
        subject = self.planned.subjects[spec.subject]
        if finding := self.diagnosis.why_not(spec):
            return empty_run(subject, spec, "skipped", "not possible", finding.describe())
        same = (run for run in self.results.runs if run.key == spec.key)
        failed = next((run for run in same if run.state == "failed"), None)
        if failed and failed.reason:
            words = f"skipped because run {failed.run} failed: {failed.reason.text}"
            return empty_run(subject, spec, "skipped", "run failed", words)
        run, report = measure(subject, spec, self.site, self.lengths)
        if report:
            tool = "oha" if spec.conditions.mode == "open" else spec.conditions.generator
            place = f"{spec.subject}_{spec.conditions.slug()}_{spec.concurrency}"
            store.replace(self.folder / f"{tool}_{place}_run{spec.run}.txt", report)
        return run

    def _keep(self, run: Run) -> None:
        self.results.runs.append(run)
        flag_outliers([other for other in self.results.runs if other.key == run.key])
        store.save(self.results, self.folder)
        self._log(f"{display.line_for(run)}  ({display.took(run)})")
