# SPDX-License-Identifier: MIT
"""Generated results for the tests of reports; nothing was measured."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from bench.records.environment import HostInfo
from bench.records.figures import (
    Held,
    HostFigures,
    Latency,
    LittlesLaw,
    MemoryFigures,
    OpenLoopFigures,
    OtherProcess,
    ProcessFigures,
    Reason,
    Run,
)
from bench.records.results import Conditions, Results

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
LEVELS = (20, 100, 300, 1000, 2000, 5000)


@dataclass(frozen=True)
class Model:
    """The behaviour of an invented server."""

    cpu_us: float
    pss_mb: float
    kb_each: float
    switches: float
    growth: float = 0.0
    """Each 1,000 open connections add this share to the CPU time of a request."""
    breaks_at: int | None = None


MODELS = {
    "iterative": Model(60, 2, 0.1, 4, breaks_at=2000),
    "forking": Model(400, 3, 300, 7, breaks_at=5000),
    "preforking": Model(75, 60, 0.1, 5),
    "threading": Model(130, 3, 20, 6),
    "prethreading": Model(70, 6, 0.1, 5),
    "poll": Model(45, 2, 4, 0.3, growth=0.5),
    "epoll": Model(40, 2, 4, 0.3, growth=0.02),
    "nginx": Model(25, 9, 1, 0.2),
    "baseline-poll": Model(22, 1, 0.1, 0.2, growth=0.4),
    "baseline-epoll": Model(20, 1, 0.1, 0.2),
}
STALLED_BY = {"iterative": "one", "preforking": "workers", "prethreading": "workers"}
WORK = {"redirect": 0.5, "link": 0.7, "guestbook": 1.0, "sorted": 9.0}


def of_memory(pss: int) -> Run:
    """Return a run with 1,000 parked connections; `pss`: epoll's memory with them, in bytes."""
    return Run(
        subject="epoll",
        conditions=Conditions("guestbook", keep_alive=True, mode="parked"),
        concurrency=1000,
        run=1,
        state="held",
        requests=1000,
        memory=MemoryFigures(connections=1000, before=2_000_000, pss=pss, anonymous=1),
    )


def run_of(subject: str, conditions: Conditions, level: int, number: int = 1) -> Run:
    """Return one run, which has failed if the server breaks at this level."""
    model = MODELS.get(subject, MODELS["epoll"])
    wobble = 1 + 0.02 * ((number * 7 + level) % 5 - 2)
    crowd = 1 + model.growth * (level + conditions.idle) / 1000
    cpu = model.cpu_us * WORK.get(conditions.workload, 1.0) * crowd * wobble
    blocking = subject in ("iterative", "forking", "preforking", "threading", "prethreading")
    wait_us = conditions.redis_delay_ms * 3000 / (1 if subject == "iterative" else 50)
    rate = 1e6 / (cpu + (wait_us if blocking else wait_us / 40))
    mean = level / rate * 1000
    run = Run(
        subject=subject,
        kind=kind_of(subject),
        architecture=None if subject == "nginx" else subject.removeprefix("baseline-"),
        **conditions._asdict(),
        concurrency=level,
        run=number,
        state="held",
        requests=10_000,
        started=NOW,
        seconds=2.0,
        ab_command=["ab", "-c", str(level), "http://127.0.0.1:8000/guestbook"],
    )
    if model.breaks_at and level >= model.breaks_at:
        run.state = "failed"
        run.reason = Reason(label="reset", text="connection reset by peer, 9,120 of 10,000 done")
        return run
    run.open_loop = OpenLoopFigures(
        tool="invented", rate_asked=rate, rate_done=rate, seconds=1, sent=1, succeeded=1
    )
    run.latency = latency_of(mean)
    run.process = process_of(model, cpu, level, conditions.idle)
    run.load_process = OtherProcess(cpu_user_s=0.5, cpu_system_s=0.4, cpu_share=0.9)
    run.redis_process = OtherProcess(cpu_user_s=0.1, cpu_system_s=0.1, cpu_share=0.2)
    run.lower_bound = subject in ("epoll", "nginx") and conditions.workload == "redirect"
    run.bottleneck = "load" if run.lower_bound else "server"
    run.outlier = subject == "poll" and level == 300 and number == 3
    run.littles_law = LittlesLaw(
        concurrency=level, rate=rate, mean_ms=mean, product=level, deviation=0.0
    )
    return run


