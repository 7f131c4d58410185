# SPDX-License-Identifier: MIT
"""System calls in the output of strace, and of a traced server."""

import os
from pathlib import Path

import pytest

from bench.host.process import Child, StartError
from bench.host.signals import SignalWatch
from bench.stations import tracing
from bench.stations.footprint import rollup
from tests.e2e.tracing import skip_unless_traceable

TRACE = """\
101 accept4(3, NULL, NULL, SOCK_CLOEXEC) = 7
101 recvfrom(7, "GET /guestbook H"..., 2048, 0, NULL, NULL) = 82
101 sendto(9, "*4\\r\\n$6\\r\\nLRANGE"..., 60, MSG_NOSIGNAL, NULL, 0) = 60
102 recvfrom(8,  <unfinished ...>
101 recvfrom(9, "*10\\r\\n$93\\r\\n"..., 4096, 0, NULL, NULL) = 900
102 <... recvfrom resumed>"GET "..., 2048, 0, NULL, NULL) = 82
101 sendmsg(7, {msg_name=NULL, msg_iov=[{iov_base="HTTP/1.1 200"...}]}, MSG_NOSIGNAL) = 2925
102 --- SIGALRM {si_signo=SIGALRM} ---
102 +++ exited with 0 +++
101 close(7) = 0
""".splitlines()


def test_system_calls_are_counted_once_each() -> None:
    counted = tracing.count(TRACE)
    assert counted == {
        "recvfrom": 3,
        "accept4": 1,
        "sendto": 1,
        "sendmsg": 1,
        "close": 1,
    }, "an interrupted one has two lines; signals and ends are no calls"
    assert tracing.count([]) == {}


def test_writes_to_redis_are_no_writes_to_clients() -> None:
    writes = sum(tracing.count(TRACE)[name] for name in tracing.WRITES)
    assert (writes, tracing.writes_to_redis(TRACE)) == (2, 1)


def test_a_process_is_watched_and_let_go() -> None:
    skip_unless_traceable()
    child = Child(["sh", "-c", "while :; do sleep 0.01; echo x; done"])
    watch = SignalWatch()
    try:
        tracer = tracing.Tracer([child.pid], watch)
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
    monkeypatch.setattr(tracing, "YAMA", tmp_path / "ptrace_scope")
    (tmp_path / "ptrace_scope").write_text(f"{scope}\n")
    with pytest.raises(StartError, match="Operation not permitted") as told:
        tracing.Tracer([os.getpid()], SignalWatch())
    assert ("sudo sysctl kernel.yama.ptrace_scope=0" in str(told.value)) == is_cured


def test_memory_of_this_very_process() -> None:
    found = rollup(os.getpid())
    assert found["Pss"] > 1_000_000
    assert found["Anonymous"] > 0
