"""System calls per request, as strace sees them.

What must be so: no call per byte, and one write for a response that fits. The trace slows the
server down, so now and then it has to wait where it otherwise would not: a few calls more.
"""

import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import Child, StartError
from bench.measure import load
from bench.measure.comparisons import Plan
from bench.measure.load import GUESTBOOK, REDIRECT, Load, NoFigure
from bench.measure.running import Bench, Running
from bench.records.workloads import Workload
from bench.subjects.declared import LeftOut
from bench.subjects.running import START_SECONDS
from bench.subjects.subject import Subject
from bench.sweep.loading import SETTLE_SECONDS

REQUESTS = 300
CONCURRENCY = 10
WRITES = {"write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "pwrite64"}
_CALL = re.compile(r"^\d+\s+(?P<name>[a-z_0-9]+)\((?P<rest>.*)$")


class Calls(BaseModel):
    """The calls of one server under one load."""

    server: str
    path: str
    keep_alive: bool
    per_request: dict[str, float] = {}
    """Calls per request by name, the most frequent first."""
    writes: float = 0
    """Writes to clients per request: should be one."""
    problem: str = ""

    @property
    def total(self) -> float:
        """All calls per request."""
        return sum(self.per_request.values())


def measure(plan: Plan, bench: Bench) -> list[Calls]:
    """The redirect with and without keep-alive for all servers. Raises LeftOut without strace."""
    if shutil.which("strace") is None:
        raise LeftOut("left out: install strace (apt-get install strace)")
    found = []
    for server in plan.servers():
        for workload in (REDIRECT, GUESTBOOK):
            for keep_alive in (False,) if server.always_closes else (False, True):
                mode = "keep-alive" if keep_alive else "a connection per request"
                bench.say(f"system calls: {server.name}, {workload.path}, {mode}")
                found.append(_trace(server, workload, keep_alive, bench))
    return found


def count(lines: Iterable[str]) -> Counter[str]:
    """Calls by name in the lines of `strace -f -o`; one that was interrupted counts once."""
    return Counter(match["name"] for line in lines if (match := _CALL.match(line)))


def _trace(server: Subject, workload: Workload, keep_alive: bool, bench: Bench) -> Calls:
    calls = Calls(server=server.name, path=workload.path, keep_alive=keep_alive)
    wanted = Load(workload, keep_alive, REQUESTS, CONCURRENCY, may_close=True)
    bench.redis.prepare()
    try:
        with Running(server, workload, bench, keep_alive) as running:
            load.run(wanted, running, bench)
            lines = _traced(running, wanted, bench)
    except (NoFigure, StartError) as problem:
        calls.problem = str(problem)
        return calls
    counted = count(lines)
    calls.per_request = {name: n / REQUESTS for name, n in counted.most_common()}
    others = sum(counted[name] for name in WRITES) - writes_to_redis(lines)
    calls.writes = others / REQUESTS
    return calls


def writes_to_redis(lines: Iterable[str]) -> int:
    """Writes that carry commands: these begin with the RESP sign of an array."""
    matches = (match for line in lines if (match := _CALL.match(line)))
    return sum(m["name"] in WRITES and '"*' in m["rest"][:60] for m in matches)


def _traced(running: Running, wanted: Load, bench: Bench) -> list[str]:
    """The trace of a server while it is under load. Raises NoFigure, StartError, Interrupted."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-strace-") as folder:
        file = Path(folder, "trace")
        attach = [word for pid in running.server.pids() for word in ("-p", str(pid))]
        strace = Child(["strace", "-f", "-qq", "-s", "16", "-o", str(file), *attach])
        try:
            _await_tracer(running, strace, bench)
            load.run(wanted, running, bench)
            bench.watch.sleep(SETTLE_SECONDS)
        finally:
            strace.end(number=signal.SIGINT)
        return file.read_text().splitlines()


def _await_tracer(running: Running, strace: Child, bench: Bench) -> None:
    for _ in range(int(START_SECONDS / 0.02)):
        if not strace.running():
            raise StartError(f"strace ended: {strace.stderr.strip() or 'it did not say why'}")
        if all(_is_traced(pid) for pid in running.server.pids()):
            return
        bench.watch.sleep(0.02)
    raise StartError("strace did not attach")


def _is_traced(pid: int) -> bool:
    """Whether all threads of a process have a tracer."""
    statuses = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return all("TracerPid:\t0\n" not in status for status in statuses)
