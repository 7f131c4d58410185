# SPDX-License-Identifier: MIT
"""A mock of the part of DigitalOcean's REST interface that deploy/droplets.yml uses.

The mock follows the published description. At first a droplet is `new` and has no address; after
some queries it is `active`. Lists show a new droplet only after some queries, and a deleted
droplet for some more queries. Lists have pages, and keys are unique. Wrong tokens, bad requests and
too many requests get the documented errors.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-secret-that-nobody-prints"
LOOKS_UNTIL_LISTED = 1
LOOKS_UNTIL_ACTIVE = 3
LOOKS_UNTIL_GONE = 1
LARGEST_PAGE = 4
"""The most sizes or keys on one page of a list; so few that a short list has several pages."""

SIZES = [
    {"slug": slug, "price_hourly": price}
    for slug, price in (
        ("s-1vcpu-512mb-10gb", 0.00595),
        ("s-1vcpu-2gb", 0.01786),
        ("s-2vcpu-2gb", 0.02679),
        ("c-2", 0.0625),
        ("s-1vcpu-1gb", 0.00893),
    )
]


@dataclass
class Droplet:
    """One droplet. `looks`: how often droplets were listed since its creation or deletion."""

    number: int
    wanted: dict[str, Any]
    looks: int = 0
    deleted: bool = False

    def shown(self) -> dict[str, Any]:
        """Return the droplet as it appears in a response."""
        active = self.looks >= LOOKS_UNTIL_ACTIVE
        addresses = [
            {"ip_address": f"203.0.113.{self.number}", "type": "public"},
            {"ip_address": f"10.135.0.{self.number}", "type": "private"},
        ]
        return {
            "id": self.number,
            "name": self.wanted["name"],
            "status": "active" if active else "new",
            "tags": self.wanted["tags"],
            "size_slug": self.wanted["size"],
            "networks": {"v4": addresses if active else [], "v6": []},
        }


@dataclass
class Service:
    droplets: list[Droplet] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    busy: int = 0
    """How many of the next requests get the status 429."""
    refuse: Callable[[str], bool] = lambda _: False
    """Returns whether a droplet of this name is refused."""
    immortal: bool = False
    """Whether deletions are accepted but have no effect."""
    _made: int = 0

    def create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        missing = [name for name in ("name", "region", "size", "image") if not wanted.get(name)]
        if missing:
            return _error(422, "unprocessable_entity", f"{missing[0]} is missing")
        if not all(any(key["id"] == n for key in self.keys) for n in wanted.get("ssh_keys", [])):
            return _error(422, "unprocessable_entity", "that ssh key is not known")
        if self.refuse(wanted["name"]):
            text = "creating this/these droplet(s) will exceed your droplet limit"
            return _error(422, "unprocessable_entity", text)
        self._made += 1
        self.droplets.append(Droplet(self._made, wanted))
        return 202, {"droplet": self.droplets[-1].shown(), "links": {}}

    def look(self, tag: str) -> list[dict[str, Any]]:
        """Count a query of the list, and return the listed droplets with the tag."""
        for droplet in self.droplets:
            droplet.looks += 1
        self.droplets = [d for d in self.droplets if not (d.deleted and d.looks > LOOKS_UNTIL_GONE)]
        return [
            droplet.shown()
            for droplet in self.droplets
            if tag in droplet.wanted["tags"]
            and (droplet.deleted or droplet.looks > LOOKS_UNTIL_LISTED)
        ]

    def one(self, number: int) -> tuple[int, Any]:
        """Return the droplet of this number, even if lists do not show it yet."""
        for droplet in self.droplets:
            if droplet.number == number and not droplet.deleted:
                return 200, {"droplet": droplet.shown()}
        return _error(404, "not_found", "The resource you requested could not be found.")

    def delete(self, tag: str) -> tuple[int, Any]:
        """Delete the droplets with the tag that lists show now."""
        for droplet in self.droplets:
            known = tag in droplet.wanted["tags"] and droplet.looks >= LOOKS_UNTIL_LISTED
            if known and not droplet.deleted and not self.immortal:
                droplet.deleted, droplet.looks = True, 0
        return 204, None

    def add_key(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        if any(key["public_key"] == wanted["public_key"] for key in self.keys):
            return _error(422, "unprocessable_entity", "SSH Key is already in use on your account")
        self._made += 1
        self.keys.append({"id": self._made, **wanted})
        return 201, {"ssh_key": self.keys[-1]}


def _error(status: int, name: str, message: str) -> tuple[int, Any]:
    return status, {"id": name, "message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MockServer

    def log_message(self, *_: object) -> None:
        """Write nothing to the output of the tests."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            status, said = self._decide(json.loads(body or "{}"))
        content = b"" if said is None else json.dumps(said).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def _decide(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        service, url = self.server.service, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path, tag = url.path.removeprefix("/v2"), query.get("tag_name", "")
        service.requests.append(f"{self.command} {path}")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _error(401, "unauthorized", "Unable to authenticate you")
        if service.busy:
            service.busy -= 1
            return _error(429, "too_many_requests", "API Rate limit exceeded.")
        match self.command, path.strip("/").split("/"):
            case "GET", ["droplets"]:
                answer = self._page("droplets", service.look(tag), query)
            case "GET", ["droplets", number]:
                answer = service.one(int(number))
            case "POST", ["droplets"]:
                answer = service.create(wanted)
            case "DELETE", ["droplets"] if tag:
                answer = service.delete(tag)
            case "GET", ["sizes"]:
                answer = self._page("sizes", SIZES, query)
            case "GET", ["account", "keys"]:
                answer = self._page("ssh_keys", service.keys, query)
            case "POST", ["account", "keys"]:
                answer = service.add_key(wanted)
            case "DELETE", ["account", "keys", number]:
                service.keys = [key for key in service.keys if key["id"] != int(number)]
                answer = 204, None
            case "DELETE", ["tags", _]:
                answer = 204, None
            case _:
                answer = _error(404, "not_found", "The resource you requested could not be found.")
        return answer

    def _page(self, name: str, things: list[Any], query: dict[str, str]) -> tuple[int, Any]:
        size = min(int(query.get("per_page", 20)), LARGEST_PAGE if name != "droplets" else 200)
        number = int(query.get("page", 1))
        last = (len(things) + size - 1) // size
        pages = {"next": f"{self.path}&page={number + 1}"} if number < last else {}
        links = {"pages": pages} if pages else {}
        shown = things[(number - 1) * size : number * size]
        return 200, {name: shown, "links": links, "meta": {"total": len(things)}}


class MockServer(ThreadingHTTPServer):
    """The mock on a free port of 127.0.0.1. Use it in a `with` block."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service, self.lock = Service(), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v2"

    def __enter__(self) -> MockServer:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
