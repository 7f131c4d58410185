# SPDX-License-Identifier: MIT
"""Silent, slow or many clients, and requests with known correct responses: one by one, several in
one packet, in pieces, or in a random mix."""

import math
import re
import select
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import accumulate, pairwise
from random import Random
from typing import NamedTuple
from urllib.parse import quote_plus

from bench.grade.building import Expected, SeededSite, word
from bench.grade.findings import Failed, FaultName
from bench.grade.scene import CLOSE, FORM, SMALL_BUFFER, Scene
from bench.grade.server import TIMEOUT, WORKERS, meanwhile
from bench.grade.threads import ASLEEP, sleeping
from bench.load.client import Client, Response, request
from bench.services.redis_server import connect

CLIENTS, REQUESTS, BATCH = 6, 40, 5
"""The clients, the requests of each, and the most requests that a client sends before it reads."""
PIECE_SECONDS, CUT_SECONDS = 0.002, 0.03
CHARACTERS = "abc <>&\"'%+é\u20ac\U0001f600;="
BODY_LIMIT = 65536  # lib/config.h
CHUNKED = "Transfer-Encoding: chunked"
INJECTED = (
    "sendto,sendmsg,writev,sendfile:error=EINTR:when=3+4",
    "poll,ppoll,select,pselect6,epoll_wait,epoll_pwait:error=EINTR:when=4+3",
    f"fork,vfork,clone,clone3:error=EAGAIN:when={3 * WORKERS}+3",
    "accept,accept4:error=EMFILE:when=3+5",
)
"""Calls that fail, and their errors. With `when=3+4` the third call of each thread fails, and then
every fourth call."""
FEW, ALONE = 15, 30
"""The number of requests of each client, and the number of requests on new connections."""
VISITOR = re.compile(rb"visitor number ([0-9,]+)")
SETTLE_SECONDS, FULL_SECONDS = 0.3, 0.3
LEAVING = 4
"""Every fourth client, beginning with the first, leaves before its request is complete."""
WATCHED_SECONDS = 0.6
TOGETHER = 80
IN_ORDER, ORDER_SECONDS = 5, 0.03
GREEDY, TRIES = 300, 3
"""The number of requests that a greedy client sends together, and the number of attempts."""
Faults = tuple[FaultName, FaultName]
"""The faults if no response arrives, and if a response is wrong."""
USUAL: Faults = ("no-answer", "wrong-answer")
PAGE = Expected("the guestbook", request("GET", "/guestbook"), 200)


def exchange(
    scene: Scene,
    client: Client,
    batch: Sequence[Expected],
    faults: Faults = USUAL,
    cuts: Sequence[int] = (),
    lockstep: bool = False,
) -> list[Response]:
    """Send all requests together. Return the responses, up to the first that closes the connection.
    Raises Failed if a response is wrong. `cuts`: the offsets at which the client pauses. With
    `lockstep` the client reads the responses to all complete requests before the next piece."""
    data = b"".join(one.data for one in batch)
    ends = list(accumulate(len(one.data) for one in batch))
    answers: list[Response] = []
    for start, end in pairwise((0, *cuts, len(data))):
        with suppress(OSError):  # the server has closed; its responses are read below
            client.send(data[start:end])
        is_last = end == len(data)
        if not is_last:
            time.sleep(PIECE_SECONDS)
        while len(answers) < (bisect(ends, end) if is_last or lockstep else 0):
            how = "in pieces" if cuts else "in one packet"
            answers.append(_next(scene, client, batch, len(answers), faults, how))
            if answers[-1].closes:
                return answers
    return answers


def _next(
    scene: Scene, client: Client, batch: Sequence[Expected], number: int, faults: Faults, how: str
) -> Response:
    """Return the response to request `number` of the batch, which was sent as `how` says. Raises
    Failed for a wrong response."""
    one = batch[number]
    before = ", ".join(each.name for each in batch[:number])
    named = replace(one, name=f"{one.name} after {before}, sent {how},") if before else one
    try:
        answer = scene.talk(client, b"", one.method, faults[0])
    except Failed as failed:
        failed.seen = f"{named.name.rstrip(',')}: {failed.seen}"
        raise
    scene.require(named, answer, faults[1], client.port)
    return answer


