# SPDX-License-Identifier: MIT
"""The figures of the page, for Prometheus and other collectors."""

from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)

QUEUES = {
    "accept_queue": ("Connections that wait to be accepted", "waiting"),
    "accept_queue_limit": ("The largest length of the accept queue", "room"),
    "unread_connections": ("Accepted connections with unread data", "unread"),
}
CALLS = "Processes and threads by the system call in which they sleep and what they wait for"
# Each request makes new metrics, so the time of their creation has no meaning.
disable_created_metrics()  # type: ignore[no-untyped-call]


def text_of(servers: list[dict[str, Any]]) -> str:
    """Return the figures of an observation (`Watch.now`) in the text format of Prometheus."""
    registry = CollectorRegistry()

    def gauge(name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"zerohttpd_{name}", about, ("server", *labels), registry=registry)

    up = gauge("up", "Whether the server runs")
    requests = Counter("zerohttpd_requests", "Answered requests", ("server",), registry=registry)
    queues = {key: gauge(name, about) for name, (about, key) in QUEUES.items()}
    tasks = gauge("tasks", CALLS, "call", "waits_for")
    connections = gauge("connections", "Connections by their TCP state", "state")
    clients = gauge("clients", "Open connections by what they wait for", "waits_for")
    for one in servers:
        name = one["name"]
        up.labels(name).set(not one["gone"])
        if one["gone"]:
            continue
        if one["rate"]["total"] is not None:
            requests.labels(name).inc(one["rate"]["total"])
        for key, queue in queues.items():
            queue.labels(name).set(one["queue"][key])
        for group in one["groups"]:  # several groups may have the same labels
            tasks.labels(name, group["call"], group["kind"]).inc(group["count"])
        for state, count in one["connections"].items():
            connections.labels(name, state).set(count)
        for group in one["clients"]:
            clients.labels(name, group["label"]).inc(group["count"])
    return generate_latest(registry).decode()
