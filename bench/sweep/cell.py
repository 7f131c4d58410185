# SPDX-License-Identifier: MIT
"""One run of a configuration: start of a server, first request, warm-up, load and checks."""

import time
from datetime import datetime
from urllib.parse import urljoin

import redis

from bench.host.kernel import difference
from bench.load.running import probe, require_content
from bench.records.conditions import RunSpec
from bench.records.errors import NoFigure, UserError
from bench.records.figures import Held, Reason, Run
from bench.records.workloads import workload_for
from bench.stations.site import Site
from bench.stations.station import ServerOrder
from bench.subjects.subject import Subject
from bench.sweep.checks import judge
from bench.sweep.loading import WARM_UP_CONNECTIONS, idling, make_load, warm_up
from bench.sweep.run_figures import Evidence, enter

SEGMENT_HERE, SEGMENT_BETWEEN_HOSTS = 65_483, 1_448
"""The data bytes of a TCP segment: the MTU is 65,536 bytes on loopback, 1,500 bytes on Ethernet."""
SETTLE_SECONDS = 0.05
"""The pause after warm-up and load: the last children and threads end in it and are counted."""
Lengths = dict[tuple[str, bool], int]
"""The length of a baseline's answer in bytes, by workload and whether connections are kept."""


def measure(subject: Subject, spec: RunSpec, site: Site, lengths: Lengths) -> tuple[Run, str]:
    """Make one run. Return the run and the load generator's output. If a baseline needs the length
    of an answer, add it to `lengths`. Raises Interrupted or UserError."""
    run, report = empty_run(subject, spec, "failed"), ""
    run.started, begin = datetime.now().astimezone(), time.monotonic()
    try:
        if subject.kind == "baseline":
            _learn_answer(subject, spec, site, lengths)
        report = _measure(subject, spec, site, lengths, run)
    except NoFigure as stopped:
        run.reason = Reason(label=stopped.label, text=str(stopped))
    except redis.RedisError as stopped:
        run.reason = Reason(label="no Redis", text=str(stopped))
    except OSError as stopped:
        run.reason = Reason(label="system error", text=str(stopped))
    if site.lost:  # a lost host is the cause of any other error
        run.state, run.reason = "failed", Reason(label="host lost", text=site.lost)
    run.seconds = round(time.monotonic() - begin - run.waited, 3)
    return run, report


def empty_run(subject: Subject, spec: RunSpec, state: Held, label: str = "", text: str = "") -> Run:
    """Return the record of a run without figures; `label` and `text` are the reason."""
    reason, of = Reason(label=label, text=text) if text else None, subject.architecture
    # `Run` has all fields of `RunSpec` except the timeout, which pydantic ignores.
    return Run(**vars(spec), kind=subject.kind, architecture=of, state=state, reason=reason)


def _make_room(spec: RunSpec, site: Site, size: int) -> float:
    """If an answer of `size` bytes is longer than a segment, wait until the kernel can keep all
    connections of the run in TIME_WAIT. A client that still reads may get a reset from a connection
    that is not kept. Return the duration of the wait in seconds."""
    if size <= (SEGMENT_BETWEEN_HOSTS if site.hosts else SEGMENT_HERE):
        return 0.0
    begin = time.monotonic()
    around = 1 + 2 * WARM_UP_CONNECTIONS  # connections of the first request and warm-up
    site.make_room(lambda role: spec.ended_connections(role) + around)
    return round(time.monotonic() - begin, 3)


def _measure(subject: Subject, spec: RunSpec, site: Site, lengths: Lengths, run: Run) -> str:
    site.redis.prepare()
    try:
        seen = _loaded(subject, spec, site, lengths, run)
    finally:
        site.stop_run()
    enter(run, seen)
    judge(run, seen)
    return seen.outcome.report


def _loaded(subject: Subject, spec: RunSpec, site: Site, lengths: Lengths, run: Run) -> Evidence:
    """Start the programs, make the load, end the programs, and return the data of the run. All
    counters are read immediately before and after the load."""
    workload, redis = workload_for(spec.conditions.workload), site.redis
    url = urljoin(_start(spec, site, lengths), workload.path)
    answer = probe(url, workload, 200 if subject.kind == "baseline" else workload.status)
    run.probe_status = answer.status
    if subject.kind != "baseline":
        require_content(answer, workload)
    run.waited = _make_room(spec, site, answer.size)
    warmed_up = warm_up(url, subject.warm_up, spec, site)
    site.watch.sleep(SETTLE_SECONDS)  # until the server has sent the responses that ab did not read
    redis.prepare()
    counts = redis.counts()
    with idling(url, spec, site) as idle:
        use = redis.use()
        site.begin()
        begin = time.monotonic()
        outcome = make_load(url, spec, site)
        wall = time.monotonic() - begin
        site.watch.sleep(SETTLE_SECONDS)
        hosts = site.end()
        used = difference(redis.use(), use)
        idled = idle.report() if idle else None
    return Evidence(
        spec=spec,
        answer=answer,
        warmed_up=warmed_up,
        outcome=outcome,
        wall=wall,
        counted=difference(redis.counts(), counts),
        redis=used,
        idle=idled,
        hosts=hosts,
        stopped=site.stop_run(),
        private=redis.private,
    )


def _start(spec: RunSpec, site: Site, lengths: Lengths) -> str:
    """Start the run's programs and return the URL for the load. Raises NoFigure or OSError."""
    conditions, redis_url = spec.conditions, site.redis.url
    if conditions.redis_delay_ms:
        redis_url = site.start_slow_redis(redis_url, conditions.redis_delay_ms)
    order = ServerOrder(
        subject=spec.subject,
        instances=conditions.instances,
        redis_url=redis_url,
        conditions=conditions,
        answer_bytes=lengths.get((conditions.workload, conditions.server_keeps), 0),
    )
    urls = site.start_servers(order)
    if conditions.balancer == "none":
        return urls[0]
    return site.start_balancer(urls, conditions.balancer == "keep", spec.connections)


def _learn_answer(baseline: Subject, spec: RunSpec, site: Site, lengths: Lengths) -> None:
    """Measure the length of a server's answer, because its baseline's answer must be equally long.
    If NoFigure is raised, the next run tries again."""
    conditions = spec.conditions
    key = (conditions.workload, conditions.server_keeps)
    if key in lengths:
        return
    workload = workload_for(conditions.workload)
    name = baseline.architecture or ""
    order = ServerOrder(subject=name, redis_url=site.redis.url, conditions=conditions)
    try:
        site.redis.prepare()
        url = urljoin(site.start_servers(order)[0], workload.path)
        lengths[key] = probe(url, workload, workload.status, conditions.server_keeps).size
    except (NoFigure, UserError) as error:
        words = f"a baseline needs the length of its server's answer, but {name} sent no answer"
        raise NoFigure(f"{words}: {error}", "nothing to match") from error
    finally:
        site.stop_run()
