# SPDX-License-Identifier: MIT
"""Runs wrk: the closed loop over HTTP/1.1, for servers without keep-alive in HTTP/1.0.

By itself wrk sends requests for a given time, counts the answers, and silently opens a connection
again if it is closed. wrk.lua makes it send a given number of requests and check the status, the
length and the Connection field of each answer. It has one thread and uses one core.

With `Connection: close` wrk relies on the answer's Connection field. If a server closes without it
(Java's does), wrk sends the next request on a closing connection, which counts as an error. So ab
is used to measure a connection for each request.

Its latencies differ from those of ab: after a slow answer wrk adds the requests that it would have
sent meanwhile (its correction of "coordinated omission"). So their source is recorded, and Little's
law is not checked with them.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import last_line
from bench.host.signals import SignalWatch
from bench.load.outcome import Load, Outcome, run_measured
from bench.records.figures import Latency, WrkFigures

SCRIPT = Path(__file__).with_name("wrk.lua")
BEGINS = "JSON "
"""The beginning of wrk.lua's line in wrk's output."""
SPARE_SECONDS = 5.0
"""wrk's own time limit is longer than our timeout by this; we stop it first."""


@dataclass(frozen=True, kw_only=True)
class WrkOutcome(Outcome):
    """The outcome of a load by wrk."""

    figures: WrkFigures | None


class WrkTimes(BaseModel):
    """The latencies that wrk.lua prints, in microseconds."""

    percentiles_us: dict[str, float]
    max_us: float
    mean_us: float


def command(load: Load) -> list[str]:
    """Return wrk's command line for a load."""
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
    """Run wrk to its end, or to the load's timeout. May raise Interrupted; wrk has ended then."""
    words = command(load)
    ran = run_measured(words, cpus, load.timeout, watch, meanwhile)
    figures, latency = parse(ran.report)
    said = {"command": words, "message": last_line(ran.message), "latency": latency}
    return WrkOutcome(**{**vars(ran), **said}, figures=figures)


def parse(text: str) -> tuple[WrkFigures | None, Latency | None]:
    """Return the figures and latencies that wrk.lua printed; Nones if it did not."""
    line = next((x for x in text.splitlines() if x.startswith(BEGINS)), "").removeprefix(BEGINS)
    try:
        figures = WrkFigures.model_validate_json(line)
        return figures, _latency(WrkTimes.model_validate_json(line), figures.complete)
    except ValueError:
        return None, None


def _latency(said: WrkTimes, count: int) -> Latency | None:
    """Return the latency in ms; None if nothing was answered."""
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


def version() -> str | None:
    """Return wrk's name and version, without its copyright; None if it is not installed. (wrk
    prints them with its usage, and exits with status 1.)"""
    if shutil.which("wrk") is None:
        return None
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True).stdout
    return said.splitlines()[0].split(" Copyright")[0] if said else "unknown"
