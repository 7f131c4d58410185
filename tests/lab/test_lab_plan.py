# SPDX-License-Identifier: MIT
"""The plan of a lab and its error messages. These tests need no root."""

import errno
import os
import subprocess
from collections.abc import Callable

import pytest
from lab_harness import COMMAND, NOBODY, REPOSITORY

from lab import plan
from lab.kernel import KernelRefusal as Refusal
from lab.kernel import in_words
from lab.plan import LabError


def hosts(servers: int, cpus: list[int], **shares: int) -> dict[str, tuple[str, int, int | None]]:
    """Return the address, CPU and CPU share of each host, by name."""
    planned = plan.plan_hosts("10.77.0", servers, cpus, shares)
    return {one.name: (one.address, one.cpu, one.share) for one in planned}


@pytest.mark.parametrize(
    ("cpus", "planned"),
    [
        ([2, 3, 6, 7], {"load": (2, None), "nginx": (3, None), "zerohttpd": (6, None)}),
        ([0, 1], {"load": (1, 100), "nginx": (1, 40), "zerohttpd": (0, 20), "redis": (1, 40)}),
        ([5], {}),
    ],
)
def test_hosts_share_the_cpus(cpus: list[int], planned: dict[str, tuple[int, int | None]]) -> None:
    """With four CPUs each host gets its own CPU. With two CPUs the server gets the first CPU alone.
    If there is only one CPU, all hosts share it."""
    found = hosts(1, cpus)
    addresses = {name: address for name, (address, *_) in found.items()}
    names = ("load", "nginx", "zerohttpd", "redis")
    assert addresses == {name: f"10.77.0.{n}" for n, name in enumerate(names, 1)}
    assert {cpu for _, cpu, _ in found.values()} == set(cpus)
    assert planned.items() <= {name: tuple(rest) for name, (_, *rest) in found.items()}.items()


def test_further_servers_get_what_the_first_one_gets() -> None:
    planned = hosts(3, [0, 1, 2], zerohttpd=30, zerohttpd3=10)
    servers = {name: found for name, found in planned.items() if name.startswith("zerohttpd")}
    assert servers == {
        "zerohttpd": ("10.77.0.3", 0, 30),
        "zerohttpd2": ("10.77.0.5", 0, 30),
        "zerohttpd3": ("10.77.0.6", 0, 10),
    }


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (lambda: plan.parse_shares(["loud=5"], ["load"]), "no host 'loud'"),
        (lambda: plan.parse_shares(["load=0"], ["load"]), "1 to 100"),
        (lambda: plan.parse_shares(["load"], ["load"]), "1 to 100"),
        (lambda: plan.host_groups(9), "1 to 8"),
        (lambda: plan.check_link("2", None), "as in 0.2ms"),
        (lambda: plan.check_link(None, "fast"), "as in 1gbit"),
        (lambda: plan.check_name("../etc"), "'../etc' is not valid"),
    ],
)
def test_nonsense_is_refused_in_words(check: Callable[[], object], why: str) -> None:
    with pytest.raises(LabError, match=why):
        check()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Refusal(errno.EPERM, "unshare"), "unshare is not allowed here: start the container"),
        (Refusal(errno.EBUSY, "mount tmpfs on /a"), "mount tmpfs on /a: Device or resource busy"),
        (
            Refusal(errno.ENODEV, "mount x on /a", "overlay"),
            "this kernel lacks the file system overl",
        ),
        (Refusal(errno.ENODEV, "make a device"), "make a device: No such device"),
        (PermissionError(errno.EACCES, "Refused", "mounts/key"), "mounts/key: Refused"),
    ],
)
def test_the_refusing_layer_decides_the_fix(error: OSError, words: str) -> None:
    assert in_words(error).startswith(words)


AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
AS_NOBODY += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
"""Changes to another user who may read this folder, even below /root."""


@pytest.mark.parametrize("verb", ["up", "down", "exec"])
def test_without_root_it_says_what_to_type(verb: str) -> None:
    command = [*COMMAND, verb, *(["load", "true"] if verb == "exec" else [])]
    if os.geteuid() == 0:
        command = [*AS_NOBODY, *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert f"sudo {REPOSITORY}/scripts/lab {verb}" in done.stderr
