# SPDX-License-Identifier: MIT
"""Run wrk: the closed loop over HTTP/1.1, for servers without keep-alive in HTTP/1.0.

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

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import last_line
from bench.load.outcome import Generator, Load, Outcome
from bench.records.figures import Latency, WrkFigures

SCRIPT = Path(__file__).with_name("wrk.lua")
BEGINS = "JSON "
"""The beginning of wrk.lua's line in wrk's output."""
SPARE_SECONDS = 5.0
"""wrk's own time limit is longer than our timeout by this; we stop it first."""
PIPELINED = 8
"""Requests that a connection sends at once. Servers close a connection after 1,000 requests, so
this divides 1,000."""


class WrkTimes(BaseModel):
    """The latencies that wrk.lua prints."""

    latency_ms: dict[str, float]


def command(load: Load, _folder: Path, at_once: int = 1) -> list[str]:
    """Return wrk's command line for a load. `at_once`: the requests that a kept connection sends
    together."""
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
        str(math.gcd(load.requests, at_once) if load.keep_alive else 1),
        *([load.form] if load.form is not None else []),
    ]


def read(ran: Outcome, _load: Load, _folder: Path) -> Outcome:
    """Return the outcome with the figures from the output of a wrk that has ended."""
    figures, latency = parse(ran.report)
    completed = figures.complete if figures else None
    said = last_line(ran.message)
    return replace(ran, message=said, figures=figures, completed=completed, latency=latency)


def parse(text: str) -> tuple[WrkFigures | None, Latency | None]:
    """Return the figures and latencies that wrk.lua printed; Nones if it did not."""
    line = next((x for x in text.splitlines() if x.startswith(BEGINS)), "").removeprefix(BEGINS)
    try:
        figures = WrkFigures.model_validate_json(line)
        times = WrkTimes.model_validate_json(line).latency_ms
    except ValueError:
        return None, None
    if not figures.complete:
        return figures, None
    source = "wrk, with its own correction for coordinated omission"
    return figures, Latency(**times, count=figures.complete, source=source)


WRK = Generator("wrk", "peers", "-v", command, read)
WRK_PIPELINED = Generator("wrk", "peers", "-v", partial(command, at_once=PIPELINED), read)
