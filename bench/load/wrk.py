# SPDX-License-Identifier: MIT
"""Run wrk: the closed loop over HTTP/1.1, for servers without keep-alive in HTTP/1.0.

Without a script, wrk sends requests for a given time, counts the answers, and silently replaces a
closed connection. With wrk.lua, wrk sends a given number of requests. It counts the answers by
status and length, and those with `Connection: close`. wrk has one thread here and uses one core.

With `Connection: close`, wrk relies on the answer's Connection field. If a server (e.g. Java's)
closes without this field, wrk sends the next request on a closing connection, which counts as an
error. So ab measures all runs with a new connection for each request.

The latencies of wrk differ from those of ab. After a slow answer, wrk adds latencies for requests
that it could not send meanwhile (a correction of "coordinated omission"). So the source of
latencies is recorded, and Little's law is not checked with latencies of wrk.
"""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.host.process import last_line
from bench.load.outcome import Generator, Load, Outcome
from bench.records.figures import Latency, WrkFigures

SCRIPT = Path(__file__).with_name("wrk.lua")
BEGINS = "JSON "
"""The beginning of the line that wrk.lua prints."""
SPARE_SECONDS = 5.0
"""The seconds by which wrk's time limit exceeds the load's timeout, because this process must end
wrk before wrk's time limit."""
PIPELINED = 8
"""The number of requests that a connection sends at once. The number divides 1,000, because servers
close a connection after 1,000 requests."""


def command(load: Load, _folder: Path, at_once: int = 1) -> list[str]:
    """Return wrk's command line. `at_once`: the requests that a kept connection sends together."""
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
    """Return the outcome with the figures from the output of an ended wrk."""
    figures, latency = parse(ran.report)
    completed = figures.complete if figures else None
    said = last_line(ran.message)
    return replace(ran, message=said, figures=figures, completed=completed, latency=latency)


def parse(text: str) -> tuple[WrkFigures | None, Latency | None]:
    """Return the figures and latencies that wrk.lua printed; None, None without figures."""
    line = next((x for x in text.splitlines() if x.startswith(BEGINS)), "").removeprefix(BEGINS)
    source = "wrk, with its own correction for coordinated omission"
    try:
        figures = WrkFigures.model_validate_json(line)
        more = {"count": figures.complete, "source": source}
        latency = Latency.model_validate({**json.loads(line)["latency_ms"], **more})
    except (ValueError, KeyError, TypeError):
        return None, None
    return figures, latency if figures.complete else None


WRK = Generator("wrk", "peers", "-v", command, read)
WRK_PIPELINED = Generator("wrk", "peers", "-v", partial(command, at_once=PIPELINED), read)
