# SPDX-License-Identifier: MIT
"""Some clients are silent, and the others are served."""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.grade.check import Stage, Trial
from bench.grade.faults import (
    BY_NATURE,
    CUTS_SLOW_READER,
    FAILS_UNDER_LOAD,
    LOST_WAKEUP,
    NO_ANSWER,
    NO_PATIENCE,
    NO_SEND_TIMEOUT,
    NOT_KEPT,
    ONE_STOPS_ALL,
    RESTARTED_TIMEOUT,
    SPINS,
)
from bench.grade.proof import shortened
from bench.grade.scene import BUSY_SHARE, CLOSE, SMALL_BUFFER, WORKERS, Scene
from bench.grade.stage import Failed
from bench.grade.waiting import sleeping, wake_ups
from bench.load.client import Client, request

SETTLE_SECONDS = 0.3
DROP, DROP_SECONDS = 4096, 0.01
OTHERS_SECONDS = 0.1
MANY_CLIENTS = 1100
"""More than the usual table sizes (64, 100, 256, 1024)."""
PAUSE_SECONDS = 0.5
"""The pause between two halves of a request, below REQUEST_TIMEOUT / TIME_SCALE."""
TIME_SCALE = 10
"""Divides the server's timeouts: 10 s become 1 s."""
QUICKLY = ("--time-scale", str(TIME_SCALE))
DEFERRED_SECONDS = 2.5
"""The time in which the kernel passes on a silent connection (TCP_DEFER_ACCEPT, scaled)."""
CUT_OFF_SECONDS = 7.0
DRIP_SECONDS, DRIPPING_SECONDS = 0.06, 5.0
"""The pause between two bytes, and the total time."""
SIP, SIP_SECONDS, SIPPING_SECONDS = 65_536, 0.04, 2.5
"""A client reads SIP bytes every SIP_SECONDS, for longer than SEND_TIMEOUT / TIME_SCALE. The
server's send buffer (4 MB at most) has room again within this timeout."""
USES, USE_SECONDS = 5, 0.2
"""Together longer than IDLE_TIMEOUT / TIME_SCALE, but each pause is shorter."""
FIRST_SECONDS = 0.6
"""The pause before the first sip: send(2) of a blocking server returns EAGAIN meanwhile (SEND_LOOK
/ TIME_SCALE)."""
WATCHED_SECONDS = 0.6
TOGETHER = 80
MANY_WAKE_UPS = 100
"""Wake-ups of a thread per second above which it counts as busy although nothing happens."""


def hold(scene: Scene, stack: ExitStack, count: int) -> list[Client]:
    """Return connected clients that have sent half a request and are silent."""
    held = []
    for _ in range(count):
        client = stack.enter_context(scene.client())
        data = request("GET", scene.dice.choice(list(scene.site.small)), CLOSE)
        client.send(data[: scene.dice.randint(5, len(data) - 3)])
        held.append(client)
    scene.watch.sleep(SETTLE_SECONDS)  # so that the server accepts them first
    return held


@contextlib.contextmanager
def sipping(scene: Scene, count: int) -> Iterator[None]:
    """Let clients read the big file slowly meanwhile."""
    over = threading.Event()

    def sip(client: Client) -> None:
        with contextlib.suppress(OSError):
            client.send(request("GET", scene.site.big[0], CLOSE))
            while not over.wait(DROP_SECONDS) and client.socket.recv(DROP):
                pass

    with ExitStack() as stack:
        clients = [stack.enter_context(scene.client(SMALL_BUFFER)) for _ in range(count)]
        sippers = [threading.Thread(target=sip, args=(client,)) for client in clients]
        for sipper in sippers:
            sipper.start()
        scene.watch.sleep(SETTLE_SECONDS)  # until the server's send buffers are full
        try:
            yield
        finally:
            over.set()
            for sipper in sippers:
                sipper.join()


def others(scene: Scene) -> str | None:
    """Other clients are served while some are silent and some read slowly."""
    silent, slow = scene.dice.randint(2, 5), scene.dice.randint(1, 3)
    paths = [*scene.site.small, "/guestbook"] * 2
    with ExitStack() as stack:
        held = hold(scene, stack, silent)
        stack.enter_context(sipping(scene, slow))
        begun = time.monotonic()
        nature = scene.stalled_by == "one"
        with scene.unanswered(
            BY_NATURE if nature else ONE_STOPS_ALL,
            f"{silent} clients sent half a request, {slow} read a large file slowly; one of "
            f"{len(paths)} other clients got no response within {scene.patience:.0f} s",
            held[0].port,
            sure=nature,
            also_in_time=False,
        ):
            scene.together([lambda path=path: scene.get(path) for path in paths])  # type: ignore[misc]
        took = time.monotonic() - begun
    crowd(scene)
    return f"{silent + slow} silent or slow, {len(paths)} others served in {took:.2f} s"


