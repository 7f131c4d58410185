# SPDX-License-Identifier: MIT
"""Check that the server ends correctly after SIGTERM."""

from contextlib import ExitStack
from functools import partial

from bench.grade.building import Expected
from bench.grade.findings import Failed
from bench.grade.inspection import require_few
from bench.grade.scene import CLOSE, FORM, Scene
from bench.grade.server import WORKERS, fault_of_end
from bench.grade.stages.clients import SETTLE_SECONDS, USUAL, Faults, Half, finish, hold, slowly
from bench.grade.stages.redis import redis_silent
from bench.host.process import StartError
from bench.load.client import request

HALVES = WORKERS - 5
"""The number of clients that have sent half a request. With five more, they occupy all workers."""
WAITING = 6
END_SECONDS = 9
"""5 s for requests in flight (STOP_TIMEOUT in lib/config.h), and 4 s for a busy machine."""
PAGE = Expected("a page that waited for Redis", request("GET", "/guestbook", CLOSE), 200)
STOPPED: Faults = ("cuts-off", "cuts-off")
WHEN = {STOPPED: "when SIGTERM came, ", USUAL: ""}
"""The beginning of a finding: the faults USUAL mean that no signal was sent."""
WITHOUT = "without SIGTERM"


def finishes(scene: Scene) -> None:
    """Clients that are in the middle of a request or response at SIGTERM are served."""
    with scene.control(partial(in_flight, faults=USUAL), WITHOUT):
        in_flight(scene, STOPPED)
    with (
        scene.of(scene.server).started() as again,
        again.control(partial(waits_for_page, faults=USUAL), WITHOUT),
    ):
        waits_for_page(again, STOPPED)


def in_flight(scene: Scene, faults: Faults) -> None:
    """Send SIGTERM (unless the faults are USUAL) while clients are in the middle of a request or
    response. Raises Failed unless all clients are served."""
    path, content = scene.site.big
    one, closing = (scene.site.file(scene.site.first, *fields) for fields in ((), (CLOSE,)))
    with ExitStack() as stack:
        more: list[Half] = []
        kept = None
        if scene.several:
            idle = stack.enter_context(scene.client())  # the client of the first child
            scene.talk(idle, one.data)
            stack.enter_context(scene.clients(1, b"\r\n"))  # idle, too: it has sent no request
            reader = stack.enter_context(slowly(scene, path, CLOSE))
        held = stack.enter_context(hold(scene, HALVES if scene.several else 1))
        if scene.several:
            (kept,) = stack.enter_context(scene.clients(1, one.data[:-2]))
            stack.enter_context(redis_silent(scene))
            (asking,) = stack.enter_context(scene.clients(1, PAGE.data))
            # If the server is a pool, these clients wait in the backlog or in the server's queue.
            queued = stack.enter_context(scene.clients(WAITING, closing.data))
            more = [Half(reader, Expected(path, b"", 200, content), b""), Half(asking, PAGE, b"")]
            more += [Half(client, closing, b"") for client in queued]
        stop(scene, faults)
        answer = scene.talk(kept, one.data[-2:], fault=faults[0]) if kept else None
        if kept and answer and faults == STOPPED and not answer.closes:
            seen = "a client had sent half a request when SIGTERM came"
            told = "its response had no Connection: close"
            raise Failed("keeps-at-end", f"{seen}; {told}", kept.port)
        seen = f"{WHEN[faults]}{len(held)} clients had sent half a request"
        if scene.several:
            seen += ", one was reading a large file slowly, one waited for a page from Redis, and "
            seen += f"{WAITING} had sent their requests later"
        finish(scene, [*held, *more], faults[0], seen, faults[1])
        if faults == STOPPED:
            what = "all requests were answered, and only idle clients were left"
            scene.require_end(what, sure=False)


