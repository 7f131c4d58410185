# SPDX-License-Identifier: MIT
"""The page on which students predict: for the browsers of other machines, on a port of its own.

It has no button and no figure of /live, which stays on loopback. Some of its clients may be
hostile, so the number, the duration, the size and the rate of requests are limited.
"""

import io
import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from bench.live.handler import HTML, PageHandler
from bench.live.room import Room, questions
from bench.records.errors import UserError
from bench.report.page.look import template_of

CONNECTIONS_MOST = 64
FROM_ADDRESS_AT_ONCE = 16
REQUEST_SECONDS = 5.0
"""The timeout for the whole request, in seconds; single late bytes do not extend it."""
REQUEST_BYTES_MOST = 8192
ACCEPT_PAUSE = 0.01
"""Seconds after each accepted connection. A flood of connections waits in the backlog, so the
servers under test keep their processor time."""
FILES = {"/live.css", "/room.js"}
COOKIE = re.compile(r"(?:^|; )room=([\w-]{22})(?:;|$)", re.ASCII)


def own_address() -> str:
    """Return this machine's address in its network; loopback if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent, suppress(OSError):
        unsent.connect(("192.0.2.1", 9))  # sends nothing; chooses the interface of the route
        return str(unsent.getsockname()[0])
    return "127.0.0.1"


class RoomPage(ThreadingHTTPServer):
    """The HTTP server of the students' page. Call `close` at the end."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, room: Room, address: str, port: int) -> None:
        """Listens. Raises UserError if it cannot."""
        self.room = room
        self.template = template_of(__file__, "room.html.j2")
        self._began: dict[Any, tuple[str, float]] = {}
        try:
            super().__init__((address, port), _Student)
        except OSError as error:
            raise UserError(f"--room: cannot listen on {address}, port {port}: {error}") from error
        shown = own_address() if address == "0.0.0.0" else address
        self.url = f"http://{shown}:{self.server_port}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer it in a thread, if there are not too many of them."""
        time.sleep(ACCEPT_PAUSE)
        busy = [address for address, _ in list(self._began.values())]
        if len(busy) >= CONNECTIONS_MOST or busy.count(client_address[0]) >= FROM_ADDRESS_AT_ONCE:
            self.shutdown_request(request)
            return
        self._began[request] = (client_address[0], time.monotonic())
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End requests that take too long; called twice a second."""
        for request, (_, began) in list(self._began.items()):
            if time.monotonic() - began > REQUEST_SECONDS:
                with suppress(OSError):  # it has ended meanwhile
                    request.shutdown(socket.SHUT_RDWR)

    def close_request(self, request: Any) -> None:
        """Close the connection."""
        self._began.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client has disconnected."""


def room_page(address: str, port: int) -> RoomPage:
    """Return the page with the questions of the course, which begins to listen. `address`: empty
    for this machine's own. Raises UserError."""
    return RoomPage(Room(questions()), address or own_address(), port)


class _Limited(io.RawIOBase):
    """A connection from which no more than a small request is read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._left = connection, REQUEST_BYTES_MOST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            raise ConnectionAbortedError("the request is too large")
        got = self._connection.recv_into(buffer, min(len(buffer), self._left))
        self._left -= got
        return got


class _Student(PageHandler):
    server: RoomPage
    form_action = "'self'"

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Limited(self.connection))

    def do_GET(self) -> None:  # noqa: N802
        if self.path == "/":
            self._page(HTTPStatus.OK)
        elif self.path == "/state":
            self.answer(HTTPStatus.OK, text=self.server.room.state)
        elif self.path in FILES:
            self.answer_file(self.path)
        else:
            self.answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:  # noqa: N802
        length = self.headers.get("Content-Length", "")
        if self.path != "/":
            self.answer(HTTPStatus.NOT_FOUND)
        elif not re.fullmatch("[0-9]{1,3}", length):
            self.answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif not self._browser():
            self._page(HTTPStatus.FORBIDDEN, "Allow cookies for this page, then choose again.")
        else:
            form = parse_qs(self.rfile.read(int(length)).decode("ascii", "replace"))
            self._predict(form.get("state", [""])[0], form.get("choice", [""])[0])

    def _predict(self, state: str, choice: str) -> None:
        place = int(choice) if re.fullmatch("[0-9]", choice) else -1
        room, address = self.server.room, self.client_address[0]
        if trouble := room.predict(self._browser(), address, state, place):
            self._page(HTTPStatus.CONFLICT, trouble)
        else:
            self.answer(HTTPStatus.SEE_OTHER, headers={"Location": "/"})

    def _browser(self) -> str:
        """Return the identifier of this browser; empty at its first visit."""
        found = COOKIE.search(self.headers.get("Cookie", ""))
        return found[1] if found else ""

    def _page(self, status: HTTPStatus, trouble: str = "") -> None:
        room, browser = self.server.room, self._browser()
        text = self.server.template.render(
            room=room, mine=room.prediction(browser), trouble=trouble
        )
        # Lax: a link from another site must find the cookie; a form of another site must not.
        cookie = f"room={secrets.token_urlsafe(16)}; Path=/; HttpOnly; SameSite=Lax"
        self.answer(status, HTML, text, {} if browser else {"Set-Cookie": cookie})
