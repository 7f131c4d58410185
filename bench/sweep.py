"""The sweep: every subject under all chosen conditions at every level of the ladder."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import ab, doctor, machine, open_loop, results
from bench.cell import Bench, all_held, answer_bytes, measure, skipped
from bench.chart import write_charts
from bench.conditions import Conditions
from bench.display import console, display_for, line_for
from bench.errors import UserError
from bench.estimate import Estimate, in_words
from bench.ladder import Plan, RunSpec, conditions_of, levels_of, runs_in_order, runs_of
from bench.limits import assess, impossible_levels
from bench.placement import place_here
from bench.private_redis import RunRedis, connect, describe, redis_for, without_password
from bench.results import Results, Run
from bench.signals import Interrupted, SignalWatch
from bench.subjects import Subject, select
from bench.system_limits import raise_descriptors, read_limits
from bench.table import result_table
from bench.workloads import workload_for

LABEL_IMPOSSIBLE = "not possible"
LABEL_CELL_FAILED = "run failed"
LOG = "log.txt"


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    plan: Plan = field(default_factory=Plan)
    subjects: tuple[str, ...] | None = None
    """By name; None: the project's servers."""
    floors: bool = False
    """And the floors of the servers among them."""
    redis: str | None = None
    results: Path = Path("results")


def sweep(options: Options) -> int:
    """Run it all. Exit status: 0 all cells hold, 1 some do not, 128 + n after signal n.

    Raises UserError before the first run for all that is known then to stand in the way.
    """
    return _run(options, None)


def resume(folder: Path, redis: str | None = None) -> int:
    """Make the runs that are missing in a folder of results; the exit status is as of `sweep`.

    `redis` must be given again if the sweep had one with a password. Raises UserError.
    """
    old = results.load(folder / "results.json")
    if old.state == "complete":
        raise UserError(f"{folder} is complete: nothing to resume")
    options = options_of(old, folder.parent, redis)
    old.state, old.finished = "running", None
    old.settings.setdefault("resumed", []).append(datetime.now().astimezone().isoformat())
    return _run(options, (old, folder))


def latest_unfinished(parent: Path) -> Path:
    """The latest folder of results that is not complete. Raises UserError if there is none."""
    for file in sorted(parent.glob("*/results.json"), reverse=True):
        with contextlib.suppress(UserError):
            if results.load(file).state != "complete":
                return file.parent
    raise UserError(f"no unfinished sweep in {parent}/")


def options_of(old: Results, parent: Path, redis: str | None) -> Options:
    """The options of a sweep from its results. Raises UserError for those of older versions."""
    stored = old.settings.get("options")
    if not stored:
        raise UserError("this sweep was made by an older version, which could not be resumed")
    plan = {k: tuple(v) if isinstance(v, list) else v for k, v in stored["plan"].items()}
    names = tuple(old.servers)
    if redis is None and stored["redis"] and "***" in stored["redis"]:
        raise UserError("give --redis again: the password was not kept")
    return Options(Plan(**plan), names, False, redis or stored["redis"], parent)


def plan_runs(options: Options) -> tuple[list[Subject], list[RunSpec]]:
    """The subjects and the runs. Raises UserError if there is nothing to do."""
    subjects = select(options.subjects, options.floors)
    by_name = {subject.name: subject for subject in subjects}

    def can(name: str, conditions: Conditions) -> bool:
        return by_name[name].can(conditions.workload, conditions.keep_alive)

    runs = runs_in_order(options.plan, list(by_name), can)
    if not runs:
        raise UserError("nothing to measure: none of these can serve what was asked for")
    if options.redis:
        writing = [w for w in options.plan.workloads if workload_for(w).private_only]
        if writing:
            raise UserError(
                f"{', '.join(writing)}: only with a private Redis, since data are written to it. "
                "Leave out --redis"
            )
    return subjects, runs


def examine(runs: Sequence[RunSpec], redis_url: str | None) -> list[doctor.Line]:
    """What the doctor says about these runs on this machine."""
    there = None
    if redis_url:
        with redis_for(redis_url, (), SignalWatch()):
            there = describe(connect(redis_url))
    facts = doctor.look(there, without_password(redis_url or ""))
    ceiling = ab.concurrency_ceiling() if facts.ab else None
    return doctor.examine(runs, read_limits(ceiling), facts)


