# SPDX-License-Identifier: MIT
"""Runs a server under strace while a scenario is played to it, and keeps what strace wrote."""

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.host.process import StartError, last_line
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import UserError
from bench.services.private_redis import PrivateRedis
from bench.services.redis_server import connect
from bench.services.slow_redis import SlowRedis
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, Subject, select, server_names
from bench.timeline.recording import HEADING, Setting
from bench.timeline.scenarios import BIG, BIG_BYTES, Scenario, play
from bench.timeline.strace import with_sources

REDIS_DELAY_MS = 20.0
"""Each reply of Redis comes so much later: a wait that can be seen beside the tracer's own."""
WORKERS = ("--workers", "4")
TRACED = (
    "accept,accept4,recvfrom,recvmsg,sendto,sendmsg,sendfile,write,writev,read,connect,close,shutdown,"
    "poll,ppoll,epoll_wait,epoll_pwait,epoll_ctl,futex,clone,clone3,fork,vfork,wait4,waitid,"
    "openat2,newfstatat,pread64,exit,exit_group"
)
END_SECONDS = 30.0
"""Within which strace writes its last line, the server's end."""
SETTLE_SECONDS = 0.3
"""Until all workers sleep in their first call."""
# Without --seccomp-bpf each mmap would be stopped too, at which strace forgets what it knows of the
# program's symbols: 20 ms more for the next call.
STRACE = (
    *("strace", "-f", "--seccomp-bpf", "-DD", "-ttt", "-T", "-yy", "-k", "-s", "48"),
    *("-e", f"trace={TRACED}"),
)


class Refused(Exception):
    """This machine lets nobody be traced, or has no strace; the message says which."""


def require_tracing(strace: Sequence[str]) -> None:
    """Raises Refused unless strace is there, knows these options, and may trace.

    Debian's strace for ARM, for one, knows no -k.
    """
    if shutil.which("strace") is None:
        raise Refused("strace is not installed (Debian and Ubuntu: apt-get install strace)")
    told = [word for word in strace if word != "-DD"]  # with it the status is the program's
    tried = subprocess.run([*told, "-o", "/dev/null", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise Refused(f"strace may not trace here: {last_line(tried.stderr)}")


def traced(subject: Subject, output: Path, site: Path) -> Subject:
    """The same subject, started by strace, which is not its parent (-DD, in a process group of its
    own): the process that we started and end is the server itself."""

    def command(place: Place) -> list[str]:
        own = [*subject.command(place), "--root", str(site), *WORKERS]
        return [*STRACE, "-o", str(output), *own]

    return replace(subject, command=command)


def record(names: Sequence[str] | None, scenario: Scenario, watch: SignalWatch) -> list[str]:
    """Traces of the named servers (all: None), one text each. Raises UserError, Refused."""
    require_tracing(STRACE)
    servers = select(server_names(names))
    with tempfile.TemporaryDirectory(prefix="zerohttpd-timeline-") as folder:
        site = make_site(Path(folder, "site"))
        return [_record_one(server, scenario, site, Path(folder), watch) for server in servers]


def make_site(site: Path) -> Path:
    """The project's own, and a file that no buffer holds."""
    for name in ("public", "templates"):
        shutil.copytree(ROOT / name, site / name)
    shutil.copy(ROOT / "redirects", site)
    with (site / "public" / BIG.lstrip("/")).open("wb") as big:
        big.truncate(BIG_BYTES)
    return site


def _record_one(
    subject: Subject, scenario: Scenario, site: Path, folder: Path, watch: SignalWatch
) -> str:
    output = folder / f"{subject.name}.trace"
    with PrivateRedis((), watch) as redis:
        redis.prepare()
        with connect(redis.url) as client:
            redis_process = int(client.info("server")["process_id"])
        with contextlib.closing(SlowRedis(redis.url, REDIS_DELAY_MS, (), watch)) as slow:
            try:
                place = Place(slow.url, folder)
                running = RunningServer(traced(subject, output, site), place, (), watch)
            except StartError as error:
                raise UserError(str(error)) from error
            try:
                to = urlsplit(running.url)
                _warm_up(running.url)
                watch.sleep(SETTLE_SECONDS)
                address = (to.hostname or "", to.port or 80)
                origin, requests = play(scenario, address, running.pid, redis_process)
                first = running.pid
                setting = Setting(
                    server=subject.name,
                    summary=_summary(subject),
                    scenario=scenario.name,
                    first=first,
                    redis_port=urlsplit(slow.url).port or 6379,
                    origin=origin,
                    requests=requests,
                )
            finally:
                running.stop()
    text = _of_the_scenario(_whole(output, first, watch), origin)
    assert subject.executable is not None
    return f"{HEADING}{setting.model_dump_json()}\n{with_sources(text, subject.executable, ROOT)}"


def _whole(output: Path, first: int, watch: SignalWatch) -> str:
    """What strace wrote, once it has told the end of the first process. Raises UserError."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        text = output.read_text(errors="replace")
        if re.search(rf"^{first} .*\+\+\+ .* \+\+\+$", text, re.MULTILINE):
            return text
        if time.monotonic() > deadline:
            raise UserError(
                "strace did not come to its end; try again when the machine is less busy"
            )
        watch.sleep(0.05)


def _warm_up(url: str) -> None:
    """Some visits, four at a time, so that connections to Redis stand and files are open, as in a
    server's usual life; and the tracer knows every worker."""
    visits = [f"{url}guestbook"] * 16
    sinks = [word for _ in visits for word in ("-o", "/dev/null")]
    close = ["-H", "Connection: close"]
    curl = ["curl", "-s", "--no-progress-meter", "-Z", "--parallel-max", "4"]
    subprocess.run([*curl, *close, *sinks, *visits], timeout=60)


def _summary(subject: Subject) -> str:
    """What the server says of itself in --help."""
    said = subprocess.run(
        [str(subject.executable), "--help"], capture_output=True, text=True
    ).stdout
    match = re.search(rf"^{re.escape(subject.name)}: (.*)\.$", said, re.MULTILINE)
    return match[1] if match else ""


def _of_the_scenario(text: str, origin: float) -> str:
    """Without the start and the warming up. Of what came before are kept: who was created by whom,
    and the calls in which somebody still sleeps when the scenario begins."""
    since = origin - 0.02
    sleeping: dict[str, list[str]] = {}
    kept: list[str] = []
    current: list[str] = []  # where the lines of a stack go
    for line in text.splitlines():
        if line.startswith(" > "):
            current.append(line)
            continue
        task, _, rest = line.partition(" ")
        if _end_of(rest) >= since:
            kept += sleeping.pop(task, [])
            current = kept
        elif "clone" in line or "fork(" in line:
            current = kept
        elif "unfinished" in line:
            current = sleeping[task] = []
        else:
            sleeping.pop(task, None)
            current = []
        current.append(line)
    return "\n".join(kept + [line for lines in sleeping.values() for line in lines]) + "\n"


def _end_of(rest: str) -> float:
    """When what a line tells was over, as far as the line says it; without its task's number."""
    took = re.search(r" <([0-9.]+)>$", rest)
    return float(rest.split(maxsplit=1)[0]) + (float(took[1]) if took else 0.0)
