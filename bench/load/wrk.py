# SPDX-License-Identifier: MIT
"""Running wrk: the closed loop over HTTP/1.1, for peers that keep no connection of HTTP/1.0.

wrk by itself asks for so many seconds, counts what comes, and opens a connection anew when it is
closed or breaks, in silence. wrk.lua makes it ask for so many requests and look at the status, the
length and the Connection field of each answer. Its thread is one: it uses one core.

Where it asks for a connection to be closed it trusts the answer to say so. A server that closes
without saying it (Java's does) is asked again over a connection that is about to end, which counts
as an error: connections for one request each are for ab to ask over.

Its latencies are not ab's: where an answer took longer than usual it adds those that would have
been asked for meanwhile (its correction of "coordinated omission"). So they are marked as what they
are, and Little's law is not held against them.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import last_line, run_measured
from bench.host.programs import require
from bench.host.signals import SignalWatch
from bench.load.outcome import Load, Outcome
from bench.records.figures import Latency, WrkFigures

SCRIPT = Path(__file__).with_name("wrk.lua")
BEGINS = "JSON "
"""The line of wrk.lua among wrk's own."""
SPARE_SECONDS = 5.0
"""wrk ends by itself after so long beyond our patience: nobody waits for it then."""


@dataclass(frozen=True, kw_only=True)
class WrkOutcome(Outcome):
    """What came of a load by wrk."""

    figures: WrkFigures | None


class WrkTimes(BaseModel):
    """What wrk.lua says of latencies, in microseconds."""

    percentiles_us: dict[str, float]
    max_us: float
    mean_us: float


def command(load: Load) -> list[str]:
    """wrk's command line for a load."""
    seconds = round(load.timeout + SPARE_SECONDS)
    return [
        "wrk",
        "-t1",
        *("-c", str(load.connections)),
        *("-d", f"{seconds}s"),
        *("--timeout", f"{max(1, round(load.timeout))}s"),
        *([] if load.keep_alive else ["-H", "Connection: close"]),
        *("-s", str(SCRIPT)),
        load.url,
        "--",
        str(load.requests),
        *([load.form] if load.form is not None else []),
    ]


def run(
    load: Load,
    cpus: Sequence[int],
    watch: SignalWatch,
    meanwhile: Callable[[], None] | None = None,
) -> WrkOutcome:
    """Run wrk to its end, or to the load's timeout. May raise Interrupted; wrk is gone then."""
    ran = run_measured(command(load), cpus, load.timeout, watch, meanwhile)
    child = ran.child
    figures, latency = parse(child.stdout)
    return WrkOutcome(
        command=command(load),
        status=child.exit_status,
        timed_out=not ran.in_time,
        message=last_line(child.stderr),
        report=child.stdout,
        figures=figures,
        latency=latency,
        wall_seconds=ran.wall_seconds,
        cpu=ran.cpu,
        demand=ran.demand,
    )


def parse(text: str) -> tuple[WrkFigures | None, Latency | None]:
    """The figures and latencies that wrk.lua printed; Nones where it did not."""
    line = next((x for x in text.splitlines() if x.startswith(BEGINS)), "").removeprefix(BEGINS)
    try:
        figures = WrkFigures.model_validate_json(line)
        return figures, _latency(WrkTimes.model_validate_json(line), figures.complete)
    except ValueError:
        return None, None


def _latency(said: WrkTimes, count: int) -> Latency | None:
    """Microseconds to milliseconds; None where nothing was answered."""
    if not count:
        return None
    at = {name: value / 1000 for name, value in said.percentiles_us.items()}
    return Latency(
        p50=at["50"],
        p90=at["90"],
        p99=at["99"],
        p999=at["99.9"],
        max=said.max_us / 1000,
        mean=said.mean_us / 1000,
        count=count,
        source="wrk, with its own correction for coordinated omission",
    )


def require_wrk() -> None:
    """Raise UserError unless wrk is installed."""
    require("wrk", shutil.which("wrk"), "peers")


def version() -> str | None:
    """wrk's own name and version, without its copyright; None if it is not installed. (It says
    them with its usage, and status 1.)"""
    if shutil.which("wrk") is None:
        return None
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True).stdout
    return said.splitlines()[0].split(" Copyright")[0] if said else "unknown"
