# SPDX-License-Identifier: MIT
"""The predictions of students in a room: one question at a time, one prediction for each browser.
The students' page has its own port, which browsers on other machines can reach.

A prediction is the number of a choice in the list, so no text of a student is stored or shown.
Predictions are only in memory and without names. The next question deletes them.

The page has no button and no figure of /live, because /live is only for loopback. Clients of the
page may be hostile, so the number, duration, size and rate of requests are limited.
"""

import io
import re
import secrets
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.host.project import ROOT, declaration
from bench.live.handler import HTML, PageHandler, PageServer
from bench.records.errors import UserError
from bench.records.store import Json
from bench.report.page.look import template_of

QUESTIONS = ROOT / "course" / "questions.toml"
PREDICTIONS_MOST = 500
FROM_ADDRESS_MOST = 100
"""The largest number of predictions from one address. All students have the same address behind a
NAT, for example if this program runs in a virtual machine."""


class RoomQuestion(BaseModel):
    """One question of course/questions.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str  # The text of the button for this question.
    ask: str
    choices: tuple[str, ...] = Field(min_length=2, max_length=6)
    measure: str
    """The button or the command for the experiment; the page shows it with the predictions."""
    answer: str
    because: str

    @model_validator(mode="after")
    def _answer_is_a_choice(self) -> "RoomQuestion":
        if self.answer not in self.choices or len(set(self.choices)) < len(self.choices):
            raise ValueError(
                f"{self.name}: the answer must be one of the choices, which must differ"
            )
        return self


class RoomQuestions(BaseModel):
    """The file with the questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    question: tuple[RoomQuestion, ...] = Field(min_length=1)


def questions(file: Path = QUESTIONS) -> tuple[RoomQuestion, ...]:
    """Return the questions of a file. Raises UserError."""
    return declaration(RoomQuestions, file).question


class Shown(IntEnum):
    """The stage of a question on the lecturer's page."""

    ASKED = 0
    PREDICTIONS = 1
    ANSWER = 2


class Room:
    """The present question and its predictions."""

    def __init__(self, every: tuple[RoomQuestion, ...]) -> None:
        self.questions = every
        self._lock = threading.Lock()
        self._asked = 0
        self.ask(0)

    def ask(self, place: int) -> None:
        """Ask the question with this number (from 0), and delete the predictions."""
        with self._lock:
            self.question = self.questions[place]
            self._asked += 1
            self._stage = Shown.ASKED
            self._predictions: dict[str, tuple[str, int]] = {}

    def show(self) -> None:
        """Show the predictions; at the second call, show the answer. The first call also closes the
        question for predictions."""
        with self._lock:
            self._stage = Shown(min(self._stage + 1, Shown.ANSWER))

    @property
    def state(self) -> str:
        """Return a text that changes whenever the students' page must change."""
        return f"{self._asked}{'' if self.is_open else ' closed'}"

    @property
    def is_open(self) -> bool:
        """Return whether predictions are accepted."""
        return self._stage is Shown.ASKED

    def prediction(self, browser: str) -> int | None:
        """Return the choice (from 0) of a browser; None if it has no prediction."""
        return self._predictions.get(browser, ("", None))[1]

    def predict(self, browser: str, address: str, state: str, choice: int) -> str:
        """Store or replace the prediction of a browser. Return an empty text, or the reason why the
        prediction is rejected. `state`: the state that the student's page showed."""
        with self._lock:
            if not self.is_open or state != self.state:
                return "Too late: this question is closed."
            if choice not in range(len(self.question.choices)):
                return "There is no such choice."
            others = [place for one, (place, _) in self._predictions.items() if one != browser]
            if len(others) >= PREDICTIONS_MOST or others.count(address) >= FROM_ADDRESS_MOST:
                return "There are too many predictions already."
            self._predictions[browser] = (address, choice)
            return ""

    def shown(self) -> dict[str, Json]:
        """Return the content of the lecturer's page. The counts and the answer are included only if
        the page shows them."""
        with self._lock:
            question, stage = self.question, self._stage
            counts = Counter(choice for _, choice in self._predictions.values())
            places = range(len(question.choices))
            return {
                "name": question.name,
                "ask": question.ask,
                "choices": list(question.choices),
                "predictions": len(self._predictions),
                "addresses": len({address for address, _ in self._predictions.values()}),
                "counts": [counts[place] for place in places] if stage else None,
                "measure": question.measure if stage else "",
                "answer": question.answer if stage is Shown.ANSWER else None,
                "because": question.because if stage is Shown.ANSWER else "",
            }


