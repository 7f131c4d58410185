# SPDX-License-Identifier: MIT
"""Check that the server disconnects silent, slow and idle clients at their timeout, not earlier,
and serves other clients meanwhile."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from bench.grade.building import Expected
from bench.grade.findings import Failed, FaultName
from bench.grade.scene import CLOSE, FORM, INVALID, SMALL_BUFFER, Scene
from bench.grade.server import LOOK_SECONDS, WORKERS, meanwhile
from bench.grade.stages.clients import (
    PAGE,
    SETTLE_SECONDS,
    USUAL,
    WATCHED_SECONDS,
    Half,
    complete,
    exchange,
    hold,
    slowly,
)
from bench.grade.stages.comparing import beside_reference, require_no_delay
from bench.grade.stages.redis import redis_silent
from bench.grade.threads import wake_ups
from bench.load.client import Client, Response, request
from bench.services.redis_server import REMARKS_SHOWN, connect

HALF_SECONDS = 0.5
"""The pause between two halves of a request, below REQUEST_TIMEOUT / TIME_SCALE."""
TIME_SCALE = 10
"""The divisor of the server's timeouts: 10 s become 1 s."""
CUT_OFF_SECONDS = 7.0
LATE_SECONDS = 1.2
"""More than IDLE_TIMEOUT and REQUEST_TIMEOUT / TIME_SCALE, less than REDIS_REPLY_TIMEOUT."""
SLOTS = 60
"""More clients than an event loop serves at once with 100 descriptors."""
DRIP_SECONDS, DRIPS = 0.06, 4000
"""The pause between two bytes, and more bytes than a client can send in CUT_OFF_SECONDS."""
SIP, SIP_SECONDS, SIPPING_SECONDS = 65_536, 0.04, 2.5
"""A client reads SIP bytes every SIP_SECONDS, for longer than SEND_TIMEOUT / TIME_SCALE. Within
this timeout the server can always send more bytes."""
USES, USE_SECONDS = 7, 0.2
"""All pauses together are longer than IDLE_TIMEOUT / TIME_SCALE, but each is shorter."""
FIRST_SECONDS = 0.6
"""The pause before the first read. The pause exceeds SEND_CHECK_INTERVAL / TIME_SCALE, so a
blocking server's send(2) returns EAGAIN meanwhile."""
HERD_CLIENTS = 9


def kept(scene: Scene) -> None:
    """A single client sends several requests on one connection, and no response is late."""
    paths = scene.dice.choices(list(scene.site.small), k=scene.dice.randint(3, 5))
    with scene.client() as client:
        took = seconds_of_each(scene, client, paths)
    with beside_reference(scene) as pair, pair.its.client() as other:
        its = seconds_of_each(pair.its, other, paths)
    times = list(zip(took, its, strict=True))
    require_no_delay("responses on a kept connection", times, client.port)
    if scene.several:
        released(scene)
        idle_again(scene)


def seconds_of_each(scene: Scene, client: Client, paths: Sequence[str]) -> list[float]:
    """Return the time of each response in seconds. Raises Failed if the connection is not kept."""
    fault: FaultName = "not-kept" if scene.several else "by-nature"
    took = []
    for number, path in enumerate(paths):
        begun = time.monotonic()
        # The first head is longer, to find servers that use its bytes in the buffer again.
        fields = () if number else (f"X-Padding: {'a' * 700}",)
        seen = f"request {number + 1} of {len(paths)} on a connection got no response"
        # Only a connection that ended was not kept.
        ended = scene.unanswered(fault, seen, client.port, also_late=False)
        with ended if number else nullcontext():
            (answer,) = exchange(scene, client, [scene.site.file(path, *fields)])
        took.append(time.monotonic() - begun)
        if answer.closes:
            seen = f"no other client was connected, and response {number + 1} of {len(paths)} on a "
            raise Failed(fault, f"{seen}connection said Connection: close", client.port)
    return took


def idle_again(scene: Scene) -> None:
    """The server sleeps while a client keeps its connection after reading a large response."""
    with scene.client(SIP) as client:
        scene.talk(client, request("GET", scene.site.big[0]))
        seen = f"a client received {scene.site.big[0]} and kept its connection"
        scene.require_sleep(SETTLE_SECONDS, seen, client.port)


