# SPDX-License-Identifier: MIT
"""The page, its events and its buttons: on loopback, for pages that came from here.

Three kinds of clients are rejected. Other machines: it listens on 127.0.0.1. A page of another site
in a browser of this machine: its Origin is not ours. A page whose host name resolves to 127.0.0.1
(DNS rebinding): its Host is not ours.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bench.live import clients as limits
from bench.live.clients import Clients
from bench.live.look import Look, Watch
from bench.live.metrics import registry_of
from bench.report.page.look import template_of

ADDRESS = "127.0.0.1"
TEMPLATES = Path(__file__).parent / "template"
PAGE = "/live"
FILES = {"/live/live.css": "text/css", "/live/live.js": "text/javascript"}
PAGES_MOST = 5
"""The largest number of open pages. Each keeps a connection, and a browser opens six to a host:
the sixth is for the buttons."""
SILENT_AT_ONCE = 100
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


ACTIONS: dict[str, Callable[[Clients], None]] = {
    "/live/silent/1": lambda clients: clients.silent(1),
    "/live/silent/100": lambda clients: clients.silent(SILENT_AT_ONCE),
    "/live/burst": Clients.burst,
    "/live/slow-redis": Clients.slow_redis,
    "/live/stop": Clients.stop,
}
"""What may be posted."""


class Live:
    """The HTTP server of the page. Call `close` at the end."""

    def __init__(self, looks: list[Look], port: int) -> None:
        """Listens on the port, or on any free one if that is taken. Raises OSError."""
        self.watch = Watch(looks)
        self._metrics = registry_of(self.watch)
        self._http = _listening(port)
        self._http.live = self
        self.url = f"http://{ADDRESS}:{self._http.server_port}{PAGE}"
        self._pages = threading.BoundedSemaphore(PAGES_MOST)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Take all back and go."""
        self._http.shutdown()
        self._http.server_close()
        self.watch.close()
        for look in self.watch.looks:
            look.clients.close()

    def page(self) -> str:
        """Its HTML."""
        template = template_of(__file__, "live.html.j2")
        servers = [look.server for look in self.watch.looks]
        return template.render(servers=servers, limits=limits)

    def metrics(self) -> str:
        """What is seen now, in the text format of Prometheus."""
        return generate_latest(self._metrics).decode()

    def act(self, path: str) -> bool:
        """Do what a button asks for, to all servers. Return False if there is no such button."""
        action = ACTIONS.get(path)
        if action:
            for look in self.watch.looks:
                action(look.clients)
        return action is not None

    def tell(self, write: Callable[[bytes], object]) -> bool:
        """Write each look as an event until the reader leaves; False: too many pages."""
        if not self._pages.acquire(blocking=False):
            return False
        self.watch.watch(1)
        try:
            last = time.monotonic()
            while (told := self.watch.next(last)) is not None:
                last = told.time
                write(f"data: {json.dumps(told.said, separators=(',', ':'))}\n\n".encode())
        finally:
            self.watch.watch(-1)
            self._pages.release()
        return True


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    live: Live


def _listening(port: int) -> _Http:
    try:
        return _Http((ADDRESS, port), _Handler)
    except OSError:
        return _Http((ADDRESS, 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = 10.0
    """Seconds for a request: a browser that opens a connection in advance holds no thread."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not self._is_ours():
            self._answer(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self._answer(HTTPStatus.FOUND, headers={"Location": PAGE})
        elif path == PAGE:
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.live.page())
        elif path in FILES:
            text = (TEMPLATES / Path(path).name).read_text()
            self._answer(HTTPStatus.OK, f"{FILES[path]}; charset=utf-8", text)
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, self.server.live.metrics())
        elif path == "/live/events":
            self._events()
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        if not self._is_ours():
            self._answer(HTTPStatus.FORBIDDEN)
        elif self.server.live.act(self.path):
            self._answer(HTTPStatus.NO_CONTENT)
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def _is_ours(self) -> bool:
        """Whether the browser asks for this very host, on behalf of a page of it. A program that is
        no browser sends no Origin."""
        port = self.server.server_port
        hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in hosts and (
            origin is None or origin in {f"http://{host}" for host in hosts}
        )

    def _events(self) -> None:
        """Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html."""
        begun = False

        def write(event: bytes) -> None:
            nonlocal begun
            if not begun:
                self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
                begun = True
            self.wfile.write(event)

        with suppress(OSError):  # the page is closed
            if not self.server.live.tell(write):
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        self.close_connection = True

    def _answer(
        self,
        status: HTTPStatus,
        kind: str = "text/plain; charset=utf-8",
        text: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        body = b"" if status is HTTPStatus.NO_CONTENT else (text or status.phrase).encode()
        said = {"Content-Type": kind, "Content-Length": str(len(body))}
        self._head(status, said | (headers or {}))
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        always = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
        }
        for name, value in (always | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not to the terminal, where the server tells of itself."""
