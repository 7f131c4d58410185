# SPDX-License-Identifier: MIT
"""Inspect the descriptors and other resources of a server's processes. After a check, require that
the server has leaked nothing, that all workers serve, and that a stop signal ends the server."""

import os
import re
import select
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path

from bench.grade.building import Expected
from bench.grade.findings import Failed, FaultName, NotHere
from bench.grade.scene import CLOSE, Scene
from bench.grade.server import IDLE_END_SECONDS, WORKERS, fault_of_end, is_zombie
from bench.grade.threads import ASLEEP, idle_threads, wait_for_clients
from bench.host.accounting import rusage_of_reaped
from bench.host.kernel import cpu_ticks, difference
from bench.host.sockets import ALL, LISTEN, tcp_sockets
from bench.load.client import request

SAME_FILE, MOST_FILES = 3, 68
"""The most descriptors of served files in a process: of one file, and of all files together
(OPEN_FILES in lib/config.h is 64)."""
SLACK = 4
"""The allowance for descriptors, tasks or requests of clients that are just leaving."""
EVENTS = re.compile(r"^tfd:.* events: *([0-9a-f]+)", re.MULTILINE)
"""The events of a descriptor in an epoll set (proc_pid_fdinfo(5))."""
BUSY_ROUNDS = 3
"""How often the grader waits for a traced server that is not idle: strace may lack CPU time."""
QUIET_SECONDS, RETRY_SECONDS = 0.06, 3.0
"""The time that the server must sleep, and its time limit to reconnect to Redis."""


def busy_others() -> Callable[[], float]:
    """Return a function that returns the share of all CPU time that other processes have used since
    `busy_others` was called. This process and its reaped children do not count."""
    cpus = os.sched_getaffinity(0)

    def own_seconds() -> float:
        return time.process_time() + rusage_of_reaped().total / 1e6

    before, own, begun = cpu_ticks(cpus), own_seconds(), time.monotonic()

    def share() -> float:
        passed = (time.monotonic() - begun) * len(cpus) or 1.0
        busy = difference(cpu_ticks(cpus), before).busy_share or 0.0
        return max(0.0, busy - (own_seconds() - own) / passed)

    return share


def can_look(scene: Scene) -> bool:
    """Return whether the descriptors of the server's processes can be read."""
    try:
        Path(f"/proc/{scene.pid}/exe").readlink()
    except OSError as error:  # other errors mean that the server has ended; the checks report this
        return not isinstance(error, PermissionError)
    return True


def must_look(scene: Scene) -> None:
    """Raise NotHere if `can_look` is false (e.g. in a container), because no leak can be found."""
    if not can_look(scene):
        reason = "the processes of another user cannot be inspected here"
        raise NotHere(f"{reason}; start the container with --cap-add SYS_PTRACE")


def redis_connections(scene: Scene) -> int:
    """Return the number of open connections to Redis from other processes."""
    ours = {0}  # 0: the connection has ended, and only the kernel still has it
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            ours.add(descriptor.stat().st_ino)
    return sum(one.inode not in ours for one in tcp_sockets(remote=scene.redis_port or 0))


def opened(scene: Scene) -> Iterator[list[tuple[Path, str]]]:
    """Yield a list for each process of the server: its descriptors in /proc and their targets."""
    for pid in scene.pids():
        found = []
        with suppress(OSError):  # the process has ended, or cannot be inspected
            for path in Path(f"/proc/{pid}/fd").iterdir():
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
    """Return the number of descriptors that a server without clients does not need: TCP sockets
    except listeners and connections to Redis, and files beyond SAME_FILE or MOST_FILES."""
    listeners = tcp_sockets(local=scene.address[1], states=LISTEN)
    to_redis = tcp_sockets(remote=scene.redis_port or 0, states=ALL & ~LISTEN)
    useful = {f"socket:[{one.inode}]" for one in (*listeners, *to_redis)}
    count = 0
    for descriptors in opened(scene):
        files: Counter[str] = Counter()
        for path, name in descriptors:
            if name.startswith("socket:"):
                count += name not in useful and is_tcp(path)
            else:
                files[name] += str(scene.site.root) in name
        count += sum(max(0, times - SAME_FILE) for times in files.values())
        count += max(0, files.total() - MOST_FILES)
    return count


