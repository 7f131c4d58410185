# SPDX-License-Identifier: MIT
"""The end of a client or process leaves no process or descriptor behind."""

import os
import signal

from .. import processes
from ..claims import CLOSE, crowd, of
from ..client import Client, fetch, request, send_to_end
from ..conftest import Start
from ..harness import Server
from ..sockets import listens
from ..timing import wait_until


def test_death_of_the_parent(start: Start) -> None:
    """If the parent is killed, every child ends immediately."""
    server = start("--workers", "5")
    with crowd(server, 5, b"") as clients:
        for client in clients if server.kind.keeps_alive else clients[:1]:
            client.exchange(request("GET", "/guestbook"))
        server.send_signal(signal.SIGKILL)
        server.wait()
        wait_until(lambda: not processes.living(server.pid), "all children end")
        processes.reap_orphans(server.pid)
    # The kernel ends operations of io_uring a little later than the process.
    wait_until(lambda: not listens(server.port), "no process listens")


def _wait_until_at_rest(server: Server) -> None:
    """Wait until only the server and its four workers are left, and no zombies."""
    wait_until(lambda: server.is_at_rest(4), "the server is at rest")


def test_no_descriptors_left_open(start: Start) -> None:
    """The server closes descriptors and reaps children, however clients leave."""
    server = start()

    def work() -> None:
        for raw in (
            request("GET", "/guestbook", CLOSE),
            b"nonsense\r\n\r\n",
            request("GET", "/t/80k.bin", CLOSE),
            request("GET", "/t", CLOSE),  # a folder: redirected to /t/
            request("GET", "/t/nothing", CLOSE),
        ):
            for _ in range(20):
                send_to_end(server, raw)
        for _ in range(20):
            client = Client(server)
            client.send(request("GET", "/t/big.bin"))
            client.reset()

    def descriptors() -> int:
        return sum(len(processes.descriptors(pid)) for pid in server.pids())

    work()
    _wait_until_at_rest(server)
    before = descriptors()
    for _ in range(3):
        work()
    # A leak would leave at least 60 of 360 descriptors; a pool of Redis connections may grow to 20.
    wait_until(lambda: descriptors() <= before + 40, f"back to about {before} descriptors")


@of("forking", "preforking", "multicore")
def test_end_of_a_child(start: Start) -> None:
    """If a child gets SIGTERM, only its connection ends, and a worker is replaced. The child does
    not close the listening socket of other workers. (A crash: kinds/test_claims_limits.py.)"""
    server = start()
    with Client(server) as client:
        client.send_read(b"GET / HT")
        child = server.children()[-1]
        os.kill(child, signal.SIGTERM)
        client.close()
        # Before the child terminates, the kernel may still give it a client.
        wait_until(lambda: child not in server.children(), "the child has terminated")
        for _ in range(8):
            assert fetch(server, "/guestbook").status == 200
    _wait_until_at_rest(server)


def test_child_of_a_shell_is_not_waited_for(start: Start) -> None:
    """The server does not wait for a child of the shell that executed the server."""
    server = start(prefix=("sh", "-c", 'sleep 600 & exec "$0" "$@"'))
    assert fetch(server, "/t/digits.txt").status == 200
    assert server.stop() == 0
    assert len(processes.living(server.pid)) == 1
    processes.kill_session(server.pid)
