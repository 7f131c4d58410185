# SPDX-License-Identifier: MIT
"""The page /live: real servers, a real Redis, real clients and a real browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from bench.live.clients import FILE, GUESTBOOK, SILENT_MOST, SLOW_SECONDS, OwnClient, Waits, Who
from bench.live.connections import Sockets, groups_of, look_at_sockets
from bench.live.tasks import COUNTER, Counters, Task, are_counters, call_in, cells_in, look
from bench.live.verdict import verdict
from bench.live.waits import TaskGroup, wait_of
from bench.live.web import PAGES_MOST
from tests.bench.accessible import hindrances
from tests.e2e.timing import PATIENCE, undisturbed, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
SERVERS = ("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")
SERVE = (sys.executable, "-m", "bench", "serve")


@dataclass(frozen=True)
class Served:
    """What `make serve` has started."""

    program: subprocess.Popen[str]
    pid: int
    address: tuple[str, int]
    live: tuple[str, int]
    redis: str
    """The URL of its Redis."""

    def ask(self, path: str = "/files/small.txt") -> int:
        """Send one request to the server; return its status."""
        client = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("GET", path, headers={"Connection": "close"})
            return client.getresponse().status

    def live_answer(self, method: str, path: str, **headers: str) -> int:
        """Send one request to the helper; return its status."""
        client = http.client.HTTPConnection(*self.live, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request(method, path, headers=headers)
            return client.getresponse().status

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what the page is sent of the first server, while this is read."""
        return (event["servers"][0] for event in self.every())

    def every(self) -> Iterator[dict[str, Any]]:
        """Yield the events for the page while this is read."""
        client = http.client.HTTPConnection(*self.live, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("GET", "/live/events")
            response = client.getresponse()
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def end(self) -> str:
        """Send Ctrl-C; return what it has printed."""
        self.program.send_signal(signal.SIGINT)
        said, _ = self.program.communicate(timeout=PATIENCE)
        assert self.program.returncode == 0, said
        return said


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts `make serve` with a server; all end with the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(names: str, *words: str) -> Served:
        command = [*SERVE, *names.split(), "--port", "0", "--live-port", "0", *words]
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
        )
        begun.append(program)
        said = ""
        assert program.stdout is not None
        for line in program.stdout:
            said += line
            if "/live" in line:
                break
        found = re.search(r"^pid +(\d+)$(?s:.*)Open (\S+) (?s:.*?)(http\S+/live)$", said, re.M)
        assert found, said
        places = [urlsplit(url) for url in found.groups()[1:]]
        addresses = [(str(place.hostname), place.port or 0) for place in places]
        redis = re.search(r"^redis +(\S+)$", said, re.M)
        assert redis, said
        return Served(program, int(found[1]), *addresses, redis[1])

    yield start
    for program in begun:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=PATIENCE)


