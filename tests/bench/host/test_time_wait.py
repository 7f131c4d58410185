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


def test_this_kernel_says_it() -> None:
    found = memory()
    assert found
    assert found.at_most > 0


def test_it_waits_until_there_is_room_and_no_longer(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, now=4000, at_most=4096, forgets=100)
    wait_for_room(1000, kernel, tmp_path)
    assert kernel.now + 1000 <= 4096
    assert kernel.now + kernel.forgets + 1000 > 4096
    assert kernel.slept == pytest.approx(10 * LOOK_SECONDS)


@pytest.mark.parametrize(("now", "connections"), [(3096, 1000), (0, 4096), (4000, 4097)])
def test_it_does_not_wait_with_room_nor_where_there_can_be_none(
    tmp_path: Path, now: int, connections: int
) -> None:
    kernel = Kernel(tmp_path, now, at_most=4096)
    wait_for_room(connections, kernel, tmp_path)
    assert kernel.slept == 0


def test_it_waits_a_minute_at_most(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, now=4000, at_most=4096)
    wait_for_room(1000, kernel, tmp_path)
    assert kernel.slept == pytest.approx(REST_SECONDS)


def test_a_signal_ends_it(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, now=4000, at_most=4096)
    kernel.number = 2
    with pytest.raises(Interrupted):
        wait_for_room(1000, kernel, tmp_path)
    assert kernel.slept == pytest.approx(LOOK_SECONDS)
