# SPDX-License-Identifier: MIT
"""The loopback interface of a network namespace."""

import fcntl
import socket
import struct

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def bring_up_loopback() -> None:
    """Bring the loopback interface up: in a new network namespace it is down. May raise OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
