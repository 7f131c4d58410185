# SPDX-License-Identifier: MIT
"""A server with one fault, for the tests of the benchmark's checks and of the robustness test.

    python broken_server.py MODE PORT REDIS_URL

MODE is the fault, see `Handler` and `Server`; the mode "good" has no fault. The server serves the
pages that load generators and visitors request, with a thread for each connection. It prints its
address like the project's servers.
"""

import itertools
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

import redis

FILES = Path(__file__).resolve().parents[2] / "public" / "files"
PAGE = b'<ul><li class="remark">' + b"x" * 500 + b"</ul>\n"
"""The part of a guestbook page that the check of the first response needs."""
EVERY = 100
"""An intermittent fault happens in every Nth response."""
TWICE = 10
"""A surplus response follows every Nth response. On a kept connection, a client takes it for the
next response, so only a surplus response to the last request is detected."""
LIFE = 250
"""The number of responses before the server ends in the mode "dies"."""
CROWD = 60
"""More simultaneous connections than this mean that an attack has begun; visitors open fewer."""
ANSWERS = itertools.count(1)
"""Counts the answers on all connections."""


class Handler(socketserver.StreamRequestHandler):
    server: "Server"

    def handle(self) -> None:
        self.server.enter()
        while request := self.read():
            head = request.lower()
            keep = b"keep-alive" in head or (
                b"http/1.1" in head and b"connection: close" not in head
            )
            keep = keep and self.server.mode != "closes"
            if not self.answer(request, keep) or not keep:
                return
        if self.server.mode == "leaks":
            self.server.kept.append(self.request)

    def finish(self) -> None:
        super().finish()
        with self.server.lock:
            self.server.at_once -= 1

    def read(self) -> bytes:
        """Return a whole request; empty if the client closes before the end of the request."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (line := self.rfile.readline()):
                return b""
            head += line
        length = re.search(rb"content-length: *(\d+)", head.lower())
        return head + self.rfile.read(int(length[1]) if length else 0)

    def answer(self, request: bytes, keep: bool) -> bool:
        """Send one answer; return whether the connection can serve another request."""
        mode, number = self.server.mode, next(ANSWERS)
        now_and_then = number % EVERY == 0
        status, page = self.server.page(request)
        if mode == "grows":  # not a fault: a counter gains a digit
            page += str(number).encode()
        length = len(page)
        if mode == "drops" and now_and_then:
            return False
        if mode == "silent" and now_and_then:
            time.sleep(60)
        if mode == "dies" and number > LIFE:
            os._exit(3)
        if mode == "always-errors" or (mode == "errors" and now_and_then):
            status = b"500 Internal Server Error"
        if mode == "cuts" and now_and_then:
            page = PAGE[:100]
        length += {"claims-more": 10, "claims-less": -10}.get(mode, 0)
        if mode == "cheats" and number > 1:
            page, length = b"short\n", 6  # the first answer is right, all others are not
        kept = b"keep-alive" if keep else b"close"
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n"
        twice = mode == "twice" and number % TWICE == 0
        self.wfile.write((head % (status, length, kept) + page) * (1 + twice))
        return not (mode == "cuts" and now_and_then)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 1000

    def __init__(self, mode: str, port: str, url: str) -> None:
        super().__init__(("127.0.0.1", int(port)), Handler)
        self.mode, self.remarks, self.at_once = mode, 0, 0
        self.hurt = self.littered = False
        """Whether an attack has begun, and whether a process was left running."""
        self.lock, self.redis = threading.Lock(), redis.Redis.from_url(url)
        self.kept = list[socket.socket]()

    def handle_error(self, *_: object) -> None:
        """Do not report clients that have closed their connections."""

    def shutdown_request(self, request: socket.socket) -> None:
        if request not in self.kept:
            super().shutdown_request(request)

    def enter(self) -> None:
        with self.lock:
            self.at_once += 1
            self.hurt = self.hurt or self.at_once > CROWD
            if self.hurt and self.mode == "litters" and not self.littered:
                subprocess.Popen(["sleep", "60"])
                self.littered = True
        if self.hurt and self.mode == "dies-in-crowd":
            os._exit(3)

    def page(self, request: bytes) -> tuple[bytes, bytes]:
        """Return the status and the body of the answer."""
        if self.hurt and self.mode == "hangs":
            time.sleep(60)
        path = request.split(b" ", 2)[1].decode()
        if request.startswith(b"POST"):
            self.store(request.partition(b"\r\n\r\n")[2].decode())
            return b"303 See Other", b""
        if path == "/redirect":
            return b"302 Found", b""
        if path.startswith("/files/"):
            content = (FILES / path.removeprefix("/files/")).read_bytes()
            return b"200 OK", content[::-1] if self.hurt and self.mode == "spoils" else content
        return b"200 OK", PAGE

    def store(self, form: str) -> None:
        with self.lock:
            self.remarks += 1
            forgotten = self.mode == "forgets" and self.remarks % 10 == 0
        remark = f"{parse_qs(form)['guest-remarks'][0]} - Visitor"
        for _ in range(0 if forgotten else 2 if self.mode == "repeats" else 1):
            self.redis.rpush("guestbook_remarks", remark)


if __name__ == "__main__":
    end_status = 7 if sys.argv[1] == "ends-badly" else 0
    signal.signal(signal.SIGTERM, lambda *_: os._exit(end_status))
    with Server(*sys.argv[1:]) as server:
        print(f"{'url':14}http://127.0.0.1:{server.server_address[1]}/", flush=True)
        server.serve_forever()
