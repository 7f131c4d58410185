# SPDX-License-Identifier: MIT
"""The beginning of a sweep: stores its place and its settings."""

from datetime import datetime

from bench.doctor.doctor import Diagnosis
from bench.host import machine
from bench.records.errors import UserError
from bench.records.results import Results, Settings
from bench.services.redis_server import RunRedis
from bench.stations import survey
from bench.stations.site import Site
from bench.studies.runs import Planned
from bench.sweep.options import SweepOptions


def begun(
    options: SweepOptions, planned: Planned, diagnosis: Diagnosis, site: Site, redis: RunRedis
) -> Results:
    """Return the results of a sweep without runs."""
    runs = planned.runs
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
        peers=site.peers(),
        left_out={**options.not_wanted, **site.left_out()},
    )


def require_same(before: Results, now: Results) -> None:
    """Raise UserError unless a sweep can be resumed here: a median must not mix runs of different
    machines or versions, because the record names only one of them."""
    found = _what_counts(now)
    for name, was in _what_counts(before).items():
        if was != found.get(name):
            raise UserError(
                f"cannot resume this sweep: {name} was {was} at its start and is "
                f"{found.get(name)} now. Start a new sweep"
            )


def _what_counts(results: Results) -> dict[str, object]:
    """Return by name the facts that must be the same for all runs, as far as they are recorded."""
    hosts = {
        f"{host.name}: {name}": getattr(host, name)
        for host in results.hosts
        for name in ("role", "kernel", "cpu_model", "cpus", "cpu_limit")
    }
    return results.circumstances() | hosts
