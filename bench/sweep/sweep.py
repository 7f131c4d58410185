# SPDX-License-Identifier: MIT
"""The sweep: every subject under all chosen conditions at every level of the ladder."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.doctor import doctor, looking
from bench.doctor.limits import impossible_levels
from bench.doctor.looking import Facts
from bench.host.placement import place_here
from bench.host.signals import Interrupted, SignalWatch
from bench.host.system_limits import raise_descriptors
from bench.load import ab, open_loop
from bench.readers.console import console
from bench.records import store
from bench.records.errors import UserError
from bench.records.results import Results
from bench.stations.hosts import load_hosts
from bench.stations.remote import HostLost
from bench.stations.site import HERE, Site
from bench.sweep import announce, planning
from bench.sweep.beginning import begun, judged, require_same_machine
from bench.sweep.cell import Bench
from bench.sweep.closing import conclude
from bench.sweep.options import Options, options_of
from bench.sweep.sweeper import Sweeper

SIGNALLED = 128


@dataclass(frozen=True)
class Done:
    """How a sweep ended."""

    status: int
    """Exit status: 0 all cells hold, 1 some do not, 128 + n after signal n."""
    folder: Path | None = None
    """Of the results; None: it ended before its first run."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it."""
        return self.status > SIGNALLED


def sweep(options: Options) -> Done:
    """Run it all. Raises UserError before the first run for what is known then to be in the way."""
    return _run(options, None)


def resume(folder: Path, redis: str | None = None) -> Done:
    """Make the runs that are missing in a folder of results.

    `redis` must be given again if the sweep had one with a password. Raises UserError.
    """
    old = store.load(folder / "results.json")
    if old.state == "complete":
        raise UserError(f"{folder} is complete: nothing to resume")
    options = options_of(old, folder.parent, redis)
    old.state, old.finished = "running", None
    old.settings.resumed.append(datetime.now().astimezone().isoformat())
    return _run(options, old, folder)


def _run(options: Options, before: Results | None, folder: Path | None = None) -> Done:
    """`before`: the results to go on with, which lie in `folder`."""
    ab.require_ab()
    if any(part.plan.rates for part in options.parts):
        open_loop.require_oha()
    hosts = load_hosts(options.hosts) if options.hosts else None
    planning.require_possible(options, hosts)
    raise_descriptors()
    out = console()
    facts = looking.look(options.redis)  # before this process keeps to some of the CPUs
    placement = HERE if hosts else place_here(planning.most_instances(options))
    with SignalWatch() as watch:
        try:
            with Site(watch, placement, hosts, options.programs) as site:
                return _on_site(options, before, folder, site, facts, out)
        except HostLost as lost:
            raise UserError(str(lost)) from lost
        except Interrupted as interrupted:  # before the first run
            out.print("Interrupted before anything was measured.")
            return Done(interrupted.exit_status)


def _on_site(
    options: Options,
    before: Results | None,
    folder: Path | None,
    site: Site,
    facts: Facts,
    out: Console,
) -> Done:
    found = site.survey(options.subjects, options.floors)
    if before is None:
        options = options.answering(bool(site.slicing()))
    planning.require_quotas(options, site)
    planned = planning.plan_runs(options, found)
    runs = planned.runs
    limits = looking.limits_here()
    said = doctor.examine(runs, limits, facts, load_only=bool(site.hosts))
    findings = planning.assess_site(runs, limits, site)
    redis = site.open_redis(options.redis)
    announce.announce(planned, site, redis, out)
    announce.show_troubles(said, findings, out)
    if before:
        results = before
        out.print(f"Resumed: {len(before.runs)} of {len(runs)} runs are there already")
        require_same_machine(before)
    else:
        results = judged(begun(options, planned, site, redis), limits, findings, said)
    folder = folder or store.make_folder(options.results, results.started)
    store.save(results, folder)
    status = Sweeper(
        results=results,
        folder=folder,
        runs=runs,
        subjects=planned.subjects,
        bench=Bench(site, redis, site.watch),
        open_redis=lambda: site.open_redis(options.redis),
        impossible=impossible_levels(findings),
        out=out,
    ).run()
    conclude(results, folder, out)
    return Done(status, folder)