def crowd(scene: Scene) -> None:
    """Many clients send half a request; then all send the rest, in the order of connecting."""
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    with ExitStack() as stack:
        clients = [stack.enter_context(scene.client()) for _ in range(MANY_CLIENTS)]
        for client in clients:
            client.send(data[:-2])
        scene.watch.sleep(SETTLE_SECONDS)
        share = scene.busy_share(SETTLE_SECONDS)
        if share > BUSY_SHARE:
            raise Failed(
                SPINS,
                f"{MANY_CLIENTS} clients had sent half a request and were silent, and one thread "
                f"ran or waited for a CPU for {share:.0%} of the time",
                sure=False,
            )
        for number, client in enumerate(clients, 1):
            with scene.unanswered(
                FAILS_UNDER_LOAD,
                f"{MANY_CLIENTS} clients were connected at once; number {number} of them got no "
                "complete response",
                client.port,
            ):
                scene.same(scene.talk(client, data[-2:]), path)


def burst(scene: Scene) -> None:
    """Clients connect while the server is stopped; later it answers each of them."""
    path = scene.dice.choice(list(scene.site.small))
    scene.watch.sleep(WATCHED_SECONDS)  # until all its workers wait
    with contextlib.ExitStack() as stack:
        with scene.suspended(scene.pids()):
            clients = [stack.enter_context(scene.client()) for _ in range(TOGETHER)]
            for client in clients:
                client.send(request("GET", path, CLOSE))
        for number, client in enumerate(clients, 1):
            try:
                scene.same(scene.talk(client, b""), path)
            except Failed as failed:
                if failed.fault is not NO_ANSWER:
                    raise
                before = scene.demand_seconds()
                scene.watch.sleep(WATCHED_SECONDS)
                sleeps = scene.demand_seconds() - before < WATCHED_SECONDS * BUSY_SHARE
                lost = sleeps and not failed.sure
                raise Failed(
                    LOST_WAKEUP if lost else FAILS_UNDER_LOAD,
                    f"the server was stopped (SIGSTOP), {TOGETHER} clients connected and sent "
                    f"their requests, and it continued (SIGCONT); client {number} got no complete "
                    f"response ({failed.seen.removeprefix('``: ')})",
                    client.port,
                    sure=lost or failed.sure,
                    proof=shortened(sleeping(scene.pids())) if lost else (),
                    proof_kind="/proc/PID/task/TID/syscall: thread, the call in which it sleeps",
                ) from failed


def kept(scene: Scene) -> None:
    """A single client sends several requests on one connection."""
    paths = scene.dice.choices(list(scene.site.small), k=scene.dice.randint(3, 5))
    fault = BY_NATURE if scene.stalled_by == "one" else NOT_KEPT
    with scene.client() as client:
        for number, path in enumerate(paths):
            # The first head is longer than the others: its old bytes must not be used again.
            fields = () if number else (f"X-Padding: {'a' * 700}",)
            data = request("GET", path, *fields)
            answer = scene.talk(client, data, fault=fault if number else NO_ANSWER)
            scene.same(answer, path)
            if answer.closes:
                raise Failed(
                    fault,
                    f"no other client was connected, and response {number + 1} of {len(paths)} on "
                    "a connection said Connection: close",
                    client.port,
                )
    if scene.stalled_by != "one":
        released(scene)
        idle_again(scene)


def idle_again(scene: Scene) -> None:
    """A client keeps its connection after a large response, which the server sent in pieces. Raises
    Failed if the server does not sleep then."""
    with scene.client(SMALL_BUFFER) as client:
        scene.talk(client, request("GET", scene.site.big[0]))
        share = scene.busy_share(SETTLE_SECONDS)
        if share > BUSY_SHARE:
            raise Failed(
                SPINS,
                f"a client received {scene.site.big[0]} and kept its connection; one thread ran or "
                f"waited for a CPU for {share:.0%} of the time",
                client.port,
                sure=False,
            )


