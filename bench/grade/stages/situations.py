# SPDX-License-Identifier: MIT
"""Play the situations of situations.toml on the graded server and on a reference server. Compare
the responses, the data in Redis, open descriptors, the access log and the statistics."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from redis import Redis

from bench.grade.differences import OPEN, UNAVAILABLE, asks_redis, cause, difference
from bench.grade.findings import Failed, FaultName
from bench.grade.inspection import can_look, require_closed, useless_descriptors
from bench.grade.sandbox import REDIS_PASSWORD, apart, confined
from bench.grade.scene import SMALL_BUFFER, Scene, rejects_valid
from bench.grade.stages.comparing import (
    DATE,
    KEPT,
    Pair,
    Sent,
    beside_reference,
    own_folder,
    responses,
)
from bench.host.project import declaration
from bench.load.client import Client, NoAnswer, Response
from bench.services.redis_server import connect

FILE = Path(__file__).parents[1] / "situations.toml"
LOGGED = re.compile(r'(?m)^([\d.]+ - - \[\d+/\w+/\d+:\d+)(?::\d+:\d+)( .*\] ".*" \d+ [\d-]+)$')
UNAVAILABLE_LINE = re.compile(" 50[23] [0-9]+$")
"""LOGGED matches a line of the access log; its groups omit minutes and seconds, which may differ.
UNAVAILABLE_LINE matches the end of a line with status 502 or 503."""
END_OF_EACH = "--end--"
START_EACH = (
    'while read -r words; do timeout 1 "$0" $words </dev/null 2>&1; '
    f"echo exit status $? {END_OF_EACH}; done"
)
"""A shell script that starts a program with each command line from standard input."""
SPECIFIC = ("descriptor-leak", "bad-head", "wrong-length", "short-write", "state-left", "not-kept")
"""Faults that the fault of a situation does not replace, because they are more specific."""
NUMBER = re.compile(rb"\d[\d,]*")
TIMES = re.compile(rb"(\d+) times (.*)", re.DOTALL)
SHOWN, AGE_SECONDS, MOST_TIMES = 90, 100, 10
SEND_BUFFER, SMALL = Path("/proc/sys/net/ipv4/tcp_wmem"), "4096 4096 4096"
"""The minimum, initial and maximum size of a send buffer in bytes: tcp(7)."""


class Situation(BaseModel):
    """A situation; situations.toml explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    check: Literal["guestbook", "usual", "without Redis"] = "usual"
    several: bool = False
    nohup: bool = False
    fault: FaultName | None = None
    steps: str = Field(min_length=1)


class SituationFile(BaseModel):
    """The content of situations.toml."""

    model_config = ConfigDict(extra="forbid")
    command_lines: tuple[str, ...] = Field(alias="command-lines")
    redirects: tuple[str, ...]
    situation: tuple[Situation, ...]


DECLARED = declaration(SituationFile, FILE)


class Actor:
    """A server in a situation, and its clients. The method of a step (`_send` for `send`) takes the
    word after the verb, and the rest of the step. It returns the bytes that a client has read."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.clients: dict[bytes, Client] = {}
        self._methods: dict[bytes, str] = {}
        """The method of each client's last request."""
        self._before = 0

    def step(self, verb: str) -> Callable[[bytes, bytes], bytes | None] | None:
        """Return the method that performs a step; None if the step concerns both servers."""
        found: Callable[[bytes, bytes], bytes | None] | None = getattr(self, f"_{verb}", None)
        return found

    def close(self) -> None:
        """Close all clients."""
        for client in self.clients.values():
            client.close()

    def _send(self, name: bytes, data: bytes, buffer: int = 0) -> None:
        if name not in self.clients:
            self.clients[name] = self._scene.client(buffer)
        self._methods[name] = data.partition(b" ")[0].decode("latin-1")
        with contextlib.suppress(OSError):  # the next step will find no response
            self.clients[name].send(data)

    def _slow(self, name: bytes, data: bytes) -> None:
        self._send(name, data, SMALL_BUFFER)

    def _read(self, name: bytes, _: bytes) -> bytes:
        if name not in self.clients:  # its connection has ended
            return b""
        try:
            answer = self.clients[name].answer(self._methods[name])
            over, received = answer.closes, answer.head + b"\r\n\r\n" + answer.body
        except NoAnswer as error:
            received = error.head + error.received + (b"" if error.in_time else OPEN)
            over = True
        if over:
            self.clients.pop(name).close()
        return DATE.sub(b"", received)

    def _ask(self, name: bytes, data: bytes) -> bytes:
        self._send(name, data)
        return self._read(name, b"")

    def _reset(self, name: bytes, _: bytes) -> None:
        self.clients.pop(name).reset()

    def _redis(self, name: bytes, words: bytes) -> None:
        with connect(self._scene.redis_url) as client:
            client.execute_command(name, *(one.replace(b"~", b" ") for one in words.split(b" ")))

    def _signal(self, name: bytes, _: bytes) -> None:
        # The process that writes the log has its own session, and gets no signals.
        own = os.getsid(self._scene.pid)
        pids = [pid for pid in self._scene.pids() if os.getsid(pid) == own]
        self._scene.kill(pids, signal.Signals[name.decode()])

    def _count(self, *_: bytes) -> None:
        self._before = useless_descriptors(self._scene)

    def _counted(self, *_: bytes) -> None:
        if can_look(self._scene):
            seen = f"{self._before} descriptors were open before"
            require_closed(self._scene, seen, "of clients, Redis or files", self._before)


