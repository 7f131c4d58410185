# SPDX-License-Identifier: MIT
"""Requests whose responses the grader knows: one by one, several in one packet, in pieces, and in a
random mix of several clients."""

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import accumulate, pairwise
from random import Random
from urllib.parse import quote_plus

from bench.grade.building import Expected, SeededSite, word
from bench.grade.faults import FaultName
from bench.grade.scene import CLOSE, FORM, WORKERS, Scene
from bench.grade.stage import Failed
from bench.load.client import Client, Response, request
from bench.services.redis_server import connect

CLIENTS, REQUESTS, BATCH = 6, 40, 5
"""The number of requests of each client; it sends at most BATCH of them before it reads."""
PIECE_SECONDS, CUT_SECONDS = 0.002, 0.03
LOCKSTEP_SHARE = 0.5
LONG = 950
"""The characters of a long remark; the limit is 1,000."""
CHARACTERS = "abc <>&\"'%+é\u20ac\U0001f600;="
BODY_LIMIT = 65536  # lib/config.h
CHUNKED = "Transfer-Encoding: chunked"
INJECTED = (
    "sendto,sendmsg,writev,sendfile:error=EINTR:when=3+4",
    "poll,ppoll,select,pselect6,epoll_wait,epoll_pwait:error=EINTR:when=4+3",
    f"fork,vfork,clone,clone3:error=EAGAIN:when={3 * WORKERS}+3",
    "accept,accept4:error=EMFILE:when=3+5",
)
"""The calls that fail, and how: the first that fails, and the step to the next, for each thread."""
FEW, ALONE = 15, 30
"""The number of requests of each client, and of those with a connection of their own."""
VISITOR = re.compile(rb"visitor number ([0-9,]+)")


@dataclass(frozen=True)
class Manner:
    """A way to send requests, and the fault that a failure proves."""

    cuts: Sequence[int] = ()
    """The offsets of the pieces that are sent after a pause."""
    pause: float = PIECE_SECONDS
    lockstep: bool = False
    """The client reads each response before it sends the next piece."""
    silent: FaultName = "no-answer"
    """The fault if the first response does not arrive."""
    wrong: FaultName = "wrong-answer"
    """The fault if a response is wrong."""


PLAIN = Manner()


def exchange(
    scene: Scene, client: Client, batch: Sequence[Expected], how: Manner = PLAIN
) -> list[Response]:
    """Send requests at once and return the responses, up to the first that closes the connection.
    Raises Failed unless they are right."""
    data = b"".join(one.data for one in batch)
    ends = list(accumulate(len(one.data) for one in batch))
    answers: list[Response] = []
    for start, end in pairwise((0, *how.cuts, len(data))):
        with contextlib.suppress(OSError):  # it has closed, and its responses are read below
            client.send(data[start:end])
            if end < len(data):
                time.sleep(how.pause)
        while how.lockstep and ends[len(answers)] <= end < len(data) and not _over(answers):
            answers.append(_next(scene, client, batch, len(answers), how))
    while len(answers) < len(batch) and not _over(answers):
        answers.append(_next(scene, client, batch, len(answers), how))
    return answers


def _over(answers: Sequence[Response]) -> bool:
    return bool(answers) and answers[-1].closes


def _next(
    scene: Scene, client: Client, batch: Sequence[Expected], number: int, how: Manner
) -> Response:
    """Return the response to this request of the batch. Raises Failed unless it is right."""
    one = batch[number]
    before = ", ".join(each.name for each in batch[:number])
    named = replace(one, name=f"{one.name} after {before} in one packet") if before else one
    try:
        answer = scene.talk(client, b"", one.method, how.silent)
    except Failed as failed:
        failed.seen = f"{named.name}: {failed.seen}"
        raise
    scene.require(named, answer, how.wrong, client.port)
    return answer


def ask(scene: Scene, *batch: Expected, how: Manner = PLAIN) -> list[Response]:
    """Call `exchange` with a new connection."""
    with scene.client() as client:
        return exchange(scene, client, batch, how)


def leave(scene: Scene, *sent: bytes, pause: float = 0, buffer: int = 0) -> None:
    """Let a client send each of these bytes, wait and reset its connection, one after another."""
    for data in sent:
        with scene.client(buffer) as client:
            client.send(data)
            scene.watch.sleep(pause)
            client.reset()


def page(scene: Scene, when: str = "") -> Response:
    """Return the guestbook. Raises Failed if it is not served; `when`: what has happened before."""
    named = replace(_page(scene.site, scene.dice), name=f"the guestbook{when}")
    return ask(scene, named, how=Manner(wrong="no-redis"))[0]


def mixture(
    scene: Scene,
    cuts: Callable[[], None] | None = None,
    also: int = HTTPStatus.SERVICE_UNAVAILABLE,
    requests: int = REQUESTS,
) -> None:
    """Each client gets the right response to each request, and each remark is saved once. `cuts`:
    called again and again meanwhile; then the status `also` is right, too, for pages with data from
    Redis. Raises Failed."""
    count = 1 if scene.stalled_by == "one" else CLIENTS
    also = also if cuts else 0
    visitors = [_Visitor(scene, Random(scene.dice.random()), also, requests) for _ in range(count)]
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
    for visitor in visitors:
        require_saved(scene, visitor.posted)
    numbers = [number for visitor in visitors for number in visitor.numbers]
    if len(set(numbers)) < len(numbers):
        raise Failed("wrong-answer", f"two of {len(numbers)} visitors have the same number")