def released(scene: Scene) -> None:
    """Each worker has a client that keeps its connection. A further client waits, and the others
    send one more request: one of these connections is closed, and the further client is served."""
    path = next(iter(scene.site.small))
    data = request("GET", path)
    with ExitStack() as stack:
        clients = [stack.enter_context(scene.client()) for _ in range(WORKERS)]
        if any(scene.talk(client, data).closes for client in clients):
            return
        further = stack.enter_context(scene.client())
        further.send(data)
        scene.watch.sleep(SETTLE_SECONDS)
        for client in clients:
            with contextlib.suppress(OSError):  # it may have been closed for the further client
                client.send(data)
        with scene.unanswered(
            ONE_STOPS_ALL,
            f"{WORKERS} clients kept their connections open, another one came, and each of the "
            f"{WORKERS} sent one more request; the other client got no response within "
            f"{scene.patience:.0f} s",
            further.port,
            sure=False,
        ):
            scene.same(scene.talk(further, b""), path)


def wordless(scene: Scene) -> None:
    """Clients connect and send nothing. The server gets such a connection only some time later
    (TCP_DEFER_ACCEPT)."""
    count, paths = scene.dice.randint(7, 9), list(scene.site.small)
    with ExitStack() as stack:
        silent = [stack.enter_context(scene.client()) for _ in range(count)]
        until = time.monotonic() + DEFERRED_SECONDS
        with scene.unanswered(
            ONE_STOPS_ALL,
            f"{count} clients connected and sent nothing; another client got no response within "
            f"{scene.patience:.0f} s",
            silent[0].port,
            sure=False,
            also_in_time=False,
        ):
            while time.monotonic() < until:
                scene.watch.sleep(0.1)
                scene.file(scene.dice.choice(paths))
        if not silent[0].ends(CUT_OFF_SECONDS):
            raise Failed(
                NO_PATIENCE,
                f"with --time-scale {TIME_SCALE}, a client that connected and sent nothing was "
                f"still connected after {time.monotonic() - until + DEFERRED_SECONDS:.0f} s",
                silent[0].port,
            )


def ends_among_others(scene: Scene, client: Client, path: str) -> bool:
    """Return whether the server disconnects a client in time, while other clients come and go."""
    until = time.monotonic() + CUT_OFF_SECONDS
    while time.monotonic() < until:
        if scene.stalled_by != "one":
            scene.file(path)
        if client.ends(OTHERS_SECONDS):
            return True
    return False


def cut_off(scene: Scene) -> str | None:
    """A client that is silent beyond its timeout is disconnected; a faster client is served."""
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    with ExitStack() as stack:
        if several := scene.stalled_by != "one":
            pausing = stack.enter_context(scene.client())
            pausing.send(data[:20])
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", path))
        refused = stack.enter_context(scene.client())
        scene.talk(refused, b"GET / HTTP/1.1\r\nBroken\r\n\r\n")
        begun = time.monotonic()
        held = hold(scene, stack, 1)[0]
        if several:
            scene.watch.sleep(PAUSE_SECONDS - SETTLE_SECONDS)
            scene.same(scene.talk(pausing, data[20:]), path)
        if not ends_among_others(scene, held, path):
            scene.alive()
            raise Failed(
                NO_PATIENCE,
                f"with --time-scale {TIME_SCALE} a request may take 1 s; a client that sent half "
                f"of one was still connected after {CUT_OFF_SECONDS:.0f} s",
                held.port,
            )
        took = time.monotonic() - begun
        for client, what in (
            (held, "sent half a request"),
            (idle, "received its response"),
            (refused, "sent invalid HTTP"),
        ):
            if not scene.until(lambda client=client: not scene.holds(client.port)):  # type: ignore[misc]
                raise Failed(
                    NO_PATIENCE,
                    f"with --time-scale {TIME_SCALE}, a client {what}, was silent and did not "
                    f"close; {scene.patience:.0f} s later the server still had its descriptor",
                    client.port,
                )
        return f"disconnected after {took:.1f} s"


def in_use(scene: Scene) -> None:
    """A connection on which requests come one after another is kept, for longer than an idle one
    is."""
    path = next(iter(scene.site.small))
    with scene.client() as client:
        for number in range(USES):
            answer = scene.talk(
                client, request("GET", path), fault=NOT_KEPT if number else NO_ANSWER
            )
            if answer.closes:
                return
            scene.watch.sleep(USE_SECONDS)


