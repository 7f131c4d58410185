# SPDX-License-Identifier: MIT
"""A server with one fault, for the tests of the robustness test.

    python faulty_server.py MODE PORT REDIS_URL FILE

MODE is its fault, see `Server`; "good" has none. It serves the pages that visitors request (FILE is
the small one), each connection in a thread, and prints its address like the project's servers.
"""

import os
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

PAGE = b"<html>a guestbook</html>\n"
CROWD = 60
"""More simultaneous connections than the visitors have: an attack has begun."""


class Handler(socketserver.BaseRequestHandler):
    """One connection, with one request."""

    server: "Server"

    def handle(self) -> None:
        server = self.server
        server.enter()
        if server.hurt and server.mode == "dies":
            os._exit(3)
        if request := read(self.request):
            if server.hurt and server.mode == "hangs":
                time.sleep(60)
            self.request.sendall(server.answer(request))
        elif server.mode == "leaks":
            server.kept.append(self.request)

    def finish(self) -> None:
        with self.server.lock:
            self.server.at_once -= 1


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 1000

    def __init__(self, mode: str, port: str, url: str, file: str) -> None:
        super().__init__(("127.0.0.1", int(port)), Handler)
        self.mode, self.remarks, self.at_once = mode, 0, 0
        self.hurt = self.littered = False
        """There has been a crowd; a process was left."""
        self.lock, self.redis = threading.Lock(), redis.Redis.from_url(url)
        self.small, self.kept = Path(file).read_bytes(), list[socket.socket]()

    def handle_error(self, *_: object) -> None:
        """Report no client that has left."""

    def shutdown_request(self, request: socket.socket) -> None:
        if request not in self.kept:
            super().shutdown_request(request)

    def enter(self) -> None:
        """Count one more connection."""
        with self.lock:
            self.at_once += 1
            self.hurt = self.hurt or self.at_once > CROWD
            if self.hurt and self.mode == "litters" and not self.littered:
                subprocess.Popen(["sleep", "60"])
                self.littered = True

    def answer(self, request: bytes) -> bytes:
        """Return a whole answer."""
        line, _, rest = request.partition(b"\r\n")
        if line.startswith(b"POST"):
            self.store(rest.partition(b"\r\n\r\n")[2].decode())
            return answer(b"303 See Other", b"")
        if b"/redirect" in line:
            return answer(b"302 Found", b"")
        if b"/files/" in line:
            spoilt = self.hurt and self.mode == "spoils"
            return answer(b"200 OK", self.small[::-1] if spoilt else self.small)
        return answer(b"200 OK", PAGE)

    def store(self, form: str) -> None:
        with self.lock:
            self.remarks += 1
            forgotten = self.mode == "forgets" and self.remarks % 10 == 0
        remark = f"{parse_qs(form)['guest-remarks'][0]} - Visitor"
        for _ in range(0 if forgotten else 2 if self.mode == "repeats" else 1):
            self.redis.rpush("guestbook_remarks", remark)


def read(client: socket.socket) -> bytes:
    """Return a whole request; empty if the client leaves before its end."""
    request = b""
    while b"\r\n\r\n" not in request:
        piece = client.recv(65536)
        if not piece:
            return b""
        request += piece
    return request


def answer(status: bytes, body: bytes) -> bytes:
    """Return an answer with its head."""
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, len(body)) + body


if __name__ == "__main__":
    end_status = 7 if sys.argv[1] == "ends-badly" else 0
    signal.signal(signal.SIGTERM, lambda *_: os._exit(end_status))
    with Server(*sys.argv[1:]) as server:
        print(f"{'url':14}http://127.0.0.1:{server.server_address[1]}/", flush=True)
        server.serve_forever()
