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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lab import files, host, kernel, limits, plan, remains, state
from lab.plan import LabError, LabHost, LabPlan
from lab.relay import SSH_PORT, open_relay

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
        with _undone_on_failure(name):
            whose = state.owner()
            used = {other.plan.network for other in map(state.load, state.labs()) if other}
            network = next(one for one in plan.NETWORKS if one not in used)
            cpus = sorted(os.sched_getaffinity(0))
            lab = LabPlan(
                name=name,
                network=network,
                hosts=plan.plan_hosts(network, servers, cpus, percents),
                project=str(state.PROJECT),
                home=whose.home,
                folder=str(state.create(name, whose)),
                delay=delay,
                rate=rate,
            )
            state.write_access(lab, whose)
            _start_keeper(lab)


def _start_keeper(lab: LabPlan) -> None:
    """Start the keeper, and wait until the lab is up. Raise LabError after a failure."""
    child = kernel.LabProcess("", partial(_become, lab))
    try:
        child.hear(UP_SECONDS)
        child.go_on()
        child.hear(UP_SECONDS)
    except BaseException:
        # Kill the keeper here, because it would continue to make the lab: remains.clear() does not
        # find a keeper without a mark.
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise


def _on_endings(action: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in ENDINGS:
        signal.signal(number, action)


@contextmanager
def _undone_on_failure(name: str) -> Iterator[None]:
    """Remove the lab if the `with` block fails or a signal ends it.

    After the block, ignore signals, so that the exit status says whether the lab exists.
    """
    try:
        yield
        _on_endings(signal.SIG_IGN)
    except BaseException:
        _on_endings(signal.SIG_IGN)
        remains.clear(name)
        raise


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
    """Turn this process, the first of a new PID namespace, into the keeper. Send `up` a report, and
    wait for its answer. Then build the lab, send another report, and keep the lab running."""
    kernel.die_with_parent(signal.SIGKILL)
    os.setsid()
    os.chdir("/")
    host.restore_signals()
    host.write_to(os.open(Path(plan.folder, "switch.log"), os.O_WRONLY | os.O_CREAT, 0o644))
    # Close the other descriptors of `up`, such as its lock.
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
    groups = {one.name: limit.limit(one) for one in plan.hosts}
    started = {}
    for one in plan.hosts:
        run = partial(host.become, plan, one, groups[one.name])
        started[one.name] = kernel.LabProcess(f"host {one.name}", run)
    outside = {}
    for name, child in started.items():
        outside[name] = child.hear()
        host.connect(name, outside[name])
        child.go_on()
    ready = {name: child.hear() for name, child in started.items()}
    for one in plan.hosts:
        _await_ssh(plan, one, started[one.name].pid)
    # `_keep` waits for these signals; threads that start later must not receive them.
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
            groups=groups,
            roots={name: root for name, (root, _) in ready.items()},
            read_only=sorted({path for _, folders in ready.values() for path in folders}),
            unseen=files.view(plan).unseen,
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
