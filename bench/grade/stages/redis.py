# SPDX-License-Identifier: MIT
"""Check the server while Redis is down or slow, after Redis is back, and with many requests."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from bench.grade.building import Expected, word
from bench.grade.differences import UNAVAILABLE
from bench.grade.findings import Failed, FaultName
from bench.grade.inspection import QUIET_SECONDS, redis_connections
from bench.grade.scene import CLOSE, Scene
from bench.grade.server import in_words, meanwhile
from bench.grade.stages.clients import (
    FEW,
    PAGE,
    Faults,
    Half,
    ask,
    complete,
    exchange,
    finish,
    hold,
    leave,
    mixture,
    new_remark,
    page,
    require_saved,
)
from bench.grade.stages.situations import as_grader, cut_redis, kill_redis, small_buffers
from bench.load.client import Client, request
from bench.services.redis_proxy import HALVED, MISMATCHED
from bench.services.redis_server import connect

BACK_SECONDS = 5.0
REPLY_SECONDS, FILE_SECONDS = 9.0, 1.0
"""The time limits of a page without Redis (more than 2 * REDIS_REPLY_TIMEOUT) and of a file (less
than REDIS_REPLY_TIMEOUT)."""
STUCK, LEAVERS, LEAVE_SECONDS = 3, 6, 0.03
CROWD, CUTS, LOSSES = 150, 5, 5
DELAY_MS = 40.0
"""The delay of each reply, so that many requests overlap."""
UNUSED_SECONDS, RETRY_SECONDS = 0.1, 0.3
"""More than REDIS_CHECK_AFTER (01 to 05 check a connection to Redis that was idle for so long), and
more than REDIS_RETRY."""
ROUNDS = 4
PARKED, PARKED_SECONDS = 140, 2.0
"""More clients than REDIS_NEW_AT_ONCE (lib/config.h), and the time limit for each client's page."""
STOPS: Faults = ("redis-stops-all", "redis-stops-all")
SLOW_MS, AT_ONCE, BUSY_SECONDS = 100.0, 10, 2.5


def usual_page(scene: Scene) -> None:
    """Request the guestbook while Redis works, so that a failure is not blamed on what follows."""
    try:
        page(scene)
    except Failed as failed:
        failed.afterwards = True
        raise


@contextmanager
def redis_gone(scene: Scene) -> Iterator[None]:
    """Run the `with` block without Redis, then restart Redis. Raises Failed if no page is served
    before."""
    page(scene, " before Redis was killed")
    scene.gives_up = "redis-stops-all"
    kill_redis(scene)
    try:
        yield
    finally:
        scene.redis.start_again()


@contextmanager
def redis_silent(scene: Scene) -> Iterator[None]:
    """Stop Redis during the `with` block. Afterwards Redis replies to all commands."""
    scene.redis.stop()
    try:
        yield
    finally:
        scene.redis.go_on()


def rejected(scene: Scene) -> None:
    """Redis closes all connections, and rejects new connections for a moment (maxclients). The
    server must answer pages with 200 or 503 meanwhile, and with 200 afterwards."""
    name = "the guestbook, requested while Redis rejects connections (maxclients),"
    one = Expected(name, request("GET", "/guestbook", CLOSE), 200, also=503)
    with as_grader(scene) as client:
        usual = client.config_get("maxclients")["maxclients"]

        def accept_again() -> None:
            scene.watch.sleep(0.3)
            client.config_set("maxclients", usual)

        client.config_set("maxclients", 1)  # only this connection
        client.client_kill_filter(_type="normal", skipme=True)
        scene.together([accept_again, *[lambda: ask(scene, one, STOPS)] * AT_ONCE])
    returns(scene, "rejected connections for a moment")


def stopped(scene: Scene) -> None:
    """While Redis does not reply, pages are answered in time. A late reply goes to no client."""
    links = make_links(scene)
    first = next(iter(links))
    scene.timeout = REPLY_SECONDS
    name = f"/go/{first}, requested while Redis does not reply,"
    one = Expected(name, request("GET", f"/go/{first}", CLOSE), 503)
    with redis_silent(scene):
        if scene.several:
            leave_while_silent(scene, one)
        # Requests that come later must not prolong the wait of the first requests.
        with ExitStack() as stack:
            others = meanwhile(lambda: stack.enter_context(scene.clients(1, one.data)), 0.3)
            with others if scene.several else nullcontext():
                scene.together([partial(ask, scene, one, STOPS)] * (STUCK if scene.several else 1))

    def is_served(name: str) -> bool:
        target = scene.get(f"/go/{name}").field("Location")
        if target not in (None, links[name]):
            seen = f"Redis replied to /go/{first} after its timeout; then /go/{name} led to"
            raise Failed("wrong-reply", f"{seen} {target} (correct: {links[name]})")
        return target is not None

    # Request all links at once, to use each Redis connection, until Redis is used again.
    names = [partial(is_served, name) for name in links]
    scene.until(lambda: all(scene.together(names)), BACK_SECONDS)


