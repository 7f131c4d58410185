# SPDX-License-Identifier: MIT
"""What is left when clients have gone, and where the system gives no more."""

from contextlib import suppress
from itertools import pairwise
from threading import Barrier, BrokenBarrierError

from bench.grade import sandbox
from bench.grade.check import Stage, Trial
from bench.grade.descriptors import channels, must_look, useless_descriptors
from bench.grade.faults import (
    CLOSES_TWICE,
    DESCRIPTOR_LEAK,
    DIES_AT_LIMIT,
    MEMORY_LEAK,
    NO_ANSWER,
    NOT_JOINED,
    REDIS_LEAK,
    REDIS_STOPS_ALL,
    WORKER_LOST,
    WORKERS_PILE_UP,
    WRONG_ANSWER,
    ZOMBIES,
    FaultKind,
)
from bench.grade.proof import TRACE, shortened
from bench.grade.sandbox import Limits
from bench.grade.scene import CLOSE, FORM, WORKERS, Scene
from bench.grade.site import word
from bench.grade.stage import Failed, NotHere
from bench.grade.stages.holding import SETTLE_SECONDS
from bench.grade.stages.redis import redis_gone
from bench.host.sockets import accept_queue, tcp_sockets
from bench.load.client import NoAnswer, Response, request

FEW_TASKS = 40
"""More than the workers that it is started with, fewer than the clients."""
CROWD = 70
ACCEPTED_IN = 1.0
"""Seconds within which a server takes a crowd, or as much of it as it wants."""
RESETS, RESET_SECONDS = 50, 0.01
PAGES = (30, 40)
"""More than it may have connections to Redis."""
EACH_WORKER = 4
"""So many ends of pipes and socket pairs may a new process or thread bring."""
GROWTH_ROUNDS = 4
"""A pool may grow under load, but not in each of so many rounds."""
SLACK = 4
"""What may be left of clients who are just leaving, and of workers."""
REPLACED, REPLACED_BYTES = 12, 40_000
"""How often a file is replaced; it is too large for a cache of texts (SMALL_FILE)."""
ROUNDS, WARM_ROUNDS, OF_EACH_KIND, ALONE = 8, 2, 15, 40
"""On one connection, fewer than KEEP_ALIVE_REQUESTS in all; on connections of their own."""
LEAK_BYTES = 4096
"""So much or more in each round: a page. A server that loses nothing stops growing once each of its
threads has served some clients."""
QUIET_SECONDS = 0.5
OUTAGE_PAGES, OUTAGE_SECONDS = 20, 0.05
"""More than a second: Redis is tried again every 250 ms (REDIS_RETRY)."""


