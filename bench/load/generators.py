# SPDX-License-Identifier: MIT
"""The load generators ab, wrk and oha: their command lines and their reports.

In a closed loop (ab, wrk), each connection sends a request after its previous answer. If the server
stalls, the generator also stops, and omits the requests that would arrive meanwhile. In an open
loop (oha), requests are sent at fixed times.
"""

import json
import math
import re
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench.host.kernel import text_of
from bench.host.process import last_line
from bench.host.project import find_program
from bench.load.running import Generator, Load, Outcome
from bench.records.figures import AbFigures, Latency, OpenLoopFigures, WrkFigures
from bench.records.workloads import FORM

# ---- Apache Bench ----


class Ab(Generator):
    """Apache Bench: the closed loop over HTTP/1.0.

    Two of ab's counts of failures include more than their names say (see the source of Apache
    2.4.54):

    - "Length" also counts connections that ab opened and never used. Near the end ab opens a
      connection for each connection that ends, until all requests are written. The last connections
      stay idle. If the last requests take many seconds, the server closes the idle connections
      after its timeout, and ab counts them as failed requests. Requests take so long if an accept
      queue overflows or workers wait for silent clients.
    - "Exceptions" are connections that were reset before ab had read everything. ab counts their
      requests as sent, but never as done. If no other requests fail, ab waits until its timeout.
    """

    name, group, version_option = "ab", "bench", "-V"
    idle = 0.03
    """The time to start ab, and half of the interval at which this process checks for ab's end."""

    def command(self, load: Load, folder: Path) -> list[str]:
        """Return ab's command line.

        Without -r, ab stops at the first broken connection and prints the error; with -r, the exit
        status is 0 even without a server. Without -l, ab counts a response as failed if its length
        differs from the first response. So ab detects connections that were closed early.
        """
        return [
            "ab",
            "-q",
            *(["-l"] if load.any_length else []),
            *(["-k"] if load.keep_alive else []),
            *(["-p", str(folder / "form"), "-T", FORM] if load.form is not None else []),
            *("-s", str(max(1, round(load.timeout)))),
            *("-e", str(folder / "percentiles.csv")),
            *("-g", str(folder / "requests.tsv")),
            *("-n", str(load.requests)),
            *("-c", str(load.connections)),
            load.url,
        ]

    def read(self, ran: Outcome, load: Load, folder: Path) -> Outcome:
        """Return the outcome with the figures from ab's output and its two files."""
        figures = parse_ab(ran.report)
        precise = parse_percentile_file(text_of(folder / "percentiles.csv"))
        done = _number(r"Total of (\d+) requests completed", ran.report)  # only after an error
        if figures:
            figures.percentiles_ms = {p: precise[p] for p in KEPT_PERCENTILES if p in precise}
            done = figures.complete
        return replace(
            ran,
            # The error is the first line: after a wrong option, ab also prints its usage.
            message=ran.message.strip().partition("\n")[0].rstrip(),
            figures=figures,
            completed=None if done is None else int(done),
            latency=latency_from(precise, parse_request_times(text_of(folder / "requests.tsv"))),
        )


AB = Ab()
LABELS = {
    "complete": "Complete requests",
    "requests_per_second": "Requests per second",
    "failed": "Failed requests",
    "write_errors": "Write errors",
    "non_2xx": "Non-2xx responses",
    "keep_alive": "Keep-Alive requests",
    "concurrency": "Concurrency Level",
    "transferred_bytes": "Total transferred",
    "html_bytes": "HTML transferred",
    "seconds": "Time taken for tests",
    "mean_ms": "Time per request",
}
"""The figures in ab's report, and the labels of their lines. ab always prints the first two lines;
it omits some other lines if their number is 0."""
KEPT_PERCENTILES = ("50", "66", "75", "80", "90", "95", "98", "99", "100")