# ---- In a browser ----


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a server's page; it must have no error and no request to another
    host."""
    complaints: list[str] = []
    asked: set[str] = set()
    hosts: set[str] = set()
    pages: list[Page] = []

    def open_(served: Served, **how: Any) -> Page:
        page = browser.new_page(**how)
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        hosts.add(f"127.0.0.1:{served.live[1]}")
        page.goto(f"http://127.0.0.1:{served.live[1]}/live")
        expect(page.locator("#state")).to_have_text("live")
        return page

    yield open_
    for page in pages:
        page.close()
    assert complaints == []
    assert asked == hosts


def answered_soon(served: Served) -> bool:
    """Return whether a request is answered within two seconds; a silent client has ten."""
    with socket.create_connection(served.address, timeout=PATIENCE) as client:
        client.sendall(b"GET /files/small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return bool(select.select([client], [], [], 2.0)[0])


@pytest.mark.slow
@pytest.mark.browser
def test_one_silent_client_holds_the_iterative_server_up(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    served = serve("iterative")
    page = opened(served)
    row = page.locator(".groups tbody tr")

    def hold_it_up() -> None:
        expect(row).to_contain_text("the next client")
        page.get_by_role("button", name="A silent client").click()
        expect(row).to_contain_text(re.compile(r"recvfrom.*silent client \d"))
        assert not answered_soon(served)
        expect(page.locator(".verdict")).to_contain_text("held by a silent client. Visitors wait.")
        expect(page.locator(".longest")).to_have_class(re.compile("bad"))
        expect(page.locator(".visits .waits")).not_to_have_count(0)

    undisturbed(9, hold_it_up)  # the server ends a silent client after ten seconds
    page.keyboard.press("u")
    expect(page.locator(".longest")).not_to_have_class(re.compile("bad"))
    expect(row).to_contain_text("the next client")
    assert served.ask() == 200


@pytest.mark.browser
def test_one_silent_client_holds_nobody_up_in_the_event_loop(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    served = serve("epoll")
    page = opened(served)
    page.keyboard.press("s")
    expect(page.locator("#doing")).to_contain_text("1 silent client")
    expect(page.locator(".groups tbody tr")).to_contain_text("the first client that is ready")
    assert served.ask() == 200
    expect(page.locator(".verdict")).to_contain_text("block no other client")
    expect(page.locator(".open")).not_to_have_text("0")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#doing")).not_to_contain_text("silent client")


@pytest.mark.browser
def test_who_gets_an_error_is_marked_as_the_page_explains(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    served = serve("epoll")
    page = opened(served)
    Redis.from_url(served.redis).shutdown(nosave=True)

    def colours() -> set[str]:
        return {
            place.evaluate(f"one => getComputedStyle(one).{how}")
            for place, how in (
                (page.locator(".visits .failed").first, "fill"),
                (page.locator(".how .failed"), "color"),
                (page.locator(".mark.waiting"), "backgroundColor"),
            )
        }

    # An element that the page has just replaced has no colour.
    wait_until(lambda: len(colours()) == 1, "all three have one colour")


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_left_open_becomes_that_of_the_next_server(serve: Serve, browser: Browser) -> None:
    first = serve("epoll")
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{first.live[1]}/live")
    expect(page.locator("#state")).to_have_text("live")
    first.end()
    expect(page.locator("#state")).to_contain_text("no contact")
    page.keyboard.press("s")  # has no effect
    second = serve("threading", "--live-port", str(first.live[1]))
    assert second.live == first.live
    expect(page.locator("h1")).to_have_text("threading")
    expect(page.locator(".groups")).to_contain_text("accept4")
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_who_opens_one_page_too_many_is_told(serve: Serve, browser: Browser) -> None:
    served = serve("epoll")
    context = browser.new_context()
    pages = [context.new_page() for _ in range(PAGES_MOST + 1)]
    for page in pages:
        page.goto(f"http://127.0.0.1:{served.live[1]}/live")
        told = "too many of these pages" if page is pages[-1] else "live"
        expect(page.locator("#state")).to_contain_text(told)
    pages[0].keyboard.press("s")
    expect(pages[0].locator("#doing")).to_contain_text("1 silent client")
    pages[1].close()
    expect(pages[-1].locator("#state")).to_have_text("live")
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_page_fits_everywhere(serve: Serve, opened: Callable[..., Page]) -> None:
    served = serve("preforking")
    for width in (360, 1200):
        for scheme in ("light", "dark"):
            size = {"width": width, "height": 800}
            assert_fits(opened(served, viewport=size, color_scheme=scheme), scheme)


def assert_fits(page: Page, scheme: str) -> None:
    expect(page.locator(".groups")).to_contain_text("children")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if scheme == "light":
        assert hindrances(page) == []  # in both
    page.emulate_media(forced_colors="active")
    marks = page.locator(".mark").evaluate_all(
        "all => all.map(m => getComputedStyle(m).backgroundColor)"
    )
    assert len(set(marks)) == 3
    page.emulate_media(media="print", forced_colors="none")
    expect(page.locator(".actions")).to_be_hidden()
    expect(page.locator(".groups")).to_be_visible()


@pytest.mark.browser
def test_two_servers_side_by_side_and_each_connection(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    """The lecture in one minute; 10 s."""
    served = serve("iterative epoll")
    page = opened(served, viewport={"width": 1500, "height": 1000})
    one, loop = (page.locator(f"[data-server={name}]") for name in ("iterative", "epoll"))

    def disturb() -> None:
        page.keyboard.press("s")
        for panel in (one, loop):
            held = panel.locator(".clients tr", has_text="silent client")
            expect(held).to_contain_text("the rest of its request")
        expect(one.locator(".verdict")).to_contain_text("Visitors wait.")
        expect(one.locator(".clients")).to_contain_text(re.compile(r"visitors\s*to be accepted"))
        expect(one.locator(".connections .queue")).not_to_have_count(0)
        expect(loop.locator(".verdict")).to_contain_text("block no other client")
        expect(loop.locator(".connections .queue")).to_have_count(0)

    undisturbed(9, disturb)  # the server ends a silent client after ten seconds
    left, right = one.bounding_box(), loop.bounding_box()
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    signs = page.evaluate("order")
    explained = page.locator(".legend .sign").evaluate_all(
        "all => all.map(one => one.classList[1])"
    )
    assert set(signs) == set(explained)


# ---- What it sees ----


ALONE = [TaskGroup("redis", "recvfrom", "Redis", silent=False, count=1)]
LOOP = [TaskGroup("all", "epoll_wait", "", silent=False, count=1)]
THREADS = [TaskGroup("accept", "accept4", "", silent=False, count=101)]
HELD = [TaskGroup("client", "recvfrom", "", silent=True, count=1)]
NONE, SLOW = Waits(0.0, 0.0, 0.0, 0, False), Waits(1.2, 0.01, 0.4, 0, True)


@pytest.mark.parametrize(
    ("groups", "waits", "said"),
    [
        (LOOP, NONE, ""),
        (LOOP, NONE._replace(silent=3), "A loop waits for all clients at once: the silent ones"),
        (LOOP, NONE._replace(silent=3, still=2.0), ""),
        (HELD, NONE._replace(silent=1), "The only process is held by a silent client."),
        (
            HELD,
            SLOW._replace(silent=1, still=2.0),
            "The only process is held by a silent client. V",
        ),
        (HELD + THREADS, NONE._replace(silent=1), "1 of 102 threads is held by a silent client. T"),
        (LOOP, SLOW, "A loop waits for Redis and for all clients at once"),
        (THREADS, SLOW, "Only the threads that serve the guestbook wait for Redis"),
        (THREADS, SLOW._replace(file=0.9), "Clients that need no Redis wait, too"),
        (ALONE, SLOW, "The only process waits for Redis: "),
        (ALONE, SLOW._replace(file=0.9), "The only process waits for Redis, and all other clients"),
        (ALONE, SLOW._replace(page=0.1), ""),
        (ALONE, SLOW._replace(redis_is_slow=False), ""),
    ],
)
def test_what_is_said(groups: list[TaskGroup], waits: Waits, said: str) -> None:
    alone, has_loop = sum(group.count for group in groups) == 1, groups is LOOP
    found = verdict(groups, waits, alone=alone, has_loop=has_loop)
    assert found.startswith(said) if said else found == ""


@pytest.mark.slow
def test_a_slow_redis_is_told_of_each_of_the_seven(serve: Serve) -> None:
    """All seven at once; 8 s."""
    served = serve(" ".join(SERVERS))
    events = served.every()
    next(events)

    def slow() -> None:
        assert served.live_answer("POST", "/live/slow-redis") == 204
        left, is_slow = set(SERVERS), False
        for event in events:
            assert event["servers"][0]["slow"] > 0 or not is_slow, left
            is_slow |= event["servers"][0]["slow"] > 0
            left -= {one["name"] for one in event["servers"] if "Redis" in one["verdict"]}
            if not left:
                return

    undisturbed(SLOW_SECONDS, slow)


def test_the_queue_of_a_server_is_seen(serve: Serve) -> None:
    served = serve("prethreading", "--workers", "2")
    events = served.events()
    next(events)

    def fill() -> None:
        for _ in range(5):
            assert served.live_answer("POST", "/live/silent/1") == 204
        for told in events:
            assert told["silent"]["cut_off"] == 0
            if told["queue"]["unread"] >= 3 and told["queue"]["waiting"] == 0:
                break

    undisturbed(9, fill)  # the server ends a silent client after ten seconds


def test_what_a_connection_waits_for() -> None:
    """All phases that the kernel shows, on real sockets without a server."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]

        def connected(accept: bool = True) -> tuple[socket.socket, socket.socket | None]:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            return client, stack.enter_context(listener.accept()[0]) if accept else None

        def exchange(*steps: str) -> int:
            client, server = connected()
            assert server is not None
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
            exchange("ask", "read"): OwnClient(Who.SILENT, 1, GUESTBOOK, began),
            exchange("ask", "read"): OwnClient(Who.VISITOR, 0, GUESTBOOK, began),
            exchange("ask", "read"): OwnClient(Who.VISITOR, 0, FILE, began),
        }
        exchange()
        exchange("ask")
        exchange("ask", "read")
        exchange("ask", "read", "answer")
        exchange("ask", "read", "flood")
        connected(accept=False)

        def seen(asks_redis: bool) -> set[tuple[str, str, str]]:
            sockets = look_at_sockets(port, 0)
            sockets.asks_redis = asks_redis
            groups = groups_of(sockets, known, time.monotonic())
            assert sum(group.count for group in groups) == len(sockets.open) == 9
            return {(group.who, group.kind, group.whom) for group in groups}

        own = {
            ("silent client", "client", "the rest of its request"),
            ("a client", "idle", "its first byte"),
            ("a client", "unread", "to be read (it is accepted)"),
            ("a client", "response", "its response"),
            ("a client", "idle", "its next request"),
            ("a client", "client", "its client to read on"),
            ("a client", "queue", "to be accepted"),
        }
        idle = own | {("2 visitors", "response", "their responses")}
        wait_until(lambda: seen(asks_redis=False) == idle, "each phase is seen")
        with_redis = {("visitor", "redis", "Redis"), ("visitor", "response", "its response")}
        assert seen(asks_redis=True) == own | with_redis


