# SPDX-License-Identifier: MIT
"""The beginning of a sweep: what is kept of where and how it is made."""

from collections.abc import Sequence
from datetime import datetime

from bench.host import machine
from bench.records.environment import Finding, Line, SystemLimits
from bench.records.errors import UserError
from bench.records.plan import RunSpec
from bench.records.results import Results, Settings
from bench.records.workloads import workload_for
from bench.services.private_redis import RunRedis
from bench.services.redis_server import without_password
from bench.stations import versions
from bench.stations.site import Site
from bench.sweep.options import Options, hide_password, kept


def begun(
    options: Options,
    subjects: Sequence[str],
    runs: Sequence[RunSpec],
    site: Site,
    redis: RunRedis,
) -> Results:
    """The results of a sweep that has no runs yet."""
    first = options.parts[0].plan
    return Results(
        started=datetime.now().astimezone(),
        command=hide_password(options.command),
        machine=machine.describe_machine(),
        versions=versions.versions(redis.version()) | site.versions(),
        settings=Settings(
            full=first.full,
            path=workload_for(first.workloads[0]).path,
            runs=max(spec.run for spec in runs),
            timeout_s=runs[0].timeout,
            redis="private" if redis.private else without_password(redis.url),
            redis_settings=redis.describe(),
            options=kept(options),
        ),
        hosts=site.host_infos(),
        placement=site.placement,
        servers=list(subjects),
        levels=sorted({spec.concurrency for spec in runs}),
        workloads=list(dict.fromkeys(spec.conditions.workload for spec in runs)),
    )


def judged(
    results: Results,
    limits: SystemLimits,
    findings: Sequence[Finding],
    said: Sequence[Line],
) -> Results:
    """With what was found out about the machines before the first run."""
    results.limits, results.findings, results.doctor = limits, list(findings), list(said)
    return results


def require_same_machine(results: Results) -> None:
    """Raise UserError unless this is the machine that a sweep was begun on."""
    now = machine.describe_machine()
    for name in ("kernel", "cpu_model", "cpus"):
        if now[name] != results.machine.get(name):
            old = results.machine.get(name)
            raise UserError(f"another machine: {name} was {old}, is {now[name]}")
