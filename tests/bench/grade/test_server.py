# SPDX-License-Identifier: MIT
"""The grader notices that a server is still busy. Less than a second."""

import subprocess
from pathlib import Path

import psutil

from bench.grade.server import sleeps
from bench.host.process import SignalWatch


def test_a_thread_that_waits_for_strace_does_not_sleep(tmp_path: Path) -> None:
    """A traced server that waits for a stopped strace does not count as asleep."""
    words = ("strace", "-o", tmp_path / "trace", "cat")
    watch = SignalWatch()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        strace = psutil.Process(process.pid)
        try:
            process.stdin.write(b"1\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"1\n"
            (traced,) = strace.children()
            assert watch.until(lambda: sleeps(traced.pid), 5)
            strace.suspend()
            process.stdin.write(b"2\n")
            process.stdin.flush()
            assert watch.until(lambda: not sleeps(traced.pid), 5)
            strace.resume()
            assert process.stdout.readline() == b"2\n"
            assert watch.until(lambda: sleeps(traced.pid), 5)
        finally:
            strace.resume()
            process.stdin.close()
