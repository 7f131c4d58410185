# SPDX-License-Identifier: MIT
"""Run a server under strace during a scenario, and return the trace."""

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.host.process import SignalWatch, last_line
from bench.host.project import ROOT
from bench.load.client import Client, NoAnswer, request
from bench.records.errors import UserError
from bench.services.redis_server import PrivateRedis, SlowRedis, connect
from bench.subjects.running import RunningServer, lines_of
from bench.subjects.subject import Place, Subject, select
from bench.timeline.scenarios import Scenario, play
from bench.timeline.story import KINDS, Kind
from bench.timeline.strace import Trace, parse, sources_of

REDIS_DELAY_MS = 20.0
"""The delay of each Redis reply, which is long enough to be visible despite strace's delays."""
WORKERS = ("--workers", "4")
TRACED = (
    "accept,accept4,recvfrom,recvmsg,sendto,sendmsg,sendfile,write,writev,read,connect,close,shutdown,"
    "poll,ppoll,epoll_wait,epoll_pwait,epoll_ctl,io_uring_enter,futex,clone,clone3,fork,vfork,wait4,waitid,"
    "openat2,newfstatat,pread64,exit,exit_group"
)
END_SECONDS = 30.0
"""The time limit for strace to write its last line about the server's end."""
WARM_UP_SECONDS = 15.0
"""The time limit for each request before the scenario."""
BIG_BYTES = 12_000_000
"""The size of a file that is larger than the socket buffers."""
SETTLE_SECONDS = 0.3
"""The time until all workers sleep in their first call."""
# Without --seccomp-bpf strace would stop at each mmap, drop its cache of the program's symbols, and
# delay the next call by 20 ms.
STRACE = (
    *("strace", "-f", "--seccomp-bpf", "-DD", "-ttt", "-T", "-yy", "-k", "-s", "48"),
    *("-e", f"trace={TRACED}"),
)


class Refused(Exception):
    """Tracing is not possible on this machine; the message gives the reason."""


def require_tracing(strace: Sequence[str]) -> None:
    """Raise Refused unless strace is installed, knows the options in `strace`, and may trace.

    For example, Debian's strace for ARM does not know -k.
    """
    if shutil.which("strace") is None:
        raise Refused("strace is not installed (Debian and Ubuntu: apt-get install strace)")
    command = [word for word in strace if word != "-DD"]  # -DD would hide the status of strace
    tried = subprocess.run([*command, "-o", "/dev/null", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise Refused(f"strace cannot trace here: {last_line(tried.stderr)}")


def traced(subject: Subject, output: Path, site: Path) -> Subject:
    """Return a server that runs under strace. With -DD strace is not the server's parent: the
    started process is the server itself."""

    def command(place: Place) -> list[str]:
        own = [*subject.command(place), "--root", str(site), *WORKERS]
        return [*STRACE, "-o", str(output), *own]

    return replace(subject, command=command)


def record(names: Sequence[str], scenario: Scenario, watch: SignalWatch) -> list[Trace]:
    """Return the traces of the named servers. Raises UserError, Refused."""
    require_tracing(STRACE)
    servers = select(names)
    with tempfile.TemporaryDirectory(prefix="zerohttpd-timeline-") as folder:
        site = make_site(Path(folder, "site"), scenario)
        return [_record_one(server, scenario, site, Path(folder), watch) for server in servers]


def make_site(site: Path, scenario: Scenario) -> Path:
    """Create a folder with the files that servers send, and a large file for each slow reader."""
    for name in ("public", "templates"):
        shutil.copytree(ROOT / name, site / name)
    shutil.copy(ROOT / "redirects", site)
    for step in scenario.steps:
        if step.reads_slowly:
            with (site / "public" / step.path.lstrip("/")).open("wb") as big:
                big.truncate(BIG_BYTES)
    return site


def _record_one(
    subject: Subject, scenario: Scenario, site: Path, folder: Path, watch: SignalWatch
) -> Trace:
    output = folder / f"{subject.name}.trace"
    with PrivateRedis((), watch) as redis:
        redis.prepare()
        with connect(redis.url) as client:
            redis_process = int(client.info("server")["process_id"])
        with contextlib.closing(SlowRedis(redis.url, REDIS_DELAY_MS, (), watch)) as slow:
            place = Place(slow.url, folder)
            running = RunningServer(traced(subject, output, site), place, (), watch)
            try:
                to = urlsplit(running.url)
                address = (to.hostname or "", to.port or 80)
                _warm_up(address)
                watch.sleep(SETTLE_SECONDS)
                said = lines_of(running.stdout).get("architecture", "")
                origin, requests = play(scenario, address, running.pid, redis_process)
            finally:
                running.stop()
    assert subject.executable is not None
    text = _whole(output, running.pid, watch)
    calls, ends = parse(text, sources_of(text, subject.executable))
    since = origin - 0.02
    return Trace(
        server=subject.name,
        summary=said.removeprefix(f"{subject.name}: "),
        scenario=scenario.name,
        first=running.pid,
        redis_port=urlsplit(slow.url).port or 6379,
        origin=origin,
        requests=requests,
        # Earlier calls are dropped, except creations of tasks.
        calls=[
            call
            for call in calls
            if call.end is None or call.end >= since or KINDS.get(call.name) is Kind.CREATE
        ],
        ends=ends,
    )


def _whole(output: Path, first: int, watch: SignalWatch) -> str:
    """Wait until the trace has the end of the first process; return the trace. Raises UserError."""
    end = re.compile(rf"^{first} .*\+\+\+ .* \+\+\+$", re.MULTILINE)
    if watch.until(lambda: end.search(output.read_text(errors="replace")), END_SECONDS, 0.05):
        return output.read_text(errors="replace")
    raise UserError(f"strace did not end within {END_SECONDS:.0f} s; try again on an idle machine")


def _warm_up(address: tuple[str, int]) -> None:
    """Send requests, four at a time, so that files and Redis connections are open, and that every
    worker is in the trace."""

    def visit(_: int) -> None:
        with contextlib.suppress(OSError, NoAnswer), Client(address, WARM_UP_SECONDS) as client:
            client.ask(request("GET", "/guestbook", "Connection: close"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(visit, range(16)))