def leave_while_silent(scene: Scene, one: Expected) -> None:
    """Clients request a page while Redis does not reply, and leave. Raises Failed if another client
    gets no file meanwhile, or if the server does not sleep meanwhile or afterwards."""
    shares = []
    for leaves in (Client.close, Client.reset):
        with scene.client() as client:
            scene.talk(client, scene.site.file(scene.site.first).data)
            client.send(one.data)
            shares.append(scene.busy_share(QUIET_SECONDS))
            seen = "a client requested a page while Redis did not reply"
            late = f"{seen}; another client got no file within {FILE_SECONDS} s"
            with scene.unanswered("redis-stops-all", late, client.port, sure=False):
                replace(scene, timeout=FILE_SECONDS).file()
            leaves(client)
        scene.require_sleep(QUIET_SECONDS, f"{seen}, and left ({leaves.__name__})")
    if min(shares) > scene.most_share:
        raise Failed("spins", f"{seen}; {in_words(min(shares))}", sure=False)


def back(scene: Scene) -> None:
    """The guestbook works while many clients keep their connections, and soon after Redis closed or
    rejected connections, was stopped, or was restarted."""
    usual_page(scene)
    parked(scene)
    for _ in range(CUTS):  # on a busy machine the remark may come too late to show the fault
        remark_after_cut(scene)
    rejected(scene)
    stopped(scene)
    returns(scene, "did not run for a moment")
    with redis_gone(scene):
        scene.get("/guestbook", fault="redis-stops-all")
    returns(scene, "was restarted")


def remark_after_cut(scene: Scene) -> None:
    """Raise Failed unless the server saves a remark after Redis has closed its connections."""
    faults: Faults = ("no-answer", "redis-not-back")
    name = "a remark, sent after Redis had closed its connections,"
    remark = replace(new_remark(scene.site, scene.dice), name=name)
    # Both requests use one connection, so that the same worker serves them.
    with scene.client() as client:
        (answer,) = exchange(scene, client, [PAGE], faults)
        cut_redis(scene)
        # An event loop closes its Redis connection when it notices the end. On a busy machine the
        # loop may receive a remark at the same time, and send it on the ended connection.
        if scene.stalled_by == "none" and scene.tasks() == 1:
            scene.until(lambda: redis_connections(scene) == 0)
        if not answer.closes:
            exchange(scene, client, [remark], faults)
    if answer.closes:
        ask(scene, remark, faults)


def lost_reply(scene: Scene) -> bool:
    """Redis saves a remark, and the connection ends before the reply. Raises Failed if the server
    repeats the command, so that the remark is saved twice. Return whether the reply was lost."""
    one = new_remark(scene.site, scene.dice)
    with connect(scene.redis.url) as redis, scene.client() as client:
        client.send(one.data)
        saved = partial(redis.lpos, "guestbook_remarks", one.remark)
        # A new connection waits for the delayed reply to its first command, SELECT.
        executed = scene.until(lambda: saved() is not None, 5 * SLOW_MS / 1000)
        cut_redis(scene)
        answer = scene.talk(client, b"", fault="redis-stops-all" if executed else "no-answer")
    scene.watch.sleep(SLOW_MS / 1000)
    require_saved(scene, {one.remark: answer.status}, "repeats-command")
    return executed and answer.status in UNAVAILABLE


def returns(scene: Scene, what: str) -> None:
    """Wait until the guestbook works. Raises Failed if this takes too long."""
    seen = f"Redis {what}; {BACK_SECONDS:.0f} s later the guestbook still does not work"
    with scene.unanswered("redis-not-back", seen):
        if not scene.until(lambda: scene.get("/guestbook").status == 200, BACK_SECONDS):
            raise Failed("redis-not-back", seen)


def _seconds(scene: Scene, clients: int) -> float:
    """Return the seconds until this number of clients have received the guestbook."""
    scene = replace(scene, timeout=scene.timeout * clients)  # to measure serial requests, too
    begun = time.monotonic()
    scene.together([lambda: scene.get("/guestbook")] * clients)
    return time.monotonic() - begun


