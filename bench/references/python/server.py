# SPDX-License-Identifier: MIT
"""Serve with Python's http.server: a thread for each connection. Python's documentation does not
recommend this server for production; a WSGI or ASGI server (gunicorn, uvicorn) is usual there."""

import http.server
import sys
from http import HTTPStatus

REDIRECTS = {"/redirect": HTTPStatus.FOUND, "/old": HTTPStatus.MOVED_PERMANENTLY}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections; the default HTTP/1.0 closes them
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
            # http.server keeps this connection, but does not send the header field that ab needs.
            self.send_header("Connection", "keep-alive")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no access log, as in the seven servers."""


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = int(sys.argv[4])  # the backlog; 5 by default


with Server((sys.argv[1], int(sys.argv[2])), Handler) as server:
    server.serve_forever()