def ask(scene: Scene, one: Expected, faults: Faults = USUAL, cuts: Sequence[int] = ()) -> None:
    """Call `exchange` for one request on a new connection."""
    with scene.client() as client:
        exchange(scene, client, [one], faults, cuts)


def leave(scene: Scene, *sent: bytes, pause: float = 0, buffer: int = 0) -> None:
    """For each element of `sent`, let a new client send it, wait `pause` seconds, and reset."""
    for data in sent:
        with scene.client(buffer) as client:
            client.send(data)
            scene.watch.sleep(pause)
            client.reset()


def page(scene: Scene, when: str = "") -> None:
    """Request the guestbook. Raises Failed if the page is not served. `when`: for the finding."""
    ask(scene, replace(PAGE, name=f"the guestbook{when}"), ("no-answer", "no-redis"))


def mixture(
    scene: Scene,
    cuts: Callable[[], None] | None = None,
    also: int = HTTPStatus.SERVICE_UNAVAILABLE,
    requests: int = REQUESTS,
) -> None:
    """Each client gets the correct response to each request, and each remark is saved once. If
    `cuts` is given, it is called repeatedly, and /guestbook may also have the status `also`."""
    drawn = partial(_visit, scene, also=also if cuts else 0, requests=requests)
    dice = [Random(scene.dice.random()) for _ in range(CLIENTS if scene.several else 1)]
    with meanwhile(cuts, CUT_SECONDS) if cuts else nullcontext():
        came = scene.together([partial(drawn, one) for one in dice])
    for asked in came:
        posted = {one.remark: answer.status for one, answer in asked if one.remark}
        require_saved(scene, posted)
    bodies = b"".join(answer.body for asked in came for _, answer in asked)
    numbers = VISITOR.findall(bodies)
    if len(set(numbers)) < len(numbers):
        raise Failed("wrong-answer", f"two of {len(numbers)} visitors have the same number")


