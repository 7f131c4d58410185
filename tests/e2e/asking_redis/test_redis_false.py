# SPDX-License-Identifier: MIT
"""If Redis sends invalid, large or late replies, requests that need Redis get 502 or 503. All other
requests are served."""

import contextlib
import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.host.project import toml_of

from ..client import CLOSE, request
from ..harness import Start, of, shared
from ..http.cases import unescaped
from ..markup import part, remarks
from ..redisbox import Conversation, FalseRedis, PrivateRedis, Script, answering, link, replying
from ..small import assert_serves_without_redis
from ..timing import PACE, TIMEOUT, undisturbed_test, wait_until

# More requests of one client than an event loop answers in one iteration.
PIPELINED = 20
SEND_BUFFER = Path("/proc/sys/net/ipv4/tcp_wmem")
"""The minimum, initial and maximum size of a send buffer in bytes: tcp(7)."""


def _says(data: bytes, close: bool = False) -> Script:
    """Return a script that answers everything with the same bytes; if `close`, only once."""

    def script(conversation: Conversation) -> None:
        while conversation.receive():
            conversation.send(data)
            if close:
                return

    return script


def _greets(conversation: Conversation) -> None:
    """Send data before the first command, which Redis never does, and then nothing more."""
    conversation.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    while conversation.receive():
        pass