def as_grader(scene: Scene) -> Redis:
    """Return a connection to Redis that may close other connections and limit their number."""
    return connect(scene.redis.url.replace("://", f"://grader:{REDIS_PASSWORD}@", 1))


def cut_redis(scene: Scene) -> None:
    """Let Redis close all other connections, and wait until they are closed."""
    with as_grader(scene) as client:
        before = {one["id"] for one in client.client_list()} - {str(client.client_id())}
        client.client_kill_filter(_type="normal", skipme=True)
        scene.until(lambda: not before & {one["id"] for one in client.client_list()})


def kill_redis(scene: Scene) -> None:
    """Kill Redis. The server may keep the sockets of reset connections until it uses them."""
    with as_grader(scene) as client:
        scene.killed += len(client.client_list()) - 1
    scene.redis.kill()


@contextlib.contextmanager
def small_buffers() -> Iterator[None]:
    """Give new sockets a small send buffer during the `with` block, but only in the examination's
    network namespace: the user's machine must not change."""
    with contextlib.ExitStack() as stack:
        if apart():
            usual = SEND_BUFFER.read_text()
            with contextlib.suppress(OSError):
                SEND_BUFFER.write_text(SMALL)
                stack.callback(SEND_BUFFER.write_text, usual)
        yield


def age(file: Path, *_: object) -> None:
    """Make a file look old, because responses for new files may depend on the request's time."""
    past = time.time() - AGE_SECONDS
    os.utime(file, (past, past))


def stage_steps(scene: Scene, name: str, others: bytes) -> dict[bytes, Callable[[], object]]:
    """Return the steps that concern both servers (Redis, files, pauses), by verb."""
    redis, folder = scene.redis, own_folder(scene)
    file, path = folder / name, f"{folder.name}/{name}"
    return {
        b"wait": lambda: scene.watch.sleep(float(name)),
        b"redis-stops": redis.stop,
        b"redis-goes-on": redis.go_on,
        b"redis-dies": partial(kill_redis, scene),
        b"redis-starts": redis.start_again,
        b"redis-closes": partial(cut_redis, scene),
        b"put": lambda: age(scene.site.put(path, scene.dice.randbytes(int(others)))),
        b"cut": lambda: age(file, file.write_bytes(file.read_bytes()[: int(others)])),
        b"remove": file.unlink,
        b"folder": file.mkdir,
    }


def play(scene: Scene, check: str) -> None:
    """Play all situations of a check on both servers. Raises Failed if they differ."""
    with beside_reference(scene) as pair:
        for one in DECLARED.situation:
            is_possible = scene.several >= one.several and scene.nohup >= one.nohup
            if one.check == check and is_possible:
                act(pair, one)
        if scene.nohup:
            require_same_output(pair)
            require_same_messages(pair)


