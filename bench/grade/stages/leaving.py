# SPDX-License-Identifier: MIT
"""Leaks after clients have left."""

from contextlib import ExitStack
from itertools import pairwise

from bench.grade.afterwards import SLACK, require_closed, require_reaped
from bench.grade.faults import FaultName
from bench.grade.inspection import channels, must_look, redis_connections, useless_descriptors
from bench.grade.scene import CLOSE, FORM, WORKERS, Scene
from bench.grade.stage import TRACE, Failed, shortened
from bench.grade.stages.holding import SETTLE_SECONDS, hold
from bench.grade.stages.limits import ACCEPT_WITHOUT_CLIENT, AT_DESCRIPTOR_LIMIT, AT_PROCESS_LIMIT
from bench.grade.stages.mixing import INJECTED, interrupted, leave
from bench.grade.stages.redis import redis_gone, returns
from bench.grade.stages.situations import cut_redis
from bench.grade.trying import Stage, Trial
from bench.load.client import Response, request

HALF, BROKEN = b"GET / HT", b"GET / HTTP/1.1\r\nBroken\r\n\r\n"
HALF_BODY = request("POST", "/guestbook", FORM, body=b"guest-name=")[:-5]
CLOSED_TWICE = r"close(?:\(\d| resumed).* = -1 EBADF.*"
"""Calls of close that failed, without close(-1)."""
RESETS, RESET_SECONDS = 50, 0.01
PAGES = (30, 40)
"""More than the connections to Redis that the server may have."""
CUTS = 30
"""How often Redis closes all connections: more often than the server may have connections."""
AT_ONCE, ONES = 6, 3
"""Clients that leave at once, and processes that are killed one after another."""
EACH_WORKER = 4
"""The ends of pipes and socket pairs that each new process or thread may add."""
GROWTH_ROUNDS = 4
"""A pool may grow under load, but not in each of these rounds."""
ROUNDS, WARM_ROUNDS, OF_EACH_KIND, ALONE = 8, 2, 60, 40
"""OF_EACH_KIND requests of each kind on one connection, and ALONE on new connections, a round."""
LEAK_BYTES = 4096
"""Growth in each round that counts as a leak: a page. Without a leak a server stops growing after
each of its threads has served some clients."""
QUIET_SECONDS = 0.5
OUTAGE_PAGES, OUTAGE_SECONDS = 20, 0.05
"""More than a second: Redis is tried again every 250 ms (REDIS_RETRY)."""


