# SPDX-License-Identifier: MIT
"""/live observes real servers, Redis and clients, and shows nothing to other web sites."""

import contextlib
import json
import os
import socket
import sys
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.live.clients import (
    FILE,
    GUESTBOOK,
    SILENT,
    SILENT_MOST,
    SLOW_SECONDS,
    VISITOR,
    Burst,
    OwnClient,
    Waits,
)
from bench.live.tasks import Counters, Task, are_counters, look
from bench.live.verdict import Tasks, verdict
from bench.live.waits import Sockets, WaitGroup, groups_of_connections, look_at_sockets, wait_of
from tests.e2e.timing import TIMEOUT, undisturbed, wait_until

from ..commands import run
from .conftest import SERVERS, Serve, seen

GROUPS = {
    "alone": WaitGroup("redis", "Redis", "recvfrom", count=1),
    "loop": WaitGroup("all", "", "epoll_wait", count=1),
    "threads": WaitGroup("accept", "", "accept4", count=101),
    "held": WaitGroup("client", "", "recvfrom", silent=True, count=1),
}
NONE, SLOW = Waits(0.0, 0.0, 0.0, 0, False), Waits(1.2, 0.01, 0.4, 0, True)
VERDICTS = """\
loop |
loop page=0.011 file=0.003 | All visitors are served. In the last 8 s a guestbook took up to 20 ms
loop failed=2 page=0.1 file=0.1 | 2 visitors of the last 8 s got an error or no answer.
loop still=2.0 | Visitors wait.
loop silent=3 page=0.1 file=0.1 | An event loop waits for all clients at once: silent clients
loop silent=3 still=2.0 | Visitors wait.
held silent=1 | The only process waits for a silent client.
held slow silent=1 still=2.0 | The only process waits for a silent client, so all visitors
held+threads silent=1 | 1 of 102 threads waits for a silent client. Other
held+threads still=2.0 | 1 of 102 threads waits for a silent client. Visitors wait until one
held+threads slow silent=1 still=1.1 | 1 of 102 threads waits for a silent client. Only the threads
loop slow | An event loop waits for Redis and all clients at once
threads slow | Only the threads that serve the guestbook wait for Redis
threads slow file=0.9 | Clients that need no Redis wait, too
alone slow | The only process waits for Redis.
alone slow file=0.9 | The only process waits for Redis, and all other clients
alone slow page=0.1 | All visitors are served.
alone slow redis_is_slow=0 | All visitors are served. In the last 8 s a guestbook took up to 1.2 s
alone burst=[9,9,9,0.05,1] | All 9 requests of the burst are answered; each took up to 50 ms. No
loop burst=[9,9,9,0.05,1] | All 9 requests of the burst are answered; each took up to 50 ms. An
threads burst=[9,9,9,0.05,1] | All 9 requests of the burst are answered; each took up to 50 ms. The
loop burst=[9,9,8,0.05,1] | 1 of 9 requests of the burst got an error or no answer.
loop burst=[9,3,3,0.5,0] |
loop burst=[9,9,9,0.05,9] |
held still=2.0 burst=[9,2,2,1.5,0] | The only process waits for a silent client, so all visitors
"""
"""Each line has groups, "slow" for a slow Redis, values of Waits, and the verdict's beginning."""


@pytest.mark.parametrize("line", VERDICTS.splitlines())
def test_the_verdict_fits_the_waits(line: str) -> None:
    told, _, said = line.partition(" |")
    names, *words = told.split()
    groups = [GROUPS[name] for name in names.split("+")]
    changes = {
        name: json.loads(value) for name, _, value in (w.partition("=") for w in words) if value
    }
    if "burst" in changes:
        changes["burst"] = Burst(*changes["burst"])
    waits = (SLOW if "slow" in words else NONE)._replace(**changes)
    alone = sum(group.count for group in groups) == 1
    found = verdict(groups, waits, Tasks(alone, names == "loop", "threads"))
    assert found.startswith(said.strip()) if said else found == ""


@pytest.mark.slow
def test_a_slow_redis_is_applied_to_each_server_and_undone(serve: Serve) -> None:
    served = serve(" ".join(SERVERS))
    events = served.every()
    next(events)

    def slow() -> None:
        assert served.live_answer("POST", "/live/slow-redis") == 204
        left, is_slow, waits = set(SERVERS), False, False
        for event in events:
            first, *_ = event["servers"]
            assert first["slow"] > 0 or not is_slow, left
            is_slow |= first["slow"] > 0
            left -= {one["name"] for one in event["servers"] if "Redis" in one["verdict"]}
            groups = (group for one in event["servers"] for group in one["groups"])
            waits |= any(group["whom"] == "Redis" for group in groups)
            if waits and not left:
                return

    undisturbed(SLOW_SECONDS, slow)
    assert served.live_answer("POST", "/live/stop") == 204
    seen(events, lambda told: told["servers"][0]["slow"] == 0)
    assert served.ask("/guestbook") == 200


