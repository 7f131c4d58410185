# SPDX-License-Identifier: MIT
"""The open loop: oha sends requests at a constant rate, independent of the server's speed.

ab sends a request only after the previous answer. When the server stalls, ab stops too, and misses
the requests that would have come meanwhile. oha sends at fixed times. If all its connections wait
for answers, a request is sent late; `--latency-correction` counts its time from when it was due.
oha prints these latencies. It also writes both times of each request into a database (`--db-url`);
the uncorrected latencies are computed from it, for the same requests.
"""

import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

from bench.host.process import last_line
from bench.host.programs import output_of
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.load.outcome import Load, Outcome, run_measured
from bench.records.errors import UserError
from bench.records.figures import Latency, OpenLoopFigures
from bench.records.workloads import FORM

SETUP = "scripts/setup.sh openloop"
PROGRESS = "Storing results to"
"""The beginning of a line of oha that is not an error."""


class OhaSummary(BaseModel):
    """A part of oha's JSON; times in seconds."""

    total: float | None = None
    slowest: float | None = None
    average: float | None = None
    bytes: int | None = Field(None, alias="totalData")


class OhaReport(BaseModel):
    """The fields that are read from oha's JSON."""

    summary: OhaSummary
    codes: dict[str, int] = Field(alias="statusCodeDistribution")
    errors: dict[str, int] = Field(alias="errorDistribution")
    percentiles: dict[str, float | None] = Field({}, alias="latencyPercentiles")


class Times(NamedTuple):
    """The times of one answered request, in seconds since the start of the run."""

    due: float
    sent: float
    """If the request needs a new connection, it is opened after this time."""
    end: float


@dataclass(frozen=True, kw_only=True)
class OpenOutcome(Outcome):
    """The outcome of a load by oha. Its latency is corrected: it counts from the time when each
    request was due."""

    figures: OpenLoopFigures | None
    body_bytes: int | None = None
    """The bodies of all answers."""


def program() -> str | None:
    """Return the path of oha; None if it is not installed."""
    ours, cargo = ROOT / "build" / "tools" / "bin", Path.home() / ".cargo" / "bin"
    places = [os.environ.get("PATH", ""), str(ours), str(cargo)]
    return shutil.which("oha", path=os.pathsep.join(places))


def require_oha() -> None:
    """Raise UserError unless oha is installed."""
    if program() is None:
        raise UserError(f"the open loop (--rate) needs oha. Run: {SETUP}")


def version() -> str | None:
    """Return oha's name and version; None if it is not installed."""
    found = program()
    return output_of([found, "--version"]).strip() if found else None


def command(load: Load, database: Path) -> list[str]:
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
        *("--db-url", str(database)),
        *([] if load.keep_alive else ["--disable-keepalive"]),
        *("-t", f"{math.ceil(load.timeout)}s"),
        *(["-m", "POST", "-T", FORM, "-d", load.form] if load.form is not None else []),
        load.url,
    ]


def run(
    load: Load,
    cpus: Sequence[int],
    watch: SignalWatch,
    meanwhile: Callable[[], None] | None = None,
) -> OpenOutcome:
    """Run oha to its end, or to the load's timeout. May raise Interrupted; oha has ended then."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-oha-") as folder:
        database = Path(folder, "requests.sqlite")
        words = [program() or "oha", *command(load, database)[1:]]
        ran = run_measured(words, cpus, load.timeout, watch, meanwhile)
        figures, latency, body = parse(ran.report, load.rate)
        if figures:
            figures.uncorrected = latency_of(
                [times.end - times.sent for times in requests_in(database)],
                "oha --db-url: from when a request was sent",
            )
        said = [line for line in ran.message.splitlines() if not line.startswith(PROGRESS)]
        known = {
            **vars(ran),
            "command": command(load, Path(database.name)),  # without the temporary folder
            "message": last_line("\n".join(said)),
            "latency": latency,
        }
        return OpenOutcome(**known, figures=figures, body_bytes=body)


def parse(text: str, rate: float) -> tuple[OpenLoopFigures | None, Latency | None, int | None]:
    """Return the figures, latencies and bytes of all bodies in oha's JSON; Nones if invalid."""
    try:
        said = OhaReport.model_validate_json(text)
    except ValueError:
        return None, None, None
    answered, seconds = sum(said.codes.values()), said.summary.total or 0.0
    figures = OpenLoopFigures(
        tool="oha",
        rate_asked=rate,
        rate_done=answered / seconds if seconds else 0.0,
        seconds=seconds,
        sent=answered + sum(said.errors.values()),
        succeeded=answered,
        status_codes=said.codes,
        errors=said.errors,
    )
    return figures, _latency(said, answered), said.summary.bytes


def requests_in(database: Path) -> list[Times]:
    """Return the answered requests in oha's database; none if it is missing or has another
    schema."""
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

    def at(share: float) -> float:
        return times[min(int(share * count), count - 1)]

    return Latency(
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        p999=at(0.999),
        max=times[-1],
        mean=round(sum(times) / count, 4),
        count=count,
        source=source,
    )


def _latency(said: OhaReport, count: int) -> Latency | None:
    """Return the latency in ms; None if a figure is missing."""
    figures = {
        "p50": said.percentiles.get("p50"),
        "p90": said.percentiles.get("p90"),
        "p99": said.percentiles.get("p99"),
        "p999": said.percentiles.get("p99.9"),
        "max": said.summary.slowest,
        "mean": said.summary.average,
    }
    known = {name: round(value * 1000, 4) for name, value in figures.items() if value is not None}
    if len(known) < len(figures):
        return None
    return Latency(
        **known,
        count=count,
        source="oha --latency-correction: from when a request was due",
    )
