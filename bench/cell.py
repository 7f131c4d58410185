"""One run of one cell: a fresh server, a probe, a warm-up, the load, the end, the judgement."""

import contextlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from bench import ab, bottleneck, open_loop
from bench.ab import AbOutcome
from bench.beside import HelperError, IdleConnections, IdleReport, SlowRedis
from bench.checks import Check, Count, Evidence, first_failure, judge
from bench.conditions import Conditions
from bench.footprint import Footprint, Lifetime, lifetime_between, rusage_of_buried
from bench.ladder import RunSpec
from bench.measurement import LittlesLaw, OtherProcess
from bench.open_loop import OpenOutcome
from bench.placement import Placement
from bench.private_redis import RedisUse, RunRedis, free_port
from bench.probe import Answer, ProbeError, probe
from bench.results import Reason, Run
from bench.server_process import Ended, RunningServer, StartError
from bench.servers import discover
from bench.signals import SignalWatch
from bench.subjects import Place, Subject, server_subject
from bench.workloads import Workload, workload_for

WARM_UP_CONNECTIONS = 100
"""At most; fewer at lower levels. Each connection is used twice."""
SETTLE_SECONDS = 0.05
"""After the load: time for the last children and threads to end and be counted."""
IDLE_PATH = "/redirect"
"""What idle connections ask for: the cheapest."""

LITTLE_ABOVE = 0.15
"""More requests cannot be under way than there are connections; the rest is for our clock."""
LITTLE_BELOW = 0.5
"""Fewer can: ab needs time between two requests of a connection. With fewer than half of them
under way it did not make the load that it was asked for."""
CLOCK_SECONDS = 0.1
"""Our clock also counts ab's start and its last lines."""


@dataclass
class Bench:
    """What all runs of a sweep share."""

    redis: RunRedis
    placement: Placement
    watch: SignalWatch
    groups: Path | None = None
    """Where control groups can be made; None: nowhere."""
    answer_bytes: dict[tuple[str, bool], int] = field(default_factory=dict)
    """How long a whole answer of a server is, by workload and keep-alive: for floors."""


