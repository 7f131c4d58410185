# SPDX-License-Identifier: MIT
"""Python's own http.server: a thread for each connection. Its documentation does not recommend it
for production, where a WSGI or ASGI server (gunicorn, uvicorn) would stand in its place."""

import http.server
import sys
from http import HTTPStatus

REDIRECTS = {"/redirect": HTTPStatus.FOUND, "/old": HTTPStatus.MOVED_PERMANENTLY}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # which keeps connections; the default closes them
    timeout = float(sys.argv[3]) / 1000

    def do_GET(self) -> None:
        status = REDIRECTS.get(self.path)
        if status is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(status)
        self.send_header("Location", "/guestbook")
        self.send_header("Content-Length", "0")
        if self.request_version == "HTTP/1.0" and not self.close_connection:
            # It keeps the connection of such a client, but does not tell it; ab has to be told.
            self.send_header("Connection", "keep-alive")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """No access log, as the seven have none."""


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = int(sys.argv[4])  # the backlog; 5 by default


with Server((sys.argv[1], int(sys.argv[2])), Handler) as server:
    server.serve_forever()
