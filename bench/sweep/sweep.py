# SPDX-License-Identifier: MIT
"""Run a sweep: measure every server under all chosen conditions at every level."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.doctor import doctor
from bench.host import machine
from bench.host.process import SignalWatch
from bench.records import store
from bench.records.errors import Interrupted, UserError
from bench.records.results import Results, Settings
from bench.stations import survey
from bench.stations.site import APART, Site, load_hosts
from bench.studies.runs import Planned, plan_runs
from bench.sweep.options import SweepOptions, chosen_options, options_of, sweep_parser
from bench.sweep.sweeper import Sweeper

SIGNALLED = 128


@dataclass(frozen=True)
class Done:
    """The end of a sweep: its exit status and its folder."""

    status: int  # Exit status: 0 all results valid, 1 not all valid, 128 + n after signal n.
    folder: Path | None = None
    """The folder of results; None: the sweep was interrupted before the folder was created."""

    @property
    def interrupted(self) -> bool:
        """Return whether a signal ended the sweep."""
        return self.status > SIGNALLED


def run(words: Sequence[str]) -> int:
    """Run `zerohttpd sweep`: start or resume a sweep. Raises UserError."""
    chosen = sweep_parser().parse_args(words)
    if chosen.resume is None:
        return sweep(chosen_options(chosen, ("sweep", *words))).status
    folder = Path(chosen.resume or store.latest_unfinished(chosen.results))
    return resume(folder, chosen.redis).status


def resume(folder: Path, redis: str | None = None) -> Done:
    """Make the missing runs of the sweep in `folder`. If the sweep used a Redis with a password,
    `redis` must be the URL of this Redis. Raises UserError."""
    old = store.load(folder / "results.json")
    if old.state == "complete":
        raise UserError(f"{folder} is complete: nothing to resume")
    options = options_of(old, folder.parent, redis)
    old.state, old.finished = "running", None
    old.settings.resumed.append(datetime.now().astimezone().isoformat())
    return sweep(options, old, folder)


def sweep(options: SweepOptions, before: Results | None = None, folder: Path | None = None) -> Done:
    """Run a sweep; `before`: results to resume, stored in `folder`. Raises UserError before the
    first run if the sweep is impossible."""
    by_wrk = {*options.values("generator")} != {"ab"}
    survey.require_tools(by_oha=options.values("rate") != {None}, by_wrk=by_wrk)
    facts = doctor.look()  # before this process is bound to some of the CPUs
    instances = max(int(number or 1) for number in options.values("instances"))
    with SignalWatch() as watch:
        try:
            hosts = load_hosts(options.hosts) if options.hosts else None
            placement = APART if hosts else machine.place_here(instances)
            with closing(Site(watch, placement, hosts, options.programs)) as site:
                sweeper = _sweeper(options, before, folder, site, facts)
                return Done(sweeper.run(), sweeper.folder)
        except Interrupted as interrupted:  # before the first run
            print("Interrupted before the first measurement.")
            return Done(interrupted.exit_status)


def _sweeper(
    options: SweepOptions,
    before: Results | None,
    folder: Path | None,
    site: Site,
    facts: doctor.Facts,
) -> Sweeper:
    """Prepare everything for the first run. Raises UserError if the sweep is impossible."""
    if options.values("balancer") != {"none"}:
        site.require_nginx()
    some = bool(options.studies or (before and before.studies))
    left_out = before.left_out if before else options.not_wanted
    subjects = site.survey([x for x in options.subjects if x not in left_out], some)
    if before is None:
        options = options.answering(bool(site.slicing()))
    if any(options.values("quota")) and not site.slicing():
        raise UserError(
            "--quota: cannot create a control group with a quota for a server; run as root, "
            "or under a systemd that lets users set CPU quotas"
        )
    planned = plan_runs(options.parts, subjects)
    site.open_redis(options.redis)
    diagnosis = doctor.diagnose(planned.runs, facts, site.redis, site.limits())
    results = begun(options, planned, diagnosis, site)
    if before:
        require_same(before, results)
        results = before
    folder = folder or store.make_folder(options.results, results.started)
    return Sweeper(results, folder, planned, diagnosis, site, options.concludes)


def begun(
    options: SweepOptions, planned: Planned, diagnosis: doctor.Diagnosis, site: Site
) -> Results:
    """Return the results of a new sweep, without runs."""
    runs, redis = planned.runs, site.redis
    stored = {
        "redis": redis.shown if options.redis else None,
        "hosts": options.hosts and options.hosts.resolve(),
    }
    workloads = list(dict.fromkeys(spec.conditions.workload for spec in runs))
    return Results(
        started=datetime.now().astimezone(),
        command=list(options.command),
        machine=machine.describe_machine(),
        versions=survey.with_tools(site.versions(), redis.version()),
        settings=Settings(
            full=options.parts[0].full,
            path=next((name for name in workloads if name.startswith("/")), None),
            runs=max(spec.run for spec in runs),
            timeout_s=runs[0].timeout,
            redis=redis.shown,
            redis_settings=redis.describe(),
            options=options.model_copy(update=stored),
        ),
        hosts=site.host_infos(),
        placement=site.placement,
        limits=diagnosis.limits,
        findings=diagnosis.findings,
        doctor=diagnosis.lines,
        servers=list(planned.subjects),
        stalled_by={s.name: s.stalled_by for s in planned.subjects.values() if s.stalled_by},
        slicing=site.slicing(),
        levels=sorted({spec.concurrency for spec in runs}),
        workloads=workloads,
        studies=[one.record() for one in options.studies if one.reference],
        expect=[each for one in options.studies for each in one.expect],
        peers=site.server.peers,
        left_out={**options.not_wanted, **site.left_out()},
    )


def require_same(before: Results, now: Results) -> None:
    """Raise UserError if the machine or a version has changed since `before`. A median must not mix
    runs of two machines or versions."""
    found = _what_counts(now)
    for name, was in _what_counts(before).items():
        if was != found.get(name):
            changed = f"{name} was {was} at its start and is {found.get(name)} now"
            raise UserError(f"cannot resume this sweep: {changed}. Start a new sweep")


def _what_counts(results: Results) -> dict[str, object]:
    """Return the recorded facts that must be the same for all runs, by name."""
    hosts = {
        f"{host.name}: {name}": getattr(host, name)
        for host in results.hosts
        for name in ("role", "kernel", "cpu_model", "cpus", "cpu_limit")
    }
    return results.circumstances() | hosts
