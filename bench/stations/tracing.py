# SPDX-License-Identifier: MIT
"""Count the system calls of servers under load with strace.

strace slows a server down, so sometimes it waits where it otherwise would not: this adds a few
calls.
"""

import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.host.kernel import text_of
from bench.host.process import Child, StartError, last_line
from bench.host.signals import SignalWatch
from bench.stations.orders import Calls

ATTACH_SECONDS = 20.0
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
"""If it is 1, a process may trace only its descendants; ptrace(2), "ptrace_scope". strace and the
server are both children of this process."""
WRITES = {"write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "pwrite64"}
_CALL = re.compile(r"^\d+\s+(?P<name>[a-z_0-9]+)\((?P<rest>.*)$")


class Tracer:
    """An strace of some processes with their threads and children. End it with `stop`."""

    def __init__(self, pids: Sequence[int], watch: SignalWatch) -> None:
        """Attach to all. Raises Interrupted, or StartError if strace is missing or not allowed."""
        if shutil.which("strace") is None:
            raise StartError("strace is not installed: apt-get install strace")
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-strace-")
        self._file = Path(self._folder.name, "trace")
        attach = [word for pid in pids for word in ("-p", str(pid))]
        words = ["strace", "-f", "-qq", "-s", "16", "-o", str(self._file), *attach]
        self._child = Child(words)
        try:
            self._await(pids, watch)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> Calls:
        """Stop tracing and return the counts."""
        self._child.end(number=signal.SIGINT)
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        self._folder.cleanup()
        counted = count(lines)
        writes = sum(counted[name] for name in WRITES) - writes_to_redis(lines)
        return Calls(by_name=dict(counted.most_common()), writes=writes)

    def _await(self, pids: Sequence[int], watch: SignalWatch) -> None:
        if self._child.until(lambda: all(map(_is_traced, pids)), ATTACH_SECONDS, watch):
            return
        if self._child.running():
            raise StartError("strace did not attach")
        said = last_line(self._child.stderr) or "no error message"
        cure = "; fix: sudo sysctl kernel.yama.ptrace_scope=0"
        yama = text_of(YAMA).strip() in ("1", "2") and "not permitted" in said
        raise StartError(f"strace ended: {said}{cure if yama else ''}")


def count(lines: Iterable[str]) -> Counter[str]:
    """Return the calls by name in the lines of `strace -f -o`; an interrupted call counts once."""
    return Counter(match["name"] for line in lines if (match := _CALL.match(line)))


def writes_to_redis(lines: Iterable[str]) -> int:
    """Return the number of writes with Redis commands, which begin with the RESP array sign `*`."""
    matches = (match for line in lines if (match := _CALL.match(line)))
    return sum(m["name"] in WRITES and '"*' in m["rest"][:60] for m in matches)


def _is_traced(pid: int) -> bool:
    """Return whether all threads of a process have a tracer."""
    statuses = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return all("TracerPid:\t0\n" not in status for status in statuses)
