# SPDX-License-Identifier: MIT
"""Waiting for room in TIME_WAIT, with mocked kernels."""

from pathlib import Path

import pytest

from bench.host.kernel import LOOK_SECONDS, REST_SECONDS, Memory, memory, wait_for_room
from bench.host.signals import SignalWatch
from bench.records.errors import Interrupted


class Kernel(SignalWatch):
    """A mocked kernel that drops some connections at each sleep."""

    def __init__(self, proc: Path, now: int, at_most: int, forgets: int = 0) -> None:
        super().__init__()
        self.proc, self.now, self.forgets, self.slept = proc, now, forgets, 0.0
        (proc / "net").mkdir()
        (proc / "sys/net/ipv4").mkdir(parents=True)
        (proc / "sys/net/ipv4/tcp_max_tw_buckets").write_text(f"{at_most}\n")
        self._write()

    def _write(self) -> None:
        text = f"sockets: used 9\nTCP: inuse 4 orphan 0 tw {self.now} alloc 9 mem 2\n"
        (self.proc / "net/sockstat").write_text(text)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now = max(0, self.now - self.forgets)
        self._write()
        self.check()


def test_what_the_kernel_says(tmp_path: Path) -> None:
    assert memory(tmp_path) is None
    Kernel(tmp_path, now=41, at_most=4096)
    assert memory(tmp_path) == Memory(now=41, at_most=4096)
    assert memory().at_most > 0


@pytest.mark.parametrize(
    ("now", "connections", "forgets", "slept"),
    [
        (4000, 1000, 100, 10 * LOOK_SECONDS),  # until there is room, and no longer
        (4000, 1000, 0, REST_SECONDS),  # a minute at most
        (3096, 1000, 0, 0),  # there is room
        (0, 4096, 0, 0),
        (4000, 4097, 0, 0),  # there can be none
    ],
)
def test_how_long_it_waits(
    tmp_path: Path, now: int, connections: int, forgets: int, slept: float
) -> None:
    kernel = Kernel(tmp_path, now, at_most=4096, forgets=forgets)
    wait_for_room(connections, kernel, tmp_path)
    assert kernel.slept == pytest.approx(slept)


def test_a_signal_ends_it(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, now=4000, at_most=4096)
    kernel.number = 2
    with pytest.raises(Interrupted):
        wait_for_room(1000, kernel, tmp_path)
    assert kernel.slept == pytest.approx(LOOK_SECONDS)
