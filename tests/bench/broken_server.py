# SPDX-License-Identifier: MIT
"""A server with wrong answers, for the tests of the benchmark's checks.

    python broken_server.py MODE PORT

MODE is its fault, see `Fault`. It serves each connection in a thread, and prints its address like
the project's servers.
"""

import os
import socket
import sys
import threading
import time

PAGE = b'<ul><li class="remark">' + b"x" * 500 + b"</ul>\n"
"""A guestbook page, as far as the first response is checked."""
HELLO = b"Hello World\n"
"""The page for which all responses have one known length."""
EVERY = 100
"""An intermittent fault happens in every Nth response."""
TWICE = 10
"""A surplus response follows every Nth one. On a kept connection only those of the last requests
can be distinguished from the next response."""
LIFE = 250
"""The number of responses before it dies."""


class Server:
    """The server; its counter is shared by all its answers."""

    def __init__(self, mode: str, port: int) -> None:
        self.mode = mode
        self.answers = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1000)

    def run(self) -> None:
        """Serve for ever, or until it dies."""
        port = self.listener.getsockname()[1]
        print(f"{'url':14}http://127.0.0.1:{port}/", flush=True)
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        received = b""
        with client:
            while True:
                while b"\r\n\r\n" not in received:
                    piece = client.recv(65536)
                    if not piece:
                        return
                    received += piece
                # A client that got an extra answer sends the next request before the last one is
                # read.
                request, _, received = received.partition(b"\r\n\r\n")
                keep = b"keep-alive" in request.lower() or b"HTTP/1.1" in request
                keep = (
                    keep and self.mode != "closes" and b"connection: close" not in request.lower()
                )
                try:
                    if not self.answer(client, keep, b"/hello.txt" in request) or not keep:
                        return
                except OSError:
                    return

    def answer(self, client: socket.socket, keep: bool, hello: bool) -> bool:
        """Send one answer; return whether the connection may continue."""
        with self.lock:
            self.answers += 1
            number = self.answers
        now_and_then = number % EVERY == 0
        page = HELLO if hello else PAGE
        status, length = b"200 OK", len(page)
        if self.mode == "grows":  # no fault: a counter gains a digit
            page = PAGE + str(number).encode()
            length = len(page)
        if self.mode == "drops" and now_and_then:
            return False
        if self.mode == "silent" and now_and_then:
            time.sleep(60)
        if self.mode == "dies" and number > LIFE:
            os._exit(3)
        if self.mode == "errors" and now_and_then:
            status = b"500 Internal Server Error"
        if self.mode == "always-errors":
            status = b"500 Internal Server Error"
        if self.mode == "cuts" and now_and_then:
            page = PAGE[:100]
        if self.mode == "claims-more":
            length += 10
        if self.mode == "claims-less":
            length -= 10
        if self.mode == "cheats" and number > 1:
            page, length = b"short\n", 6  # the first answer is right, all others are not
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n" % (
            status,
            length,
            b"keep-alive" if keep else b"close",
        )
        client.sendall(head + page)
        if self.mode == "twice" and number % TWICE == 0:
            client.sendall(head + page)
        return not (self.mode == "cuts" and now_and_then)


if __name__ == "__main__":
    Server(sys.argv[1], int(sys.argv[2])).run()
