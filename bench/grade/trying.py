# SPDX-License-Identifier: MIT
"""Run all checks of a grading: many at the same time, and again after a failure. Judge the
failures: consequences of a known fault cost no points, unless a gate found this fault."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import itemgetter

from bench.grade.attempts import Attempt, CheckRunner, Trial, bury_orphans
from bench.grade.findings import (
    FILE,
    OVER,
    CheckOutcome,
    Failed,
    FaultName,
    StageOutcome,
    finding,
)
from bench.grade.inspection import busy_others
from bench.grade.sandbox import apart
from bench.grade.server import BUSY_SHARE

AT_ONCE = 8
"""The number of checks that run at the same time; together they use less than one CPU."""
SLOWER = 1.5
"""A server may count as too slow only if its checks took this many times the usual time, and the
time limit prevented a check."""
SANITIZED = {"data-race", "sanitizer-error"}
"""Faults that a sanitizer has reported."""
LANES = 2
"""The lanes of a check: one for the graded server, one for the reference server."""


@dataclass(frozen=True)
class Stage:
    """A group of checks."""

    name: str
    title: str
    checks: Sequence[Trial]

    def part(self, names: Collection[str]) -> "Stage":
        """Return this stage with the selected checks. `names`: stages and checks; empty: all."""
        whole = not names or self.name in names
        return self if whole else replace(self, checks=[c for c in self.checks if c.name in names])

    def outcome(self, checks: Iterable[CheckOutcome]) -> StageOutcome:
        """Return the result of the stage."""
        return StageOutcome(stage=self.name, title=self.title, checks=list(checks))

    def untried(self) -> StageOutcome:
        """Return the result of a stage that was not run because the server does not compile."""
        return self.outcome(one.untried() for one in self.checks)


@dataclass
class World:
    """The state that all checks of an examination share."""

    runner: CheckRunner
    selected: Sequence[Stage] = ()  # The stages to report, with the checks to report.
    others_busy: Callable[[], float] = field(default_factory=busy_others)
    """Returns the share of all CPU time that other programs have used."""
    _first: dict[Trial, list[Attempt]] = field(default_factory=dict)
    """The first attempts of the checks that are run at the same time."""
    _traced: dict[FaultName, int] = field(default_factory=dict)
    """For each fault the place of the first check that `_in_lane` has repeated."""
    _early: dict[Trial, CheckOutcome] = field(default_factory=dict)
    """Outcomes of checks that were judged before their turn in the report."""
    _closed: str = ""
    """The reason why no further check except `also_closed` runs, or an empty string."""
    _found: list[FaultName] = field(default_factory=list)
    """Names of the faults so far, without consequences."""
    _in_gate: list[FaultName] = field(default_factory=list)
    """Faults in `_found` that a gate found. Their consequences cost points."""

    def outcomes(self, stages: Sequence[Stage]) -> Iterator[StageOutcome]:
        """Run the selected checks and yield the outcomes of their stages. Gates that are not
        selected run, too, because later checks need their results, but are not reported."""
        selected = {stage.name: stage for stage in self.selected}
        for stage in stages:
            wanted = selected.get(stage.name, replace(stage, checks=()))
            came = {c: self.check(c) for c in stage.checks if c in wanted.checks or c.gate}
            if wanted.checks:
                yield wanted.outcome(came[one] for one in wanted.checks)

    def check(self, check: Trial) -> CheckOutcome:
        """Return the outcome of a check. With namespaces, the first check after the gates starts
        all checks that can run at the same time."""
        if not (check.gate or self._first or self._closed) and apart():
            self._run_together()
        return self._early.pop(check, None) or self._outcome(check)

    def _run_together(self) -> None:
        """Make the first attempts of the checks that can run at the same time. Judge faults that
        may cause many others first, so that the others count as consequences. Begin with reports of
        sanitizers, and end with crashes, which other faults may explain."""
        every = [one for stage in self.selected for one in stage.checks]
        together = [one for one in every if not (one.gate or one.alone)]
        longest_first = sorted(together, key=lambda one: -one.seconds)
        with ThreadPoolExecutor(AT_ONCE) as lanes:
            begun = {
                one: lanes.submit(self._in_lane, one, together.index(one), LANES * number)
                for number, one in enumerate(longest_first, 1)
            }
        self._first = {one: attempt.result() for one, attempt in begun.items()}
        bury_orphans()
        causes = [
            (failed.fault not in SANITIZED, failed.fault == "crash", place)
            for place, one in enumerate(together)
            if self._first[one] and (failed := self._first[one][0].failed)
            if FILE.breaks_service(failed.fault)
        ]
        for *_, place in sorted(causes):
            self._early[together[place]] = self._outcome(together[place])

    def _in_lane(self, check: Trial, place: int, lane: int) -> list[Attempt]:
        """Run a check once. If it finds a fault that may cause many others, and no check before
        this `place` has found it, repeat the check at once with a trace. Later there may be no time
        for this, because the other checks wait longer with such a fault."""
        attempts = [self.runner.attempt(check, again=False, lane=lane)]
        failed = attempts[0].failed if attempts[0] else None
        if (
            failed
            and failed.sure
            and check.starts_server
            and self.runner.can_trace
            and not self._is_plain(failed)
            and FILE.breaks_service(failed.fault)
            and place < self._traced.get(failed.fault, place + 1)
        ):
            self._traced[failed.fault] = place
            attempts.append(self.runner.attempt(check, again=True, lane=lane))
        return [one for one in attempts if one]

    def _outcome(self, check: Trial) -> CheckOutcome:
        """Run a check and return its outcome. Repeat the check after a failure, to exclude a busy
        machine as the cause and to trace a proof."""
        outcome = check.untried(self._closed)
        if self._closed and not (check.also_closed and self.runner.served):
            return outcome
        attempts = self._attempts(check)
        failures = [one.failed for one in attempts if one.failed]
        too_late = self._must_repeat(attempts)
        if too_late and not failures[0].sure and self._is_busy():
            outcome.note = f"{OVER}; first attempt on a busy machine: {failures[0].seen}"
            return outcome
        if reason := next((one.not_here for one in attempts if one.not_here), ""):
            outcome.note, outcome.of = reason, 0
            return outcome
        if not attempts:
            outcome.note = OVER
            took = self.runner.took
            was_quick = sum(t for t, _ in took) < SLOWER * sum(one.seconds for _, one in took)
            if self._found or was_quick or self._is_busy():
                return outcome
            failures.append(self._too_slow())
        elif attempts[-1].failed is None and not (failures and failures[0].sure):
            return self._passed(outcome, attempts[-1].note, failures)
        proof = next((one.proof for one in reversed(attempts) if one.proof), ())
        return self._judged(outcome, check, failures, proof)

    def _attempts(self, check: Trial) -> list[Attempt]:
        """Run a check as often as necessary, within the time limit."""
        attempts = self._first.get(check)
        if attempts is None:
            attempts = [one for one in (self.runner.attempt(check, again=False),) if one]
        while self._must_repeat(attempts) and (further := self.runner.attempt(check, again=True)):
            attempts.append(further)
        return attempts

    def _too_slow(self) -> Failed:
        """Return "too-slow": the time for all checks is over, and no check has found a fault."""
        took, check = max(self.runner.took, key=itemgetter(0))
        return Failed(
            "too-slow",
            f"the longest check was `{check.name}`: {took:.0f} s (usually {check.seconds:.0f} s); "
            f"other programs used {self.others_busy():.0%} of this machine's CPU time meanwhile",
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
        """Return the outcome of a failed check. Its finding is the first failure with a proof other
        than the trace. If there is no such failure, it is the first failure."""
        cause = next((one for one in failures if one.proof[1]), failures[0])
        outcome.came = "failed"
        outcome.finding = finding(cause, trace)
        outcome.finding.follows = self._cause_of(cause)
        if cause.fault == "by-nature":
            outcome.came = "by nature"
        elif outcome.finding.follows:
            grave = outcome.finding.follows in self._in_gate
            outcome.came, outcome.points = "follows", 0 if grave else check.points
        else:
            self._found.append(cause.fault)
            if check.gate:
                self._in_gate.append(cause.fault)
        if cause.fault == "never-serves" and (check.gate or not self.runner.served):
            self._closed = "the server does not start"
        elif check.gate and not self.runner.sent_file:
            self._closed = f"the check `{check.name}` failed, and no file came correctly"
        elif check.gate and cause.fault == "another-program":
            self._closed = "another program serves the files"
        return outcome

    def _cause_of(self, failed: Failed) -> str:
        """Return the name of the earlier fault that may be the cause, or an empty string."""
        if failed.afterwards and failed.fault in self._found:
            return failed.fault
        return next((n for n in self._found if FILE.may_cause(n, failed.fault)), "")

    def _must_repeat(self, attempts: Sequence[Attempt]) -> bool:
        """Return whether a check must be run again after these attempts. If two attempts failed,
        and a busy machine may be the cause, a third attempt decides."""
        failures = [one.failed for one in attempts if one.failed]
        if not failures or len(failures) < len(attempts) or self._is_plain(failures[-1]):
            return False
        doubtful = not any(one.sure for one in failures)
        return len(attempts) == 1 or (len(attempts) == 2 and doubtful and self._is_busy())

    def _is_busy(self) -> bool:
        """Return whether other programs have used so much CPU time that responses may be late."""
        return self.others_busy() > BUSY_SHARE

    def _is_plain(self, failed: Failed) -> bool:
        """Return whether a further attempt of the check is unnecessary, even for a proof."""
        if failed.fault == "never-serves":
            return not self.runner.served
        proven = bool(failed.proof[1]) and failed.sure
        return proven or failed.fault in ("by-nature", *self._found) or self._cause_of(failed) != ""
