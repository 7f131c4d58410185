# SPDX-License-Identifier: MIT
"""What can be measured: the servers, found in the folder listing.

A folder `NN_name/` with a `main.c` is a server, and `make all` builds it as `./name`.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.host.project import ROOT, toml_of
from bench.records.errors import UserError

_FOLDER = re.compile(r"\d\d_(?P<name>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class Server:
    """A server: its name, and the program that is started."""

    name: str
    executable: Path
    stalled_by: str = "nobody"
    """How many silent clients shut out all others, as its folder says (and the end-to-end tests
    try): "nobody", "one", as many as there are "workers"."""


def discover(root: Path = ROOT) -> list[Server]:
    """All servers of the project, in the order of their folders."""
    found = []
    for main in sorted(root.glob("[0-9][0-9]_*/main.c")):
        match = _FOLDER.fullmatch(main.parent.name)
        if match:
            stalled_by = toml_of(main.with_name("tests.toml")).get("stalled_by", "nobody")
            found.append(Server(match["name"], root / match["name"], stalled_by))
    return found


def select(known: Sequence[Server], names: Iterable[str] | None) -> list[Server]:
    """The named servers in the order given, each once; all of them for None or no names. A server
    may be named by its folder too: 07_epoll is epoll.

    Raises UserError for a name that is not known and when there is nothing to choose from.
    """
    by_name = named(known)
    matches = [(name, _FOLDER.fullmatch(name)) for name in names or by_name]
    wanted = list(dict.fromkeys(match["name"] if match else name for name, match in matches))
    require_known(wanted, list(by_name))
    return [by_name[name] for name in wanted]


def named(known: Sequence[Server]) -> dict[str, Server]:
    """By name, in the same order. Raises UserError when there are none."""
    if not known:
        raise UserError("no servers here: no folder like 07_epoll/ with a main.c")
    return {server.name: server for server in known}


def require_known(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raise UserError for names that are not known; it says which are."""
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UserError(
            f"unknown server{'s' if len(unknown) > 1 else ''}: {', '.join(unknown)}. "
            f"Known: {', '.join(known)}"
        )


def require_built(servers: Iterable[Server]) -> None:
    """Raise UserError unless the program of every server is there."""
    missing = [s.name for s in servers if not os.access(s.executable, os.X_OK)]
    if missing:
        raise UserError(f"not built yet: {', '.join(missing)}. Run: make all")
