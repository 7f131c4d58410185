# SPDX-License-Identifier: MIT
"""The page on loopback with its events, buttons and figures, protected from other sites.

Other machines cannot connect, because the server listens on 127.0.0.1. A request that a page of
another site posts has a wrong Origin, so it is rejected. If another site resolves its own host name
to 127.0.0.1 (DNS rebinding), the Host is wrong, so the request is rejected.
"""

import json
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)

from bench.live import clients as limits
from bench.live.clients import Clients
from bench.live.handler import HTML, PageHandler, PageServer
from bench.live.look import Look, Watch
from bench.live.room import RoomPage
from bench.report.page.look import template_of

ADDRESS = "127.0.0.1"
PAGE = "/live"
FILES = {"/live.css", "/live.js"}
PAGES_MOST = 5
"""The largest number of open pages. Each page has a permanent connection. A browser opens at most
six connections to a host, so one remains for the buttons."""
SILENT_AT_ONCE = 100

ACTIONS: dict[str, Callable[[Clients], None]] = {
    "/live/silent/1": lambda clients: clients.silent(1),
    "/live/silent/100": lambda clients: clients.silent(SILENT_AT_ONCE),
    "/live/burst": Clients.burst,
    "/live/slow-redis": Clients.slow_redis,
    "/live/stop": Clients.stop,
}
"""The actions of the buttons that disturb the servers; each applies to every server."""


class Live(PageServer):
    """The web server of the page."""

    def __init__(self, looks: list[Look], port: int, room: RoomPage | None = None) -> None:
        """Listen on the port; if the port is in use, listen on any free port. Raises OSError."""
        self.watch = Watch(looks)
        self.room = room
        self.pages = threading.BoundedSemaphore(PAGES_MOST)
        self._actions: dict[str, Callable[[], None]] = {
            path: partial(self._all, action) for path, action in ACTIONS.items()
        }
        if room:
            self._actions["/live/room/show"] = room.room.show
            for place in range(len(room.room.questions)):
                self._actions[f"/live/room/ask/{place}"] = partial(room.room.ask, place)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError:
            super().__init__((ADDRESS, 0), _Handler)
        self.url = f"http://{ADDRESS}:{self.server_port}{PAGE}"

    def close(self) -> None:
        """End the web server, the observations and all clients."""
        super().close()
        if self.room:
            self.room.close()
        self.watch.close()
        self._all(Clients.close)

    def page(self) -> str:
        """Return the HTML of the page."""
        template = template_of(__file__, "live.html.j2")
        return template.render(servers=self.watch.looks, limits=limits, room=self.room)

    def act(self, path: str) -> bool:
        """Perform the action of a button. Return False if the button does not exist."""
        action = self._actions.get(path)
        if action:
            action()
        return action is not None

    def _all(self, action: Callable[[Clients], None]) -> None:
        for look in self.watch.looks:
            action(look.clients)


class _Handler(PageHandler):
    server: Live

    def do_GET(self) -> None:  # noqa: N802
        path = urlsplit(self.path).path
        if not self._is_ours():
            self.answer(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self.answer(HTTPStatus.FOUND, headers={"Location": PAGE})
        elif path == PAGE:
            self.answer(HTTPStatus.OK, HTML, self.server.page())
        elif path in FILES:
            self.answer_file(path)
        elif path == "/metrics":
            text = text_of(self.server.watch.now())
            self.answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, text)
        elif path == "/live/events":
            self._events()
        else:
            self.answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:  # noqa: N802
        if not self._is_ours():
            self.answer(HTTPStatus.FORBIDDEN)
        elif self.server.act(self.path):
            self.answer(HTTPStatus.NO_CONTENT)
        else:
            self.answer(HTTPStatus.NOT_FOUND)

    def _is_ours(self) -> bool:
        """Return whether the request is for this host and, if it has an Origin, from a page of this
        host. Programs other than browsers send no Origin."""
        port = self.server.server_port
        hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in hosts and (
            origin is None or origin in {f"http://{host}" for host in hosts}
        )

    def _events(self) -> None:
        """Send each observation to the page
        (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
        live, self.close_connection = self.server, True
        if not live.pages.acquire(blocking=False):
            self.answer(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            # When the page is closed, writing fails.
            with suppress(OSError), closing(live.watch.events()) as events:
                self.head(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
                for seen in events:
                    event = seen | {"room": live.room.room.shown() if live.room else None}
                    data = json.dumps(event, separators=(",", ":"))
                    self.wfile.write(f"data: {data}\n\n".encode())
        finally:
            live.pages.release()


# ---- The figures of the page, for Prometheus and other collectors ----

QUEUES = {
    "accept_queue": ("Connections that wait to be accepted", "waiting"),
    "accept_queue_limit": ("The largest length of the accept queue", "room"),
    "unread_connections": ("Accepted connections with unread data", "unread"),
}
CALLS = "Processes and threads by the system call in which they sleep and what they wait for"
# Each request for /metrics creates new metrics, so the time of their creation has no meaning.
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