def released(scene: Scene) -> None:
    """Each worker has a client that keeps its connection, and a further client waits. After one
    more request of each first client, the server must close a connection to serve the further
    client."""
    one = scene.site.file(scene.site.first)
    with scene.clients(WORKERS) as clients:
        for number, client in enumerate(clients, 1):
            if scene.talk(client, one.data).closes:
                seen = f"only {WORKERS} clients were connected, one for each worker; the response "
                seen += f"to client {number} said Connection: close"
                raise Failed("not-kept", seen, client.port, sure=False)
        with scene.clients(1, one.data) as (further,):
            scene.watch.sleep(SETTLE_SECONDS)
            for client in clients:
                with suppress(OSError):  # the server may have closed already
                    client.send(one.data)
            seen = (
                f"{WORKERS} clients kept their connections open, a further client came, and the "
                f"{WORKERS} sent one more request each; the further client got no response within "
                f"{scene.timeout:.0f} s"
            )
            complete(scene, Half(further, one, b""), "keeps-too-long", seen, "wrong-answer")


def wordless(scene: Scene) -> None:
    """Clients that connect and send nothing block no other client. The server accepts such a
    connection only after some time (TCP_DEFER_ACCEPT)."""
    count, paths = scene.dice.randint(7, 9), list(scene.site.small)
    seen = f"{count} clients connected and sent nothing; another client got no response within "
    seen += f"{scene.timeout:.0f} s"
    with scene.clients(count) as silent:
        first, begun = silent[0], time.monotonic()
        with scene.unanswered("one-stops-all", seen, first.port, sure=False, also_in_time=False):
            while time.monotonic() < begun + 2.5:  # TCP_DEFER_ACCEPT, scaled
                scene.watch.sleep(0.1)
                scene.file(scene.dice.choice(paths))
        did, ended = "connected and sent nothing", partial(first.ends, LOOK_SECONDS)
        disconnected(scene, first, "no-timeout", did, ended, begun)


def disconnected(
    scene: Scene,
    client: Client,
    fault: FaultName,
    did: str,
    ended: Callable[[], bool],
    begun: float | None = None,
) -> str:
    """Return a note with the time until `ended` is true. Raises Failed if this takes too long.
    `did`: the client's action in the past tense; `begun`: its start (default: now)."""
    begun = begun or time.monotonic()
    if scene.until(ended, CUT_OFF_SECONDS):
        return f"disconnected after {time.monotonic() - begun:.1f} s"
    scene.alive()
    late = f"was still connected after {time.monotonic() - begun:.0f} s"
    seen = f"with --time-scale {TIME_SCALE} a client may take 1 s; a client that {did} {late}"
    require_closes(scene, seen)
    raise Failed(fault, seen, client.port)


def require_closes(scene: Scene, seen: str) -> None:
    """Raise Failed if the server does not even close a connection after Connection: close.
    `seen`: a client that was not disconnected after its timeout."""
    with scene.client() as client:
        scene.talk(client, request("GET", scene.site.first, CLOSE))
        if not scene.until(partial(scene.let_go, client.port)):
            also = "a client that had sent Connection: close was not disconnected either"
            raise Failed("never-closes", f"{seen}; {also}", client.port)


def cut_off(scene: Scene) -> str | None:
    """A client that is silent for too long is disconnected, and a faster client is served."""
    one = scene.site.file(scene.site.first)
    with ExitStack() as stack:
        pausing = stack.enter_context(scene.clients(int(scene.several), one.data[:20]))
        idle, refused = stack.enter_context(scene.clients(2))
        scene.talk(idle, one.data)
        scene.talk(refused, INVALID)
        begun, number = time.monotonic(), itertools.count(1)
        held = stack.enter_context(hold(scene, 1))[0].client
        for client in pausing:
            scene.watch.sleep(HALF_SECONDS - SETTLE_SECONDS)
            seen = f"a client paused for {HALF_SECONDS} s in its request and was not answered"
            complete(scene, Half(client, one, one.data[20:]), "no-answer", seen, "wrong-answer")

        def ended() -> bool:
            if scene.several:  # other clients come and go, or are silent for less time
                scene.file(one.path)
                # Add silent clients: the server must not check only the newest client's timeout.
                if next(number) % 3 == 0:
                    stack.enter_context(hold(scene, 1))
            return held.ends(0.1)

        note = disconnected(scene, held, "no-timeout", "sent half a request", ended, begun)
        received, _ = held.rest(LOOK_SECONDS)
        if not received.startswith(b"HTTP/1.1 408 "):
            seen = f"a client that sent half a request got {received[:40]!r} after its timeout"
            raise Failed("no-408", f"{seen}, not status 408", held.port)
        for client, did in (
            (held, "sent half a request"),
            (idle, "received its response"),
            (refused, "sent invalid HTTP"),
        ):
            require_let_go(scene, client, f"a client {did}, was silent and did not close")
    idle_alone(scene)
    waits_for_redis(scene)
    return note


