# SPDX-License-Identifier: MIT
"""What a request costs in system calls and in allocations, as counts: times are the benchmark's.

cost.txt has one line for each server and kind of request. A change that adds a call or a block of
memory to one of them is found here; who means to add it changes the line.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ..client import Client, request
from ..conftest import Start
from ..faults import FaultyServer, Plan
from ..harness import Server
from ..redisbox import PrivateRedis
from ..site import wait_until_settled
from ..timing import wait_until
from ..tracing import Trace, native, skip_unless_traceable, skip_unless_visible, waiting

TABLE = Path(__file__).with_name("cost.txt")
TARGETS = {
    "redirect": "/redirect",
    "small": "/t/digits.txt",
    "large": "/t/80k.bin",
    "guestbook": "/guestbook",
}
REQUESTS = 5
# What is done once for all requests, or once for a connection, drops out of the difference.
TIMES = (REQUESTS, 2 * REQUESTS)
# A client that another program keeps from reading makes a server send in two goes, and look whether
# there is more to receive; then the requests are not alike, and are made again.
TRIES = 20
# How often these are made depends on who wakes first; or the C library decides, when it makes and
# ends a thread or a child, of which there is one for each accept4.
NOT_COUNTED = {
    *("epoll_wait", "epoll_pwait", "poll", "ppoll", "futex", "wait4", "rt_sigreturn"),
    *("clone", "clone3", "exit", "exit_group", "rseq", "set_robust_list", "rt_sigprocmask"),
    *("mmap", "munmap", "madvise", "mprotect", "sched_getaffinity", "restart_syscall"),
}
# What fstat(3) calls: the one in older C libraries, the other in newer ones.
SAME = {"fstat": "newfstatat"}
ACCEPTED = re.compile(r"accept4.* = [0-9]")
ALLOCATING = ("malloc", "calloc", "realloc")
pytestmark = pytest.mark.plain_build("sanitizers make calls and blocks of their own")


def _is_done(server: Server) -> bool:
    """No child of 02 is left, else the next one would get another place and connection to Redis;
    and the worker of 03 or 05 sleeps again, so it has closed; or the one that is a loop."""
    loop = {native("epoll_wait"), native("poll")}
    asleep = loop if server.kind.is_pool_of_loops else {"accept4", "futex"}
    return server.is_at_rest(1) and set(waiting(server)[1]) <= asleep


def _ask(server: Server, target: str, way: str, times: int) -> None:
    """Some requests, on one connection each or all on one."""
    kept = way == "kept"
    raw = request("GET", target, () if kept else (("Connection", "close"),))
    for _ in range(1 if kept else times):
        with Client(server) as client:
            for _ in range(times if kept else 1):
                assert client.exchange(raw).status in (200, 302, 404)
        wait_until(lambda: _is_done(server), "it has done with that connection")


def _warm(server: Server, site: Path) -> None:
    """All that is done once is done."""
    wait_until_settled(site)
    for target in TARGETS.values():
        _ask(server, target, "closed", 2)


def _kinds(server: Server) -> list[tuple[str, str]]:
    ways = ("closed", "kept") if server.kind.keeps_alive else ("closed",)
    return [(kind, way) for kind in TARGETS for way in ways]


def _accepted(trace: str, mark: int) -> int:
    """Where the connection of a mark was accepted: everything before it was at rest."""
    return [m.start() for m in ACCEPTED.finditer(trace[:mark])][-1]


def _between(trace: str, number: int) -> Counter[str]:
    """The calls that have succeeded between a mark and the next one."""
    marks = [_accepted(trace, trace.index(f"GET /mark-{n} ")) for n in (number, number + 1)]
    lines = trace[marks[0] : marks[1]].splitlines()
    called = re.compile(r"(?:\d+ +)?(?:<\.\.\. )?(\w+)(?:\(| resumed>).* = (?!-1 )")
    names = [found[1] for found in map(called.match, lines) if found]
    return Counter(SAME.get(name, name) for name in names if name not in NOT_COUNTED)


def _line(server: str, kind: str, way: str, what: str, counts: Sequence[Counter[str]]) -> str:
    """Of each request. What is not the same for each is told as a fraction: no line has one."""
    once, twice = counts
    each = {name: (twice[name] - once[name]) / REQUESTS for name in sorted(twice)}
    figures = [f"{name} {count:g}" for name, count in each.items() if count]
    return " ".join([server, kind, way, what, *figures])


def _check(found: list[str], server: str, what: str) -> None:
    lines = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines()]
    expected = [" ".join(words) for words in lines if words[:1] == [server] and words[3] == what]
    if not any(words[:1] == [server] for words in lines):
        pytest.skip("nobody has said what it costs")
    assert found == expected, "\n".join([f"{TABLE.name} has other lines. Found:", *found])


def test_calls(start: Start, site: Path, tmp_path: Path) -> None:
    """The system calls of a request, once all files and connections are open."""
    skip_unless_traceable()
    skip_unless_visible()
    server = start("--workers", "1")
    _warm(server, site)
    trace = Trace(server, tmp_path / "trace")
    while not ACCEPTED.search(trace.path.read_text(encoding="utf-8", errors="replace")):
        _ask(server, "/", "closed", 1)  # strace is attached, but has not seen a call yet
    kinds = _kinds(server)
    marks = itertools.count()
    for kind, way in kinds:
        for times in TIMES:
            _ask(server, f"/mark-{next(marks)}", "closed", 1)
            _ask(server, TARGETS[kind], way, times)
    _ask(server, f"/mark-{next(marks)}", "closed", 1)
    assert server.stop() == 0
    trace.calls()
    text = trace.path.read_text(encoding="utf-8", errors="replace")
    found = []
    for number, (kind, way) in enumerate(kinds):
        counts = [_between(text, 2 * number + more) for more in (0, 1)]
        found.append(_line(server.name, kind, way, "calls", counts))
    _check(found, server.name, "calls")


def test_blocks(binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path) -> None:
    """The blocks of memory that a request allocates."""
    skip_unless_visible()
    plan = Plan(tmp_path / "plan")
    options = ("--workers", "1")
    with FaultyServer(binary, site, redis.url(263), options, plan=plan) as server:
        _warm(server, site)
        found = []
        for kind, way in _kinds(server):
            for _ in range(TRIES):
                counts: list[Counter[str]] = [Counter(), Counter()]
                for call, (index, times) in itertools.product(ALLOCATING, enumerate(TIMES)):
                    plan.count(call)
                    _ask(server, TARGETS[kind], way, times)
                    counts[index][call] = plan.seen
                if all((counts[1][call] - counts[0][call]) % REQUESTS == 0 for call in ALLOCATING):
                    break
            found.append(_line(server.name, kind, way, "blocks", counts))
        plan.disarm()
    _check(found, server.name, "blocks")
