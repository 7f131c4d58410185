# SPDX-License-Identifier: MIT
"""Make a lab (`up`), or leave nothing of it after an error."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lab import keeper, kernel, plan, remains, state
from lab.plan import LabError

UP_SECONDS = 120.0

PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "pivot_root": "util-linux-extra",
}
"""The programs that make a lab, and their Debian packages. pivot_root is in util-linux, which is
always installed, before Debian 14."""


def up(name: str, servers: int, delay: str | None, rate: str | None, shares: Sequence[str]) -> None:
    """Make a lab and return when sshd answers on all hosts. If this raises, nothing is left."""
    plan.check_link(delay, rate)
    percents = plan.parse_shares(shares, plan.host_groups(servers))
    _require_programs()
    # A signal that ends this program raises SystemExit, so that it can clean up.
    _on_endings(_end)
    with state.locked():
        known = state.load(name)
        if known and known.keeper.alive:
            end = f"scripts/lab down{plan.name_option(name)}"
            raise LabError(f"the lab '{name}' is already up; to end it: sudo {end}")
        remains.clear(name)
        with _undone_on_failure(name):
            whose = state.owner()
            network = next(one for one in plan.NETWORKS if one not in state.networks_in_use())
            cpus = sorted(os.sched_getaffinity(0))
            lab = plan.LabPlan(
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


def _start_keeper(lab: plan.LabPlan) -> None:
    """Start the keeper, and wait until the lab is up. Raise LabError if it fails."""
    child = kernel.LabProcess("", partial(keeper.become, lab))
    try:
        child.hear(UP_SECONDS)
        child.go_on()
        child.hear(UP_SECONDS)
    except BaseException:
        # Before it has the lab's mark, remains.clear() would not find it, and it would go on.
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise


def _on_endings(action: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in keeper.ENDINGS:
        signal.signal(number, action)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _undone_on_failure(name: str) -> Iterator[None]:
    """Remove the lab if the block in this `with` fails or a signal ends it.

    After the block, signals are ignored, so the exit status says whether there is a lab.
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