def channels(scene: Scene) -> set[str]:
    """Return the names of the server's open pipes and non-TCP sockets, and of epoll sets, eventfds
    etc. The latter have no unique names, so they are numbered within each process."""
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


def is_edge_triggered(scene: Scene) -> bool:
    """Return whether an epoll set of the server reports a change only once (EPOLLET)."""
    for path, name in chain.from_iterable(opened(scene)):
        if name == "anon_inode:[eventpoll]":
            with suppress(OSError):
                text = (path.parents[1] / "fdinfo" / path.name).read_text()
                if any(int(events, 16) & select.EPOLLET for events in EVENTS.findall(text)):
                    return True
    return False


def mappings(scene: Scene) -> int:
    """Return the number of memory mappings of the server, e.g. for the stacks of threads."""
    count = 0
    for pid in scene.pids():
        with suppress(OSError):  # the process has ended or cannot be inspected
            count += Path(f"/proc/{pid}/maps").read_text().count("\n")
    return count


def require_alive(scene: Scene, before: Collection[int], what: str) -> None:
    """Raise Failed if a signal killed a process of the server, or if a process in `before` exited
    with an error (without a trace: ended). `what`: the events meanwhile."""
    scene.alive()
    if scene.trace is None or not scene.trace.exists():
        died = ["a signal or an exit"] * len(set(before) - set(scene.pids()))
    else:
        killed = map(str.split, scene.traced(r"\+\+\+ killed by SIG\w+"))
        exited = map(str.split, scene.traced(r"\+\+\+ exited with [1-9]\d*"))
        died = [words[-1] for words in killed]
        died += [f"exit status {words[-1]}" for words in exited if int(words[0]) in before]
    if died:
        how = ", ".join(sorted(set(died)))
        seen = f"{what}; meanwhile a process of the server ended ({how})"
        raise Failed("sigpipe" if "SIGPIPE" in died else "crash", seen)


def require_few(
    scene: Scene, count: Callable[[], int], most: int, fault: FaultName, left: str
) -> None:
    """Raise Failed unless `count` returns at most `most` in time. `left`: text; {}: the number."""
    found = most

    def are_few() -> bool:
        nonlocal found
        found = count()
        return found <= most

    for _ in range(BUSY_ROUNDS if scene.trace else 1):
        if scene.until(are_few):
            return
        scene.alive()
        busy = scene.is_busy(QUIET_SECONDS)
        if not busy:
            break
    raise Failed(fault, left.format(found), sure=not busy)


def require_closed(
    scene: Scene, seen: str, which: str = "without a client", most: int = SLACK
) -> None:
    """Raise Failed if more than `most` useless descriptors stay open. `seen`: see `Failed`."""
    left = f"{seen}; descriptors {which} that are still open: {{}}"
    require_few(scene, partial(useless_descriptors, scene), most, "descriptor-leak", left)


def require_reaped(scene: Scene, seen: str) -> None:
    """Raise Failed if the server has zombies. `seen`: see `Failed`."""
    left = f"{seen}; ended child processes in the process table (state Z): {{}}"
    require_few(scene, lambda: sum(map(is_zombie, scene.pids())), 0, "zombies", left)


