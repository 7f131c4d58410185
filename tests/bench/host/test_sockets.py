# SPDX-License-Identifier: MIT
"""Real sockets are read as the kernel reports them."""

import os
import socket

import pytest

from bench.host import sockets
from bench.host.sockets import LISTEN, Socket, end, own_backlog, read, tcp_sockets


def test_the_kernel_and_the_text_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=7) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = client.getsockname()[1]
            assert [(one.received, one.unsent) for one in tcp_sockets(port, states=LISTEN)] == [
                (1, 7)
            ]
            server, _ = listener.accept()
            client.send(b"three")
            with server:
                assert (found := end(port, own)) is not None
                assert found == Socket("ESTABLISHED", port, own, 5, 0, inode(server))
                assert tcp_sockets(port, own) == [found]
                # The text may have a line twice if the table changes while it is read.
                assert {*read(port, own)} == {found}
                assert {*tcp_sockets(remote=port)} == {*read(remote=port)}
                assert {one.inode for one in tcp_sockets(port)} == {inode(listener), inode(server)}
                monkeypatch.setattr(sockets, "_SOCK_DIAG", 1000)
                assert end(port, own) == found, "if the kernel does not report it, the text says so"
                assert [*tcp_sockets(port, own), *tcp_sockets(own, port)][:1] == [found]
        assert end(port, own) is None
        assert end(port, 1) is None, "the listening socket is no connection"


def inode(of: socket.socket) -> int:
    return os.fstat(of.fileno()).st_ino


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