def waits_for_redis(scene: Scene) -> None:
    """A client gets its page although Redis replies later than a client may be idle or silent."""
    page = replace(
        PAGE, name=f"the guestbook, requested while Redis was stopped for {LATE_SECONDS} s,"
    )
    with scene.client() as client:
        if scene.talk(client, request("GET", scene.site.first)).closes:
            return
        with redis_silent(scene):
            client.send(page.data)
            scene.watch.sleep(LATE_SECONDS)
        seen = (
            f"with --time-scale {TIME_SCALE} Redis was stopped for {LATE_SECONDS} s, and a client "
        )
        seen += "that had requested the guestbook before got no page"
        complete(scene, Half(client, page, b""), "cuts-early", seen, "wrong-answer")


def idle_alone(scene: Scene) -> None:
    """An idle client is disconnected even if it is the only client, and even if a later client
    continuously sends requests."""
    one = request("GET", scene.site.first)
    with scene.client() as client:
        scene.talk(client, one)
        require_let_go(scene, client, "the only client was idle after its response")
    if not scene.several:
        return
    with scene.client() as client, scene.client() as later:
        if scene.talk(client, one).closes or scene.talk(later, one).closes:
            return
        kept = [True]

        def again() -> None:
            kept[0] = kept[0] and not scene.talk(later, one).closes

        with meanwhile(again, USE_SECONDS):
            seen = "a client was idle after its response, and a later client sent requests"
            require_let_go(scene, client, seen)


def require_let_go(scene: Scene, client: Client, did: str) -> None:
    """Raise Failed if the server keeps a client's descriptor. `did`: the client's actions."""
    if not scene.until(partial(scene.let_go, client.port)):
        seen = f"with --time-scale {TIME_SCALE}, {did}"
        late = f"{seen}; {scene.timeout:.0f} s later the server still had its descriptor"
        require_closes(scene, late)
        raise Failed("no-timeout", late, client.port)


def in_use(scene: Scene, pause: float = USE_SECONDS, fault: FaultName = "cuts-early") -> None:
    """A connection with many requests stays open for longer than an idle connection. Each response
    has the date of its request. `fault`: the fault if a response is missing."""
    with scene.client() as client:
        for number in range(USES):
            # On a busy machine the pause may be longer than the server's timeout.
            seen = f"requests came every {pause} s; request {number + 1}"
            sent = int(time.time() - 0.05)  # time(2) may lag by one tick of the kernel
            late = f"{seen} was not answered"
            with scene.unanswered(fault if number else "no-answer", late, client.port, sure=False):
                answer = scene.talk(client, request("GET", scene.site.first))
            if answer.date is None or not sent <= answer.date <= time.time():
                old = f"{seen} was answered with Date: {answer.field('Date')}"
                now = time.strftime("%H:%M:%S", time.gmtime(sent))
                raise Failed("bad-head", f"{old}; it was sent at {now} GMT", client.port)
            if answer.closes:
                return
            scene.watch.sleep(pause)


def early(scene: Scene) -> None:
    """No client is disconnected early: in a head, in a body, between requests, without reading."""
    with scene.control(partial(pausing, pauses=False), "without pauses"):
        pausing(scene, pauses=True)


