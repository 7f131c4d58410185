# SPDX-License-Identifier: MIT
"""The first response, with which all others are compared."""

import socket
import threading
import time

import pytest

from bench.load.client import Response
from bench.load.probe import SECONDS, ProbeError, probe, require_content
from bench.records.workloads import WORKLOADS, workload_for

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


class OneAnswer:
    def __init__(self, answer: bytes, then_close: bool = True) -> None:
        self.answer, self.then_close, self.request = answer, then_close, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        client, _ = self.listener.accept()
        with client:
            self.request = client.recv(65536)
            client.sendall(self.answer)
            if not self.then_close:
                time.sleep(5)


def test_a_right_answer() -> None:
    server = OneAnswer(HEAD + b"12345")
    answer = probe(f"{server.url}?a=1/2&b", workload_for("/x"), None)
    assert (answer.status, len(answer.body), answer.size) == (200, 5, len(HEAD) + 5)
    host = server.url.removesuffix("/x").removeprefix("http://")
    assert server.request.startswith(f"GET /x?a=1/2&b HTTP/1.0\r\nHost: {host}\r\n".encode())


def test_a_connection_that_is_kept_is_not_waited_for() -> None:
    begin = time.monotonic()
    assert probe(OneAnswer(HEAD + b"12345", False).url, workload_for("/x"), 200).status == 200
    assert time.monotonic() - begin < SECONDS


def test_a_form_is_sent() -> None:
    server = OneAnswer(b"HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n")
    assert probe(server.url, WORKLOADS["sign"], 303).status == 303
    assert server.request.startswith(b"POST /x HTTP/1.0\r\n")
    assert server.request.endswith(b"\r\n\r\nguest-name=Load+generator&guest-remarks=One+of+many")


@pytest.mark.parametrize(
    ("answer", "label", "text"),
    [
        (b"", "no answer", "the connection closed"),
        (b"hello", "no answer", "5 bytes, no HTTP head"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status 503", "got 503 and not 200"),
        (HEAD + b"123456", "wrong length", "Content-Length says 5, but 6 bytes came"),
        (HEAD + b"1234", "wrong length", "Content-Length says 5, but 4 bytes came"),
    ],
)
def test_wrong_answers(answer: bytes, label: str, text: str) -> None:
    with pytest.raises(ProbeError, match=text) as caught:
        probe(OneAnswer(answer).url, workload_for("/x"), 200)
    assert caught.value.label == label


@pytest.mark.parametrize(
    ("workload", "head", "body", "wrong"),
    [
        ("moved", b"Location: /guestbook", b"", ""),
        ("moved", b"location: http://127.0.0.1:80/guestbook", b"", ""),
        ("moved", b"Location: /guestbook/", b"", "it leads to /guestbook/ and not to /guestbook"),
        ("moved", b"X-Location: /guestbook", b"", "it leads nowhere"),
        ("hello", b"X: y", b"Hello World\n", ""),
        ("hello", b"X: y", b"Hello world\n", "12 bytes that are not public/files/hello.txt"),
        ("sorted", b"X: y", b"<li>a r b e g h j m r k</li>", "a page without '<li>a o"),
        ("link", b"X: y", b"", ""),
    ],
)
def test_the_content_of_an_answer(workload: str, head: bytes, body: bytes, wrong: str) -> None:
    answer = Response(200, b"HTTP/1.1 200 OK\r\n" + head, body)
    if not wrong:
        require_content(answer, WORKLOADS[workload])
        return
    with pytest.raises(ProbeError, match=wrong):
        require_content(answer, WORKLOADS[workload])


def test_nobody_there() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # no other program can listen at this address
        with pytest.raises(ProbeError, match="refused"):
            probe(f"http://127.0.0.1:{held.getsockname()[1]}/", workload_for("/"), None)
