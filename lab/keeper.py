# SPDX-License-Identifier: MIT
"""Make a lab (`up`), and remove it after an error. This file also has the keeper, the first process
of a lab. When the keeper ends, all other processes of the lab end.

The keeper runs in a network namespace with the bridge, starts each host in its own namespaces, then
passes connections to ssh (relay.py). `up` forks the keeper as the first process of a new PID
namespace. Until all hosts answer, the keeper ends if `up` ends; later only a signal ends it.
"""

import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lab import host, kernel, limits, plan, remains, state
from lab.plan import LabError, LabHost, LabPlan
from lab.relay import SSH_PORT, Relay

UP_SECONDS = 120.0
READY_SECONDS = 90.0
MOST_DESCRIPTORS = 65_536
ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""The signals that end a keeper, and `up`."""

PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "pivot_root": "util-linux-extra",
    "umount": "mount",
}
"""The programs that make a lab, and their Debian packages. Before Debian 14, pivot_root belongs to
util-linux, which is always installed."""


def up(name: str, servers: int, delay: str | None, rate: str | None, shares: Sequence[str]) -> None:
    """Make a lab and return when sshd answers on all hosts. After an error, remove the lab."""
    plan.check_link(delay, rate)
    percents = plan.parse_shares(shares, plan.host_groups(servers))
    _require_programs()
    # A signal raises SystemExit, so that this program cleans up before it ends.
    _on_endings(lambda number, _: sys.exit(128 + number))
    with state.locked():
        known = state.load(name)
        if known and known.keeper.alive:
            end = f"scripts/lab down{plan.name_option(name)}"
            raise LabError(f"the lab '{name}' is already up; to end it: sudo {end}")
        remains.clear(name)
        try:
            uid, gid, home = state.owner()
            used = {other.plan.network for other in map(state.load, state.labs()) if other}
            network = next(one for one in plan.NETWORKS if one not in used)
            cpus = sorted(os.sched_getaffinity(0))
            lab = LabPlan(
                name=name,
                network=network,
                hosts=plan.plan_hosts(network, servers, cpus, percents),
                project=str(state.PROJECT),
                home=home,
                folder=str(state.create(name, uid, gid)),
                delay=delay,
                rate=rate,
            )
            state.write_access(lab, uid, gid)
            _start_keeper(lab)
            # Ignore signals, so that the exit status says whether the lab exists.
            _on_endings(signal.SIG_IGN)
        except BaseException:
            _on_endings(signal.SIG_IGN)
            remains.clear(name)
            raise


def _start_keeper(lab: LabPlan) -> None:
    """Start the keeper, and wait until the lab is up. Raise LabError after a failure."""
    child = kernel.LabProcess("", partial(_become, lab))
    try:
        child.report(UP_SECONDS)
    except BaseException:
        # Kill the keeper here, because it would continue to make the lab: remains.clear() does not
        # find a keeper without a mark.
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise


def _on_endings(action: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in ENDINGS:
        signal.signal(number, action)


def _require_programs() -> None:
    missing = {
        package: program
        for program, package in PROGRAMS.items()
        if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    }
    if missing:
        programs = ", ".join(f"{program} ({package})" for package, program in missing.items())
        raise LabError(
            f"missing: {programs}; apt-get install --no-install-recommends {' '.join(missing)}"
        )


# ---- The keeper ----


def _become(plan: LabPlan, up: Connection) -> None:
    """Turn this process, the first of a new PID namespace, into the keeper. Build the lab, send
    `up` a report, and keep the lab running."""
    kernel.die_with_parent(signal.SIGKILL)
    if up.poll():  # the parent has ended before prctl(2)
        return
    os.setsid()
    os.chdir("/")
    host.restore_signals()
    host.write_to(os.open(Path(plan.folder, "switch.log"), os.O_WRONLY | os.O_CREAT, 0o644))
    # Close the other descriptors of `up`, such as its lock.
    os.closerange(3, up.fileno())
    os.closerange(up.fileno() + 1, MOST_DESCRIPTORS)
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
    limited_by, limited_reason, groups = limits.limit(plan.name, plan.hosts)
    carried, unseen = host.mounts_of(plan)
    names = [one.name for one in plan.hosts]
    started = [
        kernel.LabProcess(
            f"host {one.name}", partial(host.become, plan, one, groups[one.name], carried)
        )
        for one in plan.hosts
    ]
    outside, roots, read_only = zip(*(child.report() for child in started), strict=True)
    host.connect(plan.hosts)
    for one, child in zip(plan.hosts, started, strict=True):
        _await_ssh(plan, one, child.pid)
    # `_keep` waits for these signals; threads that start later must not receive them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDINGS})
    Relay(Path(plan.folder, "relay"), {one.address for one in plan.hosts})
    state.write_state(
        Path(plan.folder),
        state.Known(
            plan=plan,
            limited_by=limited_by,
            limited_reason=limited_reason,
            since=time.time(),
            keeper=state.Identity.of(kernel.number_outside()),
            hosts=dict(zip(names, map(state.Identity.of, outside), strict=True)),
            groups=groups,
            roots=dict(zip(names, roots, strict=True)),
            read_only=sorted({path for folders in read_only for path in folders}),
            unseen=unseen,
        ),
    )


def _await_ssh(plan: LabPlan, one: LabHost, pid: int) -> None:
    """Wait until sshd on a host answers over the bridge. `pid`: the PID of sshd in this
    process's namespace."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with socket.create_connection((one.address, SSH_PORT), 5.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass  # sshd does not accept connections yet
        log = Path(plan.folder, f"{one.name}.log")
        if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no answer"]
            raise LabError(f"sshd on host {one.name}: {lines[-1]}")
        time.sleep(0.02)


def _keep() -> NoReturn:
    """Wait for a signal that ends the lab. Meanwhile reap orphans, which the first process of a PID
    namespace inherits."""
    while True:
        with suppress(ChildProcessError):  # all hosts have ended; the bridge stays until `down`
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        # A handler could run too late: after a signal just before a sleeping call, Python runs the
        # handler only after this call.
        if signal.sigwait({signal.SIGCHLD, *ENDINGS}) in ENDINGS:
            os._exit(0)
