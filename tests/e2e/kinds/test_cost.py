# SPDX-License-Identifier: MIT
"""The cost of a request: the numbers of system calls and allocations. (The benchmark measures
times.)

For most servers cost.txt has lines for each of TARGETS, on closed and on kept connections. A
change that adds a call or an allocation fails here; if it is intended, change the line.
"""

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from .. import processes
from ..client import request
from ..faults import FaultyServer
from ..harness import Server, Start, limit, of_kind
from ..redisbox import PrivateRedis
from ..site import wait_until_settled
from ..sockets import any_open
from ..timing import wait_until
from ..tracing import begun_by_strace, skip_unless_traceable

TABLE = Path(__file__).with_name("cost.txt")
TARGETS = {
    "redirect": "/redirect",
    "small": "/t/digits.txt",
    "large": "/t/80k.bin",
    "guestbook": "/guestbook",
}
REQUESTS = 2
# Calls are counted for these numbers of requests. The difference leaves out one-time work.
TIMES = (1, 1 + REQUESTS)
# Requests are sent one at a time, so the counts are usually the same. But if another program uses
# the processor meanwhile, a server may send in two parts, check for input once more, or wait for a
# lock. Then the counts differ, and the requests are repeated.
TRIES = 10
# A server checks a Redis connection that has been idle. This pause makes each connection idle, on
# fast and on busy machines.
REST = 1.2 * limit("REDIS_CHECK_AFTER") / 1000
# Two names of a call; the C library and the processor determine which name is used.
SAME = {"fstat": "newfstatat", "clone3": "clone", "epoll_pwait": "epoll_wait", "ppoll": "poll"}
# The C library makes these calls when a thread or child begins or ends, or waits for a condition.
# Their number depends on the version: cost.txt has the highest number, and fewer are accepted.
# (Since glibc 2.41, fork(3) calls rt_sigprocmask. Some containers refuse clone3.)
AT_MOST = {"clone:ENOSYS", "futex", "madvise", "rseq", "rt_sigprocmask", "set_robust_list"}
ACCEPTED = re.compile(r"accept4.* = [0-9]")
# Matches strace's line for a call that has returned, with its error (ERESTART... after a signal).
CALLED = re.compile(r"(?:\d+ +)?(?:<\.\.\. )?(\w+)(?:\(| resumed>).* = (?:(?:-1|\?) (E\w+))?")
ALLOCATING = ("malloc", "calloc", "realloc")
Count = Callable[[str, str], list[Counter[str]]]
"""Requests one of TARGETS on kept or closed connections; returns call counts for each of TIMES."""
pytestmark = pytest.mark.plain_build("sanitizers make calls and blocks of their own")


def _is_done(server: Server) -> bool:
    """Return whether the server has closed all connections and sleeps, and no child or thread of 02
    or 04 is left. Otherwise the next client would get another slot, Redis connection or stack."""
    tasks = [task for pid in server.pids() for task in processes.tasks(pid)]
    sleep = {*map(processes.state, tasks)} == {"S"}
    return sleep and not any_open(server.port) and server.is_at_rest(1)


def _ask(server: Server, target: str, way: str, times: int, rest: float = 0) -> None:
    """Send requests, all on one connection if `way` is "kept". Sleep `rest` seconds before each."""
    kept = way == "kept"
    raw = request("GET", target, () if kept else (("Connection", "close"),))
    for _ in range(1 if kept else times):
        with server.client() as client:
            for _ in range(times if kept else 1):
                time.sleep(rest)
                assert client.exchange(raw).status in (200, 302, 404)
        wait_until(lambda: _is_done(server), "the server has finished the connection")


def _warm(server: Server, site: Path) -> None:
    """Make requests until the server has done its one-time work."""
    wait_until_settled(site)
    for target in TARGETS.values():
        _ask(server, target, "closed", 2)


def _accepted(trace: str, mark: int) -> int:
    """Return the offset of the accept4 call for the request at the offset `mark` of a trace."""
    return [m.start() for m in ACCEPTED.finditer(trace[:mark])][-1]