def test_figures_for_prometheus(serve: Serve) -> None:
    served = serve("epoll threading")
    for _ in range(3):
        assert served.ask() == 200
    with socket.create_connection(served.address) as silent:
        silent.sendall(b"GET / HT")
        url = f"http://127.0.0.1:{served.live[1]}/metrics"

        def figures() -> dict[tuple[str, ...], float]:
            text = urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
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
            ("zerohttpd_clients", "epoll", "its response"): 1.0,
            ("zerohttpd_connections", "epoll", "ESTABLISHED"): 1.0,
        }
        wait_until(lambda: expected.items() <= figures().items(), "all figures are there")
    assert served.live_answer("GET", "/metrics", Host="evil.example") == 403


def test_one_existing_redis_is_not_shared(serve: Serve) -> None:
    command = [*SERVE, "epoll", "poll", "--redis", "redis://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--redis goes with one server" in done.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_it_counts_as_the_server_does_and_names_who_waits(serve: Serve, name: str) -> None:
    served = serve(name)
    for _ in range(7):
        assert served.ask() == 200
    counters = Counters(served.pid)
    wait_until(lambda: counters.requests() == 7, "seven requests are counted")
    tasks = look(served.pid)
    assert tasks[0].number == served.pid
    calls = {
        "iterative": {"accept4"},
        "forking": {"ppoll"},
        "preforking": {"accept4", "wait4"},
        "threading": {"accept4"},
        "prethreading": {"accept4", "futex"},
        "poll": {"poll"},
        "epoll": {"epoll_wait"},
    }
    wait_until(lambda: {t.call for t in look(served.pid)} == calls[name], f"{name} waits")
    assert "requests      7" in served.end()


def test_an_eighth_is_named_by_its_folder(serve: Serve) -> None:
    assert serve("07_epoll").ask() == 200


@pytest.mark.slow
@pytest.mark.parametrize("name", ["preforking", "threading"])
def test_a_slow_redis_is_seen_and_taken_back(serve: Serve, name: str) -> None:
    served = serve(name)
    events = served.events()
    next(events)

    def slow() -> None:
        assert served.live_answer("POST", "/live/slow-redis") == 204
        while next(events)["slow"] == 0:
            pass  # the response was sent before the request
        for told in events:
            assert told["slow"] > 0, "it ended before it was seen"
            if any(group["whom"] == "Redis" for group in told["groups"]):
                break

    undisturbed(SLOW_SECONDS, slow)
    assert served.live_answer("POST", "/live/stop") == 204
    while next(events)["slow"] > 0:
        pass
    assert served.ask("/guestbook") == 200


def test_a_redis_that_is_not_ours_is_never_slowed(serve: Serve) -> None:
    first = serve("epoll")
    other = serve("epoll", "--redis", first.redis)
    events = other.events()
    next(events)
    assert other.live_answer("POST", "/live/slow-redis") == 204
    told = next(events)
    assert (told["can_slow"], told["slow"]) == (False, 0)


def test_a_burst_is_answered_and_counted(serve: Serve) -> None:
    served = serve("epoll")
    events = served.events()
    before = next(events)["rate"]["total"] or 0
    assert served.live_answer("POST", "/live/burst") == 204
    told = next(t for t in events if t["burst"] and t["burst"]["done"] == t["burst"]["asked"])
    assert told["burst"]["good"] == told["burst"]["asked"] == 300
    told = next(t for t in events if t["rate"]["total"] >= before + 300)
    assert max(told["rate"]["past"]) > 0


def test_silent_clients_are_few_and_go_with_the_page(serve: Serve) -> None:
    served = serve("epoll")
    events = served.events()
    next(events)
    for _ in range(3):
        assert served.live_answer("POST", "/live/silent/100") == 204
    told = next(events)
    assert told["silent"]["count"] + told["silent"]["cut_off"] == SILENT_MOST
    events.close()  # type: ignore[attr-defined]

    def left() -> int:
        return look_at_sockets(served.address[1], 0).states.get("ESTABLISHED", 0)

    wait_until(lambda: left() == 0, "the silent clients have gone")


def test_an_accept_queue_is_seen() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=7))
        port = listener.getsockname()[1]
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        wait_until(lambda: look_at_sockets(port, 0).queue == 3, "three wait")
        seen = look_at_sockets(port, 0)
        assert (seen.room, seen.states, seen.clients) == (7, {"ESTABLISHED": 3}, {})
        assert seen.listener == os.fstat(listener.fileno()).st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the user")
