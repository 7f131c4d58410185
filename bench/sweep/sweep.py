# SPDX-License-Identifier: MIT
"""The sweep: every subject under all chosen conditions at every level of the ladder."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.doctor import doctor, limits, looking
from bench.host.kernel import raise_descriptors
from bench.host.machine import place_here
from bench.host.signals import Interrupted, SignalWatch
from bench.load import ab, open_loop
from bench.readers.console import console
from bench.records import store
from bench.records.errors import UserError
from bench.records.results import Results
from bench.services import balancer
from bench.stations.hosts import Hosts, load_hosts
from bench.stations.remote import HostLost
from bench.stations.site import HERE, Site
from bench.sweep import announce
from bench.sweep.beginning import begun, require_same_machine
from bench.sweep.options import Options, chosen_options, options_of, sweep_parser
from bench.sweep.runs import plan_runs
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


def run(words: Sequence[str]) -> int:
    """`zerohttpd sweep`: sweep, or go on with one. Raises UserError."""
    chosen = sweep_parser().parse_args(words)
    if chosen.resume is None:
        return sweep(chosen_options(chosen, ("sweep", *words))).status
    return resume(
        Path(chosen.resume or store.latest_unfinished(chosen.results)), chosen.redis
    ).status


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
    hosts = load_hosts(options.hosts) if options.hosts else None
    _require_tools(options, hosts)
    raise_descriptors()
    out = console()
    facts = looking.look(options.redis)  # before this process keeps to some of the CPUs
    instances = max(int(number or 1) for number in options.values("instances"))
    placement = HERE if hosts else place_here(instances)
    with SignalWatch() as watch:
        try:
            with Site(watch, placement, hosts, options.programs) as site:
                return _on_site(options, before, folder, site, facts, out)
        except HostLost as lost:
            raise UserError(str(lost)) from lost
        except Interrupted as interrupted:  # before the first run
            out.print("Interrupted before anything was measured.")
            return Done(interrupted.exit_status)


def _require_tools(options: Options, hosts: Hosts | None) -> None:
    """Raise UserError for what is missing here, and on these hosts."""
    ab.require_ab()
    if options.values("rate") != {None}:
        open_loop.require_oha()
    if options.values("balancer") == {"none"}:
        return
    if hosts and hosts.nginx is None:
        raise UserError(f"--balancer: {options.hosts} names no host for nginx")
    if not hosts and balancer.nginx() is None:
        raise UserError(balancer.INSTALL)


def _on_site(
    options: Options,
    before: Results | None,
    folder: Path | None,
    site: Site,
    facts: looking.Facts,
    out: Console,
) -> Done:
    subjects = site.survey(options.subjects, options.floors)
    if before is None:
        options = options.answering(bool(site.slicing()))
    if any(options.values("quota")) and not site.slicing():
        raise UserError(
            "--quota: no control group with a quota can be made for a server (as root it can, or "
            "where systemd lets users limit what is theirs)"
        )
    planned = plan_runs(options.parts, subjects)
    here = looking.limits_here()
    lines = doctor.examine(planned.runs, here, facts, load_only=bool(site.hosts))
    findings = limits.assess_site(planned.runs, here, site.limits(), site.roles())
    redis = site.open_redis(options.redis)
    announce.announce(planned, site, redis, out)
    announce.show_troubles(lines, findings, out)
    if before:
        results = before
        out.print(f"Resumed: {len(before.runs)} of {len(planned.runs)} runs are there already")
        require_same_machine(before)
    else:
        results = begun(options, planned, site, redis)
        results.limits, results.findings, results.doctor = here, findings, lines
    folder = folder or store.make_folder(options.results, results.started)
    store.save(results, folder)
    sweeper = Sweeper(results, folder, planned, findings, site, redis, options.redis, out)
    status = sweeper.run()
    announce.conclude(results, folder, out)
    return Done(status, folder)