SAID = toml_of(Path(__file__).with_name("nonsense.toml"))
NONSENSE = {
    **{name: _says(unescaped(said)) for name, said in SAID.items()},
    "HTTP": _says(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
    "SSH": _greets,
    "closes at once": lambda conversation: None,
    "closes after a command": _says(b"", close=True),
    "closes in mid-reply": _says(b"*2\r\n$5\r\nx - ", close=True),
}
# 502: an error, or a reply that does not fit the command. 503: invalid bytes, no reply, or LOADING.
FAILED = (502, 503)
REPLIES = ("error", "no password", "error without text", "always ", "array of integers")
NESTED = ("array of arrays", "array with an error")
# LRANGE must not return nil; GET returns nil for a link that does not exist.
NOT_FOUND = ("always nil", "always a nil array")
MAY_BE_A_STRING = ("always an integer",)


EVERYWHERE = ("SSH", "closes in mid-reply", "size with letter", "error")
"""More servers are tested with these replies than with the other replies. What a server does with
its connection to Redis does not depend on which bytes are invalid."""


@pytest.mark.redis_code
@pytest.mark.parametrize("name", [*EVERYWHERE, *map(shared, sorted(NONSENSE.keys() - EVERYWHERE))])
def test_nonsense(start: Start, name: str) -> None:
    """After invalid replies the pages that need Redis fail, and all other requests are served."""
    with FalseRedis(NONSENSE[name]) as false:
        server = start(redis=false.url)
        is_reply = name.startswith((*REPLIES, *NESTED))
        for _ in range(3):
            response = server.get("/guestbook")
            assert response.status == (502 if is_reply else 503)
            assert response.field("Retry-After") == (None if is_reply else "1")
            assert_serves_without_redis(server)
        found = server.get("/go/name").status
        assert found == 404 if name in NOT_FOUND else found in FAILED
        posted = server.sign("Ann", "x").status
        assert posted in (303, 503) if name in MAY_BE_A_STRING else posted in FAILED
        assert_serves_without_redis(server)


ANSWERS = {
    "LRANGE": b"*2\r\n$5\r\nx - A\r\n$5\r\ny - B\r\n",
    "INCR": b":1234\r\n",
    "LLEN": b":2\r\n",
    "RPUSH": b":3\r\n",
}
WRONG_TYPES = {
    "LRANGE": (b"$3\r\nabc\r\n", b":7\r\n"),
    "INCR": (b"$3\r\nabc\r\n", b"*0\r\n", b"-ERR value is not an integer or out of range\r\n"),
    "LLEN": (b"$2\r\n12\r\n", b"*1\r\n:1\r\n", b"$-1\r\n", b"-WRONGTYPE the wrong kind\r\n"),
}


@pytest.mark.redis_code
def test_wrong_type_at_each_step(start: Start) -> None:
    """A reply of a wrong type to any of a visit's commands gives 502. The server closes the
    connection to Redis, because the reply may belong to another command. After an error reply the
    connection stays open."""
    replies: dict[str, bytes] = {}
    script, ended = answering(replies), []

    def counted(conversation: Conversation) -> None:
        script(conversation)
        ended.append(conversation)

    with FalseRedis(counted) as false:
        server = start(redis=false.url)
        for command, reply in ((name, one) for name, all_ in WRONG_TYPES.items() for one in all_):
            replies.update({**ANSWERS, command: reply})
            closed = len(ended) + (0 if reply.startswith(b"-") else 3)
            for _ in range(3):
                response = server.get("/guestbook")
                assert (response.status, response.field("Retry-After")) == (502, None), reply
            wait_until(lambda n=closed: len(ended) >= n, f"{reply!r} ends its connection")
        assert "unavailable" not in server.stderr
        replies.update(ANSWERS)
        assert server.get("/guestbook").status == 200
        assert_serves_without_redis(server)


@pytest.mark.shared_code
def test_no_byte_of_an_error_rules_a_terminal(start: Start) -> None:
    """The log shows Redis errors in printable ASCII only, so they cannot control a terminal."""
    with FalseRedis(_says(b"-ERR \x1b[31m \xc2\x9b31m \x9b31m \xe2\x80\xae\r\n")) as false:
        server = start(redis=false.url)
        assert server.get("/guestbook").status == 502
        assert server.stderr.endswith(" reply: ERR ?[31m ??31m ?31m ???\n")


@pytest.mark.redis_code
def test_replies_in_single_bytes(start: Start) -> None:
    """Replies that arrive byte by byte are accepted. The server sends the three commands of a visit
    one by one, each after the whole previous reply."""
    seen: list[tuple[bytes, bool]] = []

    def script(conversation: Conversation) -> None:
        while (words := conversation.next_command()) is not None:
            reply = ANSWERS.get(words[0].decode().upper(), b"+OK\r\n")
            end = time.monotonic() + 0.5  # a reply may take two seconds
            for i in range(len(reply)):
                more = conversation.has_more(0.001 if time.monotonic() < end else 0)
                seen.append((b" ".join(words), more))
                conversation.send(reply[i : i + 1])

    with FalseRedis(script) as false:
        server = start(redis=false.url)
        for _ in range(3):
            seen.clear()
            page = server.get("/guestbook").text
            assert remarks(page) == ["y - B", "x - A"]
            assert part(page, "count") == "1,234"
        assert not any(more for _, more in seen)
        key = b"guestbook_remarks"
        expected = [b"INCR visitor_count", b"LLEN " + key, b"LRANGE " + key + b" -50 -1"]
        assert list(dict.fromkeys(command for command, _ in seen)) == expected
        assert server.sign("Ann", "x").status == 303


@pytest.mark.redis_code
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_no_success_by_another_reply(start: Start, later: bool) -> None:
    """A surplus integer reply never confirms a remark that Redis refused."""
    behind = ""
    talks: list[Conversation] = []
    speaking = threading.Lock()  # held from a command to the end of its reply

    def answer(conversation: Conversation, name: str) -> None:
        if name == "RPUSH":
            too_many = b":99\r\n" if behind == "RPUSH" else b""
            conversation.send(too_many + b"-OOM command not allowed\r\n")
            return
        reply = ANSWERS.get(name, b"+OK\r\n")
        if name == behind and later:
            conversation.send(reply)
            time.sleep(0.01)
            reply = b""
        conversation.send(reply + (b":99\r\n" if name == behind else b""))

    def script(conversation: Conversation) -> None:
        talks.append(conversation)
        while conversation.has_more(None):
            with speaking:
                words = conversation.next_command()
                if words is None:
                    talks.remove(conversation)
                    return
                answer(conversation, words[0].decode().upper())

    def all_is_said() -> bool:
        with speaking:
            return not any(conversation.has_more() for conversation in talks)

    with FalseRedis(script) as false:
        server = start(redis=false.url.removesuffix("0") + "1")
        # "later" leaves out SELECT: its surplus reply would be the reply to the next command.
        first = () if later else ("SELECT",)
        for behind in (*first, "LRANGE", "INCR", "LLEN", "GET", "RPUSH"):  # noqa: B007 - answer() reads it
            for number in range(6):
                server.get("/guestbook" if number % 2 else "/go/name")
                wait_until(all_is_said, "the surplus reply arrives before the remark is posted")
                assert server.sign("Ann", "x").status in FAILED
        assert_serves_without_redis(server)


@of("preforking", "poll", "epoll")
@pytest.mark.usefixtures("own_network")
def test_no_success_by_an_early_reply(start: Start) -> None:
    """A reply that comes before the whole command was sent does not confirm the remark."""
    SEND_BUFFER.write_text("1 1 1")  # so the kernel takes only a part of the command

    def script(conversation: Conversation) -> None:
        conversation.has_more(None)
        conversation.send(b":1\r\n")

    with FalseRedis(script) as false:
        false.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        server = start("--workers", "1", redis=false.url)
        assert server.sign("A", "\U0001f600" * 1000).status == 503
        assert "too early" in server.stderr


def test_wrong_type_for_one_of_many(start: Start) -> None:
    """After a reply of a wrong type, no waiting client gets another client's reply."""

    wrong = itertools.cycle((b"", b"", b":99\r\n"))
    script = replying(lambda words: next(wrong) + link(words), 0.002)

    def visit(number: int) -> None:
        response = server.get(f"/go/{number}")
        assert response.status in (302, *FAILED)
        assert response.field("Location") in (f"/{number}", None)

    with FalseRedis(script) as false:
        server = start("--workers", "20", redis=false.url)
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(visit, range(200)))
        assert_serves_without_redis(server)


