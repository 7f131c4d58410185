# SPDX-License-Identifier: MIT
"""A server with wrong answers, for the tests of the benchmark's checks.

    python broken_server.py MODE PORT

MODE is its fault, see `Handler.answer`. It serves each connection in a thread, and prints its
address like the project's servers.
"""

import itertools
import os
import socketserver
import sys
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


ANSWERS = itertools.count(1)
"""The number of the next answer, on any connection."""


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    mode = ""

    def handle(self) -> None:
        # A client that got an extra answer sends the next request before the last one is read.
        while head := self.head():
            keep = b"keep-alive" in head or (
                b"http/1.1" in head and b"connection: close" not in head
            )
            keep = keep and self.mode != "closes"
            if not self.answer(keep, b"/hello.txt" in head) or not keep:
                return

    def head(self) -> bytes:
        """Return the next request's head in lower case; empty after the last one."""
        lines = [*iter(self.rfile.readline, b"\r\n")] if self.rfile.peek(1) else []
        return b"".join(lines).lower()

    def answer(self, keep: bool, hello: bool) -> bool:
        """Send one answer; return whether the connection may continue."""
        number = next(ANSWERS)
        now_and_then = number % EVERY == 0
        page = HELLO if hello else PAGE
        if self.mode == "grows":  # no fault: a counter gains a digit
            page += str(number).encode()
        status, length = b"200 OK", len(page)
        if self.mode == "drops" and now_and_then:
            return False
        if self.mode == "silent" and now_and_then:
            time.sleep(60)
        if self.mode == "dies" and number > LIFE:
            os._exit(3)
        if self.mode == "always-errors" or (self.mode == "errors" and now_and_then):
            status = b"500 Internal Server Error"
        if self.mode == "cuts" and now_and_then:
            page = PAGE[:100]
        length += {"claims-more": 10, "claims-less": -10}.get(self.mode, 0)
        if self.mode == "cheats" and number > 1:
            page, length = b"short\n", 6  # the first answer is right, all others are not
        kept = b"keep-alive" if keep else b"close"
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n"
        twice = self.mode == "twice" and number % TWICE == 0
        self.wfile.write((head % (status, length, kept) + page) * (1 + twice))
        return not (self.mode == "cuts" and now_and_then)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 1000

    def handle_error(self, *_: object) -> None:
        """Report no client that has left."""


if __name__ == "__main__":
    Handler.mode = sys.argv[1]
    with Server(("127.0.0.1", int(sys.argv[2])), Handler) as server:
        print(f"{'url':14}http://127.0.0.1:{server.server_address[1]}/", flush=True)
        server.serve_forever()