def require_restored(scene: Scene, tasks: int, had_pages: bool) -> bool:
    """Raise Failed unless the server is in the same state as before the check, and ends after
    Ctrl-C. `tasks`: the number of processes and threads before; `had_pages`: whether the server has
    ever served a page with data from Redis. Return the new value of `had_pages`."""
    seen = "all clients of this check had left"
    if scene.ended is None and not scene.told:
        if can_look(scene):
            require_reaped(scene, seen)
            # Sockets to a killed Redis may stay open until the server uses them.
            require_closed(scene, seen, most=scene.killed)
        if not scene.until(lambda: scene.tasks() >= tasks):
            fewer = f"{scene.tasks()} of {tasks} processes and threads were left"
            raise Failed("workers-end", f"{seen}; {fewer}", sure=False)
        had_pages |= scene.until(lambda: scene.get("/guestbook").status == 200, RETRY_SECONDS)
        # The pages take too long with a slow Redis.
        paths = ["/guestbook"] if had_pages and not scene.slow else []
        paths += scene.site.small
        at_start = partial(
            require_capacity, seen="the server was started", paths=paths, fault="few-at-once"
        )
        with scene.control(at_start, "on a new server"):
            require_capacity(scene, seen, paths)
        scene.require_sleep(QUIET_SECONDS, seen)
        scene.interrupt()
    if scene.ended is None and not scene.end_by_itself(IDLE_END_SECONDS):
        late = f"{IDLE_END_SECONDS:.0f} s after the stop signal the server still runs"
        raise Failed("deaf", f"{seen}; {late}", sure=False)
    ended = scene.stop()
    if ended is None or ended.status != 0:
        how = ended.describe() if ended else "did not end"
        fault = fault_of_end(ended.status if ended else 0, "bad-status")
        raise Failed(fault, f"{seen}; after the stop signal the server {how}")
    counted = ended.statistics.requests if ended.statistics else None
    if (counted or 0) + SLACK < len(scene.answered):
        told = "printed no statistics" if counted is None else f"counted {counted} requests"
        seen = f"clients got {len(scene.answered)} responses; at its end the server {told}"
        raise Failed("miscounts", seen)
    return had_pages


def require_end_of_head(scene: Scene) -> None:
    """Send a request, with a pause before its last line. Raise Failed if no response arrives."""
    with scene.client() as client:
        client.send(request("GET", scene.site.first, CLOSE)[:-2])
        scene.watch.sleep(QUIET_SECONDS)
        seen = "the only client sent the empty line of a request after the other lines"
        with scene.unanswered("one-recv", seen, client.port, sure=False):
            scene.talk(client, b"\r\n")


def require_capacity(
    scene: Scene, seen: str, paths: Iterable[str], fault: FaultName = "workers-stuck"
) -> None:
    """Raise Failed unless all workers serve. One client for each worker (only one if the server
    serves one at a time) sends a request without its end. The last client sends the end first."""
    with ExitStack() as stack:
        held = []
        for path in islice(cycle(paths), WORKERS if scene.several else 1):
            client = stack.enter_context(scene.client())
            client.send(request("GET", path, CLOSE)[:-2])
            held.append((client, path))
        for number, (client, path) in enumerate(reversed(held), 1):
            what = f"{seen}; then {len(held)} clients sent half a request each; client {number}"
            try:
                with scene.unanswered(fault, what, client.port, sure=False):
                    answer = scene.talk(client, b"\r\n")
            except Failed as failed:
                if failed.fault == fault:
                    idle, served = idle_threads(scene.pids()), len(held) - number + 1
                    accepts = wait_for_clients(scene.pids())
                    stack.close()
                    require_end_of_head(scene)
                    # With more idle threads than clients, some of these threads serve no client.
                    if accepts and not failed.locked and len(idle) > served:
                        failed.seen += f"; threads that slept: {len(idle)}"
                        failed.fault, failed.proof = "lost-wakeup", (ASLEEP, idle)
                raise
            client.close()
            if answer.status != 200 and path == "/guestbook":
                lent = redis_connections(scene)
                lost: FaultName = "redis-leak" if lent >= WORKERS else "redis-not-back"
                told = f"{path} was answered {answer.status}; open Redis connections: {lent}"
                raise Failed(lost, f"{seen}; {told}", client.port, sure=False)
            scene.require(Expected(path, b"", 200, scene.site.small.get(path)), answer)
