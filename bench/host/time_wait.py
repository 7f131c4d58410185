# SPDX-License-Identifier: MIT
"""Room in the kernel's memory for connections that have ended.

Whoever closes a connection first keeps it in TIME_WAIT (RFC 9293 section 3.6.1), on Linux for 60 s,
so that a segment that the other side repeats is met by somebody who knows the connection. Linux
keeps `tcp_max_tw_buckets` of them (ip-sysctl.rst) and forgets all further ones at once. A client
that is still reading and whose kernel then acknowledges something twice is reset. That is how ab
comes to "exceptions": it throws the response away, and waits for it until its time is over. With
room for 1,000 on a busy machine 13 of 40 runs for an 80 KB file failed so (500 connections, 5,000
requests), and none of 40 for the redirect, whose answer is one segment.
"""

import re
from pathlib import Path
from typing import NamedTuple

from bench.host.signals import SignalWatch
from bench.host.system_limits import text_of

REST_SECONDS = 60
"""TIME_WAIT on Linux: TCP_TIMEWAIT_LEN, which nothing changes."""
LOOK_SECONDS = 0.5


class Memory(NamedTuple):
    """Of ended connections, in numbers of them."""

    now: int
    at_most: int


def memory(proc: Path = Path("/proc")) -> Memory | None:
    """Of this network namespace; None where the kernel does not say."""
    now = re.search(r"^TCP:.* tw (\d+)", text_of(proc / "net/sockstat"), re.MULTILINE)
    at_most = text_of(proc / "sys/net/ipv4/tcp_max_tw_buckets").strip()
    return Memory(int(now[1]), int(at_most)) if now and at_most.isdigit() else None


def wait_for_room(connections: int, watch: SignalWatch, proc: Path = Path("/proc")) -> None:
    """Wait until the kernel can remember the end of so many more connections, for as long as it
    remembers one at most. Where it could not even with an empty memory: not at all. May raise
    Interrupted."""
    left = float(REST_SECONDS)
    while left > 0:
        found = memory(proc)
        if not found or connections > found.at_most or found.now + connections <= found.at_most:
            return
        watch.sleep(LOOK_SECONDS)
        left -= LOOK_SECONDS
