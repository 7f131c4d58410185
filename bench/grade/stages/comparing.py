# SPDX-License-Identifier: MIT
"""Compare the graded server with a reference server. Both servers receive the same requests, and
must send the same bytes. The dates may differ, and others see `Pair.same`."""

import contextlib
import re
import select
import shutil
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from bench.grade.differences import (
    BROKEN,
    OPEN,
    REFERENCE,
    UNAVAILABLE,
    cause,
    difference,
    resets,
)
from bench.grade.findings import Failed, FaultName, NotHere
from bench.grade.scene import FORM, Scene
from bench.host.project import ROOT
from bench.load.client import NoAnswer, Response, request
from bench.services.redis_server import RunRedis
from bench.subjects.subject import server_subject

REQUESTS = Path(__file__).parents[1] / "requests.txt"
DATE = re.compile(rb"\r\nDate: [^\r]*GMT")
KEPT = re.compile(rb"\r\nConnection: (?:close|keep-alive)")
REPEATED = re.compile(rb"\{([^{}]+)\*(\d+)\}")
DEFECTS, SHORT, TOGETHER, CLIENTS = 120, 400, 6, 6
"""The number of random defects, the maximum length of a request with defects, the requests on one
connection, and the number of concurrent clients."""
SHORTEST, KEEP_ALIVE = b"GET /? HTTP/1.1\r\nHost:\r\n\r\n", 1000
"""A short request, and the limit of requests on a connection (KEEP_ALIVE_REQUESTS)."""
DELAY_SECONDS, DELAY_RATIO, MANY = 0.03, 5, 100
"""Responses are late if their median time exceeds DELAY_SECONDS + DELAY_RATIO * the reference time.
(A delayed ACK takes 40 ms.) With more than MANY responses, one attempt is a proof."""
CUTS, PIECE_SECONDS, NEXT_SECONDS = 2, 0.001, 0.003
"""The number of cuts in a request, and the pauses after a piece and after a response."""
ANSWER_SECONDS, ANSWER_BYTES = 0.5, 1 << 20
"""The longest wait for a response before the next request, and the maximum bytes of one read."""
REPLACED = [*(bytes([one]) for one in range(256)), b"", b"\r\n", b"close", b"chunked", b"\r\nX: y"]
"""Replacements for a part of a request."""
EDGES = b"\0\t\n\r !\"#%&'()*+,-./09:;<=>?@AFGZ[\\]^_`afgz{|}~\x7f\x80\xff"
"""The first and last bytes of character classes."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Sent(NamedTuple):
    """The requests of a client on a connection. Afterwards the client ends its side (FIN)."""

    parts: Sequence[bytes]
    cuts: Sequence[int] = ()
    """The offsets at which the client pauses, but only with the graded server."""
    fault: FaultName | None = None
    """The fault if this way of sending causes wrong responses. None: `cause` decides."""

    @property
    def data(self) -> bytes:
        """Return the bytes of all requests."""
        return b"".join(self.parts)

    @property
    def ends(self) -> list[int]:
        """Return the offset of the end of each request except the last."""
        return list(accumulate(map(len, self.parts)))[:-1]

    def one_by_one(self) -> "Sent":
        """Return the same requests, sent one after another."""
        return Sent(self.parts, self.ends, "state-left")

    def simpler(self) -> Iterator["Sent"]:
        """Yield simpler ways to send a part of these requests, the simplest first, then `self`."""
        if len(self.parts) > 1 or self.cuts:
            yield from (Sent([part]) for part in self.parts)
            yield from (Sent(pair).one_by_one() for pair in combinations(self.parts, 2))
            for count in range(2, len(self.parts) + 1):
                yield Sent(self.parts[:count], (), "loses-pipelined")
        yield self

    def difference(self, mine: bytes, its: bytes, sure: bool = True) -> Failed:
        """Return the failure of a server that sends wrong bytes."""
        fault = cause(self.data, mine, its)
        ended = not mine.endswith(OPEN)
        if self.fault == "state-left" and fault == "loses-pipelined" and ended:
            fault = "not-kept"
        elif self.fault and (fault != "not-kept" or self.fault == "one-recv"):
            fault = self.fault
        return difference(str(self), fault, mine, its, sure)

    def __str__(self) -> str:
        """Describe these requests for a finding."""
        if len(self.parts) == 1:
            how = f" in pieces, cut at {self.cuts}" if self.cuts else ""
            return f"the request {self.parts[0][:150]!r}{how}"
        named = " and ".join(f"{part[:70]!r}" for part in self.parts[:3])
        apart = list(self.cuts) == self.ends
        how = "one after another" if apart else "in one packet" if not self.cuts else "in pieces"
        return f"{len(self.parts)} requests on a connection, {how}: {named}"


class Requests:
    """The requests of requests.txt, with the names of this examination's files."""

    def __init__(self, scene: Scene) -> None:
        """Request a file from the server, to read e.g. the value of {etag} from the response."""
        self._dice, self._site = scene.dice, scene.site
        path = scene.site.first
        answer = scene.ask(request("GET", path))
        self.kept = scene.several and not answer.closes
        """Whether the server keeps a connection open; false if it serves one client at a time."""
        self._names = {
            "{page}": "GET /guestbook HTTP/1.1|Host: a||",
            "{link}": "GET /go/odd HTTP/1.1|Host: a||",
            "{file}": "GET {small} HTTP/1.1|Host: a||",
            "{remark}": "POST /guestbook HTTP/1.1|Host: a|{form}|Content-Length: 28||"
            "guest-name=a&guest-remarks=b",
            "{small}": path,
            "{size}": str(len(scene.site.small[path])),
            "{big}": scene.site.big[0],
            **scene.site.others,
            "{moved}": next(iter(scene.site.moved)),
            "{own}": f"/{own_folder(scene).name}",
            "{etag}": answer.field("ETag") or "",
            "{date}": answer.field("Last-Modified") or "",
            "{form}": FORM,
            "|": "\r\n",
        }

    def in_bytes(self, text: str) -> list[bytes]:
        """Return the lines of a text in the format of requests.txt."""
        for name, value in self._names.items():
            text = text.replace(name, value)
        lines = text.replace("\r\n", "\\r\\n").splitlines()
        unescaped = (line.encode().decode("unicode_escape").encode("latin-1") for line in lines)
        return [REPEATED.sub(lambda one: one[1] * int(one[2]), data) for data in unescaped]

    def lines(self, section: str) -> list[bytes]:
        """Return the lines of a section of requests.txt."""
        text = REQUESTS.read_text().partition(f"\n[{section}]\n")[2]
        return self.in_bytes(text.partition("\n[")[0])

    def of(self, section: str) -> list[bytes]:
        """Return the requests of a section of requests.txt."""
        return self._closing(self.lines(section))

    def composed(self) -> list[bytes]:
        """Return requests of random parts, with each method at least twice, and each target with
        GET alone and with a random method."""
        dice = self._dice
        methods, targets, fields, bodies = map(self.lines, ("method", "target", "field", "body"))
        targets += [path.encode() for path in self._site.unusual]
        pairs = [(dice.choice(methods), target) for target in targets]
        pairs += [
            (method, dice.choice(targets)) for method in dict.fromkeys(methods) for _ in range(2)
        ]
        found = [b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target for target in targets]
        for method, target in dice.sample(pairs, len(pairs)):
            line = b"%s %s HTTP/1.%d" % (method, target, dice.random() < 0.8)
            some = [b"Host: a", *dice.sample(fields, dice.randrange(4))]
            found.append(b"\r\n".join([line, *some, b"", dice.choice(bodies)]))
        return self._closing(found)

    def _closing(self, found: Sequence[bytes]) -> list[bytes]:
        """Return the requests, with "Connection: close" if the server keeps no connection."""
        field = b"\r\n" if self.kept else b"\r\nConnection: close\r\n"
        return [data.replace(b"\r\n", field, 1) for data in found]