class NoFigure(Exception):
    """A run ended before it came to a figure."""

    def __init__(self, label: str, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(label=label, text=text)


@dataclass(frozen=True)
class _Task:
    """What is to be done."""

    subject: Subject
    spec: RunSpec
    workload: Workload
    bench: Bench


@dataclass
class _Seen:
    """What one load left, put together while it is made."""

    probe: Answer
    warmed_up: int
    """Requests of the warm-up."""
    visits_before: int
    remarks_before: int
    closed: AbOutcome | None = None
    open: OpenOutcome | None = None
    idle: IdleReport | None = None
    alive: bool = True
    redis: OtherProcess | None = None
    redis_demand: float | None = None
    visits: int = 0
    remarks: int = 0

    @property
    def done(self) -> AbOutcome | OpenOutcome:
        """The load generator's outcome."""
        found = self.closed or self.open
        assert found is not None
        return found

    @property
    def seconds(self) -> float:
        """The time of the load: by the generator's clock, else by ours."""
        figures = self.done.figures
        return figures.seconds if figures and figures.seconds else self.done.wall_seconds


def measure(subject: Subject, spec: RunSpec, bench: Bench) -> tuple[Run, str]:
    """Make one run. Returns it with all that the load generator printed. Raises Interrupted on
    Ctrl-C only."""
    run = empty_run(subject, spec, "failed")
    run.started = datetime.now().astimezone()
    begin = time.monotonic()
    report = ""
    try:
        report = _measure(subject, spec, bench, run)
    except NoFigure as stopped:
        run.reason = stopped.reason
    except (ProbeError, StartError, HelperError, OSError) as stopped:
        label = getattr(stopped, "label", "no start")
        run.reason = Reason(label=label, text=str(stopped))
    run.seconds = round(time.monotonic() - begin, 3)
    return run, report


def skipped(subject: Subject, spec: RunSpec, label: str, text: str) -> Run:
    """The record of a run that was not made."""
    run = empty_run(subject, spec, "skipped")
    run.reason = Reason(label=label, text=text)
    return run


def empty_run(subject: Subject, spec: RunSpec, state: str) -> Run:
    """The record of a run of which nothing is known yet."""
    return Run.model_validate(
        {
            "subject": spec.subject,
            "kind": subject.kind,
            "architecture": subject.architecture,
            **spec.conditions._asdict(),
            "concurrency": spec.concurrency,
            "run": spec.run,
            "state": state,
            "requests": spec.requests,
        }
    )


def _measure(subject: Subject, spec: RunSpec, bench: Bench, run: Run) -> str:
    workload = workload_for(spec.conditions.workload)
    task = _Task(subject, spec, workload, bench)
    status = 200 if subject.kind == "floor" else workload.status
    bench.redis.prepare()
    with contextlib.ExitStack() as tidy:
        slow = _slow_redis(spec, bench, tidy)
        place = _place(subject, spec, bench, slow.url if slow else bench.redis.url, tidy)
        running = RunningServer(subject, place, bench.placement.server, bench.watch, bench.groups)
        tidy.callback(running.stop)
        url = urljoin(running.url, workload.path)
        answer = probe(url, workload, status)
        run.probe_status = answer.status
        warmed_up = warm_up(url, workload, spec, bench)
        footprint = Footprint(running, bench.placement.server)
        seen = _Seen(answer, warmed_up, *bench.redis.counts())
        _load(task, url, running, footprint, slow, seen)
        before = rusage_of_buried()
        ended = running.stop()
        life = lifetime_between(before, rusage_of_buried())
    assert ended is not None
    _enter(run, seen, ended)
    if _completed(seen):
        _enter_figures(run, spec, seen, footprint, life)
    conclude(run, judge(_evidence(task, run, seen, ended)))
    return seen.done.report


def answer_bytes(floor: Subject, conditions: Conditions, bench: Bench) -> int:
    """How long the whole answer is that the server of a floor's architecture gives. 0: not known,
    the floor then answers as shortly as it can."""
    server = next((s for s in discover() if s.name == floor.architecture), None)
    if server is None:
        return 0
    workload = workload_for(conditions.workload)
    bench.redis.prepare()
    try:
        place = Place(0, bench.redis.url, Path())
        running = RunningServer(server_subject(server), place, (), bench.watch)
    except StartError:
        return 0
    try:
        url = urljoin(running.url, workload.path)
        return probe(url, workload, workload.status, conditions.keep_alive).bytes
    except ProbeError:
        return 0
    finally:
        running.stop()


def _slow_redis(spec: RunSpec, bench: Bench, tidy: contextlib.ExitStack) -> SlowRedis | None:
    delay = spec.conditions.redis_delay_ms
    if not delay:
        return None
    slow = SlowRedis(bench.redis.url, delay, bench.placement.load, bench.watch)
    tidy.enter_context(slow)
    return slow


def _place(
    subject: Subject, spec: RunSpec, bench: Bench, redis_url: str, tidy: contextlib.ExitStack
) -> Place:
    folder = tidy.enter_context(tempfile.TemporaryDirectory(prefix="zerohttpd-subject-"))
    conditions = spec.conditions
    size = bench.answer_bytes.get((conditions.workload, conditions.keep_alive), 0)
    port = 0 if subject.announces else free_port()
    return Place(port, redis_url, Path(folder), conditions.keep_alive, size)


def warm_up(url: str, workload: Workload, spec: RunSpec, bench: Bench) -> int:
    """Some requests before those that count: caches are filled, connections to Redis open.
    Returns how many. Raises NoFigure."""
    connections = min(spec.concurrency, WARM_UP_CONNECTIONS)
    load = ab.Load(
        url,
        2 * connections,
        connections,
        spec.timeout,
        any_length=True,
        keep_alive=spec.conditions.keep_alive,
        form=workload.form,
    )
    done = ab.run(load, bench.placement.load, bench.watch)
    if done.timed_out or done.status != 0:
        said = done.message or f"not done after {spec.timeout:g} s"
        raise NoFigure("warm-up", f"it failed in the warm-up already: {said}")
    return load.requests


def _load(
    task: _Task,
    url: str,
    running: RunningServer,
    footprint: Footprint,
    slow: SlowRedis | None,
    seen: _Seen,
) -> None:
    """The load that counts, and all that is read immediately before and after it."""
    workload, spec, bench = task.workload, task.spec, task.bench
    conditions = spec.conditions
    bench.watch.sleep(SETTLE_SECONDS)  # what ab left unread in the warm-up is answered and counted
    bench.redis.prepare()
    seen.visits_before, seen.remarks_before = bench.redis.counts()
    with contextlib.ExitStack() as tidy:
        idle = None
        if conditions.idle:
            port = urlsplit(url).port or 80
            load_cpus = bench.placement.load
            idle = IdleConnections(port, conditions.idle, IDLE_PATH, load_cpus, bench.watch)
            tidy.enter_context(idle)
        use = bench.redis.use()
        slow_before = slow.demand_seconds() if slow else None
        footprint.begin()
        begin = time.monotonic()
        if conditions.mode == "open":
            seen.open = open_loop.run(
                open_load_of(url, workload, spec), bench.placement.load, bench.watch, footprint.look
            )
        else:
            seen.closed = ab.run(
                load_of(url, workload, spec, bench.redis),
                bench.placement.load,
                bench.watch,
                footprint.look,
            )
        wall = time.monotonic() - begin
        seen.alive = running.running()
        bench.watch.sleep(SETTLE_SECONDS)
        footprint.end()
        spent = bench.redis.use() - use
        slow_after = slow.demand_seconds() if slow else None
        seen.idle = idle.end() if idle else None
    seen.visits, seen.remarks = bench.redis.counts()
    _enter_redis(seen, spent, wall, (slow_before, slow_after))


def _enter_redis(
    seen: _Seen, spent: RedisUse, wall: float, slow: tuple[float | None, float | None]
) -> None:
    share = (spent.user + spent.system) / wall
    seen.redis = OtherProcess(
        cpu_user_s=round(spent.user, 6),
        cpu_system_s=round(spent.system, 6),
        cpu_share=round(share, 4),
    )
    demands = [share if spent.demand is None else spent.demand / wall]
    if slow[0] is not None and slow[1] is not None:
        demands.append((slow[1] - slow[0]) / wall)
    seen.redis_demand = max(demands)


def load_of(url: str, workload: Workload, spec: RunSpec, redis: RunRedis) -> ab.Load:
    """The closed loop's load."""
    now = 0 if redis.private else redis.counts()[0]
    grows = not redis.private and gains_a_digit(now, spec.requests)
    return ab.Load(
        url,
        spec.requests,
        spec.concurrency,
        spec.timeout,
        any_length=grows,
        keep_alive=spec.conditions.keep_alive,
        form=workload.form,
    )


def open_load_of(url: str, workload: Workload, spec: RunSpec) -> open_loop.OpenLoad:
    """The open loop's load."""
    assert spec.conditions.rate is not None
    return open_loop.OpenLoad(
        url,
        spec.conditions.rate,
        spec.requests,
        spec.concurrency,
        spec.timeout,
        keep_alive=spec.conditions.keep_alive,
        form=workload.form,
    )


def gains_a_digit(count: int, visits: int) -> bool:
    """Whether a visitor count becomes longer in so many visits, and with it the page."""
    return len(str(count + 1)) != len(str(count + visits))


def _completed(seen: _Seen) -> bool:
    figures = seen.done.figures
    return figures is not None and seen.seconds > 0


def _enter(run: Run, seen: _Seen, ended: Ended) -> None:
    """What is kept of every run that came to its load."""
    run.ab_command = seen.done.command
    run.latency = seen.done.latency
    run.server_statistics = ended.statistics
    if seen.closed:
        run.ab = seen.closed.figures
    elif seen.open:
        run.open_loop = seen.open.figures


def _enter_figures(
    run: Run, spec: RunSpec, seen: _Seen, footprint: Footprint, life: Lifetime
) -> None:
    done, idle = seen.done, seen.idle
    beside = idle.requests_during if idle else 0
    before = 1 + seen.warmed_up + (idle.requests - beside if idle else 0)
    served = spec.requests + beside
    run.process = footprint.figures(served, served + before, seen.seconds, life)
    run.redis_process = seen.redis
    if done.cpu and done.wall_seconds:
        run.load_process = OtherProcess(
            cpu_user_s=round(done.cpu.user / 1e6, 6),
            cpu_system_s=round(done.cpu.system / 1e6, 6),
            cpu_share=round(done.cpu.total / 1e6 / done.wall_seconds, 4),
        )
    demand = bottleneck.Demand(
        server=footprint.demand(seen.seconds),
        load=done.demand,
        redis=seen.redis_demand,
    )
    run.bottleneck, run.lower_bound = bottleneck.judge(demand)
    if seen.closed and seen.closed.latency:
        run.littles_law = littles_law(spec, seen.closed)


def littles_law(spec: RunSpec, done: AbOutcome) -> LittlesLaw:
    """The rate is by our own clock, the mean from the times of the single requests."""
    assert done.latency is not None
    rate = spec.requests / max(done.wall_seconds - CLOCK_SECONDS / 2, CLOCK_SECONDS / 2)
    product = rate * done.latency.mean / 1000
    return LittlesLaw(
        concurrency=spec.concurrency,
        rate=round(rate, 3),
        mean_ms=done.latency.mean,
        product=round(product, 3),
        deviation=round(product / spec.concurrency - 1, 4),
    )


def little_tolerance(spec: RunSpec, wall: float) -> tuple[float, float]:
    """How far below and above the deviation from Little's law may be. At its end a run has fewer
    and fewer connections, which counts where there are few requests for each."""
    clock = CLOCK_SECONDS / max(wall, CLOCK_SECONDS)
    end = spec.concurrency / spec.requests
    return min(1.0, LITTLE_BELOW + end + clock), LITTLE_ABOVE + clock


def _evidence(task: _Task, run: Run, seen: _Seen, ended: Ended) -> Evidence:
    subject, spec = task.subject, task.spec
    unread = spec.concurrency if spec.conditions.keep_alive and seen.closed else 0
    warm_unread = min(spec.concurrency, WARM_UP_CONNECTIONS) if spec.conditions.keep_alive else 0
    idle_requests = seen.idle.requests if seen.idle else 0
    grows = not task.bench.redis.private and task.workload.visits > 0
    return Evidence(
        asked=spec.requests,
        timeout=spec.timeout,
        probe_status=seen.probe.status,
        died="" if seen.alive else ended.describe(),
        stopped=what_was_wrong(ended) if subject.kind == "server" else "",
        statistics=ended.statistics,
        ab=seen.closed,
        open_loop=seen.open,
        silent=subject.kind != "server",
        least_requests=1 + seen.warmed_up + spec.requests + idle_requests,
        # An idle connection's last answer may be on its way when its holder stops counting.
        slack=unread + warm_unread + spec.conditions.idle,
        page_bytes=seen.probe.body_bytes,
        any_length=grows,
        keep_alive=spec.conditions.keep_alive,
        counts=_counts(task, seen, unread),
        little=run.littles_law,
        little_tolerance=little_tolerance(spec, seen.done.wall_seconds),
        idle=seen.idle,
    )


def _counts(task: _Task, seen: _Seen, unread: int) -> tuple[Count, ...]:
    """What Redis must have counted for the load."""
    workload = task.workload
    if task.subject.kind == "floor":
        return ()
    pairs = (
        ("visitors", workload.visits, seen.visits - seen.visits_before),
        ("remarks", workload.remarks, seen.remarks - seen.remarks_before),
    )
    return tuple(
        Count(
            f"{what} in Redis",
            what,
            each * task.spec.requests,
            got,
            or_more=not task.bench.redis.private,
            slack=each * unread,
        )
        for what, each, got in pairs
        if each
    )


def conclude(run: Run, checks: list[Check]) -> None:
    """Enter the checks into the run, and what follows from them."""
    run.checks = checks
    failure = first_failure(checks)
    run.state = "failed" if failure else "held"
    run.reason = Reason(label=failure.label, text=failure.detail) if failure else None


def what_was_wrong(ended: Ended) -> str:
    """What was wrong with a server's end after SIGTERM, for a sentence; empty if nothing."""
    if not ended.obeyed:
        return "did not end after SIGTERM and had to be killed"
    return "" if ended.status == 0 else ended.describe()


def all_held(runs: Sequence[Run]) -> bool:
    """Whether there is anything at all, and all of it is a figure."""
    return bool(runs) and all(run.state == "held" for run in runs)
