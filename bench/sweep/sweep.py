"""The sweep: every subject under all chosen conditions at every level of the ladder."""

import contextlib
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bench.doctor import doctor
from bench.doctor.doctor import Facts
from bench.host.placement import place_here
from bench.host.signals import Interrupted, SignalWatch
from bench.host.system_limits import raise_descriptors, read_limits
from bench.load import ab, open_loop
from bench.records import store
from bench.records.environment import Line, SystemLimits
from bench.records.errors import UserError
from bench.records.plan import RunSpec
from bench.records.results import Results
from bench.records.workloads import workload_for
from bench.services import balancer
from bench.services.private_redis import redis_for
from bench.services.redis_server import without_password
from bench.stations.hosts import Hosts, load_hosts
from bench.stations.remote import HostLost
from bench.stations.site import HERE, Site
from bench.subjects.subject import Subject, select
from bench.sweep.display import console
from bench.sweep.ladder import runs_in_order
from bench.sweep.options import Options, can_serve, options_of
from bench.sweep.sweeper import Sweeper

OF_OTHERS = (
    "CPUs for",
    "accept queue",
    "half-open",
    "processes and",
    "control groups",
    "redis",
    "Redis",
)
"""How the doctor's lines begin that do not matter to a host that makes the load only."""


def sweep(options: Options) -> int:
    """Run it all. Exit status: 0 all cells hold, 1 some do not, 128 + n after signal n.

    Raises UserError before the first run for all that is known then to stand in the way.
    """
    return _run(options, None)


def resume(folder: Path, redis: str | None = None) -> int:
    """Make the runs that are missing in a folder of results; the exit status is as of `sweep`.

    `redis` must be given again if the sweep had one with a password. Raises UserError.
    """
    old = store.load(folder / "results.json")
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
            if store.load(file).state != "complete":
                return file.parent
    raise UserError(f"no unfinished sweep in {parent}/")


def plan_runs(
    options: Options, subjects: Sequence[Subject] | None = None
) -> tuple[list[Subject], list[RunSpec]]:
    """The subjects (None: those that are here) and the runs. Raises UserError if there is nothing
    to do."""
    found = list(subjects or select(options.subjects, options.floors))
    by_name = {subject.name: subject for subject in found}
    if max(options.plan.instances) > 1 and set(options.plan.balancers) == {"none"}:
        raise UserError("several instances need something before them: --balancer close, keep")
    runs = runs_in_order(options.plan, list(by_name), lambda name, c: can_serve(by_name[name], c))
    if not runs:
        raise UserError("nothing to measure: none of these can serve what was asked for")
    if options.redis:
        writing = [w for w in options.plan.workloads if workload_for(w).private_only]
        if writing:
            raise UserError(
                f"{', '.join(writing)}: only with a private Redis, since data are written to it. "
                "Leave out --redis"
            )
    return found, runs


def examine(options: Options, runs: Sequence[RunSpec]) -> list[Line]:
    """What the doctor says about these runs on this machine."""
    return doctor.examine(runs, limits_here(), look(options.redis))


def look(redis_url: str | None) -> Facts:
    """What the doctor sees on this machine."""
    there = None
    if redis_url:
        with redis_for(redis_url, (), SignalWatch()) as redis:
            there = redis.describe()
    return doctor.look(there, without_password(redis_url or ""))


def limits_here() -> SystemLimits:
    """This machine's, with those of its ab if there is one."""
    return read_limits(ab.concurrency_ceiling() if shutil.which("ab") else None)


def _run(options: Options, before: tuple[Results, Path] | None) -> int:
    ab.require_ab()
    if options.plan.rates:
        open_loop.require_oha()
    hosts = load_hosts(options.hosts) if options.hosts else None
    require_possible(options, hosts)
    raise_descriptors()
    out = console()
    facts = look(options.redis)  # before this process keeps to some of the CPUs
    placement = HERE if hosts else place_here(max(options.plan.instances))
    with SignalWatch() as watch:
        try:
            with Site(watch, placement, hosts) as site:
                found = site.survey(options.subjects, options.floors)
                subjects, runs = plan_runs(options, found)
                limits = limits_here()
                lines = doctor.examine(runs, limits, facts)
                if hosts:
                    lines = [line for line in lines if not line.topic.startswith(OF_OTHERS)]
                sweeper = Sweeper(options, subjects, runs, (site, limits), out)
                return sweeper.run(before, lines)
        except HostLost as lost:
            raise UserError(str(lost)) from lost
        except Interrupted as interrupted:  # before the first run
            out.print("Interrupted before anything was measured.")
            return interrupted.exit_status


def require_possible(options: Options, hosts: Hosts | None) -> None:
    """Raise UserError for what these hosts cannot do."""
    if hosts and options.redis:
        raise UserError("--redis and --hosts exclude each other: one of the hosts has the Redis")
    if set(options.plan.balancers) == {"none"}:
        return
    if hosts and hosts.nginx is None:
        raise UserError(f"--balancer: {options.hosts} names no host for nginx")
    if not hosts and balancer.nginx() is None:
        raise UserError(balancer.INSTALL)