def act(pair: Pair, situation: Situation) -> None:
    """Play a situation. Raises Failed if the servers differ."""
    pair.prepare()
    shutil.rmtree(own_folder(pair.mine), ignore_errors=True)
    own_folder(pair.mine).mkdir()
    actors = Actor(pair.mine), Actor(pair.its)
    begun = "redis-" not in situation.steps  # `fault` counts from the first step `redis-...`
    try:
        for line in pair.requests.in_bytes(situation.steps):
            found = TIMES.fullmatch(line)
            for number in range(int(found[1]) if found else 1):
                steps = found[2].replace(b"{n}", b"%d" % number).split(b" ; ") if found else [line]
                for one in steps:
                    begun |= one.startswith(b"redis-")
                    take(pair, actors, one, situation.fault if begun else None)
    except Failed as failed:
        failed.seen = f"{situation.name}: {failed.seen}"
        if "redis-dies" in situation.steps:
            pair.mine.redis.start_again()
        if situation.fault == "ends-at-hangup" and failed.fault == "crash":
            failed.fault = situation.fault
        raise
    finally:
        for actor in actors:
            actor.close()
        pair.mine.redis.go_on()
    mine, its = map(data_in_redis, (pair.mine, pair.its))
    for key, value in its.items():
        if mine[key] != value:
            seen = f"{situation.name}: afterwards {key} in Redis is {mine[key][-SHOWN:]!r}; with "
            seen += f"the reference server it is {value[-SHOWN:]!r}"
            raise Failed(situation.fault or "wrong-answer", seen)


def take(
    pair: Pair, actors: tuple[Actor, Actor], line: bytes, usual: FaultName | None = None
) -> None:
    """Perform a step. Raises Failed if the servers send different bytes. `usual`: see `named`."""
    verb, _, words = line.partition(b" ")
    first, _, others = words.partition(b" ")
    its, mine = (actor.step(verb.decode()) for actor in reversed(actors))
    if its is None or mine is None:
        stage_steps(pair.mine, first.decode(), others)[verb]()
        return
    is_kept = first in actors[0].clients
    right, here = its(first, others) or b"", mine(first, others) or b""
    if pair.same(here, right):
        return
    pair.mine.alive()
    fault = named(verb, others, here, right, is_kept, usual)
    # On a busy machine the reference server's response may be too late, and a server may close
    # a connection because another client waits.
    waits = pair.same(*(KEPT.sub(b"", one) for one in (here, right)))
    late = right == b"" or right.endswith(OPEN)
    step = in_words(verb, first.decode(), others)
    failed = difference(step, fault, here, right, sure=not (late or waits))
    # After a 502 or 503, a new connection may get another worker, whose Redis connection works.
    status = status_of(Response.of(here))
    explained = status in UNAVAILABLE or fault in ("short-write", "not-kept")
    if verb == b"ask" and is_kept and not explained and fault != "redis-not-back":
        wrong, wanted, alone = map(Response.of, (here, right, responses(pair.mine, Sent([others]))))
        if is_like(alone, wanted) and not is_like(alone, wrong):
            if here:
                failed.fault = "state-left"
            failed.seen += "; on a new connection the same request is answered correctly"
    raise failed


def named(
    verb: bytes, data: bytes, here: bytes, right: bytes, is_kept: bool, usual: FaultName | None
) -> FaultName:
    """Return the fault of the response `here` to `data` if `right` is correct. `is_kept`: whether
    the connection has had other responses; `usual`: the fault of a wrong status or a missing
    response, unless the difference shows the cause."""
    # The client has not closed its side, so the server may keep the connection open.
    fault = cause(data, here.removesuffix(OPEN), right.removesuffix(OPEN), is_kept)
    status, wanted = (status_of(Response.of(one)) for one in (here, right))
    if usual is None:
        has_ended = verb == b"ask" and is_kept and here == b"" != right
        return "not-kept" if has_ended else fault
    if status == wanted or rejects_valid(status, wanted) or fault in SPECIFIC:
        return fault
    if status in UNAVAILABLE and wanted < 400 and usual == "redis-stops-all":
        return "no-redis"
    needs_redis = asks_redis(data) or verb != b"ask"
    return usual if needs_redis or not 0 < status < 500 else fault


