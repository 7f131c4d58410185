# SPDX-License-Identifier: MIT
"""What was asked for, made into runs; and whether it can be."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.doctor.host_limits import assess_hosts
from bench.doctor.limits import assess
from bench.records.environment import Finding, SystemLimits
from bench.records.errors import UserError
from bench.records.plan import Part, RunSpec
from bench.records.workloads import workload_for
from bench.services import balancer
from bench.stations.hosts import Hosts
from bench.stations.site import Site
from bench.subjects.subject import Subject, select
from bench.sweep.ladder import conditions_of, interleaved, runs_in_order
from bench.sweep.options import Options, can_serve


@dataclass(frozen=True)
class Planned:
    """What a sweep consists of."""

    subjects: Mapping[str, Subject]
    """By name, in the order in which they take turns."""
    runs: list[RunSpec]
    left_out: Mapping[str, list[str]]
    """By subject, in words, the conditions under which it is not measured, since it cannot be."""


def plan_runs(options: Options, subjects: Sequence[Subject] | None = None) -> Planned:
    """What is to be done; `subjects`: None: those that are here. Raises UserError if there is
    nothing to do."""
    found = list(subjects or select(options.subjects, options.floors, options.programs))
    by_name = {subject.name: subject for subject in found}
    runs: list[RunSpec] = []
    left_out: dict[str, list[str]] = {}
    for part in options.parts:
        instances, balancers = part.plan.values("instances"), part.plan.values("balancer")
        if any(number != 1 for number in instances) and set(balancers) == {"none"}:
            raise UserError("several instances need something before them: --balancer close, keep")
        names = [subject.name for subject in found if belongs(subject, part)]
        runs += runs_in_order(part.plan, names, lambda name, c: can_serve(by_name[name], c))
        for name, conditions in itertools.product(names, conditions_of(part.plan)):
            if not can_serve(by_name[name], conditions):
                left_out.setdefault(name, []).append(conditions.describe())
    if not runs:
        raise UserError("nothing to measure: none of these can serve what was asked for")
    if options.redis:
        asked = [name for part in options.parts for name in part.plan.workloads]
        writing = [name for name in asked if workload_for(name).private_only]
        if writing:
            raise UserError(
                f"{', '.join(writing)}: only with a private Redis, since data are written to it. "
                "Leave out --redis"
            )
    return Planned(by_name, interleaved(runs), left_out)


def belongs(subject: Subject, part: Part) -> bool:
    """Whether a part of the sweep is about a subject."""
    if part.subjects is None or subject.name in part.subjects:
        return True
    return part.floors and subject.kind == "floor" and subject.architecture in part.subjects


def require_possible(options: Options, hosts: Hosts | None) -> None:
    """Raise UserError for what these hosts cannot do."""
    if hosts and options.redis:
        raise UserError("--redis and --hosts exclude each other: one of the hosts has the Redis")
    if all(set(part.plan.values("balancer")) == {"none"} for part in options.parts):
        return
    if hosts and hosts.nginx is None:
        raise UserError(f"--balancer: {options.hosts} names no host for nginx")
    if not hosts and balancer.nginx() is None:
        raise UserError(balancer.INSTALL)


def require_quotas(options: Options, site: Site) -> None:
    """Raise UserError where a server's host cannot give the quota that was asked for."""
    asked = any(quota for part in options.parts for quota in part.plan.values("quota"))
    if asked and not site.slicing():
        raise UserError(
            "--quota: no control group with a quota can be made for a server (as root it can, or "
            "where systemd lets users limit what is theirs)"
        )


def assess_site(runs: Sequence[RunSpec], here: SystemLimits, site: Site) -> list[Finding]:
    """The limits that are in the way, of all hosts; `here`: of this one."""
    if site.hosts:
        return assess_hosts(runs, site.limits(here), site.roles())
    return assess(runs, here)


def most_instances(options: Options) -> int:
    """How many processes of a server run side by side at most."""
    return max(int(n or 1) for part in options.parts for n in part.plan.values("instances"))
