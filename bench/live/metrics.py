# SPDX-License-Identifier: MIT
"""The same figures as on the page, for Prometheus and other collectors."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bench.live.look import Watch

PLAIN = {
    "accept_queue": ("Connections that wait to be accepted", "waiting"),
    "accept_queue_limit": ("Room in the accept queue", "room"),
    "unread_connections": ("Connections that are accepted and not read yet", "unread"),
}


def registry_of(watch: Watch) -> CollectorRegistry:
    """Return a registry whose figures are read at each request."""
    registry = CollectorRegistry()
    registry.register(_Servers(watch))
    return registry


class _Servers(Collector):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def describe(self) -> list[Metric]:
        """Return nothing, so that the registration does not observe the servers."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Look once at each server."""
        servers: list[dict[str, Any]] = self._watch.now()
        running = [one for one in servers if not one["gone"]]
        yield _gauge(
            "up", "Whether the server runs", (), [((), one, not one["gone"]) for one in servers]
        )
        requests = CounterMetricFamily(
            "zerohttpd_requests", "Answered requests", labels=("server",)
        )
        for one in running:
            if one["rate"]["total"] is not None:
                requests.add_metric((one["name"],), one["rate"]["total"])
        yield requests
        for name, (help_, key) in PLAIN.items():
            yield _gauge(name, help_, (), [((), one, one["queue"][key]) for one in running])
        yield _gauge(
            "tasks",
            "Processes and threads by the system call in which they sleep and what they wait for",
            ("call", "waits_for"),
            [
                ((group["call"], group["kind"]), one, group["count"])
                for one in running
                for group in one["groups"]
            ],
        )
        yield _gauge(
            "connections",
            "Connections by their TCP state",
            ("state",),
            [((state,), one, n) for one in running for state, n in one["connections"].items()],
        )
        yield _gauge(
            "clients",
            "Open connections by what they wait for",
            ("waits_for",),
            [
                ((group["label"],), one, group["count"])
                for one in running
                for group in one["clients"]
            ],
        )


def _gauge(
    name: str, help_: str, labels: tuple[str, ...], rows: list[tuple[tuple[str, ...], Any, float]]
) -> GaugeMetricFamily:
    """Return a gauge. `rows`: values of the labels, the server, the figure; figures with equal
    labels are added."""
    sums: dict[tuple[str, ...], float] = {}
    for values, server, figure in rows:
        key = (server["name"], *values)
        sums[key] = sums.get(key, 0) + figure
    family = GaugeMetricFamily(f"zerohttpd_{name}", help_, labels=("server", *labels))
    for key, figure in sums.items():
        family.add_metric(key, figure)
    return family
