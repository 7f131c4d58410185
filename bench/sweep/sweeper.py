"""A sweep under way: all its runs in order, from the words before it to the words after it."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.doctor.host_limits import assess_hosts
from bench.doctor.limits import assess, impossible_levels
from bench.host import machine
from bench.host.signals import Interrupted
from bench.readers.chart import write_charts
from bench.readers.table import result_table
from bench.records import results, store
from bench.records.conditions import Conditions
from bench.records.environment import Line, SystemLimits
from bench.records.errors import UserError
from bench.records.plan import RunSpec
from bench.records.results import Results
from bench.records.run import Run
from bench.records.workloads import workload_for
from bench.services.private_redis import RunRedis
from bench.services.redis_server import without_password
from bench.stations import versions
from bench.stations.remote import HostLost
from bench.stations.site import Site
from bench.subjects.subject import Subject
from bench.sweep import announce
from bench.sweep.cell import Bench, all_held, answer_bytes, measure, skipped
from bench.sweep.display import display_for, line_for, took
from bench.sweep.estimate import Estimate, in_words
from bench.sweep.ladder import levels_of, runs_of
from bench.sweep.options import Options, hide_password, kept

LABEL_IMPOSSIBLE = "not possible"
LABEL_CELL_FAILED = "run failed"
LOG = "log.txt"


class Sweeper:
    """One sweep."""

    def __init__(
        self,
        options: Options,
        subjects: Sequence[Subject],
        runs: list[RunSpec],
        where: tuple[Site, SystemLimits],
        out: Console,
    ) -> None:
        """`where`: the hosts, and the limits of this one."""
        self.options, self.runs, self.out = options, runs, out
        self.site, self.limits = where
        self.subjects = {subject.name: subject for subject in subjects}
        if self.site.hosts:
            limits = self.site.limits(self.limits)
            self.findings = assess_hosts(runs, limits, self.site.roles())
        else:
            self.findings = assess(runs, self.limits)
        self.impossible = impossible_levels(self.findings)
        self.estimate = Estimate(self.impossible)

    def run(self, before: tuple[Results, Path] | None, said: Sequence[Line]) -> int:
        """The whole of it; see `bench.sweep.sweep.sweep`. `said`: what the doctor said."""
        announce.announce(self.options, self.runs, self.subjects, self.site, self.out)
        announce.show_troubles(said, self.findings, self.out)
        redis = self._open_redis()
        if before:
            self.results, self.folder = before
            self._say_resumed()
        else:
            self.results = self._empty_results(redis, said)
            self.folder = store.make_folder(self.options.results, self.results.started)
        store.save(self.results, self.folder)
        self._log(
            f"bench {' '.join(hide_password(self.options.command))}; {self.site.placement.note}"
        )
        for line in said:
            self._log(f"doctor: {line.state}: {line.topic}: {line.have}; needed: {line.need}")
        self.bench = Bench(self.site, redis, self.site.watch)
        status = self._measure_all()
        self._conclude()
        return status

    def _open_redis(self) -> RunRedis:
        return self.site.open_redis(self.options.redis)

    def _say_resumed(self) -> None:
        done, now = len(self.results.runs), machine.describe_machine()
        self.out.print(f"Resumed: {done} of {len(self.runs)} runs are there already", markup=False)
        for name in ("kernel", "cpu_model", "cpus"):
            if now[name] != self.results.machine.get(name):
                old = self.results.machine.get(name)
                raise UserError(f"another machine: {name} was {old}, is {now[name]}")

    def _empty_results(self, redis: RunRedis, said: Sequence[Line]) -> Results:
        options = self.options
        return Results(
            started=datetime.now().astimezone(),
            command=hide_password(self.options.command),
            machine=machine.describe_machine(),
            versions=versions.versions(redis.version()) | self.site.versions(),
            settings={
                "full": options.plan.full,
                "path": workload_for(options.plan.workloads[0]).path,
                "runs": runs_of(options.plan),
                "timeout_s": self.runs[0].timeout,
                "redis": "private" if redis.private else without_password(redis.url),
                "redis_settings": redis.describe(),
                "options": kept(options),
            },
            hosts=self.site.host_infos(),
            placement=self.site.placement,
            limits=self.limits,
            findings=self.findings,
            doctor=list(said),
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
            self._log(f"interrupted by {interrupted}")
            status = interrupted.exit_status
        except (HostLost, UserError) as lost:  # and could not be had back
            self.results.state = "interrupted"
            self._log(f"ended: {lost}")
            self.out.print(f"Ended: {lost}", style="red", markup=False, soft_wrap=True)
        return status

    def _recover(self) -> None:
        """Start all agents anew, and a new Redis. Raises HostLost or UserError."""
        self._log("a host was lost: all agents are started anew")
        self.site.reopen()
        self.bench.redis = self._open_redis()

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
        self._log(f"{line_for(run)}  ({took(run)})")

    def _log(self, text: str) -> None:
        """Add a line to the running log."""
        with (self.folder / LOG).open("a") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}\n")

    def _conclude(self) -> None:
        """Whatever has happened: the files in their last state, the chart, where they are."""
        self.results.finished = datetime.now().astimezone()
        store.save(self.results, self.folder)
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
                f"To go on: .venv/bin/zerohttpd sweep --resume {self.folder}",
                markup=False,
                soft_wrap=True,
            )
