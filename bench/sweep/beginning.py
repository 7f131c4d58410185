# SPDX-License-Identifier: MIT
"""The beginning of a sweep: stores where and how it is made."""

from datetime import datetime

from bench.doctor.doctor import Diagnosis
from bench.host import machine
from bench.records.conditions import Conditions
from bench.records.errors import UserError
from bench.records.plan import Plan
from bench.records.results import Results, Settings
from bench.services.private_redis import RunRedis
from bench.stations import versions
from bench.stations.site import Site
from bench.sweep.options import SweepOptions, kept
from bench.sweep.runs import Planned, conditions_of, levels_of


def begun(
    options: SweepOptions, planned: Planned, diagnosis: Diagnosis, site: Site, redis: RunRedis
) -> Results:
    """Return the results of a sweep without runs."""
    runs = planned.runs
    workloads = list(dict.fromkeys(spec.conditions.workload for spec in runs))
    return Results(
        started=datetime.now().astimezone(),
        command=list(options.command),
        machine=machine.describe_machine(),
        versions=versions.with_tools(site.versions(), redis.version()),
        settings=Settings(
            full=options.parts[0].plan.full,
            path=next((name for name in workloads if name.startswith("/")), None),
            runs=max(spec.run for spec in runs),
            timeout_s=runs[0].timeout,
            redis=redis.shown,
            redis_settings=redis.describe(),
            options=kept(options, redis.shown),
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
        studies=[study.record(cells_of) for study in options.studies],
        peers=site.peers(),
        left_out={**options.not_wanted, **site.left_out()},
    )


def cells_of(plan: Plan) -> tuple[list[Conditions], list[int]]:
    """Return conditions and levels of a plan."""
    return conditions_of(plan), list(levels_of(plan))


def require_same(before: Results, now: Results) -> None:
    """Raise UserError unless a sweep can be resumed here: a median must not mix runs of different
    machines or versions, because the record names only one of them."""
    found = _what_counts(now)
    for name, was in _what_counts(before).items():
        if was is not None and was != found.get(name):
            raise UserError(
                f"cannot resume this sweep: {name} was {was} at its start and is "
                f"{found.get(name)} now. Start a new sweep"
            )


def _what_counts(results: Results) -> dict[str, object]:
    """Return by name what must be the same for all runs; None: not recorded by an older version."""
    machine, versions = results.machine, results.versions
    said = machine.model_dump(include={"kernel", "cpu_model", "cpus"})
    said |= versions.model_dump(include={"ab", "oha", "wrk", "redis", "nginx", "sources"})
    for kind in ("servers", "strangers", "compilers"):
        said |= {f"{name} ({kind})": one for name, one in getattr(versions, kind).items()}
    for host in results.hosts:
        for name in ("role", "kernel", "cpu_model", "cpus", "cpu_limit"):
            said[f"{host.name}: {name}"] = getattr(host, name)
    return said
