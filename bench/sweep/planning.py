"""What was asked for, made into runs; and whether it can be."""

from collections.abc import Sequence

from bench.doctor.host_limits import assess_hosts
from bench.doctor.limits import assess
from bench.records.environment import Finding, SystemLimits
from bench.records.errors import UserError
from bench.records.plan import RunSpec
from bench.records.workloads import workload_for
from bench.services import balancer
from bench.stations.hosts import Hosts
from bench.stations.site import Site
from bench.subjects.subject import Subject, select
from bench.sweep.ladder import runs_in_order
from bench.sweep.options import Options, can_serve


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


def assess_site(runs: Sequence[RunSpec], here: SystemLimits, site: Site) -> list[Finding]:
    """The limits that are in the way, of all hosts; `here`: of this one."""
    if site.hosts:
        return assess_hosts(runs, site.limits(here), site.roles())
    return assess(runs, here)