def _visit(scene: Scene, dice: Random, also: int, requests: int) -> list[tuple[Expected, Response]]:
    """Send random requests, some in one packet or in pieces, on as few connections as possible.
    Return the requests and their responses. Raises Failed if a response is wrong."""
    todo = []
    for _ in range(requests):
        one = dice.choice(MAKERS)(scene.site, dice)
        todo.append(replace(one, also=also) if b" /guestbook " in one.data else one)
    came: list[tuple[Expected, Response]] = []
    while todo:
        with scene.client() as client:
            while todo:
                batch = todo[: dice.randint(1, BATCH)]
                size = sum(len(one.data) for one in batch)
                cuts = sorted(dice.sample(range(1, size), min(size - 1, 3)))
                lockstep = dice.random() < 0.5
                answers = exchange(scene, client, batch, USUAL, cuts, lockstep)
                came += zip(batch, answers, strict=False)
                todo = todo[len(answers) :]
                if answers[-1].closes:
                    break
    ask(scene, _too_large(), cuts=[BODY_LIMIT // 2])
    return came


def require_saved(
    scene: Scene, posted: Mapping[str, int], fault: FaultName = "wrong-answer"
) -> None:
    """Raise Failed unless each remark with response 303 is in Redis, and no remark is there twice.
    `posted`: the status of the response to each remark. `fault`: the fault of a repeated remark."""
    with connect(scene.redis.url) as redis:
        saved = redis.lrange("guestbook_remarks", 0, -1)
    there = Counter(remark.decode(errors="replace") for remark in saved)
    for remark, status in posted.items():
        # Redis may have a remark despite status 503: the connection ended before the reply.
        if there[remark] > 1 or (status == HTTPStatus.SEE_OTHER and not there[remark]):
            seen = f"a client sent the remark {remark[:60]!r} once and was answered {status}; it is"
            named = fault if there[remark] else "wrong-answer"
            raise Failed(named, f"{seen} in Redis {there[remark]} times")


def interrupted(scene: Scene) -> None:
    """Each client is served although some system calls fail for a moment."""

    def pause() -> None:
        """Stop and continue the server: poll(2), epoll_wait(2) and timed recv(2) return EINTR."""
        with scene.suspended(scene.pids()):
            pass

    def requests(scene: Scene, cuts: Callable[[], None] | None = None) -> None:
        mixture(scene, cuts, also=0, requests=FEW)
        for _ in range(ALONE):
            ask(scene, scene.site.file(scene.site.first, CLOSE))

    with scene.control(requests, "while no call failed"):
        try:
            requests(scene, pause)
        except Failed as failed:
            scene.alive()
            seen = "some system calls of the server failed for a moment (EINTR, EAGAIN, EMFILE)"
            failed.fault, failed.seen = "interrupted-call", f"{seen}: {failed.seen}"
            raise


def _file(site: SeededSite, dice: Random) -> Expected:
    path, method = dice.choice(list(site.small)), dice.choice(["GET", "GET", "HEAD"])
    return site.file(path, f"X-Padding: {'a' * dice.choice([1, 700, 5000])}", method=method)


def _remark(dice: Random) -> tuple[str, bytes]:
    """Return the text of a remark in Redis, and the form for this remark."""
    sizes = 12, dice.choice((60, 950))  # the limit is 1,000
    name, text = (word(dice) + "".join(dice.choices(CHARACTERS, k=n)) + "." for n in sizes)
    form = f"guest-name={quote_plus(name)}&guest-remarks={quote_plus(text)}"
    return f"{text} - {name}", form.encode()


def new_remark(_: SeededSite, dice: Random) -> Expected:
    """Return a form with a random remark."""
    remark, form = _remark(dice)
    data = request("POST", "/guestbook", FORM, body=form)
    return Expected("a remark", data, 303, remark=remark)


def chunks(_: SeededSite, dice: Random) -> Expected:
    """Return a form with a random remark, sent in chunks."""
    remark, form = _remark(dice)
    data = request("POST", "/guestbook", FORM, CHUNKED)
    while form:
        size = dice.randint(1, 80)
        data += b"%x\r\n%b\r\n" % (len(form[:size]), form[:size])
        form = form[size:]
    return Expected("a remark in chunks", data + b"0\r\n\r\n", 303, remark=remark)


def _too_large() -> Expected:
    """Return a request whose chunks together exceed the limit, so that the server closes."""
    head = request("POST", "/guestbook", FORM, CHUNKED)
    chunk = b"%x\r\n%b\r\n" % (4000, b"a" * 4000)
    return Expected("too many chunks", head + chunk * (BODY_LIMIT // 4000 + 1), 413)


MAKERS: tuple[Callable[[SeededSite, Random], Expected], ...]
MAKERS = (_file, _file, lambda *_: PAGE, new_remark, new_remark, chunks)


class Half(NamedTuple):
    """A client that has sent a part of its request."""

    client: Client
    one: Expected
    rest: bytes
    since: float = math.inf
    """The time when the client sent the first part (time.monotonic). Status 408 is correct if the
    response comes more than TIMEOUT later; inf: status 408 is always a fault."""


@contextmanager
def hold(scene: Scene, count: int, page: Expected | None = None) -> Iterator[list[Half]]:
    """Yield silent clients that have sent half a request, for `page` or for random small files."""
    held = []
    with ExitStack() as stack:
        for _ in range(count):
            one = page or scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
            size = scene.dice.randint(5, len(one.data) - 3)
            client = stack.enter_context(scene.client())
            held.append(Half(client, one, one.data[size:], time.monotonic()))
            client.send(one.data[:size])
        scene.watch.sleep(SETTLE_SECONDS)  # so that these clients are accepted first
        yield held


def finish(
    scene: Scene,
    held: Sequence[Half],
    fault: FaultName,
    seen: str,
    wrong: FaultName | None = None,
    *,
    may_end: bool = True,
) -> None:
    """Let clients send the rest of their requests, and close. Raises Failed unless each client gets
    a response. `seen`: the actions before; `wrong`: the fault if a response is wrong; `may_end`:
    whether `fault` also explains a connection that ends without a response."""
    for number, half in enumerate(held, 1):
        what = f"{seen}; number {number} of {len(held)} clients got no complete response"
        complete(scene, half, fault, what, wrong, may_end=may_end)
        half.client.close()


def complete(
    scene: Scene,
    half: Half,
    fault: FaultName,
    seen: str,
    wrong: FaultName | None = None,
    *,
    may_end: bool = True,
) -> None:
    """Let a client send the rest of its request. The arguments are as for `finish`."""
    client, one, rest, since = half
    doubtful = False if wrong else None
    with scene.unanswered(fault, seen, client.port, sure=doubtful, also_in_time=may_end):
        answer = scene.talk(client, rest)
    # If the rest came too late, 408 is correct. For a file, 503 is a fault even on a busy machine.
    if answer.status != HTTPStatus.REQUEST_TIMEOUT or time.monotonic() - since < TIMEOUT:
        refused = answer.status == HTTPStatus.SERVICE_UNAVAILABLE and one.path in scene.site.small
        scene.require(one, answer, wrong or "wrong-answer", client.port, not wrong or refused)


@contextmanager
def slowly(scene: Scene, path: str, *fields: str) -> Iterator[Client]:
    """Yield a client that has requested a large file and read nothing: the send buffer is full."""
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", path, *fields))
        scene.watch.sleep(FULL_SECONDS)
        yield client


def others(scene: Scene) -> str | None:
    """Other clients are served while some clients are silent and some read nothing."""
    silent, slow = scene.dice.randint(2, 5), scene.dice.randint(1, 3)
    paths = [*scene.site.small, "/guestbook"] * 2
    nature = not scene.several
    fault: FaultName = "by-nature" if nature else "one-stops-all"
    scene.file()  # so that a pool starts at least one worker
    alone = scene.until(lambda: scene.tasks() == 1, SETTLE_SECONDS)
    with ExitStack() as stack:
        port = stack.enter_context(hold(scene, silent))[0].client.port
        for _ in range(slow):
            stack.enter_context(slowly(scene, scene.site.big[0], CLOSE))
        seen = f"{silent} clients sent half a request, {slow} read nothing of a large file; one of "
        seen += f"{len(paths)} other clients got no response within {scene.timeout:.0f} s"
        begun = time.monotonic()
        with scene.unanswered(fault, seen, port, sure=nature, also_in_time=False):
            scene.together([partial(scene.get, path) for path in paths])
        took = time.monotonic() - begun
        if nature:
            seen = f"{silent} clients were silent, and {len(paths)} others were served"
            raise Failed("says-one", seen, proof=("tests.toml", ['stalled_by = "one"']))
    if scene.several and all(monopolises(scene) for _ in range(TRIES)):
        asked = f"a client sent {GREEDY} requests for /sorted in one packet, and another client"
        late = f"got its small file only after all {GREEDY} responses"
        raise Failed("one-stops-all", f"{asked} {late}; {TRIES} of {TRIES} times", sure=False)
    if scene.stalled_by == "none" and alone:
        with hold(scene, TOGETHER) as held:
            seen = f"{TOGETHER} clients sent half a request, and the last one sent the rest first"
            # A server that serves few clients at once does not disconnect the others.
            finish(scene, held[::-1], "few-at-once", seen, may_end=False)
    # More clients than the usual table sizes (64, 100, 256, 1024).
    crowd(scene, 1100, SETTLE_SECONDS, "fails-under-load")
    return f"{silent + slow} silent or slow, {len(paths)} others served in {took:.2f} s"


def monopolises(scene: Scene) -> bool:
    """Return whether a client with many requests gets all responses before another gets one."""
    expensive = request("HEAD", "/sorted")
    with scene.clients(2) as (greedy, other):
        first = scene.talk(greedy, expensive, "HEAD")  # so that the server accepts this client
        greedy.send(expensive * GREEDY)
        scene.require(one := scene.site.file(scene.site.first), scene.talk(other, one.data))
        received = b""
        greedy.socket.setblocking(False)
        with suppress(BlockingIOError):
            while piece := greedy.socket.recv(SMALL_BUFFER):
                received += piece
        # If the server sends bodies, it may go on while this client reads.
        has_bodies = len(received) > 2 * GREEDY * first.size
        return received.count(b"HTTP/1.1 200") == GREEDY and not has_bodies


def crowd(
    scene: Scene, count: int, seconds: float, fault: FaultName, wrong: FaultName | None = None
) -> None:
    """Many clients send half a request, and the server sleeps. Then some clients leave, and the
    others send the rest in the order of connecting. `fault` and `wrong`: see `finish`."""
    with hold(scene, count) as held:
        seen = f"{count} clients had sent half a request and were silent"
        scene.require_sleep(seconds, seen)
        leaving = held[::LEAVING]
        for half in leaving:
            half.client.close()
        del held[::LEAVING]
        seen += f"; {len(leaving)} left, and the others sent the rest"
        finish(scene, held, fault, seen, wrong)


def burst(scene: Scene) -> None:
    """The server answers all clients that connected while the server was stopped (SIGSTOP)."""
    one = scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
    scene.watch.sleep(WATCHED_SECONDS)  # until all workers wait
    with ExitStack() as stack:
        with scene.suspended(scene.pids()):
            clients = stack.enter_context(scene.clients(TOGETHER, one.data))
        for number, client in enumerate(clients, 1):
            try:
                scene.require(one, scene.talk(client, b""))
            except Failed as failed:
                if failed.fault != "no-answer":
                    raise
                seen = (
                    f"the server was stopped (SIGSTOP), {TOGETHER} clients connected and sent "
                    f"requests, and the server continued (SIGCONT); client {number} got no "
                    f"complete response ({failed.seen})"
                )
                if failed.sure or scene.is_busy(WATCHED_SECONDS):
                    raise Failed("fails-under-load", seen, client.port, failed.sure) from failed
                proof = ASLEEP, sleeping(scene.pids())
                raise Failed("lost-wakeup", seen, client.port, proof=proof) from failed
    in_order(scene)


def in_order(scene: Scene) -> None:
    """Clients that wait for a free worker are served in order: their visitor numbers increase."""
    data = request("GET", "/guestbook", CLOSE)
    with ExitStack() as stack:
        held = stack.enter_context(hold(scene, WORKERS if scene.several else 1))
        waiting = []
        for _ in range(IN_ORDER):
            waiting += stack.enter_context(scene.clients(1, data))
            scene.watch.sleep(ORDER_SECONDS)
        # If a client already has its response, workers are free, and the order may vary.
        if select.select([client.socket for client in waiting], [], [], 0)[0]:
            return
        finish(scene, held[:1], "no-answer", "all workers were occupied")
        bodies = [scene.talk(client, b"").body for client in waiting]
    numbers = [int(n[1].replace(b",", b"")) for body in bodies if (n := VISITOR.search(body))]
    if numbers != sorted(numbers):
        seen = (
            f"{len(held)} clients occupied the workers, and {IN_ORDER} others requested the "
            f"guestbook, one after another; one worker became free, and the {IN_ORDER} clients "
            f"got the visitor numbers {', '.join(map(str, numbers))}"
        )
        raise Failed("unfair-order", seen, sure=False)
