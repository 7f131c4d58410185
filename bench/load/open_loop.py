# SPDX-License-Identifier: MIT
"""The open loop: oha sends requests at a constant rate, independent of the server's speed.

ab sends a request only after the previous answer. When the server stalls, ab also stops, and omits
the requests that would arrive meanwhile. oha sends requests at fixed times. If all connections wait
for answers, oha sends a request late; `--latency-correction` records when the request was due. For
each request, oha writes this time and the time of sending into a database (`--db-url`), from which
all latencies are computed. A corrected latency begins when the request was due; an uncorrected
latency begins when the request was sent.
"""

import json
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.host.process import last_line
from bench.load.outcome import Generator, Load, Outcome
from bench.records.figures import Latency, OpenLoopFigures
from bench.records.workloads import FORM

DATABASE = "requests.sqlite"
CORRECTED = "oha --latency-correction: from when a request was due"
UNCORRECTED = "oha --db-url: from when a request was sent"
PROGRESS = "Storing results to"
"""The beginning of a line in oha's standard error that is not an error."""


class Times(NamedTuple):
    """The times of one answered request, in seconds since the start of the run."""

    due: float
    sent: float
    """The time of sending. If necessary, oha opens a new connection after this time."""
    end: float


def command(load: Load, folder: Path) -> list[str]:
    """Return oha's command line. oha does not follow redirects."""
    return [
        "oha",
        "--no-tui",
        *("--output-format", "json"),
        *("--redirect", "0"),
        *("-n", str(load.requests)),
        *("-c", str(load.connections)),
        *("-q", f"{load.rate:g}"),
        "--latency-correction",
        *("--db-url", str(folder / DATABASE)),
        *([] if load.keep_alive else ["--disable-keepalive"]),
        *("-t", f"{math.ceil(load.timeout)}s"),
        *(["-m", "POST", "-T", FORM, "-d", load.form] if load.form is not None else []),
        load.url,
    ]


def read(ran: Outcome, load: Load, folder: Path) -> Outcome:
    """Return the outcome with the figures from an ended oha, with corrected latencies."""
    figures, body = parse(ran.report, load.rate)
    rows, latency = requests_in(folder / DATABASE), None
    if figures:
        latency = latency_of([times.end - times.due for times in rows], CORRECTED)
        figures.uncorrected = latency_of([times.end - times.sent for times in rows], UNCORRECTED)
    said = [line for line in ran.message.splitlines() if not line.startswith(PROGRESS)]
    return replace(
        ran,
        message=last_line("\n".join(said)),
        figures=figures,
        completed=figures.succeeded if figures else None,
        body_bytes=body,
        latency=latency,
    )


OHA = Generator("oha", "openloop", "--version", command, read)


def parse(text: str, rate: float) -> tuple[OpenLoopFigures | None, int | None]:
    """Return the figures and the bytes of all bodies from oha's JSON; None, None if invalid."""
    try:
        said = json.loads(text)
        codes, errors = said["statusCodeDistribution"], said["errorDistribution"]
        answered, seconds = sum(codes.values()), said["summary"].get("total") or 0.0
        figures = OpenLoopFigures(
            tool="oha",
            rate_asked=rate,
            rate_done=answered / seconds if seconds else 0.0,
            seconds=seconds,
            sent=answered + sum(errors.values()),
            succeeded=answered,
            status_codes=codes,
            errors=errors,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, None
    return figures, said["summary"].get("totalData")


def requests_in(database: Path) -> list[Times]:
    """Return the answered requests in oha's database; empty without a database of this schema."""
    query = "SELECT start_latency_correction, start, end FROM oha"
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return [Times(*row) for row in connection.execute(query) if None not in row]
    except sqlite3.Error:
        return []


def latency_of(seconds: Sequence[float], source: str) -> Latency | None:
    """Return the latency in ms, with percentiles computed as oha does; None without requests."""
    if not seconds:
        return None
    times = sorted(round(second * 1000, 4) for second in seconds)
    count = len(times)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    found = {name: times[min(int(share * count), count - 1)] for name, share in shares.items()}
    return Latency(**found, mean=round(sum(times) / count, 4), count=count, source=source)