def pausing(scene: Scene, pauses: bool) -> None:
    """Clients pause for less than their timeout, or do not pause. Raises Failed if a client does
    not get its response."""
    one, big = scene.site.file(scene.site.first), scene.site.big[0]
    form = request("POST", "/guestbook", CLOSE, FORM, body=b"guest-name=&guest-remarks=")
    empty = Expected("an empty form", form, 400)
    between, within = 3.5, 6.5  # below IDLE_TIMEOUT; below REQUEST_TIMEOUT and SEND_TIMEOUT
    cases = [
        (between, "kept its connection and sent nothing", b"", one.data, one),
        (within, "paused in the head of a request", one.data[:20], one.data[20:], one),
        (within, "paused in a form", form[:-5], form[-5:], empty),
        (within, "read nothing", request("GET", big), b"", scene.site.file(big)),
    ]
    with ExitStack() as stack:
        waiting = []
        for pause, did, first, rest, right in cases if scene.several else cases[1:2]:
            client = stack.enter_context(scene.client(SMALL_BUFFER))
            client.send(first)
            if first or not scene.talk(client, one.data).closes:
                waiting.append((pause, did, Half(client, right, rest)))
        begun = time.monotonic()
        for pause, did, half in waiting:
            seen, faults = "a client that did not pause got no response", USUAL
            if pauses:
                scene.watch.sleep(max(0.0, begun + pause - time.monotonic()))
                seen = (
                    f"for {pause} s, less than its timeout, a client {did}; then it got no response"
                )
                faults = ("cuts-early",) * 2 if half.rest else ("cuts-slow-reader",) * 2
            complete(scene, half, faults[0], seen, faults[1])


def time_out_together(scene: Scene) -> None:
    """After more clients than the server's slots have timed out, another client is served."""
    seen = f"with --time-scale {TIME_SCALE} {SLOTS} clients sent half a request"
    with hold(scene, SLOTS) as held:
        ports = [half.client.port for half in held]
        if not scene.until(lambda: all(map(scene.let_go, ports)), CUT_OFF_SECONDS):
            late = f"{CUT_OFF_SECONDS:.0f} s later the server still had some of their descriptors"
            require_closes(scene, f"{seen}; {late}")
            raise Failed("no-timeout", f"{seen}; {late}", sure=False)
        seen += " and were disconnected after their timeout; the next client"
        with scene.unanswered("workers-stuck", seen, sure=False):
            scene.file()


def drips(scene: Scene) -> str | None:
    """Single bytes of a head, of a body or after an invalid request do not restart the timeout."""
    if scene.several:
        time_out_together(scene)
    form = request("POST", "/guestbook", FORM, body=b"guest-name=" + DRIPS * b"a")
    cases = [
        ("its request", request("GET", "/", "X-Padding: ").removesuffix(b"\r\n\r\n")),
        ("its form", form[:-DRIPS]),
        ("data after an invalid request", INVALID),
    ]
    note = ""
    for what, first in cases:
        with scene.client() as client:
            client.send(first)

            def ended(client: Client = client) -> bool:
                with suppress(OSError):  # the server may have closed the connection
                    client.send(b"a")
                return client.ends(DRIP_SECONDS) and scene.let_go(client.port)

            did = f"sent a byte of {what} every {DRIP_SECONDS} s"
            note = disconnected(scene, client, "restarted-timeout", did, ended)
    return note


def takes_nothing(scene: Scene) -> str | None:
    """A client that requests a large file and reads none of it is disconnected."""
    with slowly(scene, scene.site.big[0], CLOSE) as client:
        did = "read nothing of a large file"
        gone = partial(scene.let_go, client.port)
        return disconnected(scene, client, "no-send-timeout", did, gone)


def reads_slowly(scene: Scene) -> None:
    """Clients that read slowly but steadily get the whole file and the whole page."""
    with scene.control(partial(in_use, pause=0, fault="no-answer"), "without pauses"):
        in_use(scene)
    with scene.control(partial(sipping, slowly=False), "without pauses"):
        sipping(scene, slowly=True)