def at_once(scene: Scene) -> str | None:
    """With a slow Redis, pages for several clients are served in parallel. Returns a note."""
    page(scene)
    # The shortest of three times: if it were too long, a serial server would pass.
    alone = min(_seconds(scene, 1) for _ in range(3))
    took = _seconds(scene, AT_ONCE)
    late = f"each reply of Redis came {SLOW_MS:.0f} ms late"
    if took > alone * AT_ONCE * 0.7:  # serial requests would take alone * AT_ONCE
        fault: FaultName = "one-redis-question" if scene.several else "by-nature"
        seen = f"one client got its page after {alone:.2f} s, {AT_ONCE} clients at once got theirs"
        raise Failed(fault, f"{late}; {seen} after {took:.2f} s", sure=False)
    begun = time.monotonic()
    scene.together([scene.file] * AT_ONCE)
    files = time.monotonic() - begun
    if files > alone:
        seen = f"{AT_ONCE} clients at once got a file after {files:.2f} s"
        raise Failed("redis-stops-all", f"{late}; {seen}, which needs no Redis", sure=False)
    if scene.several:
        never_idle(scene)
    # On a busy machine the connection may end too late, after the reply.
    any(lost_reply(scene) for _ in range(LOSSES))
    return f"a page after {alone:.2f} s, {AT_ONCE} at once after {took:.2f} s"


def never_idle(scene: Scene) -> None:
    """Redis always has commands to answer for longer than REDIS_REPLY_TIMEOUT. All are answered."""
    until = time.monotonic() + BUSY_SECONDS
    one = replace(PAGE, name=f"the guestbook, requested by {AT_ONCE} clients for {BUSY_SECONDS} s,")

    def repeat(number: int) -> None:
        # Replies at different times, so that there is always a command without a reply.
        scene.watch.sleep(number * SLOW_MS / 1000 / AT_ONCE)
        while time.monotonic() < until:
            ask(scene, one, ("no-answer", "no-redis"))

    scene.together([partial(repeat, number) for number in range(AT_ONCE)])


def parked(scene: Scene) -> None:
    """Another client gets the guestbook, although many clients have loaded it and keep their
    connections. If no worker is free for another client, the check ends without a fault."""
    scene = replace(scene, timeout=PARKED_SECONDS)
    file = scene.site.file(scene.site.first).data
    with ExitStack() as stack:
        for number in range(PARKED):
            client = stack.enter_context(scene.client())
            try:
                if scene.talk(client, file).closes:
                    return
            except Failed:
                return
            seen = f"{number} clients had loaded the guestbook and were idle; one more loaded a "
            seen += "file, and then got no page on the same connection"
            faults: Faults = ("redis-leak", "redis-leak") if number else ("no-answer", "no-redis")
            complete(scene, Half(client, PAGE, PAGE.data), faults[0], seen, faults[1])


def make_links(scene: Scene) -> dict[str, str]:
    """Create short links in Redis, and request the first, so that the server connects to Redis.
    Return the links' targets by name. Raises Failed if the link does not work."""
    links = {word(scene.dice): f"/{word(scene.dice)}" for _ in range(8)}
    with connect(scene.redis.url) as client:
        for name, target in links.items():
            client.set(f"link:{name}", target)
    if scene.get(f"/go/{next(iter(links))}").status not in (302, 303, 307):
        raise Failed("no-redis", "a short link that is in Redis was not answered with a redirect")
    return links


def connections(scene: Scene) -> int:
    """Return the number of connections that Redis has accepted, including that of this call."""
    with connect(scene.redis.url) as client:
        return int(client.info("stats")["total_connections_received"])


def mismatched(scene: Scene, follow: Callable[[str], None], names: Sequence[str]) -> None:
    """Redis sends a reply of a wrong type, and later an unexpected reply. The server must close the
    connection, so that no client gets the later reply."""
    status = scene.get(f"/go/{MISMATCHED.decode()}").status
    try:
        scene.together([partial(follow, name) for name in names])
    except Failed as failed:
        if failed.fault == "no-answer":
            raise
        wrong = f"a reply of Redis had the wrong type, and the client got {status}"
        seen = f"{wrong}; an unexpected reply followed on this connection, and a later command got"
        raise Failed("wrong-reply", f"{seen} it: {failed.seen}") from failed


def halved(scene: Scene, follow: Callable[[str], None], names: Sequence[str]) -> None:
    """Redis closes a connection in the middle of a reply. The server must forget this half."""
    scene.get(f"/go/{HALVED.decode()}", fault="redis-stops-all")
    scene.watch.sleep(RETRY_SECONDS)
    try:
        scene.together([partial(follow, name) for name in names])
    except Failed as failed:
        if failed.fault != "no-answer":
            seen = "Redis closed a connection in the middle of a reply; afterwards"
            failed.fault, failed.seen = "redis-not-back", f"{seen} {failed.seen}"
        raise