def parse_ab(text: str) -> AbFigures | None:
    """Return the figures in ab's report; None without a report. A report does not prove success: ab
    also prints a report after failed requests or a signal."""
    found = {name: _number(rf"^{label}:\s+([\d.]+)", text) for name, label in LABELS.items()}
    if found["complete"] is None or found["requests_per_second"] is None:
        return None
    kinds = re.search(r"^\s+\((Connect: .*)\)$", text, re.MULTILINE)
    pairs = re.findall(r"(\w+): (\d+)", kinds[1]) if kinds else []
    failures = {kind.lower(): int(number) for kind, number in pairs}
    numbers = {name: number or 0 for name, number in found.items()}
    return AbFigures.model_validate({**numbers, "failures": failures})


def parse_percentile_file(text: str) -> dict[str, float]:
    """Return the percentiles from the file that `ab -e` writes. The report has them only in whole
    milliseconds, which is too coarse if requests take less than 2 ms."""
    rows = re.findall(r"^(\d+),([\d.]+)$", text, re.MULTILINE)
    return {percent: float(ms) for percent, ms in rows}


def parse_request_times(text: str) -> list[int]:
    """Return the total time of each request, in whole ms, from the file that `ab -g` writes."""
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return [int(row[4]) for row in rows if len(row) == 6 and row[4].isdigit()]


