# SPDX-License-Identifier: MIT
"""Real sockets, as the kernel tells them."""

from __future__ import annotations

import socket

from bench.host.sock_diag import own_backlog


def test_a_backlog_that_is_the_servers_own_and_not_the_kernels() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=7) as short,
        socket.create_server(("127.0.0.1", 0), backlog=9) as longer,
        socket.create_server(("127.0.0.1", 0), backlog=2**31 - 1) as longest,
    ):
        ports = [one.getsockname()[1] for one in (longest, longer, short)]
        assert own_backlog(ports) == 7
        assert own_backlog(ports[:2]) == 9
        assert own_backlog(ports[:1]) is None, "the kernel lowers it, net.core.somaxconn"
