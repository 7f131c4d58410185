# SPDX-License-Identifier: MIT
"""The lab's tests write only inside their own hosts: here each write is visible."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from lab_harness import REPOSITORY, Lab
from other_roots import CHROOT, LAYER, run_in, skip_unless_labs_can_be_made_in

Make = Callable[[str], Lab]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
HERE = ["env", "--chdir", str(REPOSITORY)]
WRITING = "test_lab_hosts.py"
"""The tests that write most. The test that runs them is excluded."""


@pytest.mark.slow
@pytest.mark.parametrize("script", [LAYER, LAYER + CHROOT], ids=["root", "chroot"])
def test_the_tests_write_nothing_outside_of_their_hosts(make_lab: Make, script: str) -> None:
    """The lab's tests change no file outside their hosts; in a chroot, where they would, they are
    skipped."""
    if script == LAYER:
        skip_unless_labs_can_be_made_in(script)
    tests = [f"tests/lab/{WRITING}", "-k", "not locked"]
    done, changes = run_in(script, [*HERE, *PYTEST, *tests])
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("chroot" in done.stdout) == (CHROOT in script), done.stdout
    assert (" passed" in done.stdout) == (CHROOT not in script), done.stdout
    assert changes == []


def test_in_a_chroot_it_is_refused(make_lab: Make) -> None:
    lab = make_lab("chroot")
    for verb, words in (("up", []), ("down", []), ("exec", ["load", "touch", "/etc/only-here"])):
        done, changes = run_in(LAYER + CHROOT, [*HERE, *lab.command(verb, *words)])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("lab: this is a chroot")
        assert changes == []


def test_a_write_outside_would_be_seen(make_lab: Make) -> None:
    """A write outside the hosts is detected by the check of the test above."""
    for script in (LAYER, LAYER + CHROOT):
        assert run_in(script, ["touch", "/etc/only-here"])[1] == ["/etc/only-here"]