def latency_from(percentiles: dict[str, float], times: list[int]) -> Latency | None:
    """Return the latency from ab's two files; None if one of them is incomplete.

    `percentiles` (-e) is exact to 1 us, but has only whole per cents. `times` (-g) has every
    request, rounded to the nearest ms. The 99.9th percentile is taken from `times` and limited to
    the range from the exact 99th percentile to the exact maximum. The mean is computed from
    `percentiles` up to the 99th percentile and from `times` above it, because slow requests may be
    between two percentiles. This mean differs from the mean of `times` by at most 0.5 ms.
    """
    if not times or not {"50", "90", "99", "100"} <= percentiles.keys():
        return None
    ordered = sorted(times)
    count, mean = len(ordered), fmean(ordered)
    p99, longest = percentiles["99"], percentiles["100"]
    curve = [percentiles[str(percent)] for percent in range(100) if str(percent) in percentiles]
    if len(curve) == 100:
        below = sum((low + high) / 2 for low, high in pairwise(curve)) / 100
        exact = below + fmean(ordered[count * 99 // 100 :]) / 100
        mean = min(max(exact, mean - 0.5), mean + 0.5)
    return Latency(
        p50=percentiles["50"],
        p90=percentiles["90"],
        p99=p99,
        p999=min(max(float(ordered[min(count - 1, count * 999 // 1000)]), p99), longest),
        max=longest,
        mean=round(mean, 4),
        count=count,
        source="ab -e (microseconds) and ab -g (each request, whole milliseconds)",
    )


def concurrency_ceiling() -> int | None:
    """Return the highest concurrency of this ab, usually 20,000; None if unknown."""
    if find_program("ab") is None:
        return None
    absurd = "2000000000"  # ab prints its limit and does not connect
    said = subprocess.run(
        ["ab", "-n", absurd, "-c", absurd, "http://127.0.0.1:1/"], capture_output=True, text=True
    )
    return parse_concurrency_ceiling(said.stderr)


def parse_concurrency_ceiling(errors: str) -> int | None:
    """Return the highest concurrency of this ab, from its error message for a higher number."""
    ceiling = _number(r"Invalid Concurrency \[Range 0\.\.(\d+)\]", errors)
    return None if ceiling is None else int(ceiling)


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None


# ---- wrk ----

SCRIPT = Path(__file__).with_name("wrk.lua")
SCRIPT_BEGINS = "JSON "
"""The beginning of the line that wrk.lua prints."""
SPARE_SECONDS = 5.0
"""The seconds by which wrk's time limit exceeds the load's timeout, because this process must end
wrk before wrk's time limit."""


@dataclass(frozen=True)
class Wrk(Generator):
    """wrk: the closed loop over HTTP/1.1, for servers without keep-alive in HTTP/1.0.

    Without a script, wrk sends requests for a given time, counts the answers, and silently replaces
    a closed connection. With wrk.lua, wrk sends a given number of requests. It counts the answers
    by status and length, and those with `Connection: close`. wrk has one thread here and uses one
    core.

    With `Connection: close`, wrk relies on the answer's Connection field. If a server (e.g. Java's)
    closes without this field, wrk sends the next request on a closing connection, which counts as
    an error. So ab measures all runs with a new connection for each request.

    The latencies of wrk differ from those of ab. After a slow answer, wrk adds latencies for
    requests that it could not send meanwhile (a correction of "coordinated omission"). So the
    source of latencies is recorded, and Little's law is not checked with latencies of wrk.
    """

    at_once: int = 1  # The number of requests that a kept connection sends together.
    name, group, version_option = "wrk", "peers", "-v"

    def command(self, load: Load, _folder: Path) -> list[str]:
        """Return wrk's command line."""
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
            str(math.gcd(load.requests, self.at_once) if load.keep_alive else 1),
            *([load.form] if load.form is not None else []),
        ]

    def read(self, ran: Outcome, _load: Load, _folder: Path) -> Outcome:
        """Return the outcome with the figures from wrk's output."""
        figures, latency = parse_wrk(ran.report)
        completed = figures.complete if figures else None
        said = last_line(ran.message)
        return replace(ran, message=said, figures=figures, completed=completed, latency=latency)


WRK = Wrk()
# 8 divides 1,000, because servers close a connection after 1,000 requests.
WRK_PIPELINED = Wrk(at_once=8)


def parse_wrk(text: str) -> tuple[WrkFigures | None, Latency | None]:
    """Return the figures and latencies that wrk.lua printed; None, None without figures."""
    lines = [line for line in text.splitlines() if line.startswith(SCRIPT_BEGINS)]
    source = "wrk, with its own correction for coordinated omission"
    try:
        said = json.loads(lines[0].removeprefix(SCRIPT_BEGINS))
        figures = WrkFigures.model_validate(said)
        latency = Latency(**said["latency_ms"], count=figures.complete, source=source)
    except (ValueError, LookupError, TypeError):
        return None, None
    return figures, latency if figures.complete else None


# ---- oha ----

DATABASE = "requests.sqlite"
CORRECTED = "oha --latency-correction: from when a request was due"
UNCORRECTED = "oha --db-url: from when a request was sent"
PROGRESS = "Storing results to"
"""The beginning of a line in oha's standard error that is not an error."""


class Oha(Generator):
    """oha: the open loop, which sends requests at a constant rate, independent of the server's
    speed.

    If all connections wait for answers, oha sends a request late; `--latency-correction` records
    when the request was due. For each request, oha writes this time and the time of sending into a
    database (`--db-url`), from which all latencies are computed. A corrected latency begins when
    the request was due; an uncorrected latency begins when the request was sent.
    """

    name, group, version_option = "oha", "openloop", "--version"

    def command(self, load: Load, folder: Path) -> list[str]:
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

    def read(self, ran: Outcome, load: Load, folder: Path) -> Outcome:
        """Return the outcome with the figures from oha's output, and corrected latencies."""
        figures, body = parse_oha(ran.report, load.rate)
        rows, latency = requests_in(folder / DATABASE), None
        if figures:
            latency = latency_of([row.end - row.due for row in rows], CORRECTED)
            figures.uncorrected = latency_of([row.end - row.sent for row in rows], UNCORRECTED)
        said = [line for line in ran.message.splitlines() if not line.startswith(PROGRESS)]
        return replace(
            ran,
            message=last_line("\n".join(said)),
            figures=figures,
            completed=figures.succeeded if figures else None,
            body_bytes=body,
            latency=latency,
        )


OHA = Oha()


class Times(NamedTuple):
    """The times of one answered request, in seconds since the start of the run."""

    due: float
    sent: float  # The time of sending. If necessary, oha opens a new connection after this time.
    end: float


def parse_oha(text: str, rate: float) -> tuple[OpenLoopFigures | None, int | None]:
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
    except (ValueError, LookupError, TypeError, AttributeError):
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