class OneClient:
    """A client who stays on one connection while the server keeps it. So the same process serves
    him, and what it loses adds up."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._client = scene, scene.client()

    def ask(self, data: bytes, method: str = "GET", fault: FaultKind = NO_ANSWER) -> Response:
        """Raises Failed; `fault`: what it is if no answer comes."""
        answer = self._scene.talk(self._client, data, method, fault)
        if answer.closes:
            self._client.close()
            self._client = self._scene.client()
        return answer

    def __enter__(self) -> "OneClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def visit(scene: Scene, count: int) -> None:
    """Clients of all kinds, one after another: served, refused, silent, and some that leave."""
    paths = [*scene.site.small, "/guestbook"]
    for number in range(count):
        with scene.client() as client:
            kind = number % 5
            if kind < 2:
                scene.talk(client, request("GET", paths[number % len(paths)], CLOSE))
            elif kind == 2:
                scene.talk(client, b"GET / HTTP/1.1\r\nBroken\r\n\r\n")
            elif kind == 3:
                client.send(b"GET / HT")
            else:
                client.send(request("GET", scene.site.big[0]))
                client.reset()


def reset(scene: Scene) -> None:
    """Clients that reset their connection, half of them in the middle of a head and half in the
    middle of a body. Raises Failed if their descriptors stay open."""
    body = b"POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n" + (
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\nguest-name="
    )
    for number in range(RESETS):
        with scene.client() as client:
            client.send(body if number % 2 else b"GET / HTTP/1.1\r\nHo")
            scene.watch.sleep(RESET_SECONDS)  # until the server waits for the rest
            client.reset()
    if not scene.until(lambda: useless_descriptors(scene) <= SLACK):
        scene.alive()
        raise Failed(
            DESCRIPTOR_LEAK,
            f"{RESETS} clients reset their connection in the middle of a head or a body; "
            f"{useless_descriptors(scene)} descriptors that lead to none of them are still open",
        )


def descriptors(scene: Scene) -> None:
    """None stays open, and none is closed twice."""
    must_look(scene)
    begun = len(scene.closed_twice())
    failed = None
    try:
        left_open(scene)
    except Failed as error:
        failed = error
    except ConnectionError as error:
        failed = Failed(NO_ANSWER, f"a client's connection broke: {error}", sure=False)
    twice = scene.closed_twice()[begun:]
    if twice and (failed is None or failed.fault is NO_ANSWER):
        raise Failed(
            CLOSES_TWICE,
            f"{len(twice)} calls of close() failed with EBADF, because the descriptor was not open"
            + (f"; a client had no answer: {failed.seen}" if failed else ""),
            proof=shortened(twice),
            proof_kind=TRACE,
        )
    if failed is not None:
        raise failed


def left_open(scene: Scene) -> None:
    """Clients come and go, files are replaced, and Redis is asked. Raises Failed if a descriptor
    that leads to none of them stays open."""
    reset(scene)
    count = scene.dice.randint(50, 70)
    old, workers = channels(scene), scene.tasks()
    visit(scene, count)
    if not scene.until(lambda: useless_descriptors(scene) <= SLACK):
        scene.alive()
        raise Failed(
            DESCRIPTOR_LEAK,
            f"{count} clients came and went; {useless_descriptors(scene)} descriptors are still "
            "open that lead to none of them",
        )

    def new() -> int:
        more = EACH_WORKER * max(0, scene.tasks() - workers)
        return max(0, len(channels(scene) - old) - more)

    if not scene.until(lambda: new() <= SLACK):
        raise Failed(
            DESCRIPTOR_LEAK,
            f"{count} clients came and went; {new()} pipes, socket pairs or event descriptors that "
            "were made meanwhile are still open",
        )
    replaced(scene)
    redis(scene)


def replaced(scene: Scene) -> None:
    """A file that is replaced again and again: the new one is served, and the old one let go."""
    name = f"{word(scene.dice)}.bin"
    file = scene.site.root / "public" / name
    with OneClient(scene) as client:
        for _ in range(REPLACED):
            content = scene.dice.randbytes(REPLACED_BYTES)
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
            if client.ask(request("GET", f"/{name}")).body != content:
                raise Failed(WRONG_ANSWER, f"/{name} was replaced, and not served as it is now")
    if not scene.until(lambda: useless_descriptors(scene) <= SLACK):
        raise Failed(
            DESCRIPTOR_LEAK,
            f"a file was replaced {REPLACED} times, and asked for each time; "
            f"{useless_descriptors(scene)} descriptors of old ones are still open",
        )


def redis(scene: Scene) -> None:
    """A page gives its connection to Redis back. Where none did, the last of the pages may be
    without an answer: the server waits for a connection that it has lost."""
    pages = scene.dice.randint(*PAGES)
    unanswered: Failed | None = None
    read = 0
    try:
        while read < pages:
            read += 1
            scene.get("/guestbook")
    except Failed as failed:
        unanswered = failed

    def connections() -> int:
        return sum(one.inode != 0 for one in tcp_sockets(remote=scene.redis_port or 0))

    if not scene.until(lambda: connections() <= WORKERS + SLACK):
        raise Failed(
            REDIS_LEAK,
            f"{read} clients read the guestbook, one after another; {connections()} connections to "
            "Redis are open now",
        )
    if unanswered is not None:
        raise unanswered


def processes(scene: Scene) -> None:
    """No zombies, and nobody who serves no one."""
    must_look(scene)
    visit(scene, 10)
    scene.until(lambda: False, 0.3)
    count = scene.dice.randint(30, 40)
    for number in range(1, GROWTH_ROUNDS + 1):
        grown = growth(scene, count, QUIET_SECONDS if number < GROWTH_ROUNDS else scene.patience)
        if grown is None:
            break
        if number == GROWTH_ROUNDS:
            raise grown
    workers_die(scene)


def growth(scene: Scene, count: int, seconds: float) -> Failed | None:
    """What has become more after so many clients, and does not become less within so many seconds;
    None if nothing has. A pool may grow once. Raises Failed if there are zombies."""
    before, mapped = scene.tasks(), scene.mappings()
    visit(scene, count)
    if not scene.until(lambda: not scene.zombies()):
        raise Failed(
            ZOMBIES,
            f"{count} clients have come and gone; {len(scene.zombies())} children that have ended "
            f"are still in the process table (state Z)",
        )
    rounds = f"in each of {GROWTH_ROUNDS} rounds {count} clients came and went"
    if not scene.until(lambda: scene.tasks() <= before + SLACK, seconds):
        return Failed(
            WORKERS_PILE_UP,
            f"{rounds}; before the last round there were {before} processes and threads, and now "
            f"there are {scene.tasks()}",
        )
    # A stack and the page that guards it, of each; the heaps of threads are fewer.
    if not scene.until(lambda: scene.mappings() < mapped + count, seconds):
        return Failed(
            NOT_JOINED,
            f"{rounds}, and the processes and threads that served them; but where {mapped} pieces "
            f"of memory were mapped before the last round, it is {scene.mappings()} now",
        )
    return None


def workers_die(scene: Scene) -> None:
    """All processes but the first are killed: they are waited for, and clients are served."""
    with scene.client() as client:
        client.send(b"GET / HT")
        scene.watch.sleep(SETTLE_SECONDS)
        killed = set(scene.pids()) - {scene.pid}
        scene.kill(killed)
    if not killed:
        return
    if not scene.until(lambda: not killed & set(scene.pids())):
        raise Failed(
            ZOMBIES,
            f"{len(killed)} processes were killed, and {scene.patience:.0f} s later "
            f"{len(killed & set(scene.pids()))} are still in the process table",
        )
    with scene.unanswered(
        WORKER_LOST,
        f"all {len(killed)} processes but the first were killed; a client who came then had no "
        f"answer within {scene.patience:.0f} s",
        sure=True,
    ):
        scene.file(next(iter(scene.site.small)))


def memory(scene: Scene) -> None:
    """The same requests again and again, with Redis and without, and no memory is lost."""
    must_look(scene)
    require_no_growth(scene, NO_ANSWER)
    if not scene.until(lambda: useless_descriptors(scene) <= SLACK):
        raise Failed(
            DESCRIPTOR_LEAK,
            "clients left in the middle of a head, of a body and of an answer; "
            f"{useless_descriptors(scene)} descriptors that lead to none of them are still open",
        )
    with redis_gone(scene):
        before = useless_descriptors(scene)
        require_no_growth(scene, REDIS_STOPS_ALL)
        for _ in range(OUTAGE_PAGES):
            scene.ask_for("/guestbook", REDIS_STOPS_ALL)
            scene.watch.sleep(OUTAGE_SECONDS)
        if not scene.until(lambda: useless_descriptors(scene) <= before + 1):
            raise Failed(
                DESCRIPTOR_LEAK,
                f"pages were asked for while Redis was gone; {before} descriptors that lead to no "
                f"client and to no Redis were open before, and {useless_descriptors(scene)} are "
                "now",
            )


def require_no_growth(scene: Scene, fault: FaultKind) -> None:
    """Raises Failed if memory grows in each of several rounds; `fault`: what it is if no answer
    comes."""
    path = next(iter(scene.site.small))
    kept = [
        *(("GET", request("GET", p)) for p in (path, "/guestbook", "/go/nowhere", "/missing")),
        ("HEAD", request("HEAD", path)),
        ("POST", request("POST", "/guestbook", FORM, body=b"guest-name=&guest-remarks=")),
    ]
    body = request("POST", "/guestbook", FORM, body=b"guest-name=")[:-5]
    sizes: list[int] = []
    with OneClient(scene) as client:
        tasks = scene.tasks()
        while len(sizes) < WARM_ROUNDS + ROUNDS:
            for _ in range(OF_EACH_KIND):
                for method, data in kept:
                    client.ask(data, method, fault)
            for _ in range(ALONE):
                scene.ask(request("GET", path, CLOSE), fault=fault)
                scene.ask(b"GET / HTTP/1.1\r\nBroken\r\n\r\n", fault=fault)
                for data in (b"GET / HT", body, request("GET", scene.site.big[0])):
                    with scene.client() as leaver:
                        leaver.send(data)
                        leaver.reset()
            scene.until(lambda: scene.tasks() <= tasks + 1, QUIET_SECONDS)
            sizes.append(scene.memory())
            if len(sizes) > WARM_ROUNDS and sizes[-1] - sizes[-2] < LEAK_BYTES:
                return
    grown = [after - before for before, after in pairwise(sizes[WARM_ROUNDS - 1 :])]
    when = "" if fault is NO_ANSWER else " without Redis"
    raise Failed(
        MEMORY_LEAK,
        f"{ROUNDS} rounds of {OF_EACH_KIND * len(kept)} requests on one connection and of "
        f"{5 * ALONE} others, some of which left early{when}: each left between "
        f"{min(grown) >> 10} and {max(grown) >> 10} KB more in use",
    )


def limit(scene: Scene) -> None:
    """More clients at once than it may have processes and threads: all are served in the end."""
    if sandbox.user() is None:
        raise NotHere("only root can limit its processes apart from our own")
    path = next(iter(scene.site.small))
    data = request("GET", path, CLOSE)
    # Who is never answered must be told from who waits on a busy machine.
    scene.patience *= 3
    scene.gives_up = DIES_AT_LIMIT

    def one() -> str:
        with scene.client() as client:
            client.send(data[:-2])
            with suppress(BrokenBarrierError):
                all_there.wait(scene.patience)
            try:
                return str(client.ask(data[-2:]).status)
            except NoAnswer as error:
                return "dropped" if error.in_time else "late"
            except OSError:
                return "dropped"

    def accepted() -> None:
        """Who is not accepted yet would find the first ones gone."""
        scene.until(lambda: accept_queue(scene.address[1]) == 0, ACCEPTED_IN)

    all_there = Barrier(CROWD, accepted)
    came = scene.together([one] * CROWD)
    scene.alive()
    if came.count("200") < CROWD:
        raise Failed(
            DIES_AT_LIMIT,
            f"{CROWD} clients came at once where {FEW_TASKS} processes and threads are allowed; "
            f"{came.count('dropped')} of them were dropped, {came.count('late')} had to wait for "
            "longer than they did",
        )


LEAVES_NOTHING = Stage(
    "leaves-nothing",
    "It leaves nothing behind, and lives within limits",
    (
        Trial("descriptors", 4, descriptors, traced=True),
        Trial("processes and threads", 5, processes),
        Trial("memory", 2, memory, seconds=6),
        Trial("at the limit", 4, limit, limits=Limits(tasks=FEW_TASKS, others=0)),
    ),
)
