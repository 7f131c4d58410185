# SPDX-License-Identifier: MIT
"""The web servers of this package. Headers prevent the use of their responses by other sites."""

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TEMPLATES = Path(__file__).parent / "template"
KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action "
)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class PageHandler(BaseHTTPRequestHandler):
    """One request of a browser."""

    timeout = 10.0
    """The seconds after which a silent connection is closed. Browsers open connections in advance,
    and each connection occupies a thread."""
    form_action = "'none'"
    """The addresses to which forms of the page may be sent (Content Security Policy)."""

    def answer(
        self,
        status: HTTPStatus,
        kind: str = "text/plain; charset=utf-8",
        text: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a response. If `text` is empty, the body is the status phrase (204: no body)."""
        body = b"" if status is HTTPStatus.NO_CONTENT else (text or status.phrase).encode()
        said = {"Content-Type": kind, "Content-Length": str(len(body))}
        self.head(status, said | (headers or {}))
        self.wfile.write(body)

    def answer_file(self, path: str) -> None:
        """Send a style sheet or a script of the folder `template`. The caller checks `path`."""
        file = TEMPLATES / path.removeprefix("/")
        self.answer(HTTPStatus.OK, KINDS[file.suffix], file.read_text())

    def head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        """Send the status and the headers."""
        self.send_response(status)
        policy = {"Content-Security-Policy": POLICY + self.form_action}
        for name, value in (HEADERS | policy | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing, because the terminal shows the output of the servers."""


class PageServer(ThreadingHTTPServer):
    """A web server that answers requests in threads of this program. Call `close` at the end."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[PageHandler]) -> None:
        """Listen on the address, and begin to answer. Raises OSError."""
        super().__init__(address, handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
