# SPDX-License-Identifier: MIT
"""The open descriptors of a server's processes, from /proc/PID/fd."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.grade.scene import Scene
from bench.grade.stage import NotHere
from bench.host.sockets import ALL, LISTEN, tcp_sockets

SAME_FILE = 3
"""The number of descriptors of one file that a process may have."""


def must_look(scene: Scene) -> None:
    """Raise NotHere if the descriptors of the server's processes cannot be read. In a container
    without this right the grader would find no leak."""
    try:
        Path(f"/proc/{scene.pid}/exe").readlink()
    except PermissionError as error:
        raise NotHere(
            "the processes of another user cannot be inspected here; start the container with "
            "--cap-add SYS_PTRACE"
        ) from error
    except OSError:
        pass  # the server has ended: the checks report this


def opened(scene: Scene) -> Iterator[list[tuple[Path, str]]]:
    """Yield for each process of the server its descriptors in /proc and their targets."""
    for paths in scene.entries("fd"):
        found = []
        for path in paths:
            with suppress(OSError):
                found.append((path, str(path.readlink())))
        yield found


def is_tcp(path: Path) -> bool:
    """Return whether a socket is a TCP socket; True if the kernel does not report the protocol."""
    try:
        return b"TCP" in os.getxattr(path, "system.sockprotoname")
    except OSError:
        return True


def useless_descriptors(scene: Scene) -> int:
    """Return the number of leaked descriptors: TCP sockets that neither listen nor lead to Redis,
    and those of one file beyond SAME_FILE in a process."""
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
    """Return the names of the server's open pipes and non-TCP sockets. Epoll sets, eventfds and
    the like have no unique names: they are numbered within a process."""
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
