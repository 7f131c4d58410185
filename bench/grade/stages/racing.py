# SPDX-License-Identifier: MIT
"""Find data races or memory errors: build the server with a sanitizer, and run it under load."""

import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from bench.grade.building import COMPILE_SECONDS, NotBuilt, can_build
from bench.grade.findings import SANITIZER, Failed, FaultName, NotHere, build_failure
from bench.grade.sandbox import Limits
from bench.grade.scene import FORM, INVALID, SMALL_BUFFER, Scene
from bench.grade.server import fault_of_end
from bench.grade.stages.clients import hold, leave, mixture
from bench.grade.stages.comparing import Requests, Sent, responses
from bench.grade.stages.redis import after_errors, redis_gone, redis_silent
from bench.grade.stages.situations import play
from bench.host.process import StartError
from bench.load.client import request

RACERS, ROUNDS, LEAVERS, CLIENTS = 8, 2, 4, 3
RACE_SECONDS, REPORT_SECONDS = 8.0, 8.0
SETTLE_SECONDS, ASKED_SECONDS = 0.02, 0.1
MORE_TIMEOUT = 2
"""The factor for the timeout of clients, because a sanitizer slows down the server."""
_COMMON = "CFLAGS=-O1 -g -fno-omit-frame-pointer -DSANITIZED"


@dataclass(frozen=True)
class Sanitizer:
    """A build with a sanitizer, and the pattern of its reports."""

    flavour: str  # The target of the Makefile that builds lib/ with the sanitizer.
    name: str
    flag: str
    summary: re.Pattern[str]
    """Matches the line that sums up a report; the groups are the details in this line."""


THREADS = Sanitizer(
    "tsan",
    "the thread sanitizer",
    "-fsanitize=thread",
    re.compile(
        r"^SUMMARY: ThreadSanitizer: (data race|heap-use-after-free|unlock of|double lock"
        r"|destroy of|lock-order-inversion|read lock|use of an invalid mutex|SEGV|BUS|FPE|ILL)"
        r"(?:.*/| )(\S+) in (\w+)",
        re.MULTILINE,
    ),
)
MEMORY = Sanitizer(
    "debug",
    "the sanitizers for addresses and undefined behaviour",
    "-fsanitize=address,undefined",
    re.compile(
        r"^SUMMARY: AddressSanitizer: ([\w-]+) (?:\S*/)?(\S+) in (\w+)"
        r"|^\S*?([\w.]+:\d+):\d+: (runtime error: .*)"
        r"|^SUMMARY: AddressSanitizer: (\d+ byte\(s\) leaked in \d+ allocation\(s\))",
        re.MULTILINE,
    ),
)
_BEGUN = re.compile(r"ERROR: AddressSanitizer: ")
STOPS = "-fno-sanitize-recover=all"
REPORTED = 66
"""The exit status of a program after a report. Without permission for ptrace(2), which the
sanitizer needs to find leaks, the program also ends with this status."""
OPTIONS = (f"ASAN_OPTIONS=exitcode={REPORTED}:detect_stack_use_after_return=1",)


def sanitized(scene: Scene) -> str:
    """Build the server with a sanitizer, and run it under load: the thread sanitizer if the server
    has threads, otherwise those for addresses and undefined behaviour. Return a note."""
    with scene.started(), hold(scene, 3):
        sanitizer = THREADS if scene.tasks() > len(scene.pids()) else MEMORY
    assert scene.built is not None
    flags = f"{_COMMON} {sanitizer.flag}" + (f" {STOPS}" if sanitizer is MEMORY else "")
    try:
        seconds = min(COMPILE_SECONDS, scene.left())
        server, _ = scene.built.make(sanitizer.flavour, (flags,), seconds)
    except NotBuilt as error:
        require_runs(scene, sanitizer)
        how = f"built with {sanitizer.flag}: "
        raise build_failure("not-sanitized", str(error), how) from error
    slow = replace(
        scene.of(server),
        limits=Limits(address_space=None),
        timeout=MORE_TIMEOUT * scene.timeout,
        environment=OPTIONS,
        nohup=True,  # with --log
    )
    note, grace = f"with {sanitizer.name}", RACE_SECONDS
    with slow.guarded():
        try:
            slow.start()
        except StartError:
            require_runs(scene, sanitizer)
            raise
        try:
            # Begin with one client, because reports of many processes at once take long.
            _race(slow)
            slow.together([lambda: _race(slow)] * RACERS)
            _leave_while_redis_works(slow)
            if not _BEGUN.search(slow.said()):
                mixture(slow)
                requests = Requests(slow)
                listed = [*requests.of("valid"), *requests.of("invalid")]
                shares = [listed[number::CLIENTS] for number in range(CLIENTS)]
                slow.together([partial(_ask_all, slow, share) for share in shares])
                play(replace(slow, nohup=False), "usual")
            _without_redis(slow)
        except (Failed, ConnectionError) as error:
            # The other checks find the cause in less time, without a sanitizer.
            note, grace = f"{note}, until this happened: {error}", 1.0
        # Wait, because a killed process cannot complete its report.
        slow.until(
            lambda: not _BEGUN.search(slow.said()) or bool(sanitizer.summary.search(slow.said())),
            REPORT_SECONDS,
        )
        slow.end_by_itself(grace)
        said = slow.said()
    slow.stop()
    if found := sanitizer.summary.search(said):
        kind, place, function, line, text, leaked = (*found.groups(), None, None, None)[:6]
        fault: FaultName = "data-race" if kind == "data race" else "sanitizer-error"
        seen = f"{kind} {place} in {function}" if kind else f"{line}: {text}"
        seen = f"{sanitizer.name} reported: {seen[:200]}"
        if leaked:
            fault = "memory-leak"
            seen = f"at the end of the server {sanitizer.name} reported: {leaked}"
        raise Failed(fault, seen, proof=(SANITIZER, _pieces(said)))
    # If the server had to be killed at its end, another check reports this.
    if slow.ended is not None and slow.ended.status not in (0, REPORTED, -signal.SIGKILL):
        fault = fault_of_end(slow.ended.status, "bad-status" if slow.told else "crash")
        raise Failed(fault, f"the server with {sanitizer.name} {slow.ended.describe()}")
    return note