def _between(trace: str, number: int) -> Counter[str]:
    """Count the calls from mark `number` to the next mark; failed calls are named NAME:ERROR."""
    marks = [_accepted(trace, trace.index(f"GET /mark-{n} ")) for n in (number, number + 1)]
    found = map(CALLED.match, trace[marks[0] : marks[1]].splitlines())
    calls = [(SAME.get(call[1], call[1]), call[2]) for call in found if call]
    return Counter(f"{name}:{error}" if error else name for name, error in calls)


def _of_each(counts: list[Counter[str]]) -> dict[str, float]:
    """Return the counts per request; a count is a fraction if requests differ."""
    few, many = counts
    each = {name: (many[name] - few[name]) / REQUESTS for name in sorted(few | many)}
    return {name: count for name, count in each.items() if count}


def _is_as_said(found: dict[str, float], words: list[str]) -> bool:
    """Return whether the counts are those of a line of cost.txt; calls in AT_MOST may be fewer."""
    said = {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}
    return all(map(float.is_integer, found.values())) and all(
        found.get(name, 0) == said.get(name, 0)
        or (name in AT_MOST and found.get(name, 0) < said.get(name, 0))
        for name in {*found, *said}
    )


def _check(server: Server, what: str, count: Count) -> None:
    """Check the lines of cost.txt for this server; skip the test if there are none."""
    table = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines()]
    key = (server.name, what)
    said = {tuple(words[1:3]): words[4:] for words in table if (words[0], words[3]) == key}
    ways = ("closed", "kept") if server.kind.keeps_alive else ("closed",)
    wrong = []
    for kind, way in itertools.product(TARGETS, ways):
        for _ in range(TRIES if said else 1):
            found = _of_each(count(kind, way))
            if _is_as_said(found, said.get((kind, way), [])):
                break
        else:
            figures = (f"{name} {count:g}" for name, count in found.items())
            wrong.append(" ".join([server.name, kind, way, what, *figures]))
    message = "\n".join(["found:", *wrong])
    if not said:
        pytest.skip(f"{TABLE.name} has no line for this server; {message}")
    assert not wrong, f"{TABLE.name} has other lines; {message}"


@of_kind("not completes")
def test_calls(start: Start, site: Path, tmp_path: Path) -> None:
    """A request makes the system calls in its line of cost.txt, if all files are open."""
    skip_unless_traceable(attached=False)
    trace = tmp_path / "trace"
    server = start("--workers", "1", prefix=begun_by_strace(trace))
    tracer = processes.status_number(server.pid, "TracerPid")
    marks = itertools.count()

    def count(kind: str, way: str) -> list[Counter[str]]:
        first = next(marks)
        _ask(server, f"/mark-{first}", "closed", 1)
        for times in TIMES:
            _ask(server, TARGETS[kind], way, times, REST if kind == "guestbook" else 0)
            _ask(server, f"/mark-{next(marks)}", "closed", 1)
        text = trace.read_text(encoding="utf-8", errors="replace")
        return [_between(text, first + number) for number in range(len(TIMES))]

    _warm(server, site)
    _check(server, "calls", count)
    assert server.stop() == 0
    os.waitpid(tracer, 0)


def test_blocks(binary: Path, site: Path, redis: PrivateRedis) -> None:
    """A request makes the allocations in its line of cost.txt."""
    with FaultyServer(binary, site, redis.url(redis.unused()), ("--workers", "1")) as server:
        plan = server.plan

        def count(kind: str, way: str) -> list[Counter[str]]:
            counts: list[Counter[str]] = [Counter(), Counter()]
            for call, (index, times) in itertools.product(ALLOCATING, enumerate(TIMES)):
                plan.count(call)
                _ask(server, TARGETS[kind], way, times)
                counts[index][call] = plan.seen
            return counts

        _warm(server, site)
        _check(server, "blocks", count)
        plan.disarm()