def test_what_may_not_be_read_is_said(serve: Serve) -> None:
    served = serve("iterative")
    # Read first: below /root another user may not enter this folder.
    code = (
        "import os; from bench.live.tasks import look; "
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        f"print(*vars(look({served.pid})[0]).values(), sep='|')"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=True,
    ).stdout
    process, _, runs, call, arguments, channel, _ = said.strip().split("|")
    assert (int(process), runs, call, arguments) == (served.pid, "False", "", "()")
    seen = Task(served.pid, served.pid, runs=False, channel=channel)
    assert "may not be read here" in wait_of(seen, Sockets(), {}).whom


def test_other_memory_is_not_taken_for_counters() -> None:
    nothing = COUNTER.pack(0, 0, 0, 0, 0, 0, 0, 0)
    counted = COUNTER.pack(3, 0, 1, 2, 0, 1, 0, 5000)
    other = COUNTER.pack(100, 0, 0, 0, 0, 0, 0, 0)
    assert are_counters(cells_in(nothing + counted))
    assert not are_counters(cells_in(nothing + nothing))
    assert not are_counters(cells_in(counted + other))
    assert Counters(os.getpid()).requests() is None


def test_a_call_that_is_not_in_the_table_keeps_its_number() -> None:
    assert call_in("288 0x3 0x0 0x0 0x80000 0x3 0x0 0x7ffe 0x7f0c", "x86_64")[0] == "accept4"
    assert call_in("9999 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f0c", "x86_64")[0] == "system call 9999"
    assert call_in("running", "x86_64") == ("", ())


# ---- Access ----


def test_pages_of_others_get_nothing(serve: Serve) -> None:
    served = serve("epoll")
    ours = f"127.0.0.1:{served.live[1]}"
    foreign = {"Origin": "http://evil.example"}
    assert served.live_answer("GET", "/live") == 200
    assert served.live_answer("GET", "/live", Host="evil.example") == 403
    assert served.live_answer("GET", "/live", **foreign) == 403
    assert served.live_answer("POST", "/live/silent/1", **foreign) == 403
    assert served.live_answer("POST", "/live/silent/1", Origin="null") == 403
    assert served.live_answer("POST", "/live/silent/1", Host=f"evil.example:{ours}") == 403
    assert served.live_answer("GET", "/live/silent/1") == 404
    assert served.live_answer("POST", "/live/silent/100000") == 404
    assert served.live_answer("GET", "/live/../web.py") == 404
    assert next(served.events())["silent"]["count"] == 0
    assert served.live_answer("POST", "/live/silent/1", Origin=f"http://{ours}") == 204
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.live[1]), timeout=5)