def require_saved(
    scene: Scene, posted: Mapping[str, int], fault: FaultName = "wrong-answer"
) -> None:
    """Raise Failed unless each remark that was answered 303 is in Redis once, and no other is there
    twice. `posted`: the status that was answered to each remark."""
    with connect(scene.redis.url) as redis:
        saved = redis.lrange("guestbook_remarks", 0, -1)
    there = Counter(remark.decode(errors="replace") for remark in saved)
    for remark, status in posted.items():
        # If the connection was cut after it was saved, it is there, though 503 was answered.
        if there[remark] > 1 or (status == HTTPStatus.SEE_OTHER and not there[remark]):
            raise Failed(
                fault,
                f"a client sent the remark {remark[:60]!r} once and was answered {status}; it is "
                f"in Redis {there[remark]} times",
            )


def pause(scene: Scene) -> None:
    """Stop the server's processes and let them continue: then poll(2), epoll_wait(2) and recv(2)
    with a timeout fail with EINTR."""
    with scene.suspended(scene.pids()):
        pass


def interrupted(scene: Scene) -> None:
    """Some system calls fail for a moment, and no client notices."""
    seen = "some system calls of the server failed for a moment (EINTR, EAGAIN, EMFILE)"
    try:
        mixture(scene, lambda: pause(scene), also=0, requests=FEW)
        for _ in range(ALONE):
            ask(scene, scene.site.file(next(iter(scene.site.small)), CLOSE))
    except Failed as failed:
        scene.alive()
        what = f"{seen}: {failed.seen}"
        raise Failed("interrupted-call", what, failed.port, failed.sure) from failed


class _Visitor:
    """A client with its requests."""

    def __init__(self, scene: Scene, dice: Random, also: int, requests: int) -> None:
        self._scene, self._dice, self._also, self._requests = scene, dice, also, requests
        self.posted: dict[str, int] = {}
        self.numbers: list[bytes] = []
        """The visitor numbers on its pages."""

    def run(self) -> None:
        """Send all requests and check the responses. Raises Failed."""
        todo = [self._drawn() for _ in range(self._requests)]
        while todo:
            with self._scene.client() as client:
                closed = False
                while todo and not closed:
                    batch = todo[: self._dice.randint(1, BATCH)]
                    size = sum(len(one.data) for one in batch)
                    cuts = sorted(self._dice.sample(range(1, size), min(size - 1, 3)))
                    how = Manner(cuts, lockstep=self._dice.random() < LOCKSTEP_SHARE)
                    answers = exchange(self._scene, client, batch, how)
                    self._keep(batch, answers)
                    todo, closed = todo[len(answers) :], answers[-1].closes
        ask(self._scene, _too_large(), how=Manner([BODY_LIMIT // 2]))

    def _drawn(self) -> Expected:
        one = self._dice.choice(MAKERS)(self._scene.site, self._dice)
        return replace(one, also=self._also) if b" /guestbook " in one.data else one

    def _keep(self, batch: Sequence[Expected], answers: Sequence[Response]) -> None:
        for one, answer in zip(batch, answers, strict=False):
            if one.remark:
                self.posted[one.remark] = answer.status
            self.numbers += VISITOR.findall(answer.body)


def _file(site: SeededSite, dice: Random) -> Expected:
    path, method = dice.choice(list(site.small)), dice.choice(["GET", "GET", "HEAD"])
    return site.file(path, f"X-Padding: {'a' * dice.choice([1, 700, 5000])}", method=method)


def _page(_: SeededSite, _dice: Random) -> Expected:
    return Expected("the guestbook", request("GET", "/guestbook"), 200)


def _remark(dice: Random) -> tuple[str, bytes]:
    """Return the text of a remark in Redis, and the form that sends it."""
    sizes = 12, dice.choice((60, LONG))
    name, text = (word(dice) + "".join(dice.choices(CHARACTERS, k=n)) + "." for n in sizes)
    form = f"guest-name={quote_plus(name)}&guest-remarks={quote_plus(text)}"
    return f"{text} - {name}", form.encode()


def new_remark(_: SeededSite, dice: Random) -> Expected:
    """Return a form with a random remark."""
    remark, form = _remark(dice)
    data = request("POST", "/guestbook", FORM, body=form)
    return Expected("a remark", data, 303, remark=remark)


def chunks(_: SeededSite, dice: Random) -> Expected:
    """Return a remark that comes in chunks."""
    remark, form = _remark(dice)
    data = request("POST", "/guestbook", FORM, CHUNKED)
    while form:
        size = dice.randint(1, 80)
        data += b"%x\r\n%b\r\n" % (len(form[:size]), form[:size])
        form = form[size:]
    return Expected("a remark in chunks", data + b"0\r\n\r\n", 303, remark=remark)


def _too_large() -> Expected:
    """A body beyond the limit in small chunks, after which the server closes the connection."""
    head = request("POST", "/guestbook", FORM, CHUNKED)
    chunk = b"%x\r\n%b\r\n" % (4000, b"a" * 4000)
    return Expected("too many chunks", head + chunk * (BODY_LIMIT // 4000 + 1), 413)


MAKERS: tuple[Callable[[SeededSite, Random], Expected], ...]
MAKERS = (_file, _file, _page, new_remark, new_remark, chunks)
