# SPDX-License-Identifier: MIT
"""The keeper is the first process of a lab; when it ends, all other processes of the lab end.

It runs in a network namespace with the bridge, starts each host in its own namespaces, then passes
connections to ssh (door.py). `up` starts it as the first process of a new PID namespace:

    python -m lab.keeper        a plan as JSON on its input, reports on its output

Until all hosts answer, it ends together with `up`; after that only a signal ends it.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple, NoReturn

from lab import files, host, kernel, limits, state
from lab.door import SSH_PORT, open_door
from lab.kernel import in_words
from lab.plan import LabError, LabHost, LabPlan, LabProgress

READY_SECONDS = 90.0


class Started(NamedTuple):
    """A host that is being started."""

    host: LabHost
    pid: int
    """Its PID in the keeper's PID namespace."""
    line: socket.socket

    def hear(self) -> LabProgress:
        """Return the host's next report. Raise LabError if it has failed."""
        with self.line.makefile("rb", buffering=0) as reports:
            text = reports.readline()
        if not text.endswith(b"\n"):
            raise LabError(f"host {self.host.name} ended without a message")
        return LabProgress.heard(text)


def main() -> int:
    """Build the lab of the plan and keep it up. Report when this process runs and the lab is up."""
    kernel.die_with_parent(signal.SIGKILL)
    # If the parent ended before prctl(2), no plan arrives.
    _say(LabProgress())
    text = sys.stdin.readline()
    if not text:
        return 1
    plan = LabPlan.from_json(json.loads(text))
    try:
        _build(plan)
    except (LabError, OSError) as error:
        _say(LabProgress(failed=in_words(error)))
        return 1
    kernel.die_with_parent(0)
    _say(LabProgress())
    return _keep()


def _build(plan: LabPlan) -> None:
    kernel.unshare(kernel.NEW_HOST_NAME | kernel.NEW_NETWORK)
    socket.sethostname("switch")
    kernel.set_domain(state.mark_of(plan.name))
    host.make_switch(plan)
    limit = limits.CpuLimits(plan.name)
    limit.prepare()
    started = []
    for host_plan in plan.hosts:
        limit.limit(host_plan)
        started.append(_start(plan, host_plan, limit.groups_of(host_plan.name)))
    outside = {}
    for one in started:
        outside[one.host.name] = one.hear().pid
        host.connect(one.host.name, outside[one.host.name])
        one.line.sendall(b"\n")
    ready = {one.host.name: one.hear() for one in started}
    for one in started:
        _await_ssh(plan, one)
    # `_keep` waits for this signal; threads started after this line must not receive it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    open_door(Path(plan.folder, "door"), {one.address for one in plan.hosts})
    state.write_state(
        Path(plan.folder),
        state.Known(
            plan=plan,
            limited_by=limit.by,
            limited_reason=limit.reason,
            since=time.time(),
            keeper=state.Identity.of(kernel.number_outside()),
            hosts={name: state.Identity.of(pid) for name, pid in outside.items()},
            groups={one.name: limit.groups_of(one.name) for one in plan.hosts},
            roots={name: said.root for name, said in ready.items()},
            read_only=sorted({path for said in ready.values() for path in said.read_only}),
            unseen=files.view(plan).unseen,
        ),
    )


def _start(plan: LabPlan, one: LabHost, groups: list[str]) -> Started:
    ours, theirs = socket.socketpair()
    with kernel.next_child_in_new_processes():
        pid = os.fork()
        if pid == 0:
            ours.close()
            host.become(plan, one, groups, theirs)
    theirs.close()
    return Started(one, pid, ours)


def _await_ssh(plan: LabPlan, one: Started) -> None:
    """Wait until sshd on a host answers over the bridge."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with socket.create_connection((one.host.address, SSH_PORT), 5.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass  # not yet
        log = Path(plan.folder, f"{one.host.name}.log")
        if os.waitpid(one.pid, os.WNOHANG)[0] or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no answer"]
            raise LabError(f"sshd on host {one.host.name}: {lines[-1]}")
        time.sleep(0.02)


def _keep() -> NoReturn:
    """Wait. The first process of a namespace inherits and reaps processes without a parent."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass  # no host is left; the bridge stays until `down`
        signal.sigwait({signal.SIGCHLD})


def _say(report: LabProgress) -> None:
    sys.stdout.buffer.write(report.line())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
