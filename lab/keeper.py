# SPDX-License-Identifier: MIT
"""The keeper is the first process of a lab; when it ends, all other processes of the lab end.

It runs in a network namespace with the bridge, starts each host in its own namespaces, then passes
connections to ssh (relay.py). `up` forks it as the first process of a new PID namespace. Until all
hosts answer, it ends together with `up`; after that only a signal ends it.
"""

import os
import signal
import socket
import time
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lab import files, host, kernel, limits, state
from lab.plan import LabError, LabHost, LabPlan
from lab.relay import SSH_PORT, open_relay

READY_SECONDS = 90.0
MOST_DESCRIPTORS = 65_536
ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""The signals that end a keeper, and `up`."""


def become(plan: LabPlan, up: Connection) -> None:
    """Turn this process, the first of a new PID namespace, into the keeper: build the lab of the
    plan and keep it up. Send `up` a report when this process runs, and after its answer one when
    the lab is up."""
    kernel.die_with_parent(signal.SIGKILL)
    os.setsid()
    os.chdir("/")
    host.restore_signals()
    host.write_to(os.open(Path(plan.folder, "switch.log"), os.O_WRONLY | os.O_CREAT, 0o644))
    # Others of `up`, as that of the lock, must not stay open.
    os.closerange(3, up.fileno())
    os.closerange(up.fileno() + 1, MOST_DESCRIPTORS)
    up.send(None)
    up.recv()  # fails if the parent has ended before prctl(2)
    _build(plan)
    kernel.die_with_parent(0)
    up.send(None)
    up.close()
    _keep()


def _build(plan: LabPlan) -> None:
    kernel.unshare(kernel.NEW_HOST_NAME | kernel.NEW_NETWORK)
    socket.sethostname("switch")
    kernel.set_domain(state.mark_of(plan.name))
    host.make_switch(plan)
    limit = limits.CpuLimits(plan.name)
    limit.prepare()
    started: dict[str, kernel.LabProcess] = {}
    for one in plan.hosts:
        limit.limit(one)
        run = partial(host.become, plan, one, limit.groups_of(one.name))
        started[one.name] = kernel.LabProcess(f"host {one.name}", run)
    outside = {}
    for name, child in started.items():
        outside[name] = child.hear()
        host.connect(name, outside[name])
        child.go_on()
    ready = {name: child.hear() for name, child in started.items()}
    for one in plan.hosts:
        _await_ssh(plan, one, started[one.name].pid)
    # `_keep` waits for these signals; threads started after this line must not receive them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDINGS})
    open_relay(Path(plan.folder, "relay"), {one.address for one in plan.hosts})
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
            roots={name: root for name, (root, _) in ready.items()},
            read_only=sorted({path for _, folders in ready.values() for path in folders}),
            unseen=files.view(plan).unseen,
        ),
    )


def _await_ssh(plan: LabPlan, one: LabHost, pid: int) -> None:
    """Wait until sshd on a host, process `pid` here, answers over the bridge."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with socket.create_connection((one.address, SSH_PORT), 5.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass  # not yet
        log = Path(plan.folder, f"{one.name}.log")
        if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no answer"]
            raise LabError(f"sshd on host {one.name}: {lines[-1]}")
        time.sleep(0.02)


def _keep() -> NoReturn:
    """Wait for a signal to end. The first process of a namespace inherits processes without a
    parent, so it reaps them."""
    while True:
        with suppress(ChildProcessError):  # no host is left; the bridge stays until `down`
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        # A handler would not run: sigwait(3) does not return after another signal.
        if signal.sigwait({signal.SIGCHLD, *ENDINGS}) in ENDINGS:
            os._exit(0)
