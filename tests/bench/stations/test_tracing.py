# SPDX-License-Identifier: MIT
"""System calls in the output of strace, and of a traced server."""

import os
from pathlib import Path

import pytest

from bench.host.process import Child, StartError
from bench.host.signals import SignalWatch
from bench.stations import sampling
from bench.stations.footprint import rollup
from tests.e2e.tracing import skip_unless_traceable

TRACE = (Path(__file__).parents[1] / "recorded" / "strace.txt").read_text().splitlines()


def test_system_calls_are_counted_once_each() -> None:
    counted = sampling.count(TRACE)
    once = dict.fromkeys(("accept4", "sendto", "sendmsg", "close"), 1)
    assert counted == {"recvfrom": 3, **once}, (
        "an interrupted one has two lines; signals and ends are no calls"
    )
    assert sum(counted[name] for name in sampling.WRITES) == 2
    assert sampling.writes_to_redis(TRACE) == 1, "writes to Redis are no writes to clients"
    assert sampling.count([]) == {}


def test_a_process_is_watched_and_let_go() -> None:
    skip_unless_traceable()
    child = Child(["sh", "-c", "while :; do sleep 0.01; echo x; done"])
    watch = SignalWatch()
    try:
        tracer = sampling.Tracer([child.pid], watch)
        watch.sleep(0.5)
        calls = tracer.stop()
        assert child.running()
        assert calls.by_name["write"] > 0
        assert calls.writes >= calls.by_name["write"]
    finally:
        child.end()


REFUSED = """\
#!/bin/sh
echo "strace: attach: ptrace(PTRACE_SEIZE, 7): Operation not permitted" >&2
exit 1
"""


@pytest.mark.parametrize(("scope", "is_cured"), [("0", False), ("1", True), ("3", False)])
def test_who_is_refused_is_told_what_cures_it(
    scope: str, is_cured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may not trace gets the fix, as on Ubuntu without root. With 3 the kernel accepts
    no other number."""
    strace = tmp_path / "strace"
    strace.write_text(REFUSED)
    strace.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sampling, "YAMA", tmp_path / "ptrace_scope")
    (tmp_path / "ptrace_scope").write_text(f"{scope}\n")
    with pytest.raises(StartError, match="Operation not permitted") as told:
        sampling.Tracer([os.getpid()], SignalWatch())
    assert ("sudo sysctl kernel.yama.ptrace_scope=0" in str(told.value)) == is_cured


def test_memory_of_this_very_process() -> None:
    found = rollup(os.getpid())
    assert found["Pss"] > 1_000_000
    assert found["Anonymous"] > 0
