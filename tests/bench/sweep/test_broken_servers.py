# SPDX-License-Identifier: MIT
"""The sweep detects servers with wrong answers in every mode, with real load generators. The good
server is the control: its run must be valid, otherwise the other runs prove nothing."""

import shutil

import pytest

from bench.records.conditions import Conditions
from bench.stations.sampling import why_no_perf

from ..broken_server import PAGE
from ..measuring import REQUESTS, measured

MODES = {
    "closed": Conditions("/any"),
    "kept": Conditions("/any", keep_alive=True),
    "by wrk": Conditions("/any", generator="wrk"),
    "by wrk, kept": Conditions("/any", keep_alive=True, generator="wrk"),
    "open": Conditions("/any", mode="open", rate=500.0),
    "open, kept": Conditions("/any", keep_alive=True, mode="open", rate=500.0),
    "behind nginx": Conditions("/any", balancer="close"),
    "behind nginx, kept": Conditions("/any", balancer="keep"),
    "two behind nginx": Conditions("/any", instances=2, balancer="close"),
}

ONE_EACH = ("closed", "by wrk, kept", "open", "two behind nginx")
"""A mode of each load generator and a mode with nginx, which are tested at each commit."""
pytestmark = pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed")


@pytest.mark.parametrize(("server", "mode"), [*(("good", m) for m in MODES), ("grows", "closed")])
def test_the_run_of_a_good_server_is_valid(server: str, mode: str) -> None:
    """The run of a good server is valid, even if a counter on its page gains a digit."""
    run = measured(server, MODES[mode])
    assert (run.reason, run.state) == (None, "held")
    assert run.requests_per_second is not None
    assert run.process.cpu_us_per_request > 0
    assert run.process.processes_peak == MODES[mode].instances
    assert run.latency.p50 <= run.latency.p99 <= run.latency.p999 <= run.latency.max


CUT = (" x read", "bytes were received", "failed", "onnection", "IncompleteMessage")
FAULTS = {
    "drops": CUT,
    "errors": ("not 200", "not 2xx", "x 500", "failed"),
    "always-errors": ("got 500",),
    "dies": ("errors: ", "died", "status 3", "warm-up", "refused"),
    "cuts": CUT,
    "claims-more": ("Content-Length says", "warm-up", "no answer"),
    "claims-less": ("Content-Length says",),
    "cheats": ("bytes were received", f"do not have the {len(PAGE)} bytes"),
    "silent": ("not done after", "expired", "warm-up", "timeout"),
}
"""For each fault, parts of the reason's text; the text of each mode contains one of them."""


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[pytest.mark.slow] * (m not in ONE_EACH)) for m in MODES]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_server_is_detected(fault: str, mode: str) -> None:
    if fault == "claims-less" and MODES[mode].balancer != "none":
        pytest.skip("nginx passes on as many bytes as the server announces")
    run = measured(fault, MODES[mode], timeout=3.0 if fault == "silent" else 20.0)
    assert (run.state, run.requests_per_second) == ("failed", None)
    assert run.reason.label
    assert any(words in run.reason.text for words in FAULTS[fault]), run.reason.text


@pytest.mark.parametrize("mode", ["closed", "kept", "by wrk", "by wrk, kept"])
def test_a_server_that_sometimes_answers_twice_is_detected(mode: str) -> None:
    """The sweep detects a server that sometimes answers twice, because the page has a known length.
    Over a kept connection the second answer may be read as the next answer (see TWICE)."""
    conditions = MODES[mode]._replace(workload="hello")
    assert measured("good", conditions).reason is None
    run = measured("twice", conditions)
    assert run.state == "failed"
    assert run.reason


@pytest.mark.parametrize("generator", ["ab", "wrk"])
def test_a_server_that_closes_in_spite_of_keep_alive_is_detected(generator: str) -> None:
    run = measured("closes", Conditions("/any", keep_alive=True, generator=generator))  # type: ignore[arg-type]
    assert run.reason.text == f"only 0 of {REQUESTS} responses kept the connection"


@pytest.mark.skipif(bool(why_no_perf()), reason=why_no_perf())
def test_a_server_that_closes_is_detected_also_while_it_is_sampled() -> None:
    run = measured("closes", MODES["kept"]._replace(mode="sampled"), timeout=20.0)
    assert run.reason.label == "closes"


def test_uncounted_visitors_are_missed() -> None:
    """The sweep detects uncounted visits: a server that answers from its own cache looks fast."""
    run = measured("good", Conditions("guestbook"))
    assert run.reason.text == f"{REQUESTS} visitors expected, 0 counted"