@pytest.mark.slow
@pytest.mark.shared_code
def test_suppressed_lines_are_counted(start: Start) -> None:
    """The log does not report every outage of 0.4 s; a later line counts the suppressed lines."""

    def script(conversation: Conversation) -> None:
        while int(time.monotonic() / 0.4) % 2 and conversation.next_command() is not None:
            conversation.send(b"$2\r\n/x\r\n")

    with FalseRedis(script) as false:
        server = start("--workers", "1", redis=false.url)
        begun = time.monotonic()
        while time.monotonic() - begun < 4 or "since the last line" not in server.stderr:
            server.get("/go/name")
            time.sleep(0.01)
            assert time.monotonic() - begun < TIMEOUT * PACE.slowness, server.stderr
        seconds = time.monotonic() - begun
        for words in ("is unavailable", "is back"):
            assert 1 <= server.stderr.count(words) <= seconds + 2, server.stderr


def _trickles(conversation: Conversation) -> None:
    while conversation.receive():
        conversation.send(b"*1\r\n$100000\r\n")
        while conversation.send(b"x"):
            time.sleep(0.1)


@pytest.mark.redis_code
@pytest.mark.slow
def test_half_a_reply(start: Start) -> None:
    """An incomplete reply gives 503 after the usual timeout, also if more bytes come slowly."""
    halves = (b"*2\r\n$5\r\nx - A\r\n", b"$100\r\nhalf", b"*")
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        scripts = [*map(_says, halves), _trickles]
        falses = [stack.enter_context(FalseRedis(script)) for script in scripts]
        servers = [start(redis=false.url) for false in falses]
        clients = [stack.enter_context(server.client()) for server in servers]
        for client in clients:
            client.send(request("GET", "/guestbook"))
        assert [client.read().status for client in clients] == [503] * len(scripts)
        assert time.monotonic() - begun > 1, "the server did not wait"
        for server in servers:
            assert_serves_without_redis(server)


@undisturbed_test(2.9)
def test_replies_in_their_order(start: Start) -> None:
    """Each of many waiting clients gets the reply to its own command. Replies that come slowly but
    steadily are accepted, and clients do not time out meanwhile."""
    with FalseRedis(replying(link, 0.1)) as false:
        server = start("--workers", "30", "--time-scale", "10", redis=false.url)
        with server.crowd(30, b"GET /go/") as clients:
            if not server.kind.is_stalled_by_one:
                clients[-1].wait_until_read()
            for number, client in enumerate(clients):
                client.send(request("GET", f"/go/{number}", CLOSE).removeprefix(b"GET /go/"))
            for number, client in enumerate(clients):
                assert client.read().field("Location") == f"/{number}"


@pytest.mark.slow
@of("epoll")
@undisturbed_test(2)
def test_a_long_round_is_not_taken_from_its_time(start: Start) -> None:
    """The timeout for Redis begins at the end of a loop iteration, even of a long one."""
    with FalseRedis(replying(link, 0.1)) as false, contextlib.ExitStack() as stack:
        server = start(redis=false.url)
        assert server.get("/go/name").status == 302
        with server.suspended():
            asking = stack.enter_context(server.client())
            asking.send(request("GET", "/go/name"))
            stack.enter_context(server.crowd(400, request("HEAD", "/sorted") * PIPELINED))
        assert asking.read().status == 302


# ---- Failures of single requests ----

CLIENTS = 8
POSTS = 40
LARGE = b"x" * 2_000_000