FIGURES = ("rate", "cpu", "p99", "memory", "foreign")


def made_run(
    subject: str,
    level: int = 100,
    number: int = 1,
    *,
    bound: bool = False,
    state: Held = "held",
    under: Conditions | None = None,
    **more: object,
) -> Run:
    """Return a run. `bound`: whether the rate is a lower bound; `under`: the conditions. `more`:
    FIGURES that replace invented figures, and conditions that differ from the guestbook's."""
    figures = {name: float(more.pop(name)) for name in FIGURES if name in more}  # type: ignore[arg-type]
    conditions = under or Conditions(**({"workload": "guestbook"} | more))
    run = run_of(subject, conditions, level, number)
    run.lower_bound, run.bottleneck = bound, "load" if bound else "server"
    if state != "held":
        run.state, run.reason = state, Reason(label="reset", text="connection reset by peer")
    if run.open_loop and run.latency and run.process:
        run.open_loop.rate_done = figures.get("rate", run.open_loop.rate_done)
        run.latency.p99 = figures.get("p99", run.latency.p99)
        run.process.cpu_us_per_request = figures.get("cpu", run.process.cpu_us_per_request)
        run.process.pss_peak_mb = figures.get("memory", run.process.pss_peak_mb)
        run.process.foreign_share = figures.get("foreign")
    return run


def several(subject: str, key: str, figures: Sequence[float], **more: object) -> list[Run]:
    """Return a run of one configuration for each figure; `key`: the name of the figure."""
    return [
        made_run(subject, number=n, **{"rate": 1000.0, key: figure} | more)
        for n, figure in enumerate(figures, 1)
    ]


def kind_of(subject: str) -> str:
    """Return a server's kind by its name: reference, baseline or server."""
    return "reference" if subject == "nginx" else "baseline" if "baseline-" in subject else "server"


def latency_of(mean: float) -> Latency:
    times = {"p50": 0.9, "p90": 1.4, "p99": 2.2, "p999": 4.0, "max": 6.0, "mean": 1.0}
    return Latency(**{k: mean * v for k, v in times.items()}, count=10_000, source="invented")


def process_of(model: Model, cpu: float, level: int, idle: int) -> ProcessFigures:
    """Return the figures that the kernel would have counted."""
    return ProcessFigures(
        cpu_user_s=cpu * 0.003,
        cpu_system_s=cpu * 0.007,
        cpu_us_per_request=cpu,
        cpu_user_us_per_request=cpu * 0.3,
        cpu_system_us_per_request=cpu * 0.7,
        cpu_share=0.98,
        voluntary_switches_per_request=model.switches,
        involuntary_switches_per_request=0.2,
        pss_peak_mb=model.pss_mb + model.kb_each * (level + idle) / 1000,
        pss_mean_mb=model.pss_mb,
        processes_peak=1,
        threads_peak=1,
        descriptors_peak=level + idle + 7,
        listen_overflows=12 if level > 4096 else 0,
        listen_drops=0,
        retransmits=0,
        source="invented",
    )


def open_loop_run(subject: str, rate: float) -> Run:
    """Return a run at a constant rate during which the server once stalled."""
    conditions = Conditions("guestbook", mode="open", rate=rate)
    run = run_of(subject, conditions, 100)
    run.latency = latency_of(80.0)
    assert run.open_loop
    run.open_loop.uncorrected = latency_of(12.0)
    return run


def results_of(runs: Sequence[Run], **more: object) -> Results:
    names = list(dict.fromkeys(run.subject for run in runs))
    levels = sorted({run.concurrency for run in runs})
    fields: dict[str, object] = {
        "started": NOW,
        "finished": NOW,
        "state": "complete",
        "command": ["sweep", "--full"],
        "machine": {"cpu_model": "Invented CPU", "cpus": 2, "kernel": "6.1.0"},
        "versions": {"git": {"commit": "c0ffee", "changed_files": 0}},
        "settings": {"runs": 3},
        "servers": names,
        "levels": levels,
        "runs": list(runs),
        "stalled_by": {name: STALLED_BY.get(name, "none") for name in names},
    }
    return Results.model_validate(fields | more)