@dataclass
class Pair:
    """The graded server and the reference server. Each has its own database in Redis."""

    mine: Scene
    its: Scene
    requests: Requests
    """If `requests.kept` is true, the Connection fields of both responses must be equal."""
    times: list[tuple[float, float]] = field(default_factory=list)
    """The times of both servers (in seconds) for each connection without pauses."""

    def prepare(self) -> None:
        """Write the usual data into both databases."""
        for scene in (self.mine, self.its):
            with RunRedis(scene.redis_url, private=True) as store:
                store.prepare()

    def responses(self, sent: Sent) -> tuple[bytes, bytes]:
        """Return the bytes that each server sends to a client."""
        begun = time.monotonic()
        its = responses(self.its, sent._replace(cuts=()))
        between = time.monotonic()
        mine = responses(self.mine, sent)
        if not sent.cuts:
            self.times.append((time.monotonic() - between, between - begun))
        elif len(sent.parts) > 1:
            # Ignore a reset, as after an early close, and 100 Continue, as before a late body.
            mine, its = (one.removesuffix(BROKEN).replace(CONTINUE, b"") for one in (mine, its))
        return mine, its

    def same(self, mine: bytes, its: bytes) -> bool:
        """Return whether the responses are the same, or one has status 502 and the other 503."""
        if not self.requests.kept:
            mine, its = (KEPT.sub(b"", one) for one in (mine, its))
        found = (one.status for one in map(Response.of, (mine, its)) if one)
        return mine == its or {*found} == UNAVAILABLE

    def require_same(self, sent: Sent) -> bytes:
        """Return the response of both servers. Raises Failed if the responses differ."""
        mine, its = self.responses(sent)
        if self.same(mine, its):
            return its
        self.mine.alive()
        for simpler in sent.simpler():
            self.prepare()
            again = self.responses(simpler)
            if not self.same(*again):
                failed = self.explained(simpler, *again)
                # A server that ignores the end of a connection calls recv all the time.
                if failed.fault == "ignores-end" and not self.mine.is_busy(0.3):
                    failed.fault = "never-closes"
                raise failed
        raise self.explained(sent, mine, its, sure=False)

    def is_right_open(self, sent: Sent, its: bytes) -> bool:
        """Return whether the graded server sends the right status if the client does not end its
        side. `its`: the correct response."""
        right, method = Response.of(its), sent.data.partition(b" ")[0].decode("latin-1")
        with contextlib.suppress(Failed, NoAnswer, OSError), self.mine.client() as client:
            return right is not None and client.ask(sent.data, method).status == right.status
        return False

    def explained(self, sent: Sent, mine: bytes, its: bytes, sure: bool = True) -> Failed:
        """Return `sent.difference(...)`; for a single request, find the cause."""
        failed, got = sent.difference(mine, its, sure), Response.of(mine)
        if len(sent.parts) > 1 or (sent.cuts and not (got and resets(mine, its))):
            return failed
        is_cut = not got or failed.fault == "short-write"
        if is_cut and all(self.is_right_open(sent, its) for _ in range(6)):
            failed.fault = "drops-half-closed"
            failed.seen += "; a client that does not end its side (FIN) gets the correct response"
        elif resets(mine, its):
            failed.fault = "resets"
        elif got and not mine.endswith(OPEN):
            again = [self.same(responses(self.mine, sent), its) for _ in range(3)]
            self.mine.stop()
            if not any(again) and all(self.is_right_at_start(sent, its) for _ in range(2)):
                failed.fault = "state-left"
                failed.seen += "; immediately after the server's start the response is correct"
        return failed

    def is_right_at_start(self, sent: Sent, its: bytes) -> bool:
        """Return whether a new server sends the right response to its first client."""
        with self.mine.of(self.mine.server).started() as new:
            return self.same(responses(new, sent), its)