def sipping(scene: Scene, slowly: bool) -> None:
    """Clients read the big file and, if the server serves several clients, a long page, slowly or
    without pauses. Raises Failed if bytes are missing or wrong."""
    path, content = scene.site.big
    readers = [(path, SIP_SECONDS)]
    if scene.several:
        with connect(scene.redis.url) as redis:
            # The page with these remarks exceeds a send buffer: '"' becomes six characters in HTML.
            redis.rpush("guestbook_remarks", *['"' * 15_000] * REMARKS_SHOWN)
        readers += [(path, SIP_SECONDS), ("/guestbook", 0)]
    wait = FIRST_SECONDS if slowly else 0
    received = scene.together([partial(_sip, scene, *one, wait) for one in readers])
    for (asked, _), (port, data) in zip(readers, received, strict=True):
        answer = Response.of(data)
        there = len(answer.body) if answer else 0
        if asked == path and answer and not content.startswith(answer.body):
            two = f"two clients read {path} at the same time, and one got wrong bytes"
            raise Failed("short-write", two, port)
        if asked == path and there < len(content):
            scene.alive()
            seen = f"a client got only {there:,} bytes of {path}, which has {len(content):,}"
            if not slowly:
                raise Failed("short-write", seen, port, sure=False)
            seen = (
                f"with --time-scale {TIME_SCALE} a client may read nothing for 1 s; a client "
                f"waited {wait} s, then read {SIP >> 10} KB every {SIP_SECONDS} s; {seen}"
            )
            raise Failed("cuts-slow-reader", seen, port, sure=False)
        if answer and answer.status == HTTPStatus.OK and (answer.announced or 0) > there:
            late = f"with --time-scale {TIME_SCALE} a client waited {wait} s, and got only"
            got = f"{there:,} of the {answer.announced:,} bytes of the guestbook"
            raise Failed("short-write", f"{late} {got}" if slowly else got, port, sure=False)


def _sip(scene: Scene, path: str, pause: float, wait: float) -> tuple[int, bytes]:
    """Request a path, wait, and read SIP bytes every `pause` seconds; after SIPPING_SECONDS, or if
    `wait` is 0, read without pauses. Return the client's port and all bytes."""
    received, until = bytearray(), SIPPING_SECONDS if wait else 0
    with scene.client(SIP) as client:
        client.send(request("GET", path, CLOSE))
        scene.watch.sleep(wait)
        begun = time.monotonic()
        with suppress(OSError):
            while piece := client.socket.recv(SIP):
                received += piece
                ahead = len(received) / SIP * pause - (time.monotonic() - begun)
                if ahead > 0 and time.monotonic() - begun < until:
                    scene.watch.sleep(ahead)
    return client.port, bytes(received)


def sleeps(scene: Scene) -> None:
    """While all clients are silent or idle, the server sleeps and wakes up rarely."""
    with ExitStack() as stack:
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", "/guestbook"))  # so that the server connects to Redis
        held = stack.enter_context(hold(scene, scene.dice.randint(2, 4)))
        woken, begun = wake_ups(scene.pids()), time.monotonic()
        seen = f"all clients were silent for {WATCHED_SECONDS} s"
        scene.require_sleep(WATCHED_SECONDS, seen, held[0].client.port, sure=True)
        now, took = wake_ups(scene.pids()), time.monotonic() - begun
    scene.alive()
    woke = max((n - woken.get(task, n) for task, n in now.items()), default=0)
    if woke > 100 * took:  # 100 wake-ups in a second
        raise Failed("spins", f"{seen}, and one thread woke up {woke} times", sure=False)
    require_few_wake(scene)


def require_few_wake(scene: Scene) -> None:
    """Raise Failed if each client wakes most of the threads and processes of a pool."""
    woken = []
    for _ in range(HERD_CLIENTS):
        before = wake_ups(scene.pids())
        scene.file()
        scene.watch.sleep(LOOK_SECONDS)
        after = wake_ups(scene.pids())
        woken.append(sum(after.get(task, n) != n for task, n in before.items()))
    usual = statistics.median(woken)
    if usual > max(scene.tasks() / 2, 4):  # in a small pool, a few may wake by chance
        woke = f"{usual:.0f} of {scene.tasks()} threads and processes woke up (median)"
        seen = f"for each of {HERD_CLIENTS} clients, {woke}, but only one of them served the client"
        raise Failed("thundering-herd", seen, sure=False)
