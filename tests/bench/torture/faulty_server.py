# SPDX-License-Identifier: MIT
"""A server with one fault, for the tests of the robustness test.

    python faulty_server.py MODE PORT REDIS_URL FILE

MODE is its fault, see `Server`; "good" has none. It serves the pages that visitors request (FILE is
the small one), each connection in a thread, and prints its address like the project's servers.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs

import redis

PAGE = b"<html>a guestbook</html>\n"
CROWD = 60
"""More simultaneous connections than the visitors have: an attack has begun."""


class Server:
    def __init__(self, mode: str, port: int, url: str, file: str) -> None:
        self.mode, self.remarks, self.at_once = mode, 0, 0
        self.hurt = False
        """There has been a crowd."""
        self.littered = False
        self.lock = threading.Lock()
        self.redis = redis.Redis.from_url(url)
        with open(file, "rb") as content:  # noqa: PTH123  it is a script, not a module
            self.small = content.read()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1000)
        self.kept: list[socket.socket] = []

    def run(self) -> None:
        """Serve until SIGTERM."""
        print(f"{'url':14}http://127.0.0.1:{self.listener.getsockname()[1]}/", flush=True)
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with self.lock:
            self.at_once += 1
            self.hurt = self.hurt or self.at_once > CROWD
            litters = self.hurt and self.mode == "litters" and not self.littered
            self.littered = self.littered or litters
        if self.hurt and self.mode == "dies":
            os._exit(3)
        if litters:
            subprocess.Popen(["sleep", "60"])
        try:
            request = read(client)
            if self.hurt and self.mode == "hangs":
                time.sleep(60)
            if request:
                client.sendall(self.answer(request))
        except OSError:
            pass
        finally:
            with self.lock:
                self.at_once -= 1
            if self.mode == "leaks" and not request:
                self.kept.append(client)
            else:
                client.close()

    def answer(self, request: bytes) -> bytes:
        """Send a whole answer."""
        line, _, rest = request.partition(b"\r\n")
        if line.startswith(b"POST"):
            self.store(rest.partition(b"\r\n\r\n")[2].decode())
            return answer(b"303 See Other", b"")
        if b"/redirect" in line:
            return answer(b"302 Found", b"")
        if b"/files/" in line:
            return answer(b"200 OK", self.small[::-1] if self.spoilt() else self.small)
        return answer(b"200 OK", PAGE)

    def spoilt(self) -> bool:
        """Return whether it serves what it must not."""
        return self.hurt and self.mode == "spoils"

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
    """Send an answer with its head."""
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


def main() -> None:
    mode, port, url, file = sys.argv[1:]

    def end(*_: object) -> None:
        os._exit(7 if mode == "ends-badly" else 0)

    signal.signal(signal.SIGTERM, end)
    Server(mode, int(port), url, file).run()


if __name__ == "__main__":
    main()
