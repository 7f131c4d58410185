# SPDX-License-Identifier: MIT
"""Which descriptors the processes of a server have open, from /proc/PID/fd."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.grade.scene import Scene
from bench.grade.stage import NotHere
from bench.host.sockets import ALL, LISTEN, tcp_sockets

SAME_FILE = 3
"""So many descriptors of one file a process may have."""


def must_look(scene: Scene) -> None:
    """Raises NotHere where what its processes hold may not be looked at: in a container without
    that right all would be found in order."""
    try:
        Path(f"/proc/{scene.pid}/exe").readlink()
    except PermissionError as error:
        raise NotHere(
            "another user's processes may not be looked at here; a container needs "
            "--cap-add SYS_PTRACE for that"
        ) from error
    except OSError:
        pass  # it has ended: the checks say so


def opened(scene: Scene) -> Iterator[list[tuple[Path, str]]]:
    """For each of its processes: its descriptors in /proc, and what they lead to."""
    for pid in scene.there():
        found = []
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append((path, str(path.readlink())))
        yield found


def is_tcp(path: Path) -> bool:
    """Whether a socket is one of TCP; True if the kernel does not tell."""
    try:
        return b"TCP" in os.getxattr(path, "system.sockprotoname")
    except OSError:
        return True


def useless_descriptors(scene: Scene) -> int:
    """How many its processes have open that lead nowhere: TCP sockets that neither listen nor lead
    to Redis, and of one file more than a few."""
    redis_port = scene.redis_port or 0
    useful = {
        f"socket:[{one.inode}]"
        for one in [
            *tcp_sockets(local=scene.address[1], states=LISTEN),
            *tcp_sockets(remote=redis_port, states=ALL & ~LISTEN),
        ]
    }
    count = 0
    for descriptors in opened(scene):
        files: Counter[str] = Counter()
        for path, name in descriptors:
            if name.startswith("socket:"):
                count += name not in useful and is_tcp(path)
            else:
                files[name] += str(scene.site.root) in name
        count += sum(max(0, times - SAME_FILE) for times in files.values())
    return count


def channels(scene: Scene) -> set[str]:
    """The pipes and the sockets that are not TCP which its processes have open. Of epoll sets,
    eventfds and the like, which have no names of their own: as many as one process has."""
    found: set[str] = set()
    for descriptors in opened(scene):
        nameless: Counter[str] = Counter()
        for path, name in descriptors:
            if name.startswith("anon_inode:"):
                nameless[name] += 1
            elif name.startswith("pipe:") or (name.startswith("socket:") and not is_tcp(path)):
                found.add(name)
        found |= {f"{name} {i}" for name, times in nameless.items() for i in range(times)}
    return found