class OneClient:
    """A client that stays on one connection while the server keeps it open. The requests then reach
    one process, whose leaks add up."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._client = scene, scene.client()

    def ask(self, data: bytes, method: str = "GET", fault: FaultName = "no-answer") -> Response:
        """Return the response. Raises Failed; `fault`: the fault if no response arrives."""
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
    """Run clients of all kinds, one after another: served, refused, silent and resetting."""
    paths = [*scene.site.small, "/guestbook"]
    for number in range(0, count, 5):
        for path in (paths[number % len(paths)], paths[-1 - number % len(paths)]):
            scene.get(path)
        scene.ask(BROKEN)
        with scene.client() as client:
            client.send(HALF)
        leave(scene, request("GET", scene.site.big[0]))


def reset(scene: Scene) -> None:
    """Reset connections, half of them in the middle of a head and half in the middle of a body.
    Raises Failed if their descriptors stay open."""
    before = scene.pids()
    leave(scene, *[HALF, HALF_BODY] * (RESETS // 2), pause=RESET_SECONDS)
    seen = f"{RESETS} clients reset their connections in a head or a body"
    require_closed(scene, seen)
    scene.require_alive(before, seen)


def descriptors(scene: Scene) -> None:
    """No descriptor stays open, and none is closed twice."""
    must_look(scene)
    begun = len(scene.traced(CLOSED_TWICE))
    failed = None
    try:
        left_open(scene)
    except Failed as error:
        failed = error
    except ConnectionError as error:
        failed = Failed("no-answer", f"a client's connection broke: {error}", sure=False)
    twice = scene.traced(CLOSED_TWICE)[begun:]
    if twice and (failed is None or failed.fault == "no-answer"):
        raise Failed(
            "closes-twice",
            f"{len(twice)} calls of close() failed with EBADF, because the descriptor was not open"
            + (f"; a client got no response: {failed.seen}" if failed else ""),
            proof=shortened(twice),
            proof_kind=TRACE,
        )
    if failed is not None:
        raise failed


def left_open(scene: Scene) -> None:
    """Run clients and read pages from Redis. Raises Failed if unused descriptors stay open."""
    reset(scene)
    count = scene.dice.randint(50, 70)
    old, workers = channels(scene), scene.tasks()
    visit(scene, count)
    require_closed(scene, f"{count} clients came and went")

    def new() -> int:
        more = EACH_WORKER * max(0, scene.tasks() - workers)
        return max(0, len(channels(scene) - old) - more)

    if not scene.until(lambda: new() <= SLACK):
        raise Failed(
            "descriptor-leak",
            f"{count} clients came and went; {new()} pipes, socket pairs or event descriptors "
            "created meanwhile are still open",
        )
    redis(scene)


def redis(scene: Scene) -> None:
    """Each page returns its Redis connection. If none is returned, the last pages may get no
    response, because the server waits for a free connection."""
    pages = scene.dice.randint(*PAGES)
    unanswered: Failed | None = None
    read = 0
    try:
        while read < pages:
            read += 1
            scene.get("/guestbook")
    except Failed as failed:
        unanswered = failed

    def require_few(what: str) -> None:
        if not scene.until(lambda: redis_connections(scene) <= WORKERS + SLACK):
            now = f"now {redis_connections(scene)} connections to Redis are open"
            raise Failed("redis-leak", f"{what}; {now}")

    require_few(f"{read} clients read the guestbook, one after another")
    if unanswered is not None:
        raise unanswered
    for _ in range(CUTS):
        cut_redis(scene)
        scene.get("/guestbook")
    seen = f"{CUTS} times Redis closed all connections, and a client read the guestbook"
    require_few(seen)
    require_closed(scene, seen, "of connections to Redis that broke")


def processes(scene: Scene) -> None:
    """The server has no zombies and no process or thread that serves no client."""
    must_look(scene)
    visit(scene, 10)
    scene.until(lambda: False, 0.3)
    end_together(scene)
    count = scene.dice.randint(30, 40)
    for number in range(1, GROWTH_ROUNDS + 1):
        grown = growth(scene, count, QUIET_SECONDS if number < GROWTH_ROUNDS else scene.timeout)
        if grown is None:
            break
        if number == GROWTH_ROUNDS:
            raise grown
    workers_die(scene)


def end_together(scene: Scene) -> None:
    """Children end while their parent is stopped, so one SIGCHLD reports all of them."""
    with ExitStack() as stack:
        held = hold(scene, stack, AT_ONCE)
        with scene.suspended([scene.pid]):
            for half in held:
                half.client.close()
            scene.watch.sleep(SETTLE_SECONDS)
    require_reaped(
        scene,
        f"{AT_ONCE} clients left while the first process was stopped (SIGSTOP), and it went on",
    )


def growth(scene: Scene, count: int, seconds: float) -> Failed | None:
    """Serve `count` clients. Return the failure if tasks or mappings increased and do not decrease
    within `seconds`, otherwise None. Raises Failed if there are zombies."""
    before, mapped = scene.tasks(), scene.mappings()
    visit(scene, count)
    require_reaped(scene, f"{count} clients came and went")
    rounds = f"in each of {GROWTH_ROUNDS} rounds {count} clients came and went"
    if not scene.until(lambda: scene.tasks() <= before + SLACK, seconds):
        return Failed(
            "workers-pile-up",
            f"{rounds}; before the last round the server had {before} processes and threads, now "
            f"it has {scene.tasks()}",
        )
    # Each thread has a stack and its guard page; the threads' heaps are fewer.
    if not scene.until(lambda: scene.mappings() < mapped + count, seconds):
        return Failed(
            "not-joined",
            f"{rounds}, and their processes and threads ended; but before the last round there "
            f"were {mapped} memory mappings, now there are {scene.mappings()}",
        )
    return None


def workers_die(scene: Scene) -> None:
    """Kill all processes but the first: the server reaps them and serves clients again."""
    for _ in range(ONES):
        one = sorted(set(scene.pids()) - {scene.pid})[:1]
        scene.kill(one)
        scene.until(lambda one=one: not set(one) & set(scene.pids()))  # type: ignore[misc]
    with ExitStack() as stack:
        hold(scene, stack, 1)
        killed = set(scene.pids()) - {scene.pid}
        scene.kill(killed)
    if not killed:
        return
    if not scene.until(lambda: not killed & set(scene.pids())):
        raise Failed(
            "zombies",
            f"{len(killed)} processes were killed; {scene.timeout:.0f} s later "
            f"{len(killed & set(scene.pids()))} are still in the process table",
        )
    with scene.unanswered(
        "worker-not-replaced",
        f"all {len(killed)} processes but the first were killed; the next client got no response "
        f"within {scene.timeout:.0f} s",
        sure=True,
    ):
        scene.file(next(iter(scene.site.small)))


def memory(scene: Scene) -> None:
    """Repeated requests, with Redis and without, leak no memory and no descriptors."""
    must_look(scene)
    require_no_growth(scene, "no-answer")
    with redis_gone(scene):
        before = useless_descriptors(scene)
        require_no_growth(scene, "redis-stops-all")
        for _ in range(OUTAGE_PAGES):
            scene.get("/guestbook", fault="redis-stops-all")
            scene.watch.sleep(OUTAGE_SECONDS)
        seen = f"before, {before} were open; then pages were requested while Redis was down"
        require_closed(scene, seen, "without a client or Redis", before + 1)
    returns(scene, "was down, meanwhile hundreds of pages were requested, and it returned")


def require_no_growth(scene: Scene, fault: FaultName) -> None:
    """Raise Failed if memory grows in each of several rounds; `fault`: the fault if no response
    arrives."""
    path = next(iter(scene.site.small))
    kept = [
        *(("GET", request("GET", p)) for p in (path, "/guestbook", "/go/nowhere", "/missing")),
        ("HEAD", request("HEAD", path)),
        ("POST", request("POST", "/guestbook", FORM, body=b"guest-name=&guest-remarks=")),
    ]
    sizes: list[int] = []
    with OneClient(scene) as client:
        tasks = scene.tasks()
        while len(sizes) < WARM_ROUNDS + ROUNDS:
            for _ in range(OF_EACH_KIND):
                for method, data in kept:
                    client.ask(data, method, fault)
            for _ in range(ALONE):
                scene.ask(request("GET", path, CLOSE), fault=fault)
                scene.ask(BROKEN, fault=fault)
                leave(scene, HALF, HALF_BODY, request("GET", scene.site.big[0]))
            scene.until(lambda: scene.tasks() <= tasks + 1, QUIET_SECONDS)
            sizes.append(scene.memory())
            if len(sizes) > WARM_ROUNDS and sizes[-1] - sizes[-2] < LEAK_BYTES:
                return
    grown = [after - before for before, after in pairwise(sizes[WARM_ROUNDS - 1 :])]
    when = "" if fault == "no-answer" else " without Redis"
    raise Failed(
        "memory-leak",
        f"{ROUNDS} rounds{when}, each with {OF_EACH_KIND * len(kept)} requests on one connection "
        f"and {5 * ALONE} other clients, some of which left early: memory use grew by "
        f"{min(grown) >> 10} to {max(grown) >> 10} KB a round",
    )


LEAVES_NOTHING = Stage(
    "leaves-nothing",
    "No leaks, and correct at its limits",
    (
        Trial("descriptors", 3, descriptors, traced=True),
        Trial("processes and threads", 4, processes),
        Trial("memory", 2, memory, seconds=6),
        Trial("calls that fail for a moment", 1, interrupted, injected=INJECTED, seconds=4),
        ACCEPT_WITHOUT_CLIENT,
        AT_PROCESS_LIMIT,
        AT_DESCRIPTOR_LIMIT,
    ),
)