@pytest.mark.redis_code
@undisturbed_test(2)
def test_a_remark_of_another_program_is_too_large(start: Start, own: PrivateRedis) -> None:
    """A page with a too large remark gets 502, and each posted remark is stored only once."""
    server = start("--workers", "8", redis=own.url())
    client = own.client()
    client.do("DEL", "guestbook_remarks")  # from an earlier attempt
    assert server.get("/guestbook").status == 200
    client.do("RPUSH", "guestbook_remarks", LARGE)

    def post(number: int) -> int:
        return server.sign("Ann", str(number)).status

    with ThreadPoolExecutor(CLIENTS) as pool:
        both = [
            (pool.submit(post, number), pool.submit(server.get, "/guestbook"))
            for number in range(POSTS)
        ]
    assert {(posted.result(), page.result().status) for posted, page in both} == {(303, 502)}
    stored = [remark for remark in client.remarks() if remark != LARGE]
    assert sorted(stored) == sorted(b"%d - Ann" % number for number in range(POSTS))
    assert "unavailable" not in server.stderr
    assert "the reply is too large and was skipped" in server.stderr
    client.do("DEL", "guestbook_remarks")
    assert server.get("/guestbook").status == 200


@of("preforking", "epoll")
def test_large_replies_keep_the_connection(start: Start, own: PrivateRedis) -> None:
    """A reply that is too large is skipped, and later replies on its connection are used."""
    server = start("--workers", "1", redis=own.url())
    client = own.client()
    assert server.get("/guestbook").status == 200
    before = client.connections()
    for _ in range(30):  # 1.5 MB, in small parts
        client.do("RPUSH", "guestbook_remarks", b"y" * 50_000)
    for _ in range(5):
        response = server.get("/guestbook")
        assert (response.status, response.field("Retry-After")) == (502, None)
        assert server.get("/go/none").status == 404
    client.do("SET", "link:long", "/" * 10_000)
    assert server.get("/go/long").status == 502
    assert "the reply is too large and was skipped" in server.stderr
    assert client.connections() == before


@of("prethreading", "epoll")
def test_killed_connections_are_no_outage(start: Start, own: PrivateRedis) -> None:
    """After CLIENT KILL, only requests on the killed connections fail; the server reconnects."""
    server = start("--workers", "8", redis=own.url())
    own.client().do("SET", "link:name", "/there")
    assert server.get("/go/name").status == 302
    statuses: list[int] = []
    over = threading.Event()

    def visit() -> None:
        while not over.is_set():
            statuses.append(server.get("/go/name").status)

    killer = own.client()
    with ThreadPoolExecutor(8) as pool:
        visits = [pool.submit(visit) for _ in range(8)]
        for _ in range(50):
            killer.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            time.sleep(0.02)
        over.set()
    assert [one.result() for one in visits] == [None] * 8
    assert "unavailable" not in server.stderr, server.stderr
    assert set(statuses) <= {302, 503}
    assert statuses.count(503) <= 50 * 8, server.stderr


@of("preforking")
def test_a_kill_fails_one_request(start: Start, own: PrivateRedis) -> None:
    """After the first failure, the other workers check their connections before they use them."""
    server = start("--workers", "8", redis=own.url())
    killer = own.client()
    for _ in range(5):
        assert server.statuses("/go/none", 40)[503] <= 1
        killer.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@of("preforking", "epoll")
@undisturbed_test(0.7)
def test_a_slow_loss_of_a_new_connection_is_no_outage(start: Start) -> None:
    """If Redis closes a new connection before its first reply, only the request on this connection
    fails. No outage is reported if Redis replied shortly before the connection began."""
    numbers = itertools.count()

    def script(conversation: Conversation) -> None:
        number = next(numbers)
        if conversation.next_command() is None:
            return
        if number == 1:
            time.sleep(0.4)  # longer than REDIS_RETRY
        else:
            conversation.send(b"$6\r\n/there\r\n")

    with FalseRedis(script) as false:
        server = start("--workers", "1", redis=false.url)
        statuses = [server.get("/go/name").status]
        time.sleep(0.1)  # the server notices that its first connection was closed
        statuses += [server.get("/go/name").status for _ in range(2)]
        assert statuses == [302, 503, 302], server.stderr
        assert "unavailable" not in server.stderr


@pytest.mark.redis_code
@pytest.mark.slow
@pytest.mark.parametrize(("pause", "status"), [(0, 302), (0.8, 503)])
def test_one_deadline_for_a_call(start: Start, pause: float, status: int) -> None:
    """AUTH, SELECT and the command have a common timeout of 2 s."""

    def reply(words: list[bytes]) -> bytes:
        return link(words) if words[0] == b"GET" else b"+OK\r\n"

    with FalseRedis(replying(reply, pause)) as false:
        url = false.url.replace("redis://", "redis://:secret@").removesuffix("0") + "1"
        assert start("--workers", "1", redis=url).get("/go/name").status == status