def test_a_server_of_threads_is_not_called_one_of_processes(serve: Serve) -> None:
    """The verdict on threading says "threads" even if only the first thread is left. 4 s."""
    served = serve("threading")
    events = served.events()
    next(events)
    assert served.live_answer("POST", "/live/silent/1") == 204
    seen(events, lambda told: "threads waits for a silent" in told["verdict"])
    assert served.live_answer("POST", "/live/stop") == 204
    seen(events, lambda told: told["threads"] == 1)
    assert served.live_answer("POST", "/live/slow-redis") == 204
    told = seen(events, lambda told: "Redis" in told["verdict"])
    assert "Only the threads that serve the guestbook" in told["verdict"]


def test_the_queue_of_a_server_is_seen(serve: Serve) -> None:
    served = serve("prethreading", "--workers", "2")

    def fill() -> None:
        assert served.live_answer("POST", "/live/stop") == 204  # ends an earlier attempt's clients
        events = served.events()
        before = next(events)["silent"]["cut_off"]
        for _ in range(5):
            assert served.live_answer("POST", "/live/silent/1") == 204
        for told in events:
            assert told["silent"]["cut_off"] == before
            sleeps = max(group["seconds"] for group in told["groups"])
            if told["queue"]["unread"] >= 3 and told["queue"]["waiting"] == 0 and sleeps > 1:
                break

    undisturbed(9, fill)  # the server ends a silent client after ten seconds


