# SPDX-License-Identifier: MIT
"""Servers that lie are found out, in every mode of measuring. These start real ones, and real ab.

The good one is the control: it must hold, or the others prove nothing.
"""

import shutil

import pytest

from bench.records.conditions import Conditions

from ..measuring import REQUESTS, measured

MODES = {
    "closed": Conditions("/any"),
    "kept": Conditions("/any", keep_alive=True),
    "open": Conditions("/any", mode="open", rate=500.0),
    "open, kept": Conditions("/any", keep_alive=True, mode="open", rate=500.0),
}

pytestmark = pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed")


@pytest.mark.parametrize("mode", MODES)
def test_the_good_one_holds(mode: str) -> None:
    run = measured("good", MODES[mode])
    assert run.reason is None
    assert run.state == "held"
    assert run.requests_per_second is not None
    assert run.process is not None
    assert run.process.cpu_us_per_request > 0
    assert run.process.processes_peak == 1
    assert run.latency is not None
    assert run.latency.p50 <= run.latency.p99 <= run.latency.p999 <= run.latency.max


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fault",
    [
        *("drops", "errors", "always-errors", "dies", "cuts", "claims-more", "claims-less"),
        *("cheats", "silent"),
    ],
)
def test_a_broken_one_is_found_out(fault: str, mode: str) -> None:
    run = measured(fault, MODES[mode])
    assert run.state == "failed"
    assert run.requests_per_second is None
    assert run.reason is not None
    assert run.reason.label
    assert any(
        words in run.reason.text
        for words in {
            "drops": ("bytes came", "failed", "Connection", "connection", "IncompleteMessage"),
            "errors": ("not 2xx", "x 500", "failed"),
            "always-errors": ("got 500",),
            "dies": ("died", "status 3", "warm-up", "refused"),
            "cuts": ("bytes came", "failed", "Connection", "connection", "IncompleteMessage"),
            "claims-more": ("Content-Length says", "warm-up"),
            "claims-less": ("Content-Length says",),
            "cheats": ("bytes came",),
            "silent": ("not done after", "expired", "warm-up", "timeout"),
        }[fault]
    ), run.reason.text


def test_a_page_that_grows_holds() -> None:
    """A count on it gains a digit while the run goes on."""
    run = measured("grows", MODES["closed"])
    assert run.reason is None
    assert run.state == "held"


def test_visitors_that_nobody_counted_are_missed() -> None:
    """A server that answers from a cache of its own looks fast and does not count its visitors."""
    run = measured("good", Conditions("guestbook"), timeout=6.0)
    assert run.reason is not None
    assert run.reason.text == f"{REQUESTS} visitors were due, 0 were counted"
