# SPDX-License-Identifier: MIT
"""Check for leaks after clients have left. Check the server with more clients than the allowed
number of processes, threads or descriptors."""

import math
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise

from bench.grade.building import word
from bench.grade.findings import TRACE, Failed, FaultName, NotHere
from bench.grade.inspection import (
    SLACK,
    channels,
    is_edge_triggered,
    mappings,
    must_look,
    redis_connections,
    require_alive,
    require_closed,
    require_few,
    require_reaped,
    useless_descriptors,
)
from bench.grade.sandbox import Limits, user
from bench.grade.scene import CLOSE, FORM, INVALID, Scene
from bench.grade.server import LOOK_SECONDS, WORKERS, in_words
from bench.grade.stages.clients import (
    PAGE,
    SETTLE_SECONDS,
    USUAL,
    WATCHED_SECONDS,
    Faults,
    crowd,
    finish,
    hold,
    leave,
)
from bench.grade.stages.redis import redis_gone, returns
from bench.grade.stages.situations import cut_redis
from bench.host.sockets import accept_queue
from bench.load.client import Client, NoAnswer, request

HALF = b"GET / HT"
HALF_BODY = request("POST", "/guestbook", FORM, body=b"guest-name=")[:-5]
CLOSED_TWICE = r"close(?:\(\d| resumed).* = -1 EBADF.*"
"""Matches calls of close that failed because of a closed descriptor, except close(-1)."""
RESETS = 50
CUTS = 30
"""How often Redis closes all connections: more than the allowed number of connections to Redis."""
AT_ONCE = 6
UNSENT_FILES = 80
"""More files than a server keeps open (MOST_FILES)."""
REFUSED_LEAST, REFUSED_SECONDS = 20, 0.1
"""REFUSED_LEAST failures within REFUSED_SECONDS show a loop without pauses (RETRY_DELAY: 20 ms)."""
GROWTH_ROUNDS = 4
"""A pool may grow under load, but not in each of these rounds."""
ROUNDS, WARM_ROUNDS, OF_EACH_KIND, ALONE = 8, 2, 60, 40
"""In each round, a connection carries OF_EACH_KIND requests of each kind. Afterwards ALONE groups
of five clients open new connections."""
QUIET_SECONDS = 0.5
FEW_TASKS = Limits(tasks=40, others=0)
"""The limit of processes and threads: more than the workers, fewer than the clients."""
CROWD = 70
ACCEPTED_IN = 1.0
"""The time in seconds for a server to accept all clients, or as many as possible."""
FEW_DESCRIPTORS, MORE = Limits(descriptors=100), 140
"""The allowed descriptors, and the number of clients."""
ACCEPTS = 150
"""More clients than FEW_DESCRIPTORS allows at the same time."""
STAY_SECONDS = 3.0
"""Less than the timeout of an idle connection (IDLE_TIMEOUT in lib/config.h)."""


def visit(scene: Scene, count: int) -> None:
    """Run clients one after another: served, refused, silent and resetting clients."""
    paths = [*scene.site.small, "/guestbook"]
    for number in range(0, count, 5):
        for path in (paths[number % len(paths)], paths[-1 - number % len(paths)]):
            scene.get(path)
        scene.ask(INVALID)
        with scene.client() as client:
            client.send(HALF)
        leave(scene, request("GET", scene.site.big[0]))