def stop(scene: Scene, faults: Faults) -> None:
    """Wait, send SIGTERM (unless the faults are USUAL), wait again, and let Redis continue."""
    scene.watch.sleep(SETTLE_SECONDS)
    if faults == STOPPED:
        scene.tell_to_stop()
    scene.watch.sleep(SETTLE_SECONDS)
    scene.redis.go_on()


def waits_for_page(scene: Scene, faults: Faults) -> None:
    """A client that waits for a page with data from Redis at SIGTERM gets the page."""
    seen = f"{WHEN[faults]}the only client waited for a page from Redis"
    with redis_silent(scene), scene.clients(1, PAGE.data) as (asking,):
        stop(scene, faults)
        finish(scene, [Half(asking, PAGE, b"")], faults[0], seen, faults[1])


def waiting(scene: Scene) -> None:
    """The server serves clients that sent requests before SIGTERM but were accepted later, and a
    client whose request was incomplete at SIGTERM."""
    with scene.control(partial(accepted_later, faults=USUAL), WITHOUT):
        accepted_later(scene, STOPPED)


def accepted_later(scene: Scene, faults: Faults) -> None:
    """Send SIGTERM (unless the faults are USUAL) while the server is stopped and clients wait.
    Raises Failed unless all clients are served."""
    one = scene.site.file(scene.dice.choice(list(scene.site.small)), CLOSE)
    scene.ask(one.data)
    seen = (
        f"{WHEN[faults]}a client had sent half a request, and {WAITING} clients had sent requests "
        "while the server was stopped (SIGSTOP); the server continued (SIGCONT), and the first "
        "client sent the rest"
    )
    with ExitStack() as stack:
        held = stack.enter_context(hold(scene, int(scene.several)))
        with scene.suspended(scene.pids()):
            clients = stack.enter_context(scene.clients(WAITING, one.data))
            if faults == STOPPED:
                scene.tell_to_stop()
        scene.watch.sleep(SETTLE_SECONDS)
        halves = [*held, *(Half(client, one, b"") for client in clients)]
        finish(scene, halves, faults[0], seen, faults[1])


def ends(scene: Scene) -> None:
    """The server ends in time with status 0 and without remaining processes, even with clients."""
    scene.get("/guestbook")
    with ExitStack() as stack:
        if scene.several:
            stack.enter_context(hold(scene, 1))  # the client of the first child
        idle = stack.enter_context(scene.client())
        scene.talk(idle, request("GET", scene.site.first))
        stack.enter_context(hold(scene, 1))
        if scene.several:
            stack.enter_context(slowly(scene, scene.site.big[0]))
            body = request("POST", "/guestbook", FORM, body=b"guest-name=")[:-5]
            stack.enter_context(scene.clients(1, body))
        for _ in range(END_SECONDS):
            if scene.end_by_itself(1.0):
                break
            scene.interrupt()  # as an impatient user would
        else:
            late = f"the server still runs {END_SECONDS} s after SIGTERM and more signals"
            raise Failed("deaf", late)
    left, ended = scene.left_behind(), scene.stop()
    if left:
        raise Failed("orphans", f"the first process ended; {len(left)} other processes still run")
    if ended is not None and ended.status != 0:
        fault = fault_of_end(ended.status, "bad-status")
        raise Failed(fault, f"after SIGTERM the server {ended.describe()}")
    starts_again(scene)


def starts_again(scene: Scene) -> None:
    """The server can be restarted at once on the same port. If its first process is killed
    (SIGKILL), its other processes end, too."""
    try:
        with scene.of(scene.server).started("--port", str(scene.address[1])) as again:
            again.get("/guestbook")
            again.kill([again.pid])
            again.told = True
            left = "{} other processes still run and may occupy the port"
            killed = f"the first process was killed (kill -9); {left}"
            require_few(again, lambda: len(again.left_behind()), 0, "orphans", killed)
    except StartError as error:
        seen = f"the server ended, and was started again on its port at once: {error}"
        raise Failed("no-restart", seen) from error
