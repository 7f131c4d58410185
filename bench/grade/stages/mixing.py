# SPDX-License-Identifier: MIT
"""A random mix of requests whose answers the grader knows: several clients at once, each with many
requests on its connection, in packets that end anywhere."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from urllib.parse import quote_plus

from bench.grade.faults import LOSES_PIPELINED, NO_ANSWER, WRONG_ANSWER
from bench.grade.scene import FORM, Scene
from bench.grade.site import SeededSite, word
from bench.grade.stage import Failed
from bench.load.client import Client, Response, request
from bench.services.redis_server import connect

CLIENTS, REQUESTS, BATCH = 6, 40, 5
"""Each client sends so many requests; at most BATCH of them before it reads."""
PIECE_SECONDS, CUT_SECONDS = 0.002, 0.03
CHARACTERS = "abc <>&\"'%+é\u20ac\U0001f600;="
BODY_LIMIT = 65536  # lib/config.h
VISITOR = re.compile(rb"visitor number ([0-9,]+)")


@dataclass
class Expected:
    """A request and what must come of it."""

    name: str
    """For the report."""
    data: bytes
    status: int
    body: bytes | None = None
    """None: any."""
    field: tuple[str, str] | None = None
    """A field that the response must have."""
    remark: str = ""
    """What is in Redis afterwards, once."""
    asks_redis: bool = False

    @property
    def method(self) -> str:
        """The method, as a response to HEAD has no body."""
        return self.data.split(b" ", 1)[0].decode()


def mixture(scene: Scene, cuts: Callable[[], None] | None = None) -> None:
    """Each client gets the right response to each request, and each remark is saved once. `cuts`:
    called again and again meanwhile; it ends the connections to Redis, and then 503 is right, too.
    Raises Failed."""
    count = 1 if scene.stalled_by == "one" else CLIENTS
    visitors = [_Visitor(scene, Random(scene.dice.random()), bool(cuts)) for _ in range(count)]
    over = threading.Event()

    def cut() -> None:
        while cuts and not over.wait(CUT_SECONDS):
            cuts()

    with ThreadPoolExecutor(1) as cutter:
        cutting = cutter.submit(cut)
        try:
            scene.together([visitor.run for visitor in visitors])
        finally:
            over.set()
        cutting.result()
    _saved(scene, visitors)
    numbers = [number for visitor in visitors for number in visitor.numbers]
    if len(set(numbers)) < len(numbers):
        raise Failed(WRONG_ANSWER, f"two of {len(numbers)} visitors have the same number")


def _saved(scene: Scene, visitors: Sequence["_Visitor"]) -> None:
    """Raise Failed unless each remark that was answered 303 is in Redis once, and no other is there
    twice."""
    with connect(scene.redis.url) as redis:
        there = Counter(text.decode() for text in redis.lrange("guestbook_remarks", 0, -1))
    for visitor in visitors:
        for remark, status in visitor.posted.items():
            # If the connection was cut after it was saved, it is there, though 503 was answered.
            if there[remark] > 1 or (status == HTTPStatus.SEE_OTHER and not there[remark]):
                raise Failed(
                    WRONG_ANSWER,
                    f"a client sent the remark {remark!r} once and was answered {status}; it is in "
                    f"Redis {there[remark]} times",
                )


class _Visitor:
    """A client with its requests."""

    def __init__(self, scene: Scene, dice: Random, cut: bool) -> None:
        self._scene, self._dice, self._cut = scene, dice, cut
        self.posted: dict[str, int] = {}
        """The status that was answered to each remark."""
        self.numbers: list[bytes] = []
        """The visitor numbers on its pages."""

    def run(self) -> None:
        """Send all requests and check the responses. Raises Failed."""
        todo = [self._drawn() for _ in range(REQUESTS)]
        while todo:
            with self._scene.client() as client:
                while todo:
                    done, closed = self._batch(client, todo[: self._dice.randint(1, BATCH)])
                    todo = todo[done:]
                    if closed:
                        break
        with self._scene.client() as client:
            self._batch(client, [_too_large()])

    def _drawn(self) -> Expected:
        return self._dice.choice(MAKERS)(self._scene.site, self._dice)

    def _batch(self, client: Client, batch: list[Expected]) -> tuple[int, bool]:
        """Send requests in pieces and read the responses. Return how many have been answered, and
        whether the connection is closed then. Raises Failed."""
        data = b"".join(one.data for one in batch)
        cuts = sorted(self._dice.sample(range(1, len(data)), min(len(data) - 1, 3)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        for piece in pieces[:-1]:
            try:
                client.send(piece)
            except OSError:
                break  # it has closed, and what it has answered is read below
            time.sleep(PIECE_SECONDS)
        for place, one in enumerate(batch):
            fault = LOSES_PIPELINED if place else NO_ANSWER
            rest = b"" if place else pieces[-1]
            answer = self._scene.talk(client, rest, one.method, fault)
            self._check(client, one, answer, [each.name for each in batch[:place]])
            if answer.closes:
                return place + 1, True
        return len(batch), False

    def _check(self, client: Client, one: Expected, answer: Response, before: list[str]) -> None:
        wrong = ""
        if one.remark:
            self.posted[one.remark] = answer.status
        if self._cut and one.asks_redis and answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return
        if answer.status != one.status:
            wrong = f"{answer.status}, not {one.status}"
        elif one.body is not None and answer.body != one.body:
            wrong = f"{one.status} with {len(answer.body)} wrong bytes (correct: {len(one.body)})"
        elif one.field and answer.field(one.field[0]) != one.field[1]:
            wrong = f"{one.field[0]}: {answer.field(one.field[0])}, not {one.field[1]}"
        if wrong:
            after = f" after {', '.join(before)} in one batch" if before else ""
            raise Failed(WRONG_ANSWER, f"{one.name}{after} was answered {wrong}", client.port)
        if found := VISITOR.search(answer.body):
            self.numbers.append(found[1])


def _file(site: SeededSite, dice: Random) -> Expected:
    path = dice.choice(list(site.small))
    method, content = dice.choice(["GET", "GET", "HEAD"]), site.small[path]
    padding = f"X-Padding: {'a' * dice.choice([1, 700, 5000])}"
    return Expected(
        f"{method} {path}",
        request(method, path, padding),
        200,
        b"" if method == "HEAD" else content,
        ("Content-Length", str(len(content))),
    )


def _part(site: SeededSite, dice: Random) -> Expected:
    path, content = dice.choice([*site.small.items(), site.big])
    first = dice.randrange(len(content) - 1)
    last = min(first + dice.choice([0, 1, 17, 3000]), len(content) - 1)
    size = min(dice.choice([1, 50, 2000]), len(content))
    asked, part = dice.choice(
        [
            (f"{first}-{last}", content[first : last + 1]),
            (f"{len(content) - size}-", content[-size:]),
            (f"-{size}", content[-size:]),
            (f"{len(content) - size}-{len(content) + 9}", content[-size:]),
        ]
    )
    data = request("GET", path, f"Range: bytes={asked}")
    return Expected(f"bytes={asked} of {path}", data, 206, part)


def _missing(_: SeededSite, dice: Random) -> Expected:
    path = f"/{word(dice)}"
    return Expected(path, request("GET", path), 404)


def _moved(site: SeededSite, dice: Random) -> Expected:
    path, target = dice.choice(list(site.moved.items()))
    return Expected(path, request("GET", path), 302, None, ("Location", target))


def _page(_: SeededSite, _dice: Random) -> Expected:
    return Expected("the guestbook", request("GET", "/guestbook"), 200, asks_redis=True)


def _remark(dice: Random) -> tuple[str, bytes]:
    """Return what Redis keeps of a remark, and the form that sends it."""
    name, text = (word(dice) + "".join(dice.choices(CHARACTERS, k=n)) + "." for n in (12, 60))
    form = f"guest-name={quote_plus(name)}&guest-remarks={quote_plus(text)}"
    return f"{text} - {name}", form.encode()


def _form(_: SeededSite, dice: Random) -> Expected:
    remark, form = _remark(dice)
    data = request("POST", "/guestbook", FORM, body=form)
    return Expected("a remark", data, 303, remark=remark, asks_redis=True)


def _chunks(_: SeededSite, dice: Random) -> Expected:
    remark, form = _remark(dice)
    chunks = b""
    while form:
        size = dice.randint(1, 80)
        chunks += b"%x\r\n%b\r\n" % (len(form[:size]), form[:size])
        form = form[size:]
    head = request("POST", "/guestbook", FORM, "Transfer-Encoding: chunked")
    return Expected(
        "a remark in chunks", head + chunks + b"0\r\n\r\n", 303, remark=remark, asks_redis=True
    )


def _too_large() -> Expected:
    """A body beyond the limit in small chunks, after which the server closes the connection."""
    head = request("POST", "/guestbook", FORM, "Transfer-Encoding: chunked")
    chunk = b"%x\r\n%b\r\n" % (4000, b"a" * 4000)
    return Expected("too many chunks", head + chunk * (BODY_LIMIT // 4000 + 1), 413)


MAKERS: tuple[Callable[[SeededSite, Random], Expected], ...]
MAKERS = (_file, _file, _part, _missing, _moved, _page, _form, _form, _chunks)