def drips(scene: Scene) -> str | None:
    """A request that arrives one byte at a time has the same timeout as any other."""
    data = request("GET", next(iter(scene.site.small)), CLOSE, "X-Padding: " + "a" * 200)
    begun = time.monotonic()
    with scene.client() as client:
        for byte in data[:-1]:
            with contextlib.suppress(OSError):  # the server may have closed the connection
                client.send(bytes([byte]))
            if client.ends(DRIP_SECONDS):
                return f"disconnected after {time.monotonic() - begun:.1f} s"
            if time.monotonic() - begun > DRIPPING_SECONDS:
                break
    scene.alive()
    raise Failed(
        RESTARTED_TIMEOUT,
        f"with --time-scale {TIME_SCALE} a request may take 1 s; a client that sent a byte every "
        f"{DRIP_SECONDS} s was still connected after {time.monotonic() - begun:.0f} s",
        client.port,
    )


def takes_nothing(scene: Scene) -> str | None:
    """A client that requests a large file and reads none of it is disconnected."""
    with scene.client(SMALL_BUFFER) as client:
        client.send(request("GET", scene.site.big[0], CLOSE))
        scene.watch.sleep(SETTLE_SECONDS)  # until the server's send buffer is full
        begun = time.monotonic()
        if not scene.until(lambda: not scene.holds(client.port), CUT_OFF_SECONDS):
            scene.alive()
            raise Failed(
                NO_SEND_TIMEOUT,
                f"with --time-scale {TIME_SCALE} a client may take nothing for 1 s; this client "
                f"was still connected after {CUT_OFF_SECONDS:.0f} s",
                client.port,
            )
    return f"disconnected after {time.monotonic() - begun:.1f} s"


def reads_slowly(scene: Scene) -> None:
    """A client that reads slowly but steadily gets the whole file, and a client that sends
    requests slowly but steadily keeps its connection."""
    in_use(scene)
    path, content = scene.site.big
    received = bytearray()
    with scene.client(SIP) as client:
        client.send(request("GET", path, CLOSE))
        scene.watch.sleep(FIRST_SECONDS)
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            while piece := client.socket.recv(SIP):
                received += piece
                ahead = len(received) / SIP * SIP_SECONDS - (time.monotonic() - begun)
                if ahead > 0 and time.monotonic() - begun < SIPPING_SECONDS:
                    scene.watch.sleep(ahead)
    if received.partition(b"\r\n\r\n")[2] != content:
        scene.alive()
        raise Failed(
            CUTS_SLOW_READER,
            f"with --time-scale {TIME_SCALE} a client may take nothing for 1 s; a client waited "
            f"{FIRST_SECONDS} s, then read {SIP >> 10} KB every {SIP_SECONDS} s, and got only "
            f"{len(received):,} bytes (head included) of {path}, which has {len(content):,}",
            client.port,
            sure=False,
        )


def sleeps(scene: Scene) -> None:
    """With silent and idle clients only, the server uses no CPU time."""
    with ExitStack() as stack:
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", "/guestbook"))  # so that it is connected to Redis
        held = hold(scene, stack, scene.dice.randint(2, 4))
        woken, before, begun = wake_ups(scene.pids()), scene.demand_seconds(), time.monotonic()
        scene.watch.sleep(WATCHED_SECONDS)
        took = time.monotonic() - begun
        share = (scene.demand_seconds() - before) / took
        woke = max(
            (n - woken.get(task, n) for task, n in wake_ups(scene.pids()).items()), default=0
        )
    scene.alive()
    if share > BUSY_SHARE:
        raise Failed(
            SPINS,
            f"all clients were silent for {WATCHED_SECONDS} s, and one thread ran or waited for a "
            f"CPU for {share:.0%} of this time",
            held[0].port,
        )
    if woke > MANY_WAKE_UPS * took:
        raise Failed(
            SPINS,
            f"all clients were silent for {WATCHED_SECONDS} s, and one thread woke up {woke} times",
            sure=False,
        )


SILENT = Stage(
    "silent",
    "Silent clients do not block others",
    (
        Trial("other clients are served", 5, others),
        Trial("a connection is kept open", 2, kept, seconds=1),
        Trial("clients that send nothing at all", 1, wordless, QUICKLY, seconds=5),
        Trial("a timeout for half a request", 2, cut_off, QUICKLY),
        Trial("a timeout for single bytes", 1, drips, QUICKLY),
        Trial("a timeout for a client that reads nothing", 1, takes_nothing, QUICKLY),
        Trial("a slow reader gets all", 1, reads_slowly, QUICKLY, seconds=4),
        Trial("no busy waiting", 2, sleeps, seconds=2),
    ),
)