def false_replies(scene: Scene) -> None:
    """Redis sends false replies for a moment: wrong types, errors, and an incomplete reply.
    Meanwhile the server must show no page and report no remark as saved. Later all pages work."""
    assert scene.slow is not None
    site, dice = scene.site, scene.dice
    scene.slow.lie()
    scene.watch.sleep(LEAVE_SECONDS)

    def ask_twice() -> None:
        for one in (new_remark(site, dice), PAGE):
            status = scene.ask(one.data, fault="redis-stops-all").status
            if status not in UNAVAILABLE:
                seen = f"Redis sent a false reply; {one.method} /guestbook was answered {status}"
                raise Failed("wrong-reply" if status < 400 else "wrong-answer", seen, sure=False)

    scene.together([ask_twice] * LEAVERS)
    scene.slow.be_honest()
    returns(scene, "sent false replies for a moment")


def after_errors(scene: Scene, clients: int) -> None:
    """Clients request pages while Redis has data of a wrong type, and get errors. When the data is
    correct again, clients request pages at the same time. Raises Failed if a page is missing."""
    with connect(scene.redis.url) as redis:
        redis.set("guestbook_remarks", "no list")
    scene.together([lambda: scene.get("/guestbook")] * clients)
    scene.redis.prepare()
    page = replace(PAGE, name="the guestbook, after Redis had replied with errors,")
    scene.together([lambda: ask(scene, page, ("no-answer", "no-redis"))] * clients)


def own_replies(scene: Scene) -> None:
    """Many concurrent clients get the targets of their short links, over few Redis connections."""
    usual_page(scene)
    after_errors(scene, LEAVERS)
    links = make_links(scene)
    asked = f"{len(links)} clients requested links at once, and one was"

    def follow(name: str) -> None:
        for _ in range(ROUNDS):
            answer = scene.get(f"/go/{name}")
            if answer.status >= 500:
                seen = f"/go/{name} is in Redis; {asked} answered {answer.status}"
                raise Failed("no-redis", seen)
            if (target := answer.field("Location")) != links[name]:
                fault: FaultName = "wrong-reply" if target in links.values() else "wrong-answer"
                seen = f"/go/{name} leads to {links[name]}; {asked} sent to {target}"
                raise Failed(fault, f"{seen} (status {answer.status})")

    mismatched(scene, follow, list(links))
    halved(scene, follow, list(links))
    false_replies(scene)
    # The next clients leave before Redis replies.
    leave(scene, *[request("GET", f"/go/{next(iter(links))}")] * LEAVERS, pause=LEAVE_SECONDS)
    before = connections(scene)
    scene.together([partial(follow, name) for name in links])
    made, requests = connections(scene) - before - 1, len(links) * ROUNDS
    if made > requests / 2:
        seen = f"{len(links)} clients requested {requests} short links, and Redis accepted"
        raise Failed("redis-made-anew", f"{seen} {made} new connections for these requests")


def mixed(scene: Scene) -> None:
    """Send a random mix of requests. Repeat this with small socket buffers, so that the server must
    send long data in several parts, and again while Redis closes its connections."""
    mixture(scene)
    with small_buffers():
        cut_redis(scene)  # a new connection has a small buffer, too
        scene.until(lambda: redis_connections(scene) == 0, UNUSED_SECONDS)
        mixture(scene, requests=FEW)
        if scene.several:
            crowded(scene)
    mixture(scene, lambda: cut_redis(scene))


def crowded(scene: Scene) -> None:
    """Many clients send remarks while Redis reads nothing, and get responses afterwards."""

    def files(new: Scene) -> None:
        with hold(new, CROWD) as held:
            finish(new, held, "fails-under-load", f"{CROWD} clients requested files")

    with scene.control(files, "but for files, while Redis worked"):
        remarks_at_once(scene)


def remarks_at_once(scene: Scene) -> None:
    """Many clients send remarks while Redis reads nothing. The remarks exceed socket buffers."""
    batch = [new_remark(scene.site, scene.dice) for _ in range(CROWD)]
    posted = {}
    seen = f"{CROWD} clients sent remarks while Redis read nothing"
    with scene.clients(len(batch)) as clients:
        with redis_silent(scene):
            for client, one in zip(clients, batch, strict=True):
                client.send(one.data)
            scene.watch.sleep(UNUSED_SECONDS)
        for client, one in zip(clients, batch, strict=True):
            with scene.unanswered("redis-stops-all", seen, client.port):
                answer = scene.talk(client, b"")
            named = replace(one, name="a remark, sent with many others while Redis read nothing,")
            scene.require(named, answer, "redis-stops-all", client.port, sure=False)
            posted[one.remark] = answer.status
            client.close()
    require_saved(scene, posted, "repeats-command")