def _run(options: Options, before: tuple[Results, Path] | None) -> int:
    subjects, runs = plan_runs(options)
    ab.require_ab()
    if options.plan.rates:
        open_loop.require_oha()
    raise_descriptors()
    out = console()
    with SignalWatch() as watch:
        try:
            return _Sweep(options, subjects, runs, watch, out).run(before)
        except Interrupted as interrupted:  # before the first run
            out.print("Interrupted before anything was measured.")
            return interrupted.exit_status


class _Sweep:
    """One sweep, from the words before it to the words after it."""

    def __init__(
        self,
        options: Options,
        subjects: Sequence[Subject],
        runs: list[RunSpec],
        watch: SignalWatch,
        out: Console,
    ) -> None:
        self.options, self.runs, self.watch, self.out = options, runs, watch, out
        self.subjects = {subject.name: subject for subject in subjects}
        self.doctor = examine(runs, options.redis)
        self.placement = place_here()
        self.limits = read_limits(ab.concurrency_ceiling())
        self.findings = assess(runs, self.limits)
        self.impossible = impossible_levels(self.findings)
        self.estimate = Estimate(self.impossible)
        self.groups = doctor.parent_of_groups()
        if self.groups:
            remove_stale_groups(self.groups)

    def run(self, before: tuple[Results, Path] | None) -> int:
        """The whole of it; see `sweep`."""
        self._announce()
        with redis_for(self.options.redis, self.placement.load, self.watch) as redis:
            if before:
                self.results, self.folder = before
                self._say_resumed()
            else:
                self.results = self._empty_results(redis)
                self.folder = results.make_folder(self.options.results, self.results.started)
            results.save(self.results, self.folder)
            self._log(f"bench {' '.join(_hide_password(sys.argv[1:]))}; {self.placement.note}")
            for line in self.doctor:
                self._log(f"doctor: {line.state}: {line.topic}: {line.have}; needed: {line.need}")
            self.bench = Bench(redis, self.placement, self.watch, self.groups)
            status = self._measure_all()
        self._conclude()
        return status

    def _announce(self) -> None:
        say = self.out.print
        levels = ", ".join(f"{level:,}" for level in levels_of(self.options.plan))
        conditions = "; ".join(c.describe() for c in conditions_of(self.options.plan))
        say(f"Servers: {', '.join(self.subjects)}", soft_wrap=True)
        say(f"Connections: {levels}; {len(self.runs)} runs: {conditions}", soft_wrap=True)
        say(f"Placement: {self.placement.note}", soft_wrap=True)
        for name, left_out in self._left_out().items():
            say(f"{name} cannot serve: {'; '.join(left_out)}", markup=False, soft_wrap=True)
        if self.options.redis:
            say(
                f"Redis: {without_password(self.options.redis)}; visits raise its visitor_count,"
                " nothing else is changed",
                soft_wrap=True,
            )
        well = sum(line.state in ("well", "note") for line in self.doctor)
        say(f"Doctor: {well} of {len(self.doctor)} things are as they should be", soft_wrap=True)
        said_below = {finding.cure for finding in self.findings}
        left = [x for x in self.doctor if x.state != "note" and x.cure not in said_below]
        doctor.show_cures(left, self.out)
        for finding in self.findings:
            levels = ", ".join(f"{level:,}" for level in finding.levels)
            word = "Not possible" if finding.impossible else "Warning"
            self.out.print(
                f"{word} at {levels}: {finding.describe()}",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
            self.out.print(
                f"    cure: {finding.cure}", style="yellow", markup=False, soft_wrap=True
            )
        say()

    def _left_out(self) -> dict[str, list[str]]:
        """By subject the conditions under which it is not measured, since it cannot be."""
        found: dict[str, list[str]] = {}
        for subject in self.subjects.values():
            for conditions in conditions_of(self.options.plan):
                if not subject.can(conditions.workload, conditions.keep_alive):
                    found.setdefault(subject.name, []).append(conditions.describe())
        return found

    def _say_resumed(self) -> None:
        done, now = len(self.results.runs), machine.describe_machine()
        self.out.print(f"Resumed: {done} of {len(self.runs)} runs are there already", markup=False)
        for name in ("kernel", "cpu_model", "cpus"):
            if now[name] != self.results.machine.get(name):
                old = self.results.machine.get(name)
                raise UserError(f"another machine: {name} was {old}, is {now[name]}")

    def _empty_results(self, redis: RunRedis) -> Results:
        options = self.options
        return Results(
            started=datetime.now().astimezone(),
            command=sys.argv[1:] if not options.redis else _hide_password(sys.argv[1:]),
            machine=machine.describe_machine(),
            versions=machine.versions(self.subjects.values(), redis.version()),
            settings={
                "full": options.plan.full,
                "path": workload_for(options.plan.workloads[0]).path,
                "runs": runs_of(options.plan),
                "timeout_s": self.runs[0].timeout,
                "redis": "private" if redis.private else without_password(redis.url),
                "redis_settings": redis.describe(),
                "options": _kept(options),
            },
            placement=self.placement,
            limits=self.limits,
            findings=self.findings,
            doctor=self.doctor,
            servers=list(self.subjects),
            levels=list(levels_of(options.plan)),
            workloads=list(options.plan.workloads),
        )

    def _measure_all(self) -> int:
        """All runs in order that are not there yet. Keeps what was measured whatever ends it."""
        there = {(run.key, run.run) for run in self.results.runs}
        rest = [spec for spec in self.runs if (spec.key, spec.run) not in there]
        for run in self.results.runs:
            self.estimate.learn(run)
        status = 1
        try:
            with display_for(self.out, self.results, len(rest)) as display:
                while rest:
                    self.watch.check()
                    spec = rest[0]
                    display.begin(spec, self.estimate.seconds_left(rest))
                    run = self._one(spec)
                    rest.pop(0)
                    self._keep(run)
                    display.end(run, self.estimate.seconds_left(rest))
            self.results.state = "complete"
            status = 0 if all_held(self.results.runs) else 1
        except Interrupted as interrupted:
            self.results.state = "interrupted"
            self._log(f"interrupted by {interrupted}")
            status = interrupted.exit_status
        return status

    def _one(self, spec: RunSpec) -> Run:
        """One run, unless it is known already that it cannot give a figure."""
        subject = self.subjects[spec.subject]
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
            results.replace(self.folder / f"{tool}_{place}_run{spec.run}.txt", report)
        return run

    def _learn_answer(self, floor: Subject, conditions: Conditions) -> None:
        """How long a floor's answer must be: as long as that of the server above it."""
        key = (conditions.workload, conditions.keep_alive)
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
        results.save(self.results, self.folder)
        self._log(f"{line_for(run)}  ({run.seconds:.1f} s)")

    def _log(self, text: str) -> None:
        """Add a line to the running log."""
        with (self.folder / LOG).open("a") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}\n")

    def _conclude(self) -> None:
        """Whatever has happened: the files in their last state, the chart, where they are."""
        self.results.finished = datetime.now().astimezone()
        results.save(self.results, self.folder)
        self.out.print(result_table(self.results))
        charts = write_charts(self.results, self.folder)
        took = (self.results.finished - self.results.started).total_seconds()
        interrupted = self.results.state == "interrupted"
        state = "Interrupted after" if interrupted else "Done in"
        names = ["results.json", "results.csv", LOG, *(path.name for path in charts)]
        self.out.print(f"{state} {in_words(took)}.", markup=False)
        self.out.print(f"Kept in {self.folder}/: {', '.join(names)}", markup=False, soft_wrap=True)
        if interrupted:
            self.out.print(
                f"To go on: python -m bench sweep --resume {self.folder}",
                markup=False,
                soft_wrap=True,
            )


def remove_stale_groups(parent: Path) -> None:
    """Remove control groups that a killed run left behind, and end what is still in them."""
    for folder in parent.glob("zerohttpd-measure-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()


def _kept(options: Options) -> dict[str, Any]:
    """The options in the form in which `options_of` reads them."""
    redis = without_password(options.redis) if options.redis else None
    return {"plan": asdict(options.plan), "floors": options.floors, "redis": redis}


def _hide_password(words: Sequence[str]) -> list[str]:
    return [without_password(word.removeprefix("--redis=")) for word in words]