def require_no_delay(what: str, times: Sequence[tuple[float, float]], port: int = 0) -> None:
    """Raise Failed if most responses come much later than from the reference server. `what`: the
    responses in words; `times`: the seconds of both servers; `port`: the only client's port."""
    mine, its = map(statistics.median, zip(*times, strict=True))
    if mine > DELAY_SECONDS + DELAY_RATIO * its:
        seen = f"the median time of {len(times)} {what} was {mine * 1000:.0f} ms (reference "
        seen += f"server: {its * 1000:.0f} ms)"
        raise Failed("delays", seen, port, sure=len(times) > MANY)


def of_project(scene: Scene, name: str) -> Scene:
    """Return a scene for a server of the project. The server runs from a copy of the program,
    because its user may have no access to the project's folder."""
    copy = shutil.copy(ROOT / name, scene.folder / f"{name}{scene.lane}")
    return scene.of(server_subject(name, Path(copy)))


@contextlib.contextmanager
def beside_reference(scene: Scene) -> Iterator[Pair]:
    """Start the reference server, and stop it afterwards. Raises NotHere if it is not built."""
    if not (ROOT / REFERENCE).exists():
        raise NotHere(f"{REFERENCE} is not built; use `make grade`, which builds it first")
    own = urlunsplit(urlsplit(scene.redis.url)._replace(path="/8"))  # not DATABASE
    reference = of_project(scene, REFERENCE)
    its = replace(reference, lane=scene.lane + 1, redis_url=own, trace=None, answered=[])
    try:
        with its.started():
            pair = Pair(scene, its, Requests(scene))
            Requests(its)  # so that both servers have received the same requests
            pair.prepare()
            yield pair
    finally:
        scene.redis.prepare()


def own_folder(scene: Scene) -> Path:
    """Return the folder for the files of this check's situations."""
    return scene.site.root / "public" / f"own{scene.lane}"