# ---- The page of the students ----

CONNECTIONS_MOST = 64
FROM_ADDRESS_AT_ONCE = 16
REQUEST_SECONDS = 5.0
"""The timeout for the whole request, in seconds. Single bytes do not extend it."""
REQUEST_BYTES_MOST = 8192
ACCEPT_PAUSE = 0.01
"""The pause in seconds after each accepted connection. During a flood, connections wait in the
backlog and use no processor time."""
FILES = {"/live.css", "/room.js"}
COOKIE = re.compile(r"(?:^|; )room=([\w-]{22})(?:;|$)", re.ASCII)


def own_address() -> str:
    """Return this machine's address in its network; loopback if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent, suppress(OSError):
        unsent.connect(("192.0.2.1", 9))  # sends nothing; chooses the interface of the route
        return str(unsent.getsockname()[0])
    return "127.0.0.1"


class RoomPage(PageServer):
    """The web server of the students' page."""

    request_queue_size = 128

    def __init__(self, room: Room, address: str, port: int) -> None:
        """Listen on a port of `address` (empty: this machine's own address). Raises UserError if
        this fails."""
        address = address or own_address()
        self.room = room
        self.template = template_of(__file__, "room.html.j2")
        self._began: dict[Any, tuple[str, float]] = {}
        try:
            super().__init__((address, port), _Student)
        except OSError as error:
            raise UserError(f"--room: cannot listen on {address}, port {port}: {error}") from error
        shown = own_address() if address == "0.0.0.0" else address
        self.url = f"http://{shown}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; if there are too many requests, close its connection."""
        time.sleep(ACCEPT_PAUSE)
        busy = [address for address, _ in list(self._began.values())]
        if len(busy) >= CONNECTIONS_MOST or busy.count(client_address[0]) >= FROM_ADDRESS_AT_ONCE:
            self.shutdown_request(request)
            return
        self._began[request] = (client_address[0], time.monotonic())
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End requests that take too long; `serve_forever` calls this at least twice a second."""
        for request, (_, began) in list(self._began.items()):
            if time.monotonic() - began > REQUEST_SECONDS:
                with suppress(OSError):  # the request has just ended
                    request.shutdown(socket.SHUT_RDWR)

    def close_request(self, request: Any) -> None:
        """Close the connection."""
        self._began.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, because most errors are disconnected clients."""


class _Limited(io.RawIOBase):
    """A connection from which at most REQUEST_BYTES_MOST bytes are read."""

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
        if reason := room.predict(self._browser(), address, state, place):
            self._page(HTTPStatus.CONFLICT, reason)
        else:
            self.answer(HTTPStatus.SEE_OTHER, headers={"Location": "/"})

    def _browser(self) -> str:
        """Return the identifier of this browser; empty at its first visit."""
        found = COOKIE.search(self.headers.get("Cookie", ""))
        return found[1] if found else ""

    def _page(self, status: HTTPStatus, reason: str = "") -> None:
        room, browser = self.server.room, self._browser()
        mine = room.prediction(browser)
        text = self.server.template.render(room=room, mine=mine, reason=reason)
        # Lax: another site's link sends the cookie, another site's POST form does not.
        cookie = f"room={secrets.token_urlsafe(16)}; Path=/; HttpOnly; SameSite=Lax"
        self.answer(status, HTML, text, {} if browser else {"Set-Cookie": cookie})
