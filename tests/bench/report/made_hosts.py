# SPDX-License-Identifier: MIT
"""Generated results of several hosts, with nginx before one, two and four instances.

The invented hosts follow the calculation: each request costs each host some CPU time, and the host
with the least of it for its share is the limit.
"""

from bench.records.environment import HostInfo
from bench.records.figures import HostFigures, OtherProcess
from bench.records.results import Conditions, Results
from bench.records.run import Run

from .made import MODELS, kind_of, results_of, run_of

LEVELS = (100, 1000)
QUOTA = 0.5
LOAD_US = 42.0
REDIS_US = 18.0
NGINX_US = {"keep": 48.0, "close": 95.0}
SERVERS = [name for name in MODELS if kind_of(name) == "server"]


def host(role: str, name: str, number: int) -> HostInfo:
    """Return one of the hosts, half a CPU each."""
    return HostInfo(
        role=role,
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


HOSTS = [
    host("load", "load", 1),
    host("nginx", "nginx", 2),
    host("server", "zerohttpd", 3),
    host("server", "zerohttpd2", 5),
    host("redis", "redis", 4),
]


def run_on_hosts(subject: str, conditions: Conditions, level: int, number: int) -> Run:
    """Return one run, with the rate that the busiest host allows."""
    run = run_of(subject, conditions, level, number)
    if run.state != "held":
        return run
    assert run.process
    assert run.open_loop
    cost = run.process.cpu_us_per_request
    on_each = _instances_on_each(conditions.instances)
    costs = {
        "load": LOAD_US,
        "nginx": NGINX_US.get(conditions.balancer, 0.0),
        "zerohttpd": cost * on_each[0] / conditions.instances,
        "zerohttpd2": cost * on_each[1] / conditions.instances,
        "redis": REDIS_US,
    }
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


def _instances_on_each(instances: int) -> tuple[int, int]:
    """Distribute the instances over the two server hosts by round robin."""
    return instances - instances // 2, instances // 2


def several_hosts() -> Results:
    """Return seven servers: direct, and as one, two and four instances behind nginx."""
    ways = [("none", 1), *((way, n) for way in ("close", "keep") for n in (1, 2, 4))]
    runs = [
        run_on_hosts(name, Conditions("guestbook", balancer=way, instances=n), level, number)
        for way, n in ways
        for level in LEVELS
        for number in (1, 2, 3)
        for name in SERVERS
    ]
    return results_of(runs, hosts=HOSTS)