def in_words(verb: bytes, client: str, data: bytes) -> str:
    """Return a step in which a client reads, in words that fit before "was answered"."""
    if verb == b"ask":
        line = data[:SHOWN].decode("latin-1").strip().partition("\r\n")[0]
        return f"`{line}` of client {client}"
    return f"a request of client {client}"


def status_of(response: Response | None) -> int:
    """Return the status of a response, or 0 without a response."""
    return response.status if response else 0


def is_like(one: Response | None, other: Response | None) -> bool:
    """Return whether status and body are equal, except for numbers, e.g. of visitors."""
    bodies = [NUMBER.sub(b"", response.body if response else b"") for response in (one, other)]
    return status_of(one) == status_of(other) and bodies[0] == bodies[1]


def data_in_redis(scene: Scene) -> dict[str, str]:
    """Return the data of the guestbook by key."""
    found = {}
    with connect(scene.redis_url) as client:
        for key in ("guestbook_remarks", "visitor_count"):
            is_list = client.type(key) == b"list"
            found[key] = repr(client.lrange(key, 0, -1) if is_list else client.get(key))
    return found


def require_same_output(pair: Pair) -> None:
    """End both servers. Raises Failed if the servers' access logs or statistics differ."""
    outputs = []
    for scene in (pair.its, pair.mine):
        scene.require_end("all clients of this check had left", sure=False)
        ended = scene.stop()
        assert ended is not None
        assert scene.running is not None
        lines = ["".join(parts) for parts in LOGGED.findall(scene.running.stdout)]
        others = Counter(filter(None, LOGGED.sub("", scene.running.stdout).splitlines()))
        outputs.append((lines, others, ended.statistics))
    (right, usual, its), (here, others, mine) = outputs
    seen = "the same requests were sent to both servers"
    line, times = max(others.items(), key=itemgetter(1), default=("", 0))
    if times > MOST_TIMES + max(usual.values()):
        raise Failed("wrong-log", f"{seen}; the graded server printed {line!r} {times} times")
    logs = [
        Counter(UNAVAILABLE_LINE.sub(" 502 or 503", line) for line in one) for one in (here, right)
    ]
    extra, missing = (next(iter(one), "no line") for one in (logs[0] - logs[1], logs[1] - logs[0]))
    if extra != missing:
        told = f"the access log has {extra!r}; that of the reference server has {missing!r}"
        raise Failed("wrong-log", f"{seen}; {told}")
    same_bytes = pair.requests.kept and sorted(here) == sorted(right)
    for name in ("requests", "responses", *(["bytes_sent"] if same_bytes else [])):
        counts = [getattr(one, name, None) for one in (mine, its)]
        if counts[0] != counts[1]:
            told = f"{name.replace('_', ' ')}: {counts[0]} (reference server: {counts[1]})"
            raise Failed("miscounts", f"{seen}; the statistics at the end have {told}")


def require_same_messages(pair: Pair) -> None:
    """Start both servers with each command line and with each file of redirects. Raises Failed if
    their exit status or messages differ, except for the servers' names."""
    lines = list(DECLARED.command_lines)
    for number, text in enumerate(DECLARED.redirects):
        root = pair.mine.folder / f"root{number}"
        (root / "public").mkdir(parents=True, exist_ok=True)
        shutil.copytree(pair.mine.site.root / "templates", root / "templates", dirs_exist_ok=True)
        (root / "redirects").write_text(text)
        lines.append(f"--port 0 --root {root}")
    mine, its = (messages(scene, lines) for scene in (pair.mine, pair.its))
    for words, here, right in zip(lines, mine, its, strict=False):
        if here != right:
            raise Failed(
                "wrong-options",
                f"with `{words}` the server prints {here!r}; the reference server {right!r}",
            )


def messages(scene: Scene, lines: Sequence[str]) -> list[str]:
    """Return the output and the exit status of the server for each of these command lines."""
    command = ["sh", "-c", START_EACH, str(scene.program)]
    limited = confined(command, scene.limits, [scene.folder, scene.program], lane=scene.lane)
    told = "".join(f"{words}\n" for words in lines)
    done = subprocess.run(limited, capture_output=True, text=True, input=told)
    names = "|".join({scene.server.name, scene.program.name})
    return re.sub(rf"\b(?:{names})\b", "NAME", done.stdout).split(END_OF_EACH)