def plain_runs(
    subjects: Iterable[str], levels: Iterable[int] = LEVELS, runs: int = 3, **conditions: object
) -> list[Run]:
    """Return all runs of one scenario (default: the guestbook)."""
    scenario = Conditions(**({"workload": "guestbook"} | conditions))
    return [
        run_of(subject, scenario, level, number)
        for level in levels
        for number in range(1, runs + 1)
        for subject in subjects
    ]


def everything() -> Results:
    """Return results of servers, baselines and a reference server under many conditions."""
    servers = [name for name in MODELS if kind_of(name) == "server"]
    runs = plain_runs(servers)
    runs += plain_runs(MODELS, workload="redirect")
    baselines = [name for name in MODELS if kind_of(name) == "baseline"]
    runs += plain_runs([*servers, *baselines], (100, 1000), 1, workload="link")
    runs += plain_runs(servers, (100, 1000), 1, workload="sorted")
    for idle in (1000, 5000):
        runs += plain_runs(("poll", "epoll"), (100, 1000), 1, idle=idle)
    for delay in (1.0, 5.0):
        runs += plain_runs(servers, (100, 1000), 1, redis_delay_ms=delay)
    runs += [open_loop_run(name, 2000.0) for name in ("prethreading", "epoll")]
    return results_of(runs)


# ---- Several hosts, with nginx before one, two and four instances ----
#
# Each request costs each of the invented hosts CPU time. The host that first uses up its share of a
# CPU is the limit.

HOST_LEVELS = (100, 1000)
QUOTA = 0.5
SERVERS = [name for name in MODELS if kind_of(name) == "server"]


HOSTS = [
    HostInfo(
        role=name.partition("2")[0].replace("zerohttpd", "server"),
        name=name,
        address=f"10.77.0.{number}",
        kernel="6.1.0",
        cpu_model="Invented CPU",
        cpus=1,
        cpu_limit=QUOTA,
        limited_by="cgroup v2",
        memory_mb=1024,
        settings={"net.core.somaxconn": 4096, "descriptors": 65536},
    )
    for name, number in [
        ("load", 1),
        ("nginx", 2),
        ("zerohttpd", 3),
        ("zerohttpd2", 5),
        ("redis", 4),
    ]
]
"""Five hosts, each with half a CPU."""


def run_on_hosts(subject: str, conditions: Conditions, level: int, number: int) -> Run:
    """Return one run, with the rate that the busiest host allows."""
    run = run_of(subject, conditions, level, number)
    if run.state != "held":
        return run
    assert run.process
    assert run.open_loop
    cost, second = run.process.cpu_us_per_request, conditions.instances // 2
    costs = {
        "load": 42.0,
        "nginx": {"keep": 48.0, "close": 95.0}.get(conditions.balancer, 0.0),
        "zerohttpd": cost * (conditions.instances - second) / conditions.instances,
        "zerohttpd2": cost * second / conditions.instances,
        "redis": 18.0,
    }
    """The CPU time per request of each host, in us. Two hosts share the instances."""
    limit = max(costs, key=lambda name: costs[name])
    rate = QUOTA * 1e6 / costs[limit] * (1 + 0.01 * ((number + level) % 3 - 1))
    run.open_loop.rate_done = rate
    run.hosts = [
        HostFigures(
            role=info.role,
            name=info.name,
            cpu_share=min(1.0, costs[info.name] * rate / 1e6 / QUOTA),
            throttled_share=0.92 if info.name == limit else 0.0,
            listen_overflows=12 if info.name == limit and level >= 1000 else 0,
            listen_drops=0,
            retransmits=3 if info.role == "load" and level >= 1000 else 0,
        )
        for info in HOSTS
    ]
    run.bottleneck_host = limit
    run.bottleneck = next(info.role for info in HOSTS if info.name == limit)
    run.lower_bound = run.bottleneck == "load"
    if conditions.balancer != "none":
        run.nginx_process = OtherProcess(cpu_user_s=0.2, cpu_system_s=0.3, cpu_share=0.5)
    return run


def several_hosts() -> Results:
    """Return results of seven servers: without nginx, and one, two and four instances behind it."""
    ways = [("none", 1), *((way, n) for way in ("close", "keep") for n in (1, 2, 4))]
    runs = [
        run_on_hosts(name, Conditions("guestbook", balancer=way, instances=n), level, number)
        for way, n in ways
        for level in HOST_LEVELS
        for number in (1, 2, 3)
        for name in SERVERS
    ]
    return results_of(runs, hosts=HOSTS)
