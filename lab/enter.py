# SPDX-License-Identifier: MIT
"""Run a command on a host: `exec` in the host's namespaces, `ssh` over the network."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from lab import host, kernel, limits, plan, state
from lab.plan import LabError

ALL = host.NEW | kernel.NEW_PROCESSES


def find(name: str, host_name: str) -> state.Known:
    """Return the state of a lab. Raise LabError if it is not up or has no host of this name."""
    known = state.load(name)
    if known is None or not known.keeper.alive:
        make = f"scripts/lab up{plan.name_option(name)}"
        raise LabError(f"no lab '{name}' is up; to make one: sudo {make}")
    if host_name not in known.hosts:
        raise LabError(f"no host '{host_name}' in the lab; hosts: {', '.join(known.hosts)}")
    return known


def run(name: str, host_name: str, command: list[str]) -> int:
    """Run a command in all namespaces and limits of a host. Return its exit status."""
    known = find(name, host_name)
    identity = known.hosts[host_name]
    descriptor = os.pidfd_open(identity.pid) if identity.alive else -1
    if descriptor < 0 or not identity.alive:
        see = f"scripts/lab status{plan.name_option(name)}"
        raise LabError(f"host '{host_name}' is down; see {see}")
    folder = Path.cwd()
    cpu = next(each.cpu for each in known.plan.hosts if each.name == host_name)
    # First enter the host-name namespace: by its mark `down` finds the lab's processes.
    kernel.enter(descriptor, kernel.NEW_HOST_NAME)
    limits.join(known.groups[host_name], cpu)
    kernel.enter(descriptor, ALL)
    pid = os.fork()
    if pid == 0:
        _become(folder, command, known.roots[host_name])
    # Ctrl-C sends SIGINT to both processes; only the command reacts.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def ssh(name: str, host_name: str, command: list[str]) -> NoReturn:
    """Replace this process by ssh to a host."""
    find(name, host_name)
    config = state.folder_of(name) / "ssh_config"
    os.execvp("ssh", ["ssh", "-F", str(config), host_name, *command])


def _become(folder: Path, command: list[str], root: int) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        if host.root_device() != root:
            print("lab: `/` is not the host's root; the command was not run", file=sys.stderr)
            os._exit(127)
        # Keep the working directory if the host has it.
        os.chdir(folder if folder.is_dir() else "/root")
        host.restore_signals()
        os.execvp(command[0], command)
    except OSError as error:
        print(f"lab: {command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(127)