def responses(scene: Scene, sent: Sent) -> bytes:
    """Send requests on a new connection, then end the client's side (FIN). Return all received
    bytes without the dates, and BROKEN or OPEN if the server did not end the connection by FIN."""
    data, borders, received = sent.data, sent.ends, b""
    with scene.client() as client:
        try:
            for start, end in pairwise((0, *sent.cuts, len(data))):
                client.send(data[start:end])
                if end in borders and select.select([client.socket], [], [], ANSWER_SECONDS)[0]:
                    received += client.socket.recv(ANSWER_BYTES)
                if end < len(data):
                    time.sleep(NEXT_SECONDS if end in borders else PIECE_SECONDS)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:  # a reset by the server, which recv would not report again
            client.broke = True
        last, ended = client.rest()
        how = BROKEN if client.broke else b"" if ended else OPEN
        return DATE.sub(b"", received + last) + how


def same_bytes(scene: Scene) -> None:
    """Valid requests get the correct responses, also if several clients send them at once."""
    with beside_reference(scene) as pair:
        valid = [Sent([data]) for data in pair.requests.of("valid")]
        right = [pair.require_same(one) for one in valid]
        for data in pair.requests.composed():
            pair.require_same(Sent([data]))
        require_no_delay("responses", pair.times)

        def run() -> None:
            for one, its in zip(valid, right, strict=True):
                if re.search(rb"guestbook|/go/odd", one.data):
                    continue
                # A server may close connections while other clients wait.
                mine, other = (KEPT.sub(b"", data) for data in (responses(scene, one), its))
                if not pair.same(mine, other):
                    raise one.difference(mine, other, sure=False)

        # All clients send in the same order, so that the same code serves several clients at once.
        scene.together([run] * CLIENTS)


def in_pieces(scene: Scene) -> None:
    """Valid requests that arrive in pieces get the same responses. The first request is cut at each
    offset; then all are cut at random offsets, and some before their last byte."""
    with beside_reference(scene) as pair:
        whole = [data for data in pair.requests.of("valid") if b"Expect" not in data]
        cut = [(whole[0], [place]) for place in range(1, len(whole[0]))]
        cut += [(one, sorted(scene.dice.sample(range(1, len(one)), CUTS))) for one in whole]
        cut += [(one, [len(one) - 1]) for one in whole[-TOGETHER:]]
        for data, places in cut:
            pair.require_same(Sent([data], places, "one-recv"))


def defects(scene: Scene) -> None:
    """Invalid and changed requests get the correct responses: those of requests.txt, also with a
    late body, and valid requests with a random defect, a cut, or other capital letters."""
    with beside_reference(scene) as pair:
        found, dice = pair.requests.of("invalid"), scene.dice
        heads = [(data, data.find(b"\r\n\r\n") + 4) for data in found]
        later = [Sent([data], [end], "one-recv") for data, end in heads if 4 <= end < len(data)]
        large = (b"Expect", scene.site.big[0].encode(), scene.site.others["{huge}"].encode())
        short = [one for one in pair.requests.of("valid") if len(one) < SHORT]
        short = [one for one in short if not any(name in one for name in large)]
        for place in pair.requests.of("byte"):
            for byte in (*dice.sample(EDGES, 25), dice.randrange(256)):
                found.append(place.replace(b"{byte}", bytes([byte])))
        for data in dice.choices(short, k=DEFECTS):
            start = dice.randrange(len(data))
            end = start + dice.randint(0, 2)
            found.append(data[:start] + dice.choice(REPLACED) + data[end:])
        for data in short:
            line, *fields = data.split(b"\r\n")
            fields = [dice.choice((bytes.upper, bytes.lower, bytes))(one) for one in fields]
            found.append(b"\r\n".join([line, *fields]))
        found += [data[: dice.randrange(1, len(data))] for data in short]
        for one in [*(Sent([data]) for data in found), *later]:
            pair.require_same(one)


def packets(scene: Scene) -> str | None:
    """Several requests on a connection get the correct responses: in one packet, one after another,
    or in pieces. Return a note if the server keeps no connection open."""
    with beside_reference(scene) as pair:
        if not pair.requests.kept:
            return "the server keeps no connection open"
        listed = [*pair.requests.of("valid"), *pair.requests.of("invalid")]
        scene.dice.shuffle(listed)
        groups = [Sent(listed[i : i + TOGETHER]) for i in range(0, len(listed), TOGETHER)]
        for group in groups:
            pair.require_same(group._replace(fault="loses-pipelined"))
            pair.require_same(group.one_by_one())
            cuts = sorted(scene.dice.sample(range(1, len(group.data)), TOGETHER))
            pair.require_same(Sent(group.parts, cuts, "one-recv"))
        pair.require_same(Sent([SHORTEST * (KEEP_ALIVE + TOGETHER)]))
    return None