def require_runs(scene: Scene, sanitizer: Sanitizer) -> None:
    """Raise NotHere if even an empty program does not compile or run with the sanitizer."""
    if not can_build(sanitizer.flag, scene.folder):
        raise NotHere(f"programs with {sanitizer.name} do not compile or do not run here")


def _ask_all(scene: Scene, listed: Sequence[bytes]) -> None:
    """Send each of these requests on a new connection."""
    for one in listed:
        responses(scene, Sent([one]))


def _race(scene: Scene) -> None:
    """Send requests of several kinds, one of them invalid, and let clients leave early."""
    small, big = scene.site.first, scene.site.big[0]
    body = b"guest-name=a&guest-remarks=" + 900 * b"b"  # long, so that the page grows quickly
    remark = request("POST", "/guestbook", FORM, body=body)
    for _ in range(ROUNDS):
        if _BEGUN.search(scene.said()):
            return
        with scene.client() as client:
            for data in (request("GET", small), request("GET", "/guestbook"), remark):
                if scene.talk(client, data).closes:
                    break
        for path in ("/missing", "/sorted", "/go/odd"):
            scene.get(path)
        scene.get(small, method="HEAD")
        scene.ask(INVALID)
        halves = (b"GET / HT", remark[:-5], request("GET", big))
        leave(scene, *halves, pause=SETTLE_SECONDS, buffer=SMALL_BUFFER)
        # The next clients may leave before Redis replies.
        leave(scene, *[request("GET", "/guestbook")] * LEAVERS)


def _leave_while_redis_works(scene: Scene) -> None:
    """Let clients receive a file, request a page, and leave before Redis replies."""
    with scene.clients(LEAVERS if scene.several else 1) as clients:
        for client in clients:
            scene.talk(client, request("GET", scene.site.first))
        with redis_silent(scene):
            for client in clients:
                client.send(request("GET", "/guestbook"))
            scene.watch.sleep(ASKED_SECONDS)
            for client in clients:
                client.reset()
            scene.watch.sleep(ASKED_SECONDS)
    scene.get("/guestbook")


def _without_redis(scene: Scene) -> None:
    """Request pages while Redis replies with an error, and while Redis is down."""
    if not _BEGUN.search(scene.said()):
        with suppress(Failed):  # other checks report this
            after_errors(scene, RACERS)
        with redis_gone(scene):
            scene.together([lambda: scene.get("/guestbook")] * RACERS)


def _pieces(said: str) -> list[str]:
    """Return the memory accesses and the lines of sources in a sanitizer's first report."""
    report = re.split(r"(?:WARNING|ERROR): \w+Sanitizer: ", said, maxsplit=1)[-1]
    wanted = re.compile(
        r"(?i:write|read|previous|location|mutex|freed by|allocated by|direct leak).* "
        r"|runtime error|#\d+ .*[ /](?:\d\d_|lib/|ops/)\S+\.c:"
    )
    lines = [line.strip() for line in report.partition("SUMMARY")[0].splitlines()]
    frame = re.compile(r"(#\d+) (?:0x\w+ in )?(\w+) .*?((?:\d\d_\w+|lib|ops)/\S+\.c:\d+).*")
    found = (frame.sub(r"\1 \2 \3", one) for one in lines if wanted.search(one))
    return list(dict.fromkeys(found))  # several processes may report the same error
