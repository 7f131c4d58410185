# SPDX-License-Identifier: MIT
"""The hosts of a sweep and the paths of the requests, in words."""

from bench.records.environment import HostInfo
from bench.records.words import listed, number_word, plural, upper_first
from bench.report.charts.base import Catalogue
from bench.report.study.hosts import in_order
from bench.report.study.study import Study

ROLE_WORDS = {
    "load": "load generator",
    "nginx": "load balancer: nginx",
    "server": "server under test",
    "redis": "data store: Redis",
}


def part(study: Study, _: Catalogue) -> dict[str, object]:
    """Return the text; empty if all ran on one machine."""
    return {"topology": words(study) if study.results.hosts else ""}


def title(study: Study) -> str:
    """Return one line: "Two hosts, each with one CPU: load and redis"; empty without hosts."""
    hosts = study.results.hosts
    if not hosts:
        return ""
    sizes = {_size(host) for host in hosts}
    each = f", each with {sizes.pop()}" if len(sizes) == 1 else ""
    who = listed([host.name for host in in_order(hosts)])
    many = number_word(len(hosts)) if len(hosts) > 1 else "one"
    return upper_first(f"{many} {'hosts' if len(hosts) > 1 else 'host'}{each}: {who}")


def words(study: Study) -> str:
    """Return each host with its role, and the paths of the requests."""
    said = [
        f"{host.name} at {host.address} ({ROLE_WORDS[host.role]}; {_limited(host)})"
        for host in in_order(study.results.hosts)
    ]
    ways = []
    if _through(study):
        ways.append("load to nginx to the servers to Redis")
    if _straight(study):
        ways.append("load directly to the server to Redis")
    return f"{'; '.join(said)}. Requests go from {' and '.join(ways)}."


def _limited(host: HostInfo) -> str:
    return f"{_size(host)} by {host.limited_by}" if host.limited_by else _size(host)


def _size(host: HostInfo) -> str:
    limit = host.cpu_limit
    if limit is not None and limit != 1:
        return f"{limit:g} of a CPU" if limit < 1 else f"{limit:g} CPUs"
    return "one CPU" if limit == 1 or host.cpus == 1 else plural(host.cpus, "CPU")


def _through(study: Study) -> bool:
    return any(scenario.balancer != "none" for scenario in study.all_scenarios)


def _straight(study: Study) -> bool:
    return any(scenario.balancer == "none" for scenario in study.all_scenarios)
