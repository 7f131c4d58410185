# SPDX-License-Identifier: MIT
"""Connect to a lab's hosts, and pass the open connections to ssh on this machine.

The hosts' network has no connection to other networks. The keeper, which is in the hosts' network,
connects on request and passes the open connection through a Unix socket in the lab's folder. As a
program (the ProxyCommand in ssh_config), this file requests a connection and passes it to ssh:

    python3 -I lab/relay.py SOCKET ADDRESS

A user who may open the folder can use ssh without sudo. The relay copies no data.
"""

import os
import socket
import socketserver
import sys
import threading
from pathlib import Path

SSH_PORT = 22
SECONDS = 10.0


class Relay(socketserver.ThreadingUnixStreamServer):
    """A server on a Unix socket that passes connections to ssh (port 22) on the lab's hosts."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, file: Path, addresses: set[str]) -> None:
        """Start the server on a new socket `file`, which the owner of its folder may use."""
        self.addresses = addresses
        super().__init__(str(file), _Visit)
        folder = file.parent.stat()
        os.chown(file, folder.st_uid, folder.st_gid)
        options = {"poll_interval": 3600}
        threading.Thread(target=self.serve_forever, kwargs=options, daemon=True).start()


class _Visit(socketserver.StreamRequestHandler):
    """Reads a line with an address; sends an empty line with the connection, or an error."""

    timeout = SECONDS
    server: Relay

    def handle(self) -> None:
        address = self.rfile.readline(100).decode(errors="replace").strip()
        if address not in self.server.addresses:
            self.wfile.write(f"no host {address} in this lab\n".encode())
            return
        try:
            with socket.create_connection((address, SSH_PORT), SECONDS) as connection:
                connection.setblocking(True)
                socket.send_fds(self.connection, [b"\n"], [connection.fileno()])
        except OSError as error:
            self.wfile.write(f"no connection to {address}: {error}\n".encode())


def main() -> int:
    """Request a connection to a host and pass it to ssh through this program's output, a socket."""
    _, file, address = sys.argv
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2 * SECONDS)
            client.connect(file)
            client.sendall(f"{address}\n".encode())
            answer, connections, _, _ = socket.recv_fds(client, 200, 1)
        if not connections:
            raise OSError(answer.decode(errors="replace").strip() or "no answer")
    except OSError as error:
        print(f"lab: {file}: {error}", file=sys.stderr)
        return 1
    with socket.socket(fileno=os.dup(1)) as ssh:
        socket.send_fds(ssh, [b"\0"], connections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