def reset(scene: Scene) -> None:
    """Reset connections in heads and bodies. Raises Failed if their descriptors stay open."""
    before = scene.pids()
    leave(scene, *[HALF, HALF_BODY] * (RESETS // 2), pause=0.01)
    seen = f"{RESETS} clients reset their connections in a head or a body"
    require_closed(scene, seen)
    require_alive(scene, before, seen)


def descriptors(scene: Scene) -> None:
    """No descriptor stays open, and none is closed twice."""
    must_look(scene)
    begun = len(scene.traced(CLOSED_TWICE))
    failed: Failed | ConnectionError | None = None
    try:
        left_open(scene)
    except (Failed, ConnectionError) as error:
        failed = error
    twice = scene.traced(CLOSED_TWICE)[begun:]
    if twice and not (isinstance(failed, Failed) and failed.fault != "no-answer"):
        seen = "calls of close() failed with EBADF, because the descriptor was not open"
        seen += f"; a client got no response: {failed}" if failed else ""
        raise Failed("closes-twice", f"{len(twice)} {seen}", proof=(TRACE, twice))
    if failed is not None:
        raise failed


def left_open(scene: Scene) -> None:
    """Run clients and request pages. Raises Failed if unused descriptors stay open."""
    reset(scene)
    count = scene.dice.randint(50, 70)
    old, workers = channels(scene), scene.tasks()
    visit(replace(scene, timeout=3 * scene.timeout), count)  # strace slows down the server
    seen = f"{count} clients came and went"
    require_closed(scene, seen)

    def new() -> int:
        more = 4 * max(0, scene.tasks() - workers)  # a new worker may add pipes and socket pairs
        return max(0, len(channels(scene) - old) - more)

    kinds = "pipes, socket pairs or event descriptors that are still open"
    left = f"{seen}; {kinds}: {{}}"
    require_few(scene, new, SLACK, "descriptor-leak", left)
    unsent_files(scene)
    redis(scene)


def talk_on(
    scene: Scene, stack: ExitStack, client: Client, data: bytes, fault: FaultName = "no-answer"
) -> Client:
    """Send a request. Return the client for the next request, which is new if the server closes the
    connection. `fault`: see `Scene.talk`."""
    method = data.partition(b" ")[0].decode()
    if not scene.talk(client, data, method, fault).closes:
        return client
    client.close()
    return stack.enter_context(scene.client())


def unsent_files(scene: Scene) -> None:
    """Request many files, but none of their bytes (HEAD, 304, 416). Raises Failed if the files stay
    open. The requests use one connection, and so one process, while the server keeps it."""
    asked = ("HEAD",), ("GET", "If-None-Match: *"), ("GET", "Range: bytes=900000-")
    with ExitStack() as stack:
        client = stack.enter_context(scene.client())
        for number in range(UNSENT_FILES):
            file = scene.site.put(f"{word(scene.dice)}{number}.bin", b"a" * 9000)
            for method, *fields in asked:
                client = talk_on(scene, stack, client, request(method, f"/{file.name}", *fields))
            file.unlink()
    seen = "files were requested with HEAD, If-None-Match and a Range beyond the end"
    require_closed(scene, f"{UNSENT_FILES} {seen}", "of files")


def redis(scene: Scene) -> None:
    """The server returns the Redis connection after each page. If no connection is returned, the
    last pages get no response, because the server waits for a free connection."""
    pages = scene.dice.randint(30, 40)  # more than the allowed connections to Redis
    unanswered: Failed | None = None
    read = 0
    try:
        while read < pages:
            read += 1
            scene.get("/guestbook")
    except Failed as failed:
        unanswered = failed

    now, few = "; now {} connections to Redis are open", WORKERS + SLACK
    count = partial(redis_connections, scene)
    seen = f"{read} clients read the guestbook, one after another"
    require_few(scene, count, few, "redis-leak", seen + now)
    if unanswered is not None:
        raise unanswered
    for _ in range(CUTS):
        cut_redis(scene)
        scene.get("/guestbook")
    seen = f"{CUTS} times Redis closed all connections, and a client read the guestbook"
    require_few(scene, count, few, "redis-leak", seen + now)
    require_closed(scene, seen, "of connections to Redis that broke")


def processes(scene: Scene) -> None:
    """No zombies remain, and the number of processes and threads does not grow."""
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
    """The server reaps children that ended while it was stopped: one SIGCHLD reports all."""
    with hold(scene, AT_ONCE) as held, scene.suspended([scene.pid]):
        for half in held:
            half.client.close()
        scene.watch.sleep(SETTLE_SECONDS)
    seen = "clients left while the first process was stopped (SIGSTOP); then it continued"
    require_reaped(scene, f"{AT_ONCE} {seen}")


def growth(scene: Scene, count: int, seconds: float) -> Failed | None:
    """Run `count` clients. Return a failure if the server has more tasks or mappings than before
    for longer than `seconds`, otherwise None. Raises Failed if there are zombies."""
    before, mapped = scene.tasks(), mappings(scene)
    visit(scene, count)
    require_reaped(scene, f"{count} clients came and went")
    rounds = f"in each of {GROWTH_ROUNDS} rounds {count} clients came and went"
    if not scene.until(lambda: scene.tasks() <= before + SLACK, seconds):
        had = f"before the last round the server had {before} processes and threads"
        return Failed("workers-pile-up", f"{rounds}; {had}, now it has {scene.tasks()}")
    # Each thread has two mappings (stack and guard page). malloc adds fewer than `count`.
    if not scene.until(lambda: mappings(scene) < mapped + count, seconds):
        had = f"before the last round there were {mapped} memory mappings"
        seen = f"{rounds}, and their processes and threads ended; but {had}, now there are"
        return Failed("not-joined", f"{seen} {mappings(scene)}")
    return None


def workers_die(scene: Scene) -> None:
    """Kill all processes except the first. The server must reap them, serve clients again, and
    start as many workers as before."""
    before = scene.tasks()
    for _ in range(3):
        one = sorted(set(scene.pids()) - {scene.pid})[:1]
        scene.kill(one)
        scene.until(lambda one=one: not set(one) & set(scene.pids()))  # type: ignore[misc]
    with hold(scene, 1):
        killed = set(scene.pids()) - {scene.pid}
        scene.kill(killed)
    if not killed:
        return
    late = f"{scene.timeout:.0f} s"
    left = f"{len(killed)} processes were killed; in the process table {late} later: {{}}"
    require_few(scene, lambda: len(killed & set(scene.pids())), 0, "zombies", left)
    seen = f"all {len(killed)} worker processes were killed; the next client got no response"
    with scene.unanswered("worker-not-replaced", f"{seen} within {late}", sure=True):
        scene.file()
    if not scene.until(lambda: scene.tasks() >= before):
        seen = f"all {len(killed)} worker processes were killed; {late} later {scene.tasks()} of "
        raise Failed("worker-not-replaced", f"{seen}{before} processes and threads were there")


def memory(scene: Scene) -> None:
    """Repeated requests, with Redis and without, leak no memory and no descriptors."""
    must_look(scene)
    require_no_growth(scene, "no-answer")
    with redis_gone(scene):
        before = useless_descriptors(scene)
        require_no_growth(scene, "redis-stops-all")
        for _ in range(20):  # meanwhile the server tries to connect four times (REDIS_RETRY)
            scene.get("/guestbook", fault="redis-stops-all")
            scene.watch.sleep(0.05)
        seen = f"{before} descriptors were open; then pages were requested while Redis was down"
        require_closed(scene, seen, "without a client or Redis", before + 1)
    returns(scene, "was down while hundreds of pages were requested, and was started again")


def require_no_growth(scene: Scene, fault: FaultName) -> None:
    """Raise Failed if memory grows in each of several rounds. `fault`: see `Scene.talk`."""
    path = scene.site.first
    # If possible, all requests use one connection, and so one process, whose leaks add up.
    kept = [
        *(request("GET", one) for one in (path, "/guestbook", "/go/nowhere", "/missing")),
        request("HEAD", path),
        request("POST", "/guestbook", FORM, body=b"guest-name=&guest-remarks="),
    ]
    sizes: list[int] = []
    tasks = scene.tasks()
    with ExitStack() as stack:
        client = stack.enter_context(scene.client())
        while len(sizes) < WARM_ROUNDS + ROUNDS:
            if client.ends(LOOK_SECONDS):  # on a busy machine a round may exceed IDLE_TIMEOUT
                client = stack.enter_context(scene.client())
            for data in kept * OF_EACH_KIND:
                client = talk_on(scene, stack, client, data, fault)
            for _ in range(ALONE):
                scene.ask(request("GET", path, CLOSE), fault=fault)
                scene.ask(INVALID, fault=fault)
                leave(scene, HALF, HALF_BODY, request("GET", scene.site.big[0]))
            scene.until(lambda: scene.tasks() <= tasks + 1, QUIET_SECONDS)
            sizes.append(scene.memory())
            if len(sizes) > WARM_ROUNDS and sizes[-1] - sizes[-2] < 4096:  # a page
                return
    grown = [after - before for before, after in pairwise(sizes[WARM_ROUNDS - 1 :])]
    when = "" if fault == "no-answer" else " without Redis"
    seen = (
        f"{ROUNDS} rounds{when}, each with {OF_EACH_KIND * len(kept)} requests on few connections "
        f"and {5 * ALONE} other clients, some of which left early: memory use grew by "
        f"{min(grown) >> 10} to {max(grown) >> 10} KB a round"
    )
    # A thread that serves its first client in a late round uses new memory; a leak grows evenly.
    if max(grown) < 4 * min(grown):
        # Connections that stay open need memory, too.
        raise Failed(
            "descriptor-leak" if useless_descriptors(scene) > SLACK else "memory-leak", seen
        )


def limit(scene: Scene) -> None:
    """The server serves more clients at the same time than processes and threads are allowed."""
    if user() is None:
        raise NotHere("only root can limit the server's processes without limiting the grader's")
    # A longer timeout distinguishes a late response from a missing one.
    scene.timeout *= 3
    scene.gives_up = "dies-at-limit"
    with scene.control(partial(halves, fault="fails-under-load"), "without this limit"):
        halves(scene, "dies-at-limit", f"{FEW_TASKS.tasks} processes and threads are allowed; ")


def halves(scene: Scene, fault: FaultName, limit: str = "") -> None:
    """Many clients send the last bytes of their requests at the same time. Raises Failed unless all
    get a response. `limit`: the limit in words."""
    data = request("GET", scene.site.first, CLOSE)

    def rest(client: Client) -> str:
        try:
            return str(client.ask(data[-2:]).status)
        except NoAnswer as error:
            late = f"without a response within {scene.timeout:.0f} s"
            return "disconnected" if error.in_time else late
        except OSError:
            return "disconnected"

    with scene.clients(CROWD, data[:-2]) as clients:
        # Wait until all clients are accepted, because later clients would find free workers.
        busy, begun = scene.busy_meter(), time.monotonic()
        scene.until(lambda: accept_queue(scene.address[1]) == 0, ACCEPTED_IN)
        share = busy() if time.monotonic() - begun > ACCEPTED_IN / 2 else 0.0
        came = scene.together([partial(rest, client) for client in clients])
    scene.alive()
    seen = f"{CROWD} clients connected at the same time"
    if failed := Counter(came) - Counter({"200": CROWD}):
        results = ", ".join(f"{n} {what}" for what, n in failed.items())
        if not limit and all(map(str.isdigit, failed)):
            fault = "wrong-answer"
        raise Failed(fault, f"{limit}{seen}; results: {results}")
    if share > scene.most_share:
        seen = f"{limit}{seen}; while some of them waited, {in_words(share)}"
        raise Failed("spins", seen, sure=False)


def at_descriptor_limit(scene: Scene) -> None:
    """More clients connect than descriptors are allowed, and each sends half a request. The server
    must sleep, and then answer all clients, although files and Redis need descriptors, too."""
    scene.gives_up = "dies-at-limit"
    with scene.control(partial(halves_and_pages, faults=USUAL), "without this limit"):
        halves_and_pages(scene, ("dies-at-limit", "no-descriptor-left"), FEW_DESCRIPTORS)
    scene.file()
    # Only event loops must pass `stay`: a pool may keep one connection for each worker.
    if scene.stalled_by == "none" and scene.tasks() == 1:
        stay(scene)


def halves_and_pages(scene: Scene, faults: Faults, limits: Limits | None = None) -> None:
    """Many clients (MORE) send half a request for a file, and then others for the guestbook. The
    server must sleep, and then answer all. `limits`: for the finding."""
    crowd(scene, MORE, WATCHED_SECONDS, *faults)
    limit = f"with {limits.descriptors} descriptors, {MORE}" if limits else f"{MORE}"
    page = replace(PAGE, name=f"{limit} clients at once requested the guestbook, which")
    with hold(scene, MORE, page) as held:
        silent = f"{limit} clients at once sent half a request and were silent"
        scene.require_sleep(WATCHED_SECONDS, silent)
        for half in held:
            half.client.send(half.rest)
        asked = [half._replace(rest=b"") for half in held]
        finish(
            scene, asked, faults[0], f"{limit} clients at once requested the guestbook", faults[1]
        )


def stay(scene: Scene) -> None:
    """Many clients (MORE) send a request and stay connected. All must get a response soon, because
    the server must keep no connection while other clients wait."""
    scene.timeout = STAY_SECONDS
    with scene.clients(MORE, scene.site.file(scene.site.first).data) as held:
        for number, client in enumerate(held, 1):
            seen = f"of {MORE} clients that sent a request and stayed, number {number} got no "
            seen += f"response within {STAY_SECONDS:.0f} s"
            with scene.unanswered("keeps-too-long", seen, client.port, sure=False):
                scene.talk(client, b"")


def require_served(scene: Scene, seen: str) -> None:
    """Raise Failed unless each of ACCEPTS clients gets a file, and the server's processes continue.
    `seen`: how accept() fails."""

    def files(scene: Scene, fault: FaultName = "workers-end") -> None:
        before = set(scene.pids())
        for _ in range(ACCEPTS):
            scene.file()
        if ended := before - set(scene.pids()):
            served = f"{ACCEPTS} clients came; {len(ended)} of {len(before)} processes ended"
            raise Failed(fault, served)

    with (
        scene.control(files, "while no call failed", scene.limits),
        scene.unanswered("interrupted-call", seen, sure=False),
    ):
        files(scene, "interrupted-call")


def refused(scene: Scene) -> None:
    """While each accept() returns EMFILE, the server waits between its attempts."""
    seen = "accept() returned EMFILE for a while"
    require_served(scene, seen)
    times: dict[str, list[float]] = defaultdict(list)
    for line in scene.traced(r"accept.* = -1 EMFILE"):
        thread, when, *_ = line.split()
        times[thread].append(float(when))
    for thread, failed in times.items():
        spans = [b - a for a, b in zip(failed, failed[REFUSED_LEAST - 1 :], strict=False)]
        if (quickest := min(spans, default=math.inf)) < REFUSED_SECONDS:
            called = f"thread {thread} called it {REFUSED_LEAST} times within {quickest:.3f} s"
            raise Failed("spins", f"{seen}; {called}", sure=False)


def accepts(scene: Scene) -> None:
    """Every other call of accept() returns EAGAIN, as after its receive timeout without a client.
    All processes continue, and each client is served."""
    if is_edge_triggered(scene):
        raise NotHere("with EPOLLET accept() returns EAGAIN only if no client waits")
    seen = "every second call of accept() returned EAGAIN, as after its receive timeout"
    require_served(scene, seen)
