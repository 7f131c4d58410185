# SPDX-License-Identifier: MIT
"""Ports of this host."""

import contextlib
import socket


def url_that_answers(address: str, port: int, running: bool) -> str | None:
    """The URL of an address if somebody listens there, and the one who should still runs."""
    with contextlib.suppress(OSError):
        socket.create_connection((address, port), timeout=1).close()
        return f"http://{address}:{port}/" if running else None
    return None


def free_port(address: str = "127.0.0.1") -> int:
    """A port of an address of this host that nobody uses right now. May raise OSError."""
    with socket.create_server((address, 0)) as listener:
        return int(listener.getsockname()[1])
