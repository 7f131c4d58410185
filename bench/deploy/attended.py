# SPDX-License-Identifier: MIT
"""The sweep on the load host, seen from here: its words as they come, and a way to end it."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from bench.deploy.inventory import WayToLoad
from bench.host.process import POLL_SECONDS, guarded
from bench.host.signals import SignalWatch

SWEEP = "/opt/zerohttpd-seven/deploy/files/sweep"
CONNECTION_LOST = 255
"""The exit status of ssh when the connection broke, or never was."""


def sweep(host: WayToLoad, options: Sequence[str], watch: SignalWatch) -> int:
    """Run the sweep there; its exit status. A signal to us becomes one to the sweep, which then
    ends in order; and should we be killed, it notices that too.

    At a terminal it has that terminal, so that its live table is seen, and Ctrl-C goes to it
    directly. Elsewhere its standard input is a lifeline; see deploy/files/sweep.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _at_terminal(host.command([SWEEP, *options], terminal=True), watch)
    return _with_lifeline(host.command([SWEEP, "--attended", *options], terminal=False), watch)


def _at_terminal(command: Sequence[str], watch: SignalWatch) -> int:
    # Not in a session of its own: it needs the terminal.
    process = subprocess.Popen(guarded(command, ()))
    _wait(process, watch, process.terminate)
    return process.returncode


def _with_lifeline(command: Sequence[str], watch: SignalWatch) -> int:
    process = subprocess.Popen(guarded(command, ()), stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    lifeline = process.stdin

    def pass_on() -> None:
        word = signal.Signals(watch.number or signal.SIGINT).name.removeprefix("SIG")
        with contextlib.suppress(BrokenPipeError):
            lifeline.write(f"{word}\n".encode())
            lifeline.flush()

    _wait(process, watch, pass_on)
    with contextlib.suppress(BrokenPipeError):
        lifeline.close()
    return process.returncode


def _wait(
    process: subprocess.Popen[bytes], watch: SignalWatch, pass_on: Callable[[], None]
) -> None:
    """Until it ends. The first signal that we get is passed on; the end is then its affair."""
    passed = False
    while process.poll() is None:
        if watch.number is not None and not passed:
            passed = True
            pass_on()
        time.sleep(POLL_SECONDS)