def test_what_a_connection_waits_for() -> None:
    """/live shows what connections wait for in each phase. Real sockets replace a server."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=7))
        port = listener.getsockname()[1]

        def connected(accept: bool = True) -> tuple[socket.socket, socket.socket | None]:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            return client, stack.enter_context(listener.accept()[0]) if accept else None

        def exchange(*steps: str) -> int:
            client, server = connected()
            for step in steps:
                if step == "ask":
                    client.sendall(b"GET")
                elif step == "read":
                    assert server.recv(9) == b"GET"
                elif step == "answer":
                    server.sendall(b"OK")
                    assert client.recv(9) == b"OK"
                else:
                    server.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        while server.send(bytes(1 << 16)):
                            pass
            return int(client.getsockname()[1])

        began = time.monotonic()
        known = {
            exchange("ask", "read"): OwnClient(SILENT, 1, GUESTBOOK, began),
            exchange("ask", "read"): OwnClient(VISITOR, 0, GUESTBOOK, began),
            exchange("ask", "read"): OwnClient(VISITOR, 0, FILE, began),
        }
        exchange()
        exchange("ask")
        exchange("ask", "read")
        exchange("ask", "read", "answer")
        exchange("ask", "read", "flood")
        connected(accept=False)

        def phases(asks_redis: bool) -> set[tuple[str, str, str]]:
            sockets = look_at_sockets(port, 0)
            sockets.asks_redis, sockets.known = asks_redis, known
            groups = groups_of_connections(sockets, time.monotonic())
            if sum(group.count for group in groups) != 9 or len(sockets.open) != 9:
                return set()  # the last connection is not established yet
            return {(group.who, group.kind, group.whom) for group in groups}

        own = {
            ("silent client", "client", "the rest of its request"),
            ("a client", "idle", "its first byte"),
            ("a client", "unread", "to be read (it is accepted)"),
            ("a client", "response", "its response"),
            ("a client", "idle", "its next request"),
            ("a client", "client", "its client to read more"),
            ("a client", "queue", "to be accepted"),
        }
        idle = own | {("2 visitors", "response", "their responses")}
        wait_until(lambda: phases(asks_redis=False) == idle, "each phase is seen")
        with_redis = {("visitor", "redis", "Redis"), ("visitor", "response", "its response")}
        assert phases(asks_redis=True) == own | with_redis
        seen = look_at_sockets(port, 0)
        assert (seen.queue, seen.room, seen.states) == (1, 7, {"ESTABLISHED": 9})
        assert seen.listener == os.fstat(listener.fileno()).st_ino


def test_figures_for_prometheus(serve: Serve) -> None:
    served = serve("epoll threading")
    for _ in range(3):
        assert served.ask() == 200
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            silent = stack.enter_context(socket.create_connection(served.address))
            silent.sendall(b"GET / HT")
        url = f"http://127.0.0.1:{served.live[1]}/metrics"

        def figures() -> dict[tuple[str, ...], float]:
            text = urllib.request.urlopen(url, timeout=TIMEOUT).read().decode()
            return {
                (sample.name, *map(str, sample.labels.values())): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }

        expected = {
            ("zerohttpd_up", "epoll"): 1.0,
            ("zerohttpd_up", "threading"): 1.0,
            ("zerohttpd_requests_total", "epoll"): 3.0,
            ("zerohttpd_accept_queue", "epoll"): 0.0,
            ("zerohttpd_clients", "epoll", "its response"): 2.0,
            ("zerohttpd_connections", "epoll", "ESTABLISHED"): 2.0,
        }
        wait_until(lambda: expected.items() <= figures().items(), "all figures are there")


WAITING_CALLS = {
    "iterative": {"accept4"},
    "forking": {"ppoll"},
    "preforking": {"accept4", "wait4"},
    "threading": {"accept4"},
    "prethreading": {"accept4", "futex"},
    "poll": {"poll"},
    "epoll": {"epoll_wait"},
}


@pytest.mark.parametrize("name", SERVERS)
def test_it_counts_like_the_server_and_names_the_waiting_clients(serve: Serve, name: str) -> None:
    served = serve("07_epoll" if name == "epoll" else name)  # also named by its folder
    for _ in range(7):
        assert served.ask() == 200
    counters = Counters(served.pid)
    wait_until(lambda: counters.requests() == 7, "seven requests are counted")
    assert look(served.pid)[0].number == served.pid
    calls = WAITING_CALLS[name]
    wait_until(lambda: {t.call for t in look(served.pid)} == calls, f"{name} waits")
    assert "requests      7" in served.end()


def test_a_redis_that_is_not_ours_is_never_slowed(serve: Serve) -> None:
    first = serve("epoll")
    other = serve("epoll", "--redis", first.redis)
    events = other.events()
    next(events)
    assert other.live_answer("POST", "/live/slow-redis") == 204
    told = other.now()
    assert (told["can_slow"], told["slow"]) == (False, 0)


def test_a_burst_is_answered_and_counted(serve: Serve) -> None:
    served = serve("epoll")
    events = served.events()
    before = next(events)["rate"]["total"] or 0
    assert served.live_answer("POST", "/live/burst") == 204
    told = seen(events, lambda t: t["burst"] and t["burst"]["done"] == t["burst"]["asked"])
    assert told["burst"]["good"] == told["burst"]["asked"] == 300
    told = seen(events, lambda t: t["rate"]["total"] >= before + 300)
    assert max(told["rate"]["past"]) > 0
    assert "All 300 requests of the burst are answered" in told["verdict"]
    assert served.live_answer("POST", "/live/stop") == 204
    seen(events, lambda t: t["burst"] is None)


def test_silent_clients_are_few_and_go_with_the_page(serve: Serve) -> None:
    served = serve("epoll")
    events = served.events()
    next(events)
    for _ in range(3):
        assert served.live_answer("POST", "/live/silent/100") == 204
    told = served.now()
    assert told["silent"]["count"] + told["silent"]["cut_off"] == SILENT_MOST
    events.close()  # type: ignore[attr-defined]

    def left() -> int:
        return look_at_sockets(served.address[1], 0).states.get("ESTABLISHED", 0)

    wait_until(lambda: left() == 0, "the silent clients have gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the user")
def test_unreadable_tasks_are_reported(serve: Serve) -> None:
    served = serve("iterative")
    # Import first: another user may not enter this folder if it is below /root.
    code = (
        "import os; from bench.live.tasks import look; "
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        f"print(*vars(look({served.pid})[0]).values(), sep='|')"
    )
    said = run(sys.executable, "-c", code).stdout
    process, _, runs, call, arguments, channel, _ = said.strip().split("|")
    assert (int(process), runs, call, arguments) == (served.pid, "False", "", "()")
    seen = Task(served.pid, served.pid, runs=False, channel=channel)
    assert "this user cannot read" in wait_of(seen, Sockets()).whom


def test_other_memory_is_not_taken_for_counters() -> None:
    nothing, counted, other = (0,) * 8, (3, 0, 1, 2, 0, 1, 0, 5000), (100, *(0,) * 7)
    assert are_counters([nothing, counted])
    assert not are_counters([nothing, nothing])
    assert not are_counters([counted, other])
    assert Counters(os.getpid()).requests() is None


def test_pages_of_others_get_nothing(serve: Serve) -> None:
    served = serve("epoll")
    ours = f"127.0.0.1:{served.live[1]}"
    foreign = {"Origin": "http://evil.example"}
    for method, path, headers, status in (
        ("GET", "/live", {}, 200),
        ("GET", "/live", {"Host": "evil.example"}, 403),
        ("GET", "/live", foreign, 403),
        ("GET", "/metrics", {"Host": "evil.example"}, 403),
        ("POST", "/live/silent/1", foreign, 403),
        ("POST", "/live/silent/1", {"Origin": "null"}, 403),
        ("POST", "/live/silent/1", {"Host": f"evil.example:{ours}"}, 403),
        ("GET", "/live/silent/1", {}, 404),
        ("POST", "/live/silent/100000", {}, 404),
        ("POST", "/live/room/show", {}, 404),  # without the option --room
        ("GET", "/live/../web.py", {}, 404),
    ):
        assert served.live_answer(method, path, **headers) == status, (method, path, headers)
    assert served.now()["silent"]["count"] == 0
    assert served.live_answer("POST", "/live/silent/1", Origin=f"http://{ours}") == 204
    with urllib.request.urlopen(f"http://{ours}/live", timeout=TIMEOUT) as page:
        assert "form-action 'none'" in page.headers["Content-Security-Policy"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.live[1]), timeout=5)
